"""The whole engine: a worker process between a real Temporal server and a real runtime, and its pods.

Pods are applied, watched and deleted only through Temporal; their containers are checked in the runtime directly,
without code of this project.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WithStartWorkflowOperation, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cri.client import CriClient
from syncpod.cri.errors import NotFound
from syncpod.cri.port import SandboxStatus
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.messages.identity import POD_WORKFLOW, node_task_queue, pod_workflow_id
from syncpod.objects import ObjectStore
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from syncpod.translation.names import CONTAINER_HASH_ANNOTATION, NODE_LABEL, POD_NAME_LABEL
from tests.agent.waiting import pauses, until_asked
from tests.fork_server import start_worker
from tests.patience import TIMES
from tests.runtimes.images import BUSYBOX
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.traps import until_trapped
from tests.worker.node_process import NodeProcess

PATIENCE = 120.0 * TIMES
"""The longest wait in seconds. It is generous, since tests assert what happens, never how soon."""

RUNS = "trap 'exit 0' TERM; while :; do sleep 600 & wait $!; done"
"""A shell script that runs until it is told to end, and then ends at once with 0."""


def shell(name: str, script: str = RUNS, **more: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", script], **more}


@dataclass
class LivePod:
    """An applied pod, as its workflow and the runtime show it."""

    node: EngineNode
    name: str
    document: dict[str, Any]
    handle: WorkflowHandle[Any, Any]
    """The handle of the workflow's newest run."""

    # --- as its workflow has it ---

    async def get(self) -> dict[str, Any]:
        """The whole Pod, with its status."""
        pod: dict[str, Any] = await self.handle.query("pod")
        return pod

    async def until(self, seen: Callable[[dict[str, Any]], Any], *, patience: float = PATIENCE) -> dict[str, Any]:
        """Query until `seen` is true; fails with the pod's status, history and events, and the worker's log."""
        deadline = time.monotonic() + patience
        pause = pauses(0.1)
        while True:
            pod = await self.get()
            if seen(pod):
                return pod
            if time.monotonic() > deadline:
                told = [json.dumps(line) for query in ("history", "events") for line in await self.handle.query(query)]
                lines = [json.dumps(pod.get("status"), indent=1), *told, self.node.said]
                raise AssertionError("\n".join([f"{self.name} did not come to that:", *lines]))
            await asyncio.sleep(next(pause))

    async def running(self, **restarts: int) -> dict[str, Any]:
        """Wait until all its main containers run, each with its number of restarts (0 unless given)."""

        def seen(pod: dict[str, Any]) -> bool:
            statuses = pod["status"].get("containerStatuses", [])
            return pod["status"].get("phase") == "Running" and all(
                "running" in each["state"] and each["restartCount"] == restarts.get(each["name"], 0)
                for each in statuses
            )

        return await self.until(seen)

    async def armed(self, name: str, *numbers: signal.Signals) -> None:
        """Wait until a running container has set its traps (by default SIGTERM's): before, a signal would kill it."""
        instance = await self.instance(name)
        told = await self.node.cri.container_status(instance.id, verbose=True)
        await until_trapped(told.container.pid, *numbers)

    async def phase(self, phase: str) -> dict[str, Any]:
        """Wait until the pod is in this phase."""
        return await self.until(lambda pod: pod["status"].get("phase") == phase)

    async def events(self, reason: str = "") -> list[dict[str, Any]]:
        """Its events with this reason (by default all), oldest first."""
        events: list[dict[str, Any]] = await self.handle.query("events")
        return [event for event in events if reason in ("", event["reason"])]

    async def event(self, reason: str, text: str = "") -> dict[str, Any]:
        """Wait for the first event with this reason, and with this text in its message."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for event in await self.events(reason):
                    if text in event["message"]:
                        return event
                await asyncio.sleep(0.1)

    async def history(self, kind: str) -> list[dict[str, Any]]:
        """The lines of one kind of its history, oldest first."""
        lines: list[dict[str, Any]] = await self.handle.query("history")
        return [line for line in lines if line["kind"] == kind]

    async def scheduled(self) -> list[str]:
        """The activities in Temporal's own history, as `activity • summary`, in the order of scheduling."""
        shown = []
        async for event in self.handle.fetch_history_events():
            if event.HasField("activity_task_scheduled_event_attributes"):
                name = event.activity_task_scheduled_event_attributes.activity_type.name
                shown.append(f"{name} • {json.loads(event.user_metadata.summary.data)}")
        return shown

    async def failures(self) -> list[str]:
        """The failures of its steps in Temporal's own history, in order."""
        return [
            event.activity_task_failed_event_attributes.failure.message
            async for event in self.handle.fetch_history_events()
            if event.HasField("activity_task_failed_event_attributes")
        ]

    async def apply(self, document: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        """Apply it again: `document`, or its own document with `spec` changed. Returns the update's answer."""
        self.document = document or {**self.document, "spec": {**self.document["spec"], **spec}}
        answer: dict[str, Any] = await self.node.update_with_start("apply", self.document)
        return answer

    async def delete(self, grace: int | None = None) -> dict[str, Any]:
        """Delete it, and wait until no remains exist; returns the final Pod."""
        await self.handle.execute_update("delete", {} if grace is None else {"gracePeriodSeconds": grace})
        return await self.gone()

    async def gone(self) -> dict[str, Any]:
        """Wait for its workflow's end, and until the runtime and the disk have no remains; returns the final Pod."""
        async with asyncio.timeout(PATIENCE):
            final: dict[str, Any] = await self.handle.result()

        async def is_removed() -> bool:  # the node does so without its workflow
            return not [*await self.sandboxes(), *await self.containers(), *self.node.all_of(final["metadata"]["uid"])]

        await until_asked(is_removed, patience=PATIENCE)
        return final

    # --- as the runtime has it ---

    @property
    def _labels(self) -> dict[str, str]:
        return {POD_NAME_LABEL: self.name, NODE_LABEL: self.node.name}

    async def sandboxes(self) -> list[SandboxStatus]:
        """The full statuses of its sandboxes, oldest attempt first."""
        listed = await self.node.cri.list_pod_sandboxes(labels=self._labels)
        statuses = []
        for each in listed:
            with contextlib.suppress(NotFound):  # gone meanwhile
                statuses.append(await self.node.cri.pod_sandbox_status(each.id, verbose=True))
        return sorted(statuses, key=lambda sandbox: sandbox.attempt)

    async def sandbox(self) -> SandboxStatus:
        """Its only ready sandbox."""
        (ready,) = [each for each in await self.sandboxes() if each.state == "SANDBOX_READY"]
        return ready

    async def containers(self, name: str = "") -> list[ObservedContainer]:
        """The full statuses of its containers (or those with this name), oldest instance first."""
        listed = await self.node.cri.list_containers(labels=self._labels)
        statuses = []
        for each in listed:
            with contextlib.suppress(NotFound):  # gone meanwhile
                if name in ("", each.name):
                    found = (await self.node.cri.container_status(each.id)).container
                    made_from = each.annotations.get(CONTAINER_HASH_ANNOTATION, "")
                    statuses.append(found.model_copy(update={"hash": made_from}))
        return sorted(statuses, key=lambda container: (container.name, container.restart_count))

    async def instance(self, name: str) -> ObservedContainer:
        """The newest instance of a container."""
        return (await self.containers(name))[-1]

    async def exec(self, name: str, command: str) -> str:
        """The output of a shell script in a running container."""
        instance = await self.instance(name)
        done = await self.node.cri.exec_sync(instance.id, ("sh", "-c", command), timeout_seconds=int(PATIENCE))
        return (done.stdout + done.stderr).decode().strip()

    async def lines(self, name: str, file: str, count: int) -> list[str]:
        """The lines of a file in a running container, once there are `count`: their writer may have just begun."""
        wait = f"until [ $(wc -l < {file}) -ge {count} ]; do sleep 0.05; done"
        return (await self.exec(name, f"{wait}; cat {file}")).splitlines()

    async def logged(self, name: str) -> list[str]:
        """The log of a container's newest instance, once it has a line."""
        async with asyncio.timeout(PATIENCE):
            while not (lines := await self.log(name)):  # noqa: ASYNC110  # a container tells nobody that it has written
                await asyncio.sleep(0.1)
        return lines

    async def log(self, name: str) -> list[str]:
        """The lines that a container's newest instance has written to standard output."""
        text = await asyncio.to_thread(Path((await self.instance(name)).log_path).read_text)
        return [line.split(" ", 3)[3] for line in text.splitlines() if " stdout " in line]


@dataclass
class EngineNode:
    """One node with its worker, and the pods that tests apply to it."""

    name: str
    server: DevServer
    runtime: Runtime
    client: Client
    cri: CriClient
    worker: NodeProcess

    @property
    def said(self) -> str:
        """The end of the worker's log."""
        return "\n".join(self.worker.log.read_text().splitlines()[-40:])

    @property
    def task_queue(self) -> str:
        """The task queue that its worker polls."""
        return node_task_queue(self.name)

    @contextlib.asynccontextmanager
    async def pods(self) -> AsyncIterator[Pods]:
        """Pods for a test. At the end, those that the test has not deleted are deleted; failing that is an error."""
        pods = Pods(self)
        yield pods
        await pods.delete()

    async def update_with_start(self, update: str, document: dict[str, Any]) -> Any:
        """Send an update that starts the pod's workflow if there is none.

        The server refuses one while the workflow's task has failed more than once. On a busy machine that says nothing
        of the workflow: the SDK fails a task after two seconds by the clock. So it is sent again.
        """
        deadline = time.monotonic() + PATIENCE
        pause = pauses(0.1)
        while True:
            try:
                return await self._update_with_start(update, document)
            except RPCError as refused:
                stuck = refused.status == RPCStatusCode.FAILED_PRECONDITION and "failed state" in refused.message
                if not stuck or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(next(pause))

    async def _update_with_start(self, update: str, document: dict[str, Any]) -> Any:
        return await self.client.execute_update_with_start_workflow(
            update,
            document,
            start_workflow_operation=WithStartWorkflowOperation(
                POD_WORKFLOW,
                {"pod": document, "byUpdate": True},
                id=pod_workflow_id("default", document["metadata"]["name"]),
                task_queue=self.task_queue,
                task_timeout=timedelta(seconds=3),
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            ),
        )

    def cgroups(self, uid: str) -> list[Path]:
        """The directories of a pod's cgroup, one in each controller; none if the runtime may make no cgroups."""
        if not self.runtime.cgroup_parent:
            return []
        parent, tiers = self.runtime.cgroup_parent.strip("/"), ("", "burstable/", "besteffort/")
        places = (f"{above}{parent}/{tier}pod{uid}" for above in ("", "*/") for tier in tiers)
        # Never `**`: other tests' pods come and go, and a directory that disappears while it is read is an error.
        return sorted(path for place in places for path in Path("/sys/fs/cgroup").glob(place))

    def directories(self, uid: str) -> list[Path]:
        """The node's directories for a pod: on disk, in memory, for its logs, and the links to the logs."""
        home = self.worker.state_dir.parent
        places = (f"state/pods/*{uid}*", f"memory/pods/*{uid}*", f"logs/*{uid}*")
        return sorted([*(path for place in places for path in home.glob(place)), *self.log_links(uid)])

    def log_links(self, uid: str) -> list[Path]:
        """The links by which log agents find the pod's logs."""
        links = self.worker.state_dir.parent / "containers"
        with contextlib.suppress(FileNotFoundError):
            return sorted(link for link in links.iterdir() if uid in os.readlink(link))  # noqa: PTH115
        return []

    @property
    def objects(self) -> ObjectStore:
        """Its ConfigMaps and Secrets."""
        home = self.worker.state_dir.parent
        return ObjectStore(home / "state", home / "memory")

    def all_of(self, uid: str) -> list[Path]:
        """The directories, logs and cgroups of a pod."""
        return [*self.directories(uid), *self.cgroups(uid)]

    def assert_nothing_left(self, uid: str) -> None:
        """Assert that neither directories, logs nor cgroups of a pod are left."""
        assert self.all_of(uid) == []


@dataclass
class Pods:
    """The pods of one test, or of several that share them."""

    node: EngineNode
    applied: list[LivePod] = field(default_factory=list)

    def manifest(self, base: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
        """A Pod with a unique name; its grace period is two seconds unless the spec has another."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{base}-{uuid.uuid4().hex[:6]}", "namespace": "default"},
            "spec": {"terminationGracePeriodSeconds": 2, **spec, "containers": list(containers)},
        }

    async def apply(self, base: str, *containers: dict[str, Any], **spec: Any) -> LivePod:
        """Apply such a pod."""
        pod = self.know(self.manifest(base, *containers, **spec))
        await pod.apply(pod.document)
        return pod

    def know(self, document: dict[str, Any]) -> LivePod:
        """Register a pod that somebody else applies: it can be watched, and is deleted at the end."""
        name = document["metadata"]["name"]
        pod = LivePod(self.node, name, document, self.node.client.get_workflow_handle(pod_workflow_id("default", name)))
        self.applied.append(pod)
        return pod

    async def delete(self) -> None:
        """Delete all remaining pods concurrently."""
        await asyncio.gather(*(self._delete(pod) for pod in self.applied))
        self.applied.clear()

    async def _delete(self, pod: LivePod) -> None:
        with contextlib.suppress(RPCError):  # never started, or ended by the test
            await pod.handle.signal("delete_pod", {"gracePeriodSeconds": 0})
            await pod.gone()


@contextlib.asynccontextmanager
async def engine_node(
    runtime: Runtime, server: DevServer, directory: Path, *, start: Any = start_worker, **environment: str
) -> AsyncIterator[EngineNode]:
    """A node with a worker that has these settings in its environment; the worker is ended cleanly afterwards."""
    name = f"n-{uuid.uuid4().hex[:8]}"
    client = await connect(server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
    with NodeProcess.of(runtime, server, directory, node=name, start=start, **environment) as worker:
        await worker.ready()
        async with CriClient(runtime.endpoint) as cri:
            yield EngineNode(name, server, runtime, client, cri, worker)
        assert await worker.stop() == 0, worker.log.read_text()


# --- reading statuses -------------------------------------------------------------------------------------------------


def status_of(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """The status of one container of any kind; {} if there is none."""
    status = pod["status"]
    kinds: Sequence[str] = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    found: list[dict[str, Any]] = [each for kind in kinds for each in status.get(kind, []) if each["name"] == name]
    return found[0] if found else {}


def conditions_of(pod: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The conditions by type: the status, then reason and message if there are any."""
    return {
        each["type"]: (each["status"], *(each[key] for key in ("reason", "message") if each.get(key)))
        for each in pod["status"]["conditions"]
    }


def at(text: str) -> datetime:
    """Parse a time in the format of statuses and histories."""
    return datetime.fromisoformat(text)
