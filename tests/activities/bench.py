"""A node to run steps on: a real runtime, own directories, and pods whose steps are called as Temporal calls them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

import activities
from activities import Node
from activities.between.collection import Collector
from activities.registry import step_activity
from syncpod.cri.client import CriClient
from syncpod.cri.errors import Unavailable
from syncpod.kernel.mounting import may_mount, mounts_below, unmount
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.messages.steps import (
    CreateSandbox,
    Fault,
    KillContainer,
    KillPod,
    KillTarget,
    PullImage,
    RemoveContainers,
    StartContainer,
    StepInput,
    StepResult,
)
from syncpod.node.host import read_host
from syncpod.node.reader import PodReader
from syncpod.pod import Pod, admit_pod
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.translation.context import NodeContext
from syncpod.translation.names import POD_UID_LABEL
from tests.activities.recording_agent import RecordingAgent
from tests.patience import PATIENCE
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX
from tests.runtimes.sweep import sweep

SLEEP = ("sleep", "1000")
DEAF = ("sh", "-c", "trap '' TERM; echo ready; exec sleep 3600")
"""Ends only at SIGKILL."""
BEAT_SECONDS = 0.02
"""The interval of a step's heartbeats on a bench, for which tests wait."""
POLITE = ("sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 600 & wait $!; done")
"""Ends at once on SIGTERM, with exit code 3."""


def container(name: str = "main", command: Sequence[str] = POLITE, image: str = BUSYBOX, **more: Any) -> dict[str, Any]:
    """A container for a manifest."""
    return {"name": name, "image": image, "command": list(command), "imagePullPolicy": "IfNotPresent", **more}


@dataclass
class Running:
    """A running step, and the activity environment, by which a test cancels it."""

    environment: ActivityEnvironment
    task: asyncio.Task[StepResult]
    heartbeats: list[str]

    def cancel(self, **why: bool) -> None:
        """Cancel the step as by the answer to a heartbeat; by default, as requested by the workflow."""
        self.environment.cancel(ActivityCancellationDetails(**(why or {"cancel_requested": True})))

    async def result(self) -> StepResult:
        """Wait for the step's end."""
        return await self.task

    async def goes_on(self, doing: str = "") -> None:
        """Wait for two more heartbeats whose text begins with `doing`, which show that the step has not ended.

        Raises AssertionError if it ends, and TimeoutError if it says something else for a minute.
        """
        earlier = len(self.heartbeats)

        async def said_twice() -> bool:
            if sum(said.startswith(doing) for said in self.heartbeats[earlier:]) >= 2:
                return True
            assert not self.task.done(), f"it has ended: {self.task}"
            return False

        await until(said_twice)


@dataclass
class Bench:
    """A node with its runtime, client and steps; `returned` has each status that steps returned to a workflow."""

    runtime: Containerd
    cri: CriClient
    node: Node
    agent: RecordingAgent
    pods: list[PodOnBench] = field(default_factory=list)

    def pod(
        self, *containers: dict[str, Any], name: str = "", uid: str = "", incarnation: str = "life-1", **spec: Any
    ) -> PodOnBench:
        """A pod with these containers (by default one that ends at SIGTERM), by default on the node's network."""
        name = name or f"web-{len(self.pods)}"
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": uid or str(uuid.uuid4())},
            "spec": {"hostNetwork": True, "containers": list(containers) or [container()], **spec},
        }
        pod = PodOnBench(self, admit_pod(document), incarnation)
        self.pods.append(pod)
        return pod

    async def drain(self) -> None:
        """Wait until every StopContainer call has returned.

        A call that hangs, as a test that failed half-way may leave it, is cancelled after PATIENCE: TimeoutError.
        """
        calls: set[asyncio.Task[Any]] = set()
        try:
            async with asyncio.timeout(PATIENCE):
                while calls := {each for each in asyncio.all_tasks() if each.get_name().startswith("StopContainer ")}:
                    await asyncio.wait(calls)
        finally:
            for each in calls:
                each.cancel()

    async def restart_runtime(self, *, down_seconds: float = 0.0) -> None:
        """Kill the runtime if it runs, start it again, and wait until the client is connected."""
        self.runtime.kill()
        await asyncio.sleep(down_seconds)
        await asyncio.to_thread(self.runtime.start)

        async def answers() -> bool:
            try:
                await self.cri.version()
            except Unavailable:
                return False
            return True

        await until(answers)

    def step(
        self,
        name: StepName,
        request: StepInput,
        *,
        attempt: int = 1,
        waited: float = 0.0,
        scheduled: datetime | None = None,
    ) -> Running:
        """Begin a step as Temporal's attempt `attempt`, `waited` seconds after its first schedule (default: now)."""
        environment = ActivityEnvironment()
        first = scheduled or datetime.now(UTC) - timedelta(seconds=waited)
        environment.info = dataclasses.replace(
            environment.info,
            activity_type=name.value,
            attempt=attempt,
            scheduled_time=first,
            current_attempt_scheduled_time=first + timedelta(seconds=waited),
            started_time=first + timedelta(seconds=waited),
        )
        heartbeats: list[str] = []
        environment.on_heartbeat = lambda *details: heartbeats.extend(details)
        work: Coroutine[Any, Any, StepResult] = environment.run(step_activity(self.node, name), request)
        return Running(environment, asyncio.create_task(work), heartbeats)


