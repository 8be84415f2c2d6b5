"""A node whose steps are the real ones over a scripted runtime, with outcomes that a test may choose.

The runtime is the simulator's (`tests.simulator.cri`), in real time. A test can hold a step or script its outcome; the
step's lock, heartbeats and waits are real. The test sends the agent's `pleg` signals.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import Mock

from temporalio import activity
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

from activities.registry import step_activity, step_body
from activities.step_attempt import PodFault, StepAttempt
from syncpod.cri.port import ExecResult, RuntimeVersion
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedPod
from syncpod.lifecycle.version import build_id
from syncpod.messages.identity import NodeFacts, pod_workflow_id
from syncpod.messages.queries import FORESEE_ADMISSION
from syncpod.messages.step_table import STEPS
from syncpod.messages.steps import Allocation, Fault, Outcome, Rejection, StepInput, StepResult
from syncpod.temporal.resize_metrics import ResizeMetricsInterceptor
from syncpod.temporal.timeouts import HEARTBEAT_THROTTLE
from tests.activities.recording_agent import RecordingAgent
from tests.agent.waiting import pauses, until_asked
from tests.simulator.clock import WallClock, moment
from tests.simulator.cri import Caller, ScriptedCri
from tests.simulator.loop import OWNER
from tests.simulator.node import directory_of, real_node
from tests.simulator.runtime import Container, Life, Runtime, Sandbox, Witness
from tests.workflows.sandbox import Sandbox as WorkflowSandbox
from workflows.pod.workflow import PodWorkflow

DIGEST = "0" * 12
"""The digest of the source in the build ids of workers in tests."""

UNTIL_STOPPED = Life(None, stop=0.01, stopped=137)
"""The life of instances for which a test has set none."""

Script = Callable[[StepInput], StepResult | Outcome | Awaitable[StepResult | Outcome] | None]
"""The scripted result of one call of a step: an outcome, a result or an error instead of acting; with None it acts."""


class _Images(set[str]):
    """The images of a node that has all images except for the absent ones."""

    def __init__(self, absent: set[str]) -> None:
        super().__init__()
        self._absent = absent

    def __contains__(self, image: object) -> bool:
        return image not in self._absent

    def add(self, image: str) -> None:
        self._absent.discard(image)


@dataclass
class _Cri(ScriptedCri):
    """The runtime, with hooks whose results a test sets."""

    gate: asyncio.Event | None = None
    """An event for which hooks wait."""
    hooks: int = 0
    """The number of started hooks."""
    outcomes: list[Callable[[], ExecResult]] = field(default_factory=list)
    """The results of the next hooks; later hooks succeed."""

    async def exec_sync(self, container_id: str, command: tuple[str, ...], *, timeout_seconds: int) -> ExecResult:
        self.hooks += 1
        if self.gate is not None:
            await self.gate.wait()
        return self.outcomes.pop(0)() if self.outcomes else ExecResult(b"", b"", 0)


def _answered(answer: Allocation, _: StepInput) -> StepResult:
    return StepResult(allocation=answer)


@dataclass
class _Agent(RecordingAgent):
    """The agent of a scripted node: its steps return the node's facts."""

    node: ScriptedNode = None  # type: ignore[assignment]

    def facts(self) -> NodeFacts:
        return self.node.facts


