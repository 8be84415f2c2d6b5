"""A whole node that a test breaks: a real worker process between a real Temporal server and a real runtime.

After a fault, a pod's containers are checked in the runtime directly, without code of this project.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.cri.port import ContainerSummary, SandboxSummary
from syncpod.messages.identity import POD_WORKFLOW, node_task_queue, pod_workflow_id
from syncpod.settings.worker_record import read_worker_record
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from syncpod.translation.names import NODE_LABEL, POD_NAME_LABEL
from tests.agent.waiting import pauses, until_asked
from tests.agent.waiting import until as until_true
from tests.e2e.faults_proxy import CriProxy, Stopped
from tests.fork_server import start_worker
from tests.patience import TIMES
from tests.runtimes.bare import BareCri
from tests.runtimes.images import BUSYBOX
from tests.runtimes.leftovers import CGROUPS
from tests.runtimes.processes import Process, processes
from tests.runtimes.runtime import HeldPoint, Runtime
from tests.runtimes.sweep import sweep
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.node_process import NodeProcess

log = logging.getLogger("faults")

PATIENCE = 120.0 * TIMES
"""The longest wait in seconds. It is generous, since tests assert what happens, not when."""
_RPC = timedelta(seconds=5)

RUNS = "trap 'exit 0' TERM; echo up; while :; do sleep 600 & wait $!; done"
"""A shell script of a container that runs until it is told to end, and then ends at once."""
DEAF = "trap '' TERM; echo up; exec sleep 3600"
"""A shell script that runs until it is killed."""


def shell(name: str, script: str = RUNS, **more: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", script], **more}


def open_to_all(place: Path) -> None:
    """Make a directory to which a container of any user can write."""
    place.mkdir(parents=True)
    place.chmod(0o777)


@dataclass
class Pod:
    """An applied pod: its workflow, and its sandboxes and containers in the runtime."""

    node: FaultyNode
    name: str
    document: dict[str, Any]
    handle: WorkflowHandle[Any, Any]

    # --- as its workflow has it ---

    async def get(self) -> dict[str, Any]:
        """The Pod with its status; {} while it cannot be queried."""
        try:
            pod: dict[str, Any] = await self.handle.query("pod", rpc_timeout=_RPC)
        except RPCError as error:
            log.debug("query of %s: %s", self.name, error)
            return {}
        return pod

    async def until(self, seen: Callable[[dict[str, Any]], bool], *, patience: float = PATIENCE) -> dict[str, Any]:
        """Query until `seen` is true; fails with the pod's status, history and the worker's log."""
        deadline = time.monotonic() + patience
        pause = pauses()
        while True:
            pod = await self.get()
            if pod and seen(pod):
                return pod
            if time.monotonic() > deadline:
                told = [await self._told(query) for query in ("history", "events")]
                raise AssertionError(f"{self.name} did not come to that: {pod.get('status')}\n{told}\n{self.node.said}")
            await asyncio.sleep(next(pause))

    async def running(self, *, patience: float = PATIENCE, **restarts: int) -> dict[str, Any]:
        """Wait until every container runs, each with its number of restarts (0 unless given)."""

        def seen(pod: dict[str, Any]) -> bool:
            status = pod.get("status", {})
            statuses = status.get("containerStatuses", [])
            return status.get("phase") == "Running" and all(
                "running" in each["state"] and each["restartCount"] == restarts.get(each["name"], 0)
                for each in statuses
            )

        return await self.until(seen, patience=patience)

    async def running_in_another_sandbox(self, former: str) -> dict[str, int]:
        """Wait until every container runs in a new sandbox; returns how often each was restarted."""

        async def moved() -> dict[str, int]:
            listed = [each for each in await self.containers() if each.state == "running" and each.sandbox_id != former]
            alive = {each.name: each.attempt for each in listed}
            mains = [each["name"] for each in self.document["spec"]["containers"]]  # an init container may run first
            return {name: alive[name] for name in mains} if set(mains) <= set(alive) else {}

        restarts: dict[str, int] = await until(moved)
        await self.running(**restarts)
        return restarts

    async def up(self) -> None:
        """Wait until every container runs and has printed `up`: from then on it handles or ignores signals as intended.

        Process 1 of a container ignores SIGTERM until it has set a handler.
        """
        pod = await self.running()
        meta = pod["metadata"]
        logs = self.node.directory / "logs" / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
        names = {each["name"] for each in self.document["spec"]["containers"]}
        await until_true(lambda: names == {file.parent.name for file in logs.glob("*/0.log") if file.stat().st_size})

    async def until_event(self, reason: str, words: str) -> None:
        """Wait until the pod has an event with this reason, and with these words in its message."""

        async def told() -> bool:
            events: list[dict[str, Any]] = await self._told("events") or []
            return any(event["reason"] == reason and words in event["message"] for event in events)

        await until(told)

    async def history(self, kind: str = "step") -> list[dict[str, Any]]:
        """The lines of one kind of the pod's history."""
        lines: list[dict[str, Any]] = await self.handle.query("history", rpc_timeout=timedelta(seconds=PATIENCE))
        return [line for line in lines if line["kind"] == kind]

    async def delete(self, grace: int | None = None) -> dict[str, Any]:
        """Delete it and wait until it is gone; returns the final Pod."""
        await self.handle.signal("delete_pod", {} if grace is None else {"gracePeriodSeconds": grace})
        return await self.gone()

    async def gone(self, *, patience: float = PATIENCE) -> dict[str, Any]:
        """Wait for the workflow's end, and until no remains exist in the runtime or on disk; returns the final Pod."""
        try:
            async with asyncio.timeout(patience):
                final: dict[str, Any] = await self.handle.result()
        except TimeoutError:
            pending = (await self.handle.describe()).raw_description.pending_activities
            raise AssertionError(f"{self.name} did not end; under way: {pending}\n{self.node.said}") from None

        await self.removed(final["metadata"]["uid"], patience=patience)
        return final

    async def removed(self, uid: str, *, patience: float = PATIENCE) -> None:
        """Wait until no remains exist in the runtime or on disk; the node removes them without the workflow."""

        async def is_removed() -> bool:
            return not [*await self.sandboxes(), *await self.containers(), *self.node.left_on_disk(uid)]

        await until_asked(is_removed, patience=patience)

    async def closed(self) -> bool:
        """Return whether its workflow has ended."""
        return (await self.handle.describe()).status != WorkflowExecutionStatus.RUNNING

    async def _told(self, query: str) -> Any:
        with contextlib.suppress(RPCError):
            return await self.handle.query(query, rpc_timeout=_RPC)

    # --- as the runtime has it ---

    async def sandboxes(self) -> list[SandboxSummary]:
        """Its sandboxes, oldest attempt first."""
        listed = await self.node.cri.list_pod_sandboxes(labels={POD_NAME_LABEL: self.name, NODE_LABEL: self.node.name})
        return sorted(listed, key=lambda sandbox: sandbox.attempt)

    async def containers(self) -> list[ContainerSummary]:
        """Its containers, by name and number."""
        listed = await self.node.cri.list_containers(labels={POD_NAME_LABEL: self.name, NODE_LABEL: self.node.name})
        return sorted(listed, key=lambda container: (container.name, container.attempt))

    async def live(self, name: str) -> ContainerSummary:
        """The only running instance of a container."""
        (container,) = [each for each in await self.containers() if each.name == name and each.state == "running"]
        return container

    async def assert_whole(self, *, sandbox: int | None = 0, **restarts: int) -> None:
        """Assert one ready sandbox (with this attempt; None = any) and one running instance of each container.

        Each has the given number of restarts, else 0. Nothing runs twice, and nothing is left half made.
        """
        sandboxes, containers = await self.sandboxes(), await self.containers()
        ready = [each for each in sandboxes if each.state == "SANDBOX_READY"]
        assert len(ready) == 1, sandboxes
        assert sandbox is None or ready[0].attempt == sandbox, sandboxes
        assert len({each.attempt for each in sandboxes}) == len(sandboxes), sandboxes
        assert not any(each.state in ("created", "unknown") for each in containers), containers
        alive = {each.name: each.attempt for each in containers if each.state == "running"}
        wanted = {each["name"]: restarts.get(each["name"], 0) for each in self.document["spec"]["containers"]}
        assert alive == wanted, containers
        doubles = Counter((each.name, each.attempt) for each in containers)
        assert set(doubles.values()) == {1}, containers
        assert {each.sandbox_id for each in containers if each.state == "running"} == {ready[0].id}, containers

    async def shims(self) -> tuple[Process, ...]:
        """The processes between the runtime and this pod's containers (shims)."""
        (sandbox,) = [each for each in await self.sandboxes() if each.state == "SANDBOX_READY"]
        containers = [each.id for each in await self.containers() if each.state == "running"]
        shims = self.node.runtime.shims_of(sandbox.id, *containers)
        assert shims
        return shims