@dataclass
class PodOnBench:
    """A pod, and its steps with the fence numbers that its workflow would send."""

    bench: Bench
    pod: Pod
    incarnation: str
    fence: int = 0
    sandbox_id: str = ""

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def ref(self) -> PodRef:
        meta = self.pod.metadata
        return PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid, incarnation=self.incarnation)

    def next_fence(self) -> int:
        self.fence += 1
        return self.fence

    # --- requests -----------------------------------------------------------------------------------------------------

    def sandbox_request(self, attempt: int = 0) -> CreateSandbox:
        return CreateSandbox(ref=self.ref, fence=self.next_fence(), pod=self.pod, attempt=attempt)

    def start_request(self, name: str = "main", restart: int = 0, **more: Any) -> StartContainer:
        return StartContainer(
            ref=self.ref,
            fence=self.next_fence(),
            pod=self.pod,
            container=name,
            restart=restart,
            sandbox_id=self.sandbox_id,
            **more,
        )

    def kill_request(self, *targets: KillTarget, grace: int = 30) -> KillPod:
        return KillPod(ref=self.ref, fence=self.next_fence(), targets=targets, grace_seconds=grace, message="deleted")

    # --- steps --------------------------------------------------------------------------------------------------------

    def step(self, name: StepName, request: StepInput, **how: Any) -> Running:
        return self.bench.step(name, request, **how)

    async def create_sandbox(self, attempt: int = 0, **how: Any) -> StepResult:
        result = await self.step(StepName.CREATE_SANDBOX, self.sandbox_request(attempt), **how).result()
        self.sandbox_id = result.id
        return result

    async def start(self, name: str = "main", restart: int = 0, *, attempt: int = 1, **more: Any) -> StepResult:
        request = self.start_request(name, restart, **more)
        return await self.step(StepName.START_CONTAINER, request, attempt=attempt).result()

    async def pull(self, name: str = "main") -> StepResult:
        request = PullImage(ref=self.ref, fence=self.next_fence(), pod=self.pod, container=name)
        return await self.step(StepName.PULL_IMAGE, request).result()

    async def kill_container(self, container_id: str, *, grace: int = 30, name: str = "main") -> StepResult:
        target = KillTarget(id=container_id, name=name, grace_seconds=grace)
        request = KillContainer(ref=self.ref, fence=self.next_fence(), target=target)
        return await self.step(StepName.KILL_CONTAINER, request).result()

    async def kill(self, *targets: KillTarget, grace: int = 30) -> StepResult:
        return await self.step(StepName.KILL_POD, self.kill_request(*targets, grace=grace)).result()

    async def remove_containers(self, *ids: str, kill: tuple[str, ...] = (), **more: Any) -> StepResult:
        request = RemoveContainers(ref=self.ref, fence=self.next_fence(), ids=ids, kill=kill, **more)
        return await self.step(StepName.REMOVE_CONTAINER, request).result()

    async def delete(self) -> StepResult:
        """Run the kill step of a deleted pod, which ends all its containers."""
        alive = [each for each in (await self.view()).containers if each.state != "exited"]
        request = self.kill_request(*(KillTarget(id=each.id, name=each.name) for each in alive))
        request = request.model_copy(update={"final": True, "deleted": True})
        return await self.step(StepName.KILL_POD, request).result()

    async def remove(self, *stopped: str) -> bool:
        """Let the node remove the pod's remains, as without a workflow. Return True if nothing is left to remove."""

        async def is_gone(_ref: PodRef, _in_runtime: bool) -> bool:
            return True

        return await Collector(self.bench.node).remove(EndedLife(self.ref, stopped), is_gone)

    # --- looking ------------------------------------------------------------------------------------------------------

    async def view(self) -> ObservedPod:
        return await self.bench.node.reader.read(self.uid)

    async def listed(self, container_id: str) -> ObservedContainer:
        """The container as the runtime lists it; raises KeyError if this node has none with that id."""
        return {each.id: each for each in (await self.view()).containers}[container_id]

    async def until_state(self, container_id: str, state: str) -> ObservedContainer:
        """Wait until the runtime lists the container in that state."""

        async def in_state() -> bool:
            return (await self.listed(container_id)).state == state

        await until(in_state)
        return await self.listed(container_id)

    async def until_dead(self, sandbox_id: str) -> None:
        """Wait until the runtime lists a stopped sandbox as not ready, for which containerd 2 may take a moment."""

        async def dead() -> bool:
            return not any(each.ready for each in (await self.view()).sandboxes if each.id == sandbox_id)

        await until(dead)

    async def until_ready(self, name: str = "main", restart: int = 0) -> None:
        """Wait until a container has reported that its signal handlers are installed."""
        log = self.logs / name / f"{restart}.log"

        async def said() -> bool:
            return log.exists() and "ready" in log.read_text()

        await until(said)

    @property
    def directory(self) -> Path:
        return self.bench.node.context.state_dir / "pods" / self.uid

    @property
    def logs(self) -> Path:
        meta = self.pod.metadata
        return self.bench.node.context.log_dir / f"{meta.namespace}_{meta.name}_{meta.uid}"

    def cgroups(self) -> list[Path]:
        """The pod's existing cgroups, in every hierarchy and every tier."""
        parent = self.bench.node.context.cgroup_parent.strip("/")
        if not parent:  # cgroups are closed to the user of these tests
            return []
        roots = (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir())
        return [found for root in roots for found in root.glob(f"{parent}/**/pod{self.uid}") if found.is_dir()]


