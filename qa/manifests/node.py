"""One node as its user has it: `syncpod apply` and its sisters on one side, what became of the pods on the other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from qa.manifests.command_line import CommandLine, Said
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.steps import Fault
from syncpod.translation.names import NODE_LABEL, POD_UID_LABEL
from tests.e2e.engine import EngineNode, engine_node, status_of
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

PATIENCE = 300.0
"""Seconds for which a state is waited for that a manifest ought to come to."""


_BY_RUNTIME = "code = FailedPrecondition desc = "
"""What stands before the sentence in which the embedded runtime refuses what it can never do."""


class NotSo(AssertionError):
    """A pod is not as its documentation says; the text says what is otherwise."""


class Unsupported(Exception):
    """The node does not do what a pod asks for; the text is the sentence in which it says so."""


@dataclass
class Node:
    """A node with a worker, and the command line that talks to it."""

    engine: EngineNode
    commands: CommandLine
    directory: Path
    """For the manifests as they are applied."""
    applied: dict[tuple[str, str], RunningPod] = field(default_factory=dict)
    """By namespace and name: the pods that somebody has begun to apply. At the node's end none of them is left."""

    async def syncpod(self, *arguments: str) -> Said:
        """Run a command."""
        return await self.commands.run(*arguments)

    async def images(self, names: Iterable[str]) -> None:
        """Wait until the runtime has these; it learns by events of those that were imported."""
        async with asyncio.timeout(PATIENCE):
            for name in names:
                while await self.engine.cri.image_status(name) is None:  # noqa: ASYNC110  # a question is all there is
                    await asyncio.sleep(0.05)

    def pod(self, namespace: str, name: str) -> RunningPod:
        """A pod of that name, which somebody has applied."""
        handle = self.engine.client.get_workflow_handle(pod_workflow_id(namespace, name))
        return self.applied.setdefault((namespace, name), RunningPod(self.engine, namespace, name, handle))