@dataclass
class FaultyNode:
    """One node. Tests can kill its worker and start another; its pods end with it."""

    name: str
    directory: Path
    server: DevServer
    runtime: Runtime
    client: Client
    cri: CriClient
    """A client of the runtime itself, which bypasses the proxy."""
    proxy: CriProxy
    _worker: NodeProcess | None = None
    start: Callable[..., Any] = start_worker
    """The function that starts the worker's process."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The variables in every worker's environment."""
    ready_after: float = 0.0
    """Seconds from the start of the worker's process until it reported that it serves."""
    pods: list[Pod] = field(default_factory=list)

    @property
    def worker(self) -> NodeProcess:
        """The worker, alive or dead."""
        assert self._worker is not None
        return self._worker

    @property
    def said(self) -> str:
        """The end of the worker's log."""
        return "\n".join(self.worker.log.read_text().splitlines()[-40:])

    async def warm_up(self) -> None:
        """Start and remove a pod by raw calls, since the runtime starts some processes that tests hold only then."""
        async with BareCri(self.runtime.endpoint) as calls:
            await calls.remove_pod(await calls.start_pod(calls.sandbox_config(f"first-of-{self.name}")))

    async def serve(self, **environment: str) -> datetime:
        """Start a worker with additional variables, and wait until it serves; return its process's start time."""
        began = datetime.now(UTC)
        self._worker = self.worker_process(self.directory, **environment)
        await self._worker.ready()
        self.ready_after = (datetime.now(UTC) - began).total_seconds()
        return began

    async def kill(self) -> None:
        """`kill -9` the worker; return when the runtime has noticed that its caller is gone."""
        self.worker.kill()
        await until_true(lambda: self.proxy.under_way == 0)

    def worker_process(self, directory: Path, *arguments: str, **environment: str) -> NodeProcess:
        """A worker of this node, with its state in `directory`."""
        return NodeProcess(
            directory,
            *(("--cgroup-parent", self.runtime.cgroup_parent) if self.runtime.cgroup_parent else ()),
            *arguments,
            runtime=self.proxy.endpoint,
            temporal=self.server.address,
            node=self.name,
            start=self.start,
            **{**self.settings, **environment},
        )

    async def apply(
        self,
        *containers: dict[str, Any],
        name: str = "",
        uid: str = "",
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Pod:
        """Start a pod's workflow: on the host's network, with a grace period of 1 s, unless the spec says otherwise."""
        name = name or f"p-{uuid.uuid4().hex[:8]}"
        metadata: dict[str, Any] = {"name": name, "namespace": "default", **({"uid": uid} if uid else {})}
        if annotations:
            metadata["annotations"] = dict(annotations)
        spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, **spec}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**spec, "containers": list(containers) or [shell("a"), shell("b")]},
        }
        handle = await self.client.start_workflow(
            POD_WORKFLOW,
            {"pod": document},
            id=pod_workflow_id("default", name),
            task_queue=node_task_queue(self.name),
            task_timeout=timedelta(seconds=3),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,  # a server that died may have taken it before
        )
        pod = Pod(self, name, document, handle)
        self.pods.append(pod)
        return pod

    async def went_on(self, pod: Pod, since: datetime) -> dict[str, float]:
        """Measure a takeover by the workflow's history: seconds from `since` to the worker's first task, and to now."""
        identity = f"/{self._boot()}"
        first: datetime | None = None
        async for event in pod.handle.fetch_history_events():
            started = (
                event.workflow_task_started_event_attributes.identity,
                event.activity_task_started_event_attributes.identity,
            )
            at = event.event_time.ToDatetime(tzinfo=UTC)
            if first is None and at > since and any(who.endswith(identity) for who in started):
                first = at
        assert first is not None, "the new worker has done nothing"
        measured = {
            "ready": round(self.ready_after, 2),
            "first task": round((first - since).total_seconds(), 2),
            "whole": round((datetime.now(UTC) - since).total_seconds(), 2),
        }
        log.info("%s %s: went on after %s", self.runtime.name, pod.name, measured)
        return measured

    def _boot(self) -> int:
        record = read_worker_record(self.worker.state_dir)
        assert record is not None
        return record.boot

    def left_on_disk(self, uid: str) -> list[Path]:
        """The remains of a pod: its directory, its logs, its cgroups in any controller."""
        directories = [*self.directory.glob(f"state/pods/*{uid}*"), *self.directory.glob(f"logs/*{uid}*")]
        hierarchies = [CGROUPS, *(entry for entry in CGROUPS.iterdir() if entry.is_dir())]
        cgroups = [hierarchy / self.runtime.cgroup_parent.strip("/") / f"pod{uid}" for hierarchy in hierarchies]
        return [*directories, *(cgroup for cgroup in cgroups if cgroup.exists())]

    # --- after a test -------------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Make server, runtime and worker serve again, and remove the test's pods, even if the test has failed."""
        for part in (self.server, self.runtime):
            if _is_down(part):
                await asyncio.to_thread(part.start)
        if [pod for pod in self.pods if not await pod.closed()]:
            # Nothing may be made during the removal.
            self.worker.kill()
            await self.clear()
        self.pods.clear()
        if self.worker.pid not in {process.pid for process in processes()}:
            await self.serve()

    async def clear(self) -> None:
        """End every pod that the tests have left, by any means that works."""
        for pod in self.pods:
            with contextlib.suppress(RPCError):
                await pod.handle.terminate()
        await sweep(self.cri, {NODE_LABEL: self.name})