class ScriptedNode:
    """One node: a scripted runtime, and the real steps over it."""

    def __init__(self, *, unhurried: bool = False) -> None:
        self.unhurried = unhurried
        """Whether its workflow tasks have a longer deadline (a minute), since some read much data."""
        self.name = uuid.uuid4().hex[:12]
        self.queue = f"node/{self.name}"
        self.lives: list[Life] = []
        """The lives of the next started instances."""
        clock = WallClock()
        self.runtime = Runtime(clock, Mock(spec=Witness), lambda *_: self.lives.pop(0) if self.lives else UNTIL_STOPPED)
        self.absent: set[str] = set()
        """Images that the node does not have."""
        self.runtime.images = _Images(self.absent)
        self.cri = _Cri(self.runtime, clock, pull_seconds=0.02, named=RuntimeVersion("containerd", "2.2.0"))
        directory, self._remove = directory_of(self)
        self.agent = _Agent(node=self)
        self.real = real_node(self.cri, directory, self.agent, name=self.name)
        self.taken: list[tuple[str, StepInput]] = []
        """The called steps, in order."""
        self.script: dict[str, list[Script]] = defaultdict(list)
        """Scripts by step name, for the next calls."""
        self.foreseen: list[str] = []
        """Its answers to clients' questions why it would not run a pod."""
        self.asked_beside: list[list[dict[str, Any]]] = []
        """The earlier pods in each such question."""
        self.recursive_read_only_handlers: tuple[str, ...] = ()
        """The handlers of its runtime that can mount read-only recursively."""
        self.gate: dict[str, asyncio.Event] = {}
        """By name of a step or question: an event for which its calls wait before they act."""
        self.deaf: set[str] = set()
        """Steps whose calls keep waiting at their gate even if they are cancelled."""

    # --- what the test does ---

    def fault(self, step: str, fault: Fault, message: str = "it failed") -> None:
        """Let the next call of a step fail with a pod-level fault."""

        def fail(_: StepInput) -> None:
            raise PodFault(fault, message)

        self.script[step].append(fail)

    def turn_away(self, rejection: Rejection) -> None:
        """Let the node reject the next pod."""

        def refuse(_: StepInput) -> None:
            raise PodFault(Fault.POD_REJECTED, rejection.message, rejection=rejection)

        self.script["create_sandbox"].append(refuse)

    def no_room(self, *answers: Allocation) -> None:
        """Let the next calls of allocate_resources return this."""
        for answer in answers:
            self.script["allocate_resources"].append(partial(_answered, answer))

    def steps(self, uid: str = "") -> list[str]:
        """The steps called so far, as `name` or `name container`."""
        names = []
        for name, step in self.taken:
            if uid and step.ref.uid != uid:
                continue
            container = getattr(step, "container", "") or getattr(getattr(step, "target", None), "name", "")
            names.append(f"{name} {container}".strip())
        return names

    def end_at_once(self, *codes: int) -> None:
        """Let the next containers end within their starts, with these codes."""
        self.lives += [Life(0.0, code) for code in codes]

    def newest(self, uid: str, container: str) -> Container:
        """The newest instance of a container that the runtime has."""
        its = [each for each in self.runtime.containers.values() if (each.uid, each.name) == (uid, container)]
        assert its, f"{container} is not there"
        return max(its, key=lambda each: each.created)

    def containers(self, uid: str) -> list[str]:
        """The names of the pod's containers that the runtime has."""
        return [each.name for each in self.runtime.containers.values() if each.uid == uid]

    def sandboxes(self, uid: str) -> list[Sandbox]:
        """The pod's sandboxes that the runtime has, newest first."""
        its = [each for each in self.runtime.sandboxes.values() if each.uid == uid]
        return sorted(its, key=lambda each: each.attempt, reverse=True)

    async def exits(self, uid: str, container: str, code: int, *, ago: float = 0.0) -> ObservedPod:
        """Let a container exit with `code`, `ago` seconds before the listing that is returned."""
        instance = self.newest(uid, container)
        self.runtime.end(instance, code)
        instance.dated["finished"] = moment(self.runtime.clock.now - ago)
        return await self.list(uid)

    async def loses_sandbox(self, uid: str) -> ObservedPod:
        """Let the pod's sandboxes end, but not its containers; return the listing after that."""
        for sandbox in self.sandboxes(uid):
            sandbox.ready = False
        return await self.list(uid)

    async def loses(self, uid: str, *, sandboxes: bool = False) -> ObservedPod:
        """Let the runtime lose the pod's containers and sandboxes; return the listing after that."""
        for each in [each for each in self.runtime.containers.values() if each.uid == uid]:
            self.runtime.end(each, 137)
            del self.runtime.containers[each.id]
        for sandbox in self.sandboxes(uid) if sandboxes else ():
            del self.runtime.sandboxes[sandbox.id]
        return await self.list(uid)

    async def list(self, uid: str, **update: Any) -> ObservedPod:
        """A new listing of a pod; `update` has fields that differ from the runtime."""
        return (await self.real.reader.read(uid)).model_copy(update=update)

    async def list_with(self, uid: str, **update: Any) -> ObservedPod:
        """A new listing of a pod, in which these fields of containers differ from the runtime."""
        listing = await self.list(uid)
        changed = tuple(each.model_copy(update=update) for each in listing.containers)
        return listing.model_copy(update={"containers": changed})

    async def tell(self, handle: WorkflowHandle[Any, Any], listing: ObservedPod, *events: str) -> None:
        """Signal a listing as the agent does."""
        payload = {
            "events": [{"type": event} for event in events],
            "status": listing.model_dump(mode="json"),
            "node": self.facts.model_dump(mode="json", by_alias=True),
        }
        await handle.signal("pleg", payload)

    @property
    def facts(self) -> NodeFacts:
        return NodeFacts(
            name=self.name,
            runtime="scripted",
            recursive_read_only_handlers=self.recursive_read_only_handlers,
        )

    # --- the steps ---

    def activities(self) -> Sequence[Callable[..., Any]]:
        """The activities of a node's worker."""

        async def foresee(document: dict[str, Any], before: list[dict[str, Any]]) -> list[str]:
            if (gate := self.gate.get(FORESEE_ADMISSION)) is not None:
                await gate.wait()
            self.asked_beside.append(before)
            return [*self.foreseen]

        steps = [step_activity(self.real, name, partial(self._take, name)) for name in STEPS]
        return [*steps, activity.defn(name=FORESEE_ADMISSION)(foresee)]

    async def _take(self, name: StepName, attempt: StepAttempt, step: Any) -> StepResult:
        """Wait at the step's gate; then return the scripted result, or act."""
        self.taken.append((name.value, step))
        attempt.doing = f"waits at the gate of {name.value}"
        gate = self.gate.get(name.value)
        while gate is not None and not gate.is_set():
            activity.heartbeat(attempt.doing)
            await (asyncio.sleep(0.05) if name.value in self.deaf else attempt.pause(0.05, until=gate))
        if self.script[name.value]:
            answer = self.script[name.value].pop(0)(step)
            if isinstance(answer, Awaitable):
                answer = await answer
            if answer is not None:
                return answer if isinstance(answer, StepResult) else StepResult(outcome=answer)
        OWNER.set(Caller(name.value, getattr(step, "kind", "")))
        return await step_body(name)(attempt, step)