@dataclass
class RunningPod:
    """A pod that was applied: as its workflow has it, as the runtime has it, and as its network has it."""

    engine: EngineNode
    namespace: str
    name: str
    handle: WorkflowHandle[Any, Any]

    async def get(self) -> dict[str, Any]:
        """The whole Pod, with its status."""
        pod: dict[str, Any] = await self._ask("pod")
        return pod

    async def until(self, what: str, seen: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Ask until `seen` holds; raises NotSo with `what` and the status that it had at last.

        Raises Unsupported where the node turns the pod away, or cannot run it on its runtime.
        """
        pod: dict[str, Any] = {"status": {}}
        async for _ in moments():
            pod = await self.get()
            if seen(pod):
                return pod
            if pod["status"].get("phase") == "Failed" and pod["status"].get("reason"):
                raise Unsupported(f"{pod['status']['reason']}: {pod['status']['message']}")
            if pod["status"].get("phase") == "Pending":
                events = await self.events()
                if refusals := [each for each in events if each["reason"] == Fault.UNSUPPORTED_BY_RUNTIME]:
                    raise Unsupported(refusals[-1]["message"])
                if refusals := [each for each in events if _BY_RUNTIME in each["message"]]:
                    raise Unsupported(refusals[-1]["message"].partition(_BY_RUNTIME)[2])
        raise NotSo(f"it never was {what}; {_summary(pod)}, {await self._last_event()}")

    async def events(self) -> list[dict[str, Any]]:
        """Its events, oldest first."""
        events: list[dict[str, Any]] = await self._ask("events")
        return events

    async def instance(self, name: str) -> ObservedContainer:
        """The newest instance of a container, as the runtime has it."""
        uid = (await self.get())["metadata"]["uid"]
        labels = {POD_UID_LABEL: uid, NODE_LABEL: self.engine.name}
        found = [each for each in await self.engine.cri.list_containers(labels=labels) if each.name == name]
        if not found:
            raise NotSo(f"the runtime has no container {name}")
        newest = max(found, key=lambda each: each.attempt)
        return (await self.engine.cri.container_status(newest.id)).container

    async def sh(self, container: str, script: str) -> str:
        """What a shell in a running container prints, on both its streams."""
        instance = await self.instance(container)
        done = await self.engine.cri.exec_sync(instance.id, ("sh", "-c", script), timeout_seconds=20)
        return (done.stdout + done.stderr).decode(errors="replace").strip()

    async def log(self, container: str, stream: str = "stdout") -> list[str]:
        """The lines that a container's newest instance has written."""
        path = Path((await self.instance(container)).log_path)
        text = await asyncio.to_thread(path.read_text)
        return [line.split(" ", 3)[3] for line in text.splitlines() if f" {stream} " in line]

    async def page(self, port: int) -> str:
        """What it serves at the pod's address."""
        pod = await self.until("at an address", lambda pod: pod["status"].get("podIP"))
        return await fetched(f"http://{pod['status']['podIP']}:{port}/")

    async def delete(self) -> None:
        """Delete it and wait until its workflow has ended."""
        with contextlib.suppress(RPCError):  # it has ended already
            await self.handle.signal("delete_pod", {"gracePeriodSeconds": 0})
            async with asyncio.timeout(PATIENCE):
                await self.handle.result()

    async def _ask(self, query: str) -> Any:
        """Ask the workflow, as often as it takes: on a busy machine it may be between two tries of a task."""
        why = ""
        async for _ in moments():
            try:
                return await self.handle.query(query)
            except RPCError as error:
                why = str(error)
        raise NotSo(f"its workflow does not answer: {why}\n{self.engine.said}")

    async def _last_event(self) -> str:
        events = await self.events()
        return f"last event {events[-1]['reason']}: {events[-1]['message']}" if events else "no event"


def _summary(pod: dict[str, Any]) -> str:
    status = pod["status"]
    states = [
        f"{each['name']} {' '.join([kind, state.get('reason', ''), str(state.get('exitCode', ''))]).strip()}"
        for kinds in ("initContainerStatuses", "containerStatuses")
        for each in status.get(kinds, ())
        for kind, state in each["state"].items()
    ]
    return ", ".join([f"phase {status.get('phase')}", *states])


LABELS = "disktype=ssd,topology.kubernetes.io/zone=antarctica-east1"
"""Of the node: those that the documentation's pods ask for."""


@contextlib.asynccontextmanager
async def node_on(runtime: Runtime, server: DevServer, directory: Path) -> AsyncIterator[Node]:
    """A node on a runtime, and a command line that takes it for this machine's."""
    async with engine_node(runtime, server, directory, SYNCPOD_NODE_LABELS=LABELS) as engine:
        environ = {
            "TEMPORAL_ADDRESS": server.address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "SYNCPOD_STATE_DIR": str(engine.worker.state_dir),
            "SYNCPOD_MEMORY_DIR": str(directory / "memory"),
            "SYNCPOD_NODE": engine.name,
        }
        applied = directory / "manifests"
        applied.mkdir()
        async with CommandLine.opened(environ) as commands:
            node = Node(engine, commands, applied)
            yield node
            # Whoever was broken off while he deleted his pods has left them, and their names are the next node's, too.
            await asyncio.gather(*(pod.delete() for pod in node.applied.values()))


async def moments() -> AsyncIterator[None]:
    """The moments at which to look for what is waited for: few, since looking costs too."""
    deadline = time.monotonic() + PATIENCE
    pause = 0.25
    while time.monotonic() < deadline:
        yield
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 2.0)
    yield


async def fetched(url: str) -> str:
    """A page, once it is there; raises NotSo if it never is."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    last: OSError | None = None
    for _ in range(50):  # a server that runs is not yet one that listens
        try:
            return str(await asyncio.to_thread(lambda: opener.open(url, timeout=10).read()), "utf-8")
        except OSError as error:
            last = error
            await asyncio.sleep(0.2)
    raise NotSo(f"{url} serves nothing: {last}")


def state_of(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """The state of a container, `{}` while it has none."""
    state: dict[str, Any] = status_of(pod, name).get("state", {})
    return state