@contextlib.asynccontextmanager
async def faulty_node(
    runtime: Runtime, server: DevServer, directory: Path, **settings: str
) -> AsyncIterator[FaultyNode]:
    """A node whose workers all have these settings; at the end, everything of it is removed."""
    name = f"n-{uuid.uuid4().hex[:8]}"
    client = await connect(server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
    async with (
        CriClient(runtime.endpoint) as cri,
        CriProxy(runtime.directory / f"{name}.sock", runtime.endpoint) as proxy,
    ):
        node = FaultyNode(name, directory, server, runtime, client, cri, proxy, settings=settings)
        await node.serve()
        try:
            yield node
        finally:
            node.worker.kill()
            await node.clear()


def _is_down(part: DevServer | Runtime) -> bool:
    """Return whether a test has killed a server without starting it again."""
    try:
        return not part.pid
    except RuntimeError:
        return True


async def until(question: Callable[[], Any], *, patience: float = PATIENCE) -> Any:
    """Wait until the awaited answer is true, and return it; raises TimeoutError.

    While the runtime is down, there is no answer.
    """
    pause = pauses(0.02, most=0.2)
    async with asyncio.timeout(patience):
        while True:
            with contextlib.suppress(CriError):
                answer = await question()
                if answer:
                    return answer
            await asyncio.sleep(next(pause))


@contextlib.contextmanager
def held(node: FaultyNode, point: Any) -> Iterator[HeldPoint | Stopped]:
    """Hold all calls at a point: at one of the runtime's gates, or before or after a CRI call."""
    with node.runtime.gates.hold(point) if isinstance(point, str) else node.proxy.stop(*point) as stop:
        yield stop


async def ended(pod: Pod, name: str) -> bool:
    """Return whether no instance of a container is alive."""
    return all(each.state == "exited" for each in await pod.containers() if each.name == name)
