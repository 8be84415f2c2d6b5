"""A node with scripted steps: the pod's workflow runs without a runtime, and the test chooses each outcome.

It keeps a model of a runtime's state, changes it as the steps ask, and sends `pleg` signals as the agent does.
Only workflow tests use it; the steps themselves are tested on real runtimes.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from temporalio import activity
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.node.pairs import Failed, Pairs
from activities.pipelining import HELD_SECONDS, is_as_expected, is_kept_back, may_be_followed
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox, Seq
from syncpod.lifecycle.step_name import StepName
from syncpod.lifecycle.version import build_id
from syncpod.messages.identity import NodeFacts, pod_workflow_id
from syncpod.messages.queries import FORESEE_ADMISSION
from syncpod.messages.step_table import STEPS
from syncpod.messages.steps import (
    AllocateResources,
    Allocation,
    CreateSandbox,
    Fault,
    KillContainer,
    KillPod,
    Outcome,
    PullImage,
    RemoveContainers,
    StartContainer,
    StepInput,
    StepResult,
)
from syncpod.pod import container_hash
from syncpod.temporal.resize_metrics import ResizeMetricsInterceptor
from syncpod.temporal.timeouts import HEARTBEAT_THROTTLE
from tests.agent.waiting import pauses, until_asked
from tests.workflows.sandbox import Sandbox
from workflows.pod.workflow import PodWorkflow

DIGEST = "0" * 12
"""Of the source, in the build ids of workers in tests."""

Script = Callable[[StepInput], Any]


class ScriptedNode:
    """The model runtime of one node, and the steps that change it."""

    def __init__(self, *, unhurried: bool = False) -> None:
        self.unhurried = unhurried
        """Its workflow tasks may take as long as the machine needs, since some have much to read."""
        self.queue = f"node/{uuid.uuid4().hex[:12]}"
        self.counter = 0
        self.pods: dict[str, ObservedPod] = {}
        self.taken: list[tuple[str, StepInput]] = []
        """Each step taken, in order."""
        self.script: dict[str, list[Script]] = defaultdict(list)
        """Scripts by step name, which replace the next calls' success; a script returns an outcome, or raises."""
        self.absent: set[str] = set()
        """Images that the node does not have."""
        self.foreseen: list[str] = []
        """Its answer to a client that asks why it would not run a pod."""
        self.asked_beside: list[list[dict[str, Any]]] = []
        """The pods before, of each such question."""
        self.recursive_read_only_handlers: tuple[str, ...] = ()
        """The handlers of its runtime that can mount read-only recursively."""
        self.room: list[Allocation] = []
        """The answers of the next calls of allocate_resources; after these, there is room for everything."""
        self.gate: dict[str, asyncio.Event] = {}
        """By step name, or name of the question: an event that its calls wait for, heartbeating, before they act."""
        self._pairs = Pairs()
        self.deaf: set[str] = set()
        """Steps whose calls keep waiting at their gate even if they are cancelled."""

    # --- what the test does ---

    def fault(self, step: str, fault: Fault, message: str = "it failed") -> None:
        """Have the next call of a step fail as a pod-level fault."""

        def fail(_: StepInput) -> Any:
            raise ApplicationError(message, type=fault.value, non_retryable=True)

        self.script[step].append(fail)

    def steps(self, uid: str = "") -> list[str]:
        """The steps taken so far, as `name` or `name container`."""
        names = []
        for name, step in self.taken:
            if uid and step.ref.uid != uid:
                continue
            container = getattr(step, "container", "") or getattr(getattr(step, "target", None), "name", "")
            names.append(f"{name} {container}".strip())
        return names

    def end_at_once(self, *codes: int) -> None:
        """Let the next init containers end within their starts, with these codes."""

        def ended(code: int, step: StepInput) -> Outcome:
            assert isinstance(step, StartContainer)
            self.start(step, self.pods[step.ref.uid], step.container, step.restart)
            self.exits(step.ref.uid, step.container, code)
            return Outcome.DONE

        self.script["start_init_container"].extend(partial(ended, code) for code in codes)

    def change(self, uid: str, container: str, **update: Any) -> ObservedPod:
        """Change a container's newest instance and return the listing that shows it."""
        pod = self.pods[uid]
        newest = pod.newest(container)
        assert newest is not None, f"{container} is not there"
        changed = tuple(c.model_copy(update=update) if c.id == newest.id else c for c in pod.containers)
        return self.list(uid, containers=changed)

    def exits(self, uid: str, container: str, code: int, *, ago: float = 0.0) -> ObservedPod:
        """Let a container exit with `code`, `ago` seconds before the listing that is returned."""
        reason = "Completed" if code == 0 else "Error"
        finished = datetime.now(UTC) - timedelta(seconds=ago)
        return self.change(uid, container, state="exited", exit_code=code, reason=reason, finished_at=finished)

    def list(self, uid: str, **update: Any) -> ObservedPod:
        """A fresh listing of a pod, with `update` made to it."""
        self.counter += 1
        seq = Seq(boot=1, counter=self.counter)
        known = self.pods.get(uid, ObservedPod(uid=uid))
        pod = known.model_copy(update={"seq": seq, "observed_at": datetime.now(UTC), **update}).ordered()
        self.pods[uid] = pod
        return pod

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
            name=self.queue.removeprefix("node/"),
            runtime="scripted",
            recursive_read_only_handlers=self.recursive_read_only_handlers,
        )

    # --- the steps ---

    def activities(self) -> Sequence[Callable[..., Any]]:
        """The scripted steps, under the names and with the types of the table."""

        def scripted(name: StepName) -> Callable[..., Any]:
            async def step(argument: StepInput) -> StepResult:
                return await self._take(name, argument)

            step.__annotations__ = {"argument": STEPS[name].input, "return": StepResult}
            return activity.defn(name=name.value)(step)

        async def foresee(document: dict[str, Any], before: list[dict[str, Any]]) -> list[str]:
            if (gate := self.gate.get(FORESEE_ADMISSION)) is not None:
                await gate.wait()
            self.asked_beside.append(before)
            return [*self.foreseen]

        return [*(scripted(name) for name in STEPS), activity.defn(name=FORESEE_ADMISSION)(foresee)]

    async def _take(self, name: StepName, step: StepInput) -> StepResult:
        """Take a step. As on a node, a start that follows another step waits for it, and the last two end together."""
        if (pod := may_be_followed(step)) is None:
            return await self._take_in_turn(name, step)
        pair = self._pairs.of(step.ref, step.fence)
        end = pair.begin_first()
        try:
            result = await self._take_in_turn(name, step)
        except BaseException as error:
            end.set_result(Failed(str(error), is_tried_again=True))
            raise
        end.set_result(result)
        if is_kept_back(pair.second, pod, result):
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                async with asyncio.timeout(HELD_SECONDS):
                    await pair.second_is_over.wait()
        return result

    async def _take_in_turn(self, name: StepName, step: StepInput) -> StepResult:
        if not isinstance(step, StartContainer) or not step.follows:
            return await self._take_alone(name, step)
        pair = self._pairs.of(step.ref, step.follows)
        pair.second = step
        pair.second_is_over.clear()
        try:
            await pair.came.wait()  # the server sends the step before it first
            while pair.first is not None and not pair.first.done():  # a further attempt may take its place
                activity.heartbeat("waits for the step before it")
                await asyncio.wait({pair.first}, timeout=0.05)
            first = pair.first.result() if pair.first is not None else None
            if not isinstance(first, StepResult) or not is_as_expected(first, step):
                return StepResult(outcome=Outcome.NOT_BEGUN, node=self.facts)
            return await self._take_alone(name, step.model_copy(update={"sandbox_id": step.sandbox_id or first.id}))
        except asyncio.CancelledError:
            return StepResult(outcome=Outcome.CANCELLED, node=self.facts)
        finally:
            pair.second_is_over.set()

    async def _take_alone(self, name: StepName, step: StepInput) -> StepResult:
        self.taken.append((name.value, step))
        gate = self.gate.get(name.value)
        while gate is not None and not gate.is_set():
            try:
                activity.heartbeat(f"waits at the gate of {name.value}")
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                if name.value not in self.deaf:
                    kills = name.value.startswith("kill")
                    return self._result(step, Outcome.STOPPING if kills else Outcome.CANCELLED)
        if self.script[name.value]:
            outcome = self.script[name.value].pop(0)(step)
            if isinstance(outcome, StepResult):
                return outcome
            return self._result(step, outcome)
        return self._result(step, self._act(step))

    def _result(self, step: StepInput, outcome: Outcome, **more: Any) -> StepResult:
        if isinstance(step, CreateSandbox | PullImage):
            containers = (*step.pod.spec.init_containers, *step.pod.spec.containers)
            more["missing_images"] = tuple(c.name for c in containers if c.image in self.absent)
        if isinstance(step, CreateSandbox) and outcome in (Outcome.DONE, Outcome.ADOPTED):
            more["id"] = f"sandbox-{step.attempt}"
        if isinstance(step, AllocateResources):
            more["allocation"] = self.room.pop(0) if self.room else Allocation()
        if isinstance(step, StartContainer) and (made := self.pods[step.ref.uid].newest(step.container)) is not None:
            more["id"] = made.id
        if isinstance(step, KillPod) and outcome == Outcome.DONE:
            more["over"] = step.deleted
        attempt = activity.info().attempt
        return StepResult(status=self.list(step.ref.uid), outcome=outcome, node=self.facts, attempt=attempt, **more)

    def _act(self, step: StepInput) -> Outcome:
        uid = step.ref.uid
        pod = self.pods.get(uid, ObservedPod(uid=uid, name=step.ref.name, namespace=step.ref.namespace))
        self.pods[uid] = pod
        match step:
            case CreateSandbox(attempt=attempt):
                self.counter += 1
                sandbox = ObservedSandbox(
                    id=f"sandbox-{attempt}",
                    attempt=attempt,
                    state="SANDBOX_READY",
                    ip=f"10.0.0.{self.counter % 250 + 1}",
                    created_at=datetime.now(UTC),
                    incarnation=step.ref.incarnation,
                )
                self.list(uid, sandboxes=(sandbox, *pod.sandboxes))
            case PullImage(container=container):
                spec = step.pod.spec
                self.absent -= {c.image for c in (*spec.init_containers, *spec.containers) if c.name == container}
            case StartContainer(container=container, restart=restart):
                return self.start(step, pod, container, restart)
            case KillContainer(target=target):
                self._stop(uid, {target.id})
            case KillPod():
                self._stop(uid, {c.id for c in pod.containers})
                dead = tuple(s.model_copy(update={"state": "SANDBOX_NOTREADY"}) for s in pod.sandboxes)
                self.list(uid, sandboxes=dead)
            case RemoveContainers(ids=ids):
                self.list(uid, containers=tuple(c for c in pod.containers if c.id not in ids))
        return Outcome.DONE

    def start(self, step: StartContainer, pod: ObservedPod, container: str, restart: int) -> Outcome:
        """Let the container run, as its start does before the postStart hook."""
        spec = step.pod.spec
        every = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
        image = next(c.image for c in every if c.name == container)
        if image in self.absent:
            return Outcome.IMAGE_ABSENT
        now = datetime.now(UTC)
        started = ObservedContainer(
            id=f"{container}-{restart}-{uuid.uuid4().hex[:6]}",
            name=container,
            sandbox_id=step.sandbox_id,
            state="running",
            hash=container_hash(container, image),
            restart_count=restart,
            image=image,
            created_at=now,
            started_at=now,
            incarnation=step.ref.incarnation,
        )
        kept = tuple(c for c in pod.containers if c.id not in step.prune)
        self.list(step.ref.uid, containers=(started, *kept))
        return Outcome.DONE

    def _stop(self, uid: str, ids: set[str]) -> None:
        now = datetime.now(UTC)
        stopped = {"state": "exited", "exit_code": 137, "reason": "Error", "finished_at": now}
        pod = self.pods[uid]
        containers = tuple(
            c.model_copy(update=stopped) if c.id in ids and c.state != "exited" else c for c in pod.containers
        )
        self.list(uid, containers=containers)


async def under_way(handle: WorkflowHandle[Any, Any], step: str, number: int) -> None:
    """Wait until so many steps of this name are under way."""

    async def so_many() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        return [each.activity_type.name for each in pending].count(step) == number

    await until_asked(so_many)


async def until_next_waits(
    client: Client, node: ScriptedNode, document: dict[str, Any], step: str
) -> WorkflowHandle[Any, Any]:
    """Start a pod; let its first start go on once the next one, which waits for it, has begun. Returns its handle."""
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
            "workflow_runner": Sandbox(),
            "interceptors": [ResizeMetricsInterceptor()],
            # As in the node's worker: by the SDK's default, a step would hear of its cancellation up to 12 s late.
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
    """Wait until the pod's workflow, whose handle names no run, has left the run `first`; return its run by then."""
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
    """The pod as the workflow shows it."""
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