async def under_way(handle: WorkflowHandle[Any, Any], step: str, number: int) -> None:
    """Wait until this many steps with this name are running."""

    async def so_many() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        return [each.activity_type.name for each in pending].count(step) == number

    await until_asked(so_many)


async def until_next_waits(
    client: Client, node: ScriptedNode, document: dict[str, Any], step: str
) -> WorkflowHandle[Any, Any]:
    """Start a pod; release its first start once the next one, which waits for it, has begun. Returns its handle."""
    gate = node.gate[step] = asyncio.Event()
    handle = await start_pod(client, node, document)
    await under_way(handle, step, 2)
    gate.set()
    return handle


@asynccontextmanager
async def scripted_worker(client: Client, node: ScriptedNode, **options: Any) -> AsyncIterator[Worker]:
    """A worker of the node's queue with the real workflow, the newest decisions, and the scripted steps."""
    async with Worker(
        client,
        task_queue=node.queue,
        workflows=[PodWorkflow],
        activities=node.activities(),
        **{
            "build_id": build_id("syncpod-test", DIGEST),
            "workflow_runner": WorkflowSandbox(),
            "interceptors": [ResizeMetricsInterceptor()],
            # As in the node's worker: by the SDK's default, a step would get its cancellation up to 12 s late.
            "max_heartbeat_throttle_interval": HEARTBEAT_THROTTLE,
            **options,
        },
    ) as worker:
        if node.unhurried:
            # The SDK fails a task after two seconds by the clock, which proves nothing on a busy machine.
            # Its setting debug_mode prevents that, but then runs tasks in the test's own thread.
            assert worker._workflow_worker is not None
            worker._workflow_worker._deadlock_timeout_seconds = None
        yield worker


async def start_pod(
    client: Client,
    node: ScriptedNode,
    manifest: dict[str, Any],
    *,
    memo: Mapping[str, Any] | None = None,
    **more: Any,
) -> WorkflowHandle[Any, Any]:
    """Start a pod's workflow as `temporal workflow start` does."""
    meta = manifest["metadata"]
    return await client.start_workflow(
        "PodWorkflow",
        {"pod": manifest, **more},
        id=pod_workflow_id(meta.get("namespace", "default"), meta["name"]),
        task_queue=node.queue,
        task_timeout=timedelta(minutes=1) if node.unhurried else timedelta(seconds=3),
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        memo=memo,
    )


async def in_another_run(handle: WorkflowHandle[Any, Any], first: str | None, patience: float = 60) -> str:
    """Wait until the pod's workflow has left the run `first`; return its current run. The handle must name no run."""
    deadline = asyncio.get_running_loop().time() + patience
    while (run := (await handle.describe()).run_id) == first:
        assert asyncio.get_running_loop().time() < deadline, "the run has not continued as new"
        await asyncio.sleep(0.05)
    return run


async def pending_step(handle: WorkflowHandle[Any, Any], name: str) -> PendingActivityInfo:
    """The pod's activity of this name that has not ended."""
    activities = (await handle.describe()).raw_description.pending_activities
    return next(each for each in activities if each.activity_type.name == name)


async def query_pod(handle: WorkflowHandle[Any, Any]) -> dict[str, Any]:
    """The pod in the workflow's answer."""
    pod: dict[str, Any] = await handle.query("pod")
    return pod


async def until(handle: WorkflowHandle[Any, Any], seen: Callable[[dict[str, Any]], bool], patience: float = 60) -> Any:
    """Query the pod until `seen` holds; at the deadline, fails and shows the pod."""
    deadline = asyncio.get_running_loop().time() + patience
    pause = pauses()
    while True:
        pod = await query_pod(handle)
        if seen(pod):
            return pod
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"the pod did not come to that: {pod.get('status')}")
        await asyncio.sleep(next(pause))


def phase(pod: dict[str, Any]) -> str:
    """The pod's phase."""
    return str(pod.get("status", {}).get("phase", ""))


def container(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """The status of one container of any kind."""
    status = pod.get("status", {})
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for entry in status.get(kind, []):
            if entry["name"] == name:
                return dict(entry)
    return {}
