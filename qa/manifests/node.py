"""One node, as a user has it: `syncpod` commands, and the state of its pods."""

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
"""The longest wait for an expected state, in seconds."""


_BY_RUNTIME = "code = FailedPrecondition desc = "
"""The text before the embedded runtime's message that it can never do something."""


class NotSo(AssertionError):
    """A pod is not as its documentation says. The text has the difference."""


class Unsupported(Exception):
    """The node does not support a feature that a pod asks for. The text is the node's message about it."""


@dataclass
class Node:
    """A node with a worker, and the command line that talks to it."""

    engine: EngineNode
    commands: CommandLine
    directory: Path
    """The place for the texts that are applied."""
    applied: dict[tuple[str, str], RunningPod] = field(default_factory=dict)
    """The pods for which `pod` was called, by namespace and name. At the node's end, all are deleted."""

    async def syncpod(self, *arguments: str) -> Said:
        """Run a command. Raises EOFError if the process that runs commands has ended."""
        return await self.commands.run(*arguments)

    async def images(self, names: Iterable[str]) -> None:
        """Wait until the runtime lists these images, since it learns of imported ones later. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            for name in names:
                while await self.engine.cri.image_status(name) is None:  # noqa: ASYNC110  # there is no event to wait for
                    await asyncio.sleep(0.05)

    def pod(self, namespace: str, name: str) -> RunningPod:
        """The pod of that name, which the caller has applied or is about to apply."""
        handle = self.engine.client.get_workflow_handle(pod_workflow_id(namespace, name))
        return self.applied.setdefault((namespace, name), RunningPod(self.engine, namespace, name, handle))


@dataclass
class RunningPod:
    """A pod that was applied, as seen through its workflow, through the runtime and over the network."""

    engine: EngineNode
    namespace: str
    name: str
    handle: WorkflowHandle[Any, Any]

    async def get(self) -> dict[str, Any]:
        """The whole Pod, with its status. Raises NotSo if its workflow does not answer."""
        pod: dict[str, Any] = await self._ask("pod")
        return pod

    async def until(self, what: str, seen: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Ask for the pod until `seen` is true of it, and return it; raises NotSo with `what` and the last status.

        Raises Unsupported if the node rejects the pod or its runtime cannot run it.
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
        """Its events, oldest first. Raises NotSo if its workflow does not answer."""
        events: list[dict[str, Any]] = await self._ask("events")
        return events

    async def instance(self, name: str) -> ObservedContainer:
        """The newest instance of a container in the runtime. Raises NotSo if there is none."""
        uid = (await self.get())["metadata"]["uid"]
        labels = {POD_UID_LABEL: uid, NODE_LABEL: self.engine.name}
        found = [each for each in await self.engine.cri.list_containers(labels=labels) if each.name == name]
        if not found:
            raise NotSo(f"the runtime has no container {name}")
        newest = max(found, key=lambda each: each.attempt)
        return (await self.engine.cri.container_status(newest.id)).container

    async def sh(self, container: str, script: str) -> str:
        """Run a shell script in a running container, and return its standard output and standard error."""
        instance = await self.instance(container)
        done = await self.engine.cri.exec_sync(instance.id, ("sh", "-c", script), timeout_seconds=20)
        return (done.stdout + done.stderr).decode(errors="replace").strip()

    async def log(self, container: str, stream: str = "stdout") -> list[str]:
        """The lines that a container's newest instance has written to that stream."""
        path = Path((await self.instance(container)).log_path)
        text = await asyncio.to_thread(path.read_text)
        return [line.split(" ", 3)[3] for line in text.splitlines() if f" {stream} " in line]

    async def page(self, port: int) -> str:
        """The page at this port of the pod's address. Raises NotSo, Unsupported."""
        pod = await self.until("at an address", lambda pod: pod["status"].get("podIP"))
        return await fetched(f"http://{pod['status']['podIP']}:{port}/")

    async def delete(self) -> None:
        """Delete it without a grace period, and wait until its workflow has ended."""
        with contextlib.suppress(RPCError):  # it has ended already
            await self.handle.signal("delete_pod", {"gracePeriodSeconds": 0})
            async with asyncio.timeout(PATIENCE):
                await self.handle.result()

    async def _ask(self, query: str) -> Any:
        """Query the workflow, again if that fails: on a busy machine a task may just be between two attempts."""
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
"""The node's labels, which pods of the documentation select."""


@contextlib.asynccontextmanager
async def node_on(runtime: Runtime, server: DevServer, directory: Path) -> AsyncIterator[Node]:
    """Run a node on a runtime, with a command line for it. At the end, all its pods are deleted."""
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
            # Tests that were cancelled may have left pods, and the next node has pods of the same names.
            await asyncio.gather(*(pod.delete() for pod in node.applied.values()))


async def moments() -> AsyncIterator[None]:
    """Yield at the times at which to look for an expected state, until the patience is over.

    The pauses become longer, since each look costs time, too.
    """
    deadline = time.monotonic() + PATIENCE
    pause = 0.25
    while time.monotonic() < deadline:
        yield
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 2.0)
    yield


async def fetched(url: str) -> str:
    """Read a page, with several attempts; raises NotSo if none succeeds."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    last: OSError | None = None
    for _ in range(50):  # a server may not listen at once after its start
        try:
            return str(await asyncio.to_thread(lambda: opener.open(url, timeout=10).read()), "utf-8")
        except OSError as error:
            last = error
            await asyncio.sleep(0.2)
    raise NotSo(f"{url} serves nothing: {last}")


def state_of(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """The state of a container, or `{}` if it has none yet."""
    state: dict[str, Any] = status_of(pod, name).get("state", {})
    return state