async def until(holds: Callable[[], Awaitable[bool]], *, patience: float = PATIENCE) -> None:
    """Wait until the condition is true; raises TimeoutError after `patience` seconds."""
    async with asyncio.timeout(patience):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


async def fault_of(step: Coroutine[Any, Any, StepResult]) -> tuple[Fault, ApplicationError, StepResult]:
    """The pod-level fault of a failed step, and the result in the failure's details."""
    try:
        result = await step
    except ApplicationError as error:
        assert error.non_retryable, f"retryable: {error}"
        [detail] = error.details or [StepResult()]
        return Fault(error.type or ""), error, detail
    raise AssertionError(f"no fault, but {result.outcome}")


def as_sent(error: ApplicationError) -> str:
    """A step's failure as text, as it is sent to the server."""
    failure = Failure()
    DATA_CONVERTER.failure_converter.to_failure(error, DATA_CONVERTER.payload_converter, failure)
    details = b"".join(payload.data for payload in failure.application_failure_info.details.payloads)
    return f"{failure}{details.decode()}"


@contextlib.asynccontextmanager
async def bench_of(runtime: Containerd, directory: Path) -> AsyncIterator[Bench]:
    """A node on this runtime; after the block, all remains of its pods are ended and removed."""
    async with CriClient(runtime.endpoint) as cri:
        context = NodeContext(
            name="node-a",
            state_dir=directory / "state",
            memory_dir=directory / "memory",
            log_dir=directory / "logs",
            cluster="test/default",
            cgroup_parent=runtime.cgroup_parent,
            may_mount=may_mount(),
            shares_pids=True,
            host=read_host(),
        )
        agent = RecordingAgent()
        node = activities.Node(
            cri=cri,
            reader=PodReader(cri, boot=1, owner=context.name),
            context=context,
            agent=agent,
        )
        bench = Bench(runtime, cri, node, agent)
        try:
            with pytest.MonkeyPatch.context() as patch:
                for name in ("FIRST_BEAT", "HEARTBEAT", "QUEUED_BEAT", "WAITING_BEAT"):
                    patch.setattr(f"activities.step.{name}_SECONDS", BEAT_SECONDS)
                yield bench
        finally:
            await bench.drain()
            for pod in bench.pods:
                await sweep(cri, {POD_UID_LABEL: pod.uid})
            for place in mounts_below(context.state_dir.resolve()):
                unmount(place)
