"""One node: a worker that runs the real steps (`activities`) over a scripted runtime, and a model of its agent.

Failures between an attempt and the server are scripted: a late or lost result, a stalled attempt, a killed worker. The
files of a killed worker stay as they are at that moment, in memory, and the next worker finds them. The agent's PLEG
and back-off queue are models (of `syncpod.agent.pleg`).
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

import activities
from activities.between.collection import Collector
from activities.node.agent_port import AgentPort, PlegPort
from activities.node.pod_record import note_pod
from activities.registry import step_activity
from syncpod.cri.errors import CriError
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedPod, Seq
from syncpod.messages.identity import EndedLife, NodeFacts, PodRef
from syncpod.messages.step_table import STEPS
from syncpod.messages.steps import Fault
from syncpod.node.reader import PodReader
from syncpod.pod import admit_pod
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.translation.context import NodeContext
from tests.activities.recording_agent import RecordingAgent
from tests.simulator.clock import Clock, Due, moment
from tests.simulator.cri import Caller, Ill, ScriptedCri
from tests.simulator.loop import OWNER, Inline, VirtualLoop
from tests.simulator.runtime import Runtime
from tests.simulator.server import Activity, Server, payload
from tests.simulator.violation import Violation

STEP_PATIENCE = 2.0
EXIT_SEEN, RELIST = 0.05, 1.0
LEFT_SECONDS = 0.05
FACTS = {"name": "node-1", "runtime": "simulated", "hostIps": ["192.0.2.1"], "searchAttributes": True}
CAPACITY = {"cpu": 64_000, "memory": 1 << 36, "pods": 110}
IN_MEMORY = Path("/dev/shm")
_CONVERTER = DATA_CONVERTER.payload_converter
_GREEDY = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "greedy", "namespace": "default", "uid": "greedy"},
    "spec": {"containers": [{"name": "a", "image": "busybox:1", "resources": {"requests": {"cpu": "63999m"}}}]},
}
"""A pod that uses all resources of the node."""


@dataclasses.dataclass(eq=False)
class Try(Caller):
    """One attempt of a step."""

    activity: Activity = dataclasses.field(kw_only=True)
    number: int = dataclasses.field(kw_only=True)
    environment: ActivityEnvironment = dataclasses.field(default_factory=ActivityEnvironment)

    @property
    def uid(self) -> str:
        """The UID of its pod."""
        return str(self.activity.argument["ref"]["uid"])

    @property
    def lane(self) -> bool:
        """Whether it runs concurrently with the pod's other steps, as a pull does."""
        return self.name == StepName.PULL_IMAGE.value

    def let_go(self, **why: bool) -> None:
        """Let it receive a cancellation with its next heartbeat."""
        self.environment.cancel(ActivityCancellationDetails(**(why or {"cancel_requested": True})))


class _Pleg(PlegPort):
    """The PLEG of one worker: it passes the steps' results and their starts to the node."""

    def __init__(self, returned: Callable[[ObservedPod], None], acts: Callable[[str], None]) -> None:
        self._returned, self._acts = returned, acts

    def step_began(self, uid: str) -> None:
        pass

    def step_acts(self, uid: str) -> None:
        self._acts(uid)

    def returned(self, listing: ObservedPod) -> None:
        self._returned(listing)

    def step_ended(self, uid: str) -> None:
        pass


class _Agent(RecordingAgent):
    """The agent of one worker."""

    def __init__(self, pleg: PlegPort) -> None:
        super().__init__()
        self._pleg = pleg

    @property
    def pleg(self) -> PlegPort:
        return self._pleg

    def facts(self) -> NodeFacts:
        return _facts()


def real_node(cri: ScriptedCri, directory: Path, agent: AgentPort, *, name: str, boot: int = 1) -> activities.Node:
    """Return the node object of the steps, over a scripted runtime, with its files in this directory."""
    clock, runtime = cri.clock, cri.runtime
    reader = PodReader(cri, boot=boot, owner=name, now=lambda: moment(clock.now + runtime.ahead), threads=Inline())
    context = NodeContext(
        name=name,
        state_dir=directory / "state",
        memory_dir=directory / "memory",
        log_dir=directory / "logs",
        cluster="simulated/default",
        capacity=CAPACITY,
        pod_cgroups=False,
    )
    return activities.Node(cri, reader, context, agent)


class Worker:
    """One worker of the node: the steps, with all their data in memory."""

    def __init__(self, cri: ScriptedCri, directory: Path, boot: int, agent: AgentPort) -> None:
        self.loop = VirtualLoop(cri.clock)  # type: ignore[abstract]  # what no step needs is left out
        self.tries: list[Try] = []
        with self.loop.running():
            self.node = real_node(cri, directory, agent, name="node-1", boot=boot)
            self.reader = self.node.reader
            self.collector = Collector(self.node)
        self.steps = {name: step_activity(self.node, name) for name in StepName}

    def begin(self, attempt: Try, ended: Callable[[Try, Any], None]) -> None:
        """Begin an attempt; `ended` is called with its result or error."""
        step = self.steps[StepName(attempt.name)]
        request = STEPS[StepName(attempt.name)].input.model_validate(attempt.activity.argument)
        self.tries.append(attempt)
        context = copy_context()
        context.run(OWNER.set, attempt)
        task = self.loop.create_task(attempt.environment.run(step, request), context=context)

        def over(_: Any) -> None:
            self.tries.remove(attempt)
            if task.cancelled():
                ended(attempt, None)
            else:
                ended(attempt, task.exception() or task.result())

        task.add_done_callback(over)

    def acts_in(self, uid: str) -> bool:
        """Return whether a step that holds the pod's turn is acting."""
        return any(
            each.ref.uid == uid and each.name != StepName.PULL_IMAGE.value and each.acts.is_set()  # type: ignore[attr-defined]
            for each in self.node.running
        )


class Node:
    """The node. Its faults are in the queues `ills`, `signals` and `expirations`."""

    def __init__(self, clock: Clock, runtime: Runtime) -> None:
        self.clock, self.runtime = clock, runtime
        self.server: Server
        self.cri = ScriptedCri(runtime, clock)
        self.ills: list[Ill] = []
        """The faults of the next attempts, of any step."""
        self.signals: list[Ill] = []
        """The faults of the next signals of the PLEG."""
        self.expirations: list[Ill] = []
        """The faults of the next signals of the back-off queue."""
        self.no_room = 0
        """How many of the next resizes the node refuses for lack of resources."""
        self.suffered: Callable[[Ill], None] = lambda _: None
        self.up = True
        self._boot = 1
        self._directory, self._removal = directory_of(self)
        self._dead: list[Worker] = []
        self._worker = self._new_worker()
        self._pods: dict[str, _Pod] = {}
        self._armed: dict[str, Due] = {}
        self._refused: set[str] = set()
        """The UIDs of pods whose sandbox was refused because the network was not ready."""
        self._left: list[EndedLife] = []
        """The lives of pods whose remains the node must remove."""

    def close(self) -> None:
        """End all tasks of its workers, and remove their files."""
        for worker in (*self._dead, self._worker):
            worker.loop.discard()
        self._removal()

    def _new_worker(self) -> Worker:
        agent = _Agent(_Pleg(self._returned, self._acts))
        return Worker(self.cri, self._directory, self._boot, agent)

    # --- tries --------------------------------------------------------------------------------------------------------

    def start_try(self, activity: Activity) -> None:
        """Begin an attempt if there is a worker; without one, the server gets no answer."""
        if not self.up:
            self.server.silent(activity, activity.attempt)
            return
        attempt = Try(activity.name, str(activity.argument.get("kind", "")), activity=activity, number=activity.attempt)
        first, now = moment(activity.scheduled), moment(self.clock.now)
        attempt.environment.info = dataclasses.replace(
            attempt.environment.info,
            activity_type=activity.name,
            attempt=activity.attempt,
            scheduled_time=first,
            current_attempt_scheduled_time=now,
            started_time=now,
        )
        attempt.stalls = partial(self._stall, attempt)
        if self.ills and activity.attempt == 1:
            attempt.ill = self.ills.pop(0)
            self.suffered(attempt.ill)
            if attempt.ill.kind == "by_hand":
                self.clock.after(attempt.ill.seconds, lambda: self._finish_by_hand(attempt))
        if activity.name == StepName.ALLOCATE_RESOURCES.value:
            self._fill(full=self.no_room > 0)
            self.no_room = max(0, self.no_room - 1)
        if not attempt.lane:
            self._acts(attempt.uid)
        self._worker.begin(attempt, self._ended)

    def _stall(self, attempt: Try, seconds: float) -> None:
        self._worker.loop.stall(attempt, seconds)
        self.server.silent(attempt.activity, attempt.number)

    def _finish_by_hand(self, attempt: Try) -> None:
        """Complete the activity as an operator does; its attempt learns that with its next heartbeat."""
        if self.server.completed(attempt.activity, attempt.number, payload("by hand")):
            self.clock.after(1.0, lambda: attempt.let_go(not_found=True))

    def cancel_try(self, activity: Activity) -> None:
        """Cancel an attempt, which learns that with its next heartbeat."""
        found = (a for a in self._worker.tries if a.activity is activity and a.number == activity.attempt)
        if self.up and (attempt := next(found, None)) is not None:
            self.clock.after(1.0 - (self.clock.now - activity.scheduled) % 1.0, attempt.let_go)

    def _ended(self, attempt: Try, outcome: Any) -> None:
        activity, number, server = attempt.activity, attempt.number, self.server
        match outcome:
            case None:
                report: Callable[[], Any] = partial(server.cancelled, activity, number)
            case ApplicationError():
                kind, detail = str(outcome.type), _on_the_wire(*outcome.details)
                if kind == Fault.INTERNAL_ERROR.value:
                    raise Violation(f"the step {activity.name} has a defect: {outcome.message}")
                if kind == Fault.NETWORK_NOT_READY.value:
                    self._refused.add(attempt.uid)
                report = partial(
                    server.failed, activity, number, kind, outcome.message, detail, retryable=not outcome.non_retryable
                )
            case BaseException():
                raise outcome
            case _:
                report = partial(server.completed, activity, number, _CONVERTER.to_payload(outcome))
        self._report(attempt, report)
        if not attempt.lane:
            self.clock.after(0.0, lambda: self._settle(attempt.uid))

    def _report(self, attempt: Try, report: Callable[[], Any]) -> None:
        ill = attempt.ill
        if ill is not None and ill.kind == "lost":
            self.server.silent(attempt.activity, attempt.number)
            return
        boot = self._boot
        seconds = ill.seconds if ill is not None and ill.kind == "late" else 0.001
        self.clock.after(seconds, lambda: report() if self._boot == boot and self.up else None)

    def _fill(self, *, full: bool) -> None:
        """Let another pod use all resources of the node, or none."""
        greedy = admit_pod(_GREEDY)
        ref = PodRef(namespace="default", name="greedy", uid="greedy", incarnation="greedy")

        async def fill() -> None:
            async with self._worker.node.ledger.open() as page:
                if full:
                    note_pod(self._worker.node.context, ref, greedy)
                    page.enter(ref, greedy)
                else:
                    page.strike(ref)

        self._worker.loop.create_task(fill())

    # --- what workflows leave -----------------------------------------------------------------------------------------

    def leave(self, life: EndedLife) -> None:
        """Let the node remove the remains of a pod whose workflow has ended, at once or when there is a worker."""
        self._left.append(life)
        self.clock.after(LEFT_SECONDS, self._remove_left)

    def _remove_left(self) -> None:
        if self.up and self._left:
            self._worker.loop.create_task(self._collect(self._left[0]))

    async def _collect(self, life: EndedLife) -> None:
        async def is_gone(_ref: PodRef, _in_runtime: bool) -> bool:
            return self.server.run is None

        try:
            is_done = await self._worker.collector.remove(life, is_gone)
        except (CriError, OSError):
            is_done = False
        if is_done and life in self._left:
            self._left.remove(life)
        self.clock.after(LEFT_SECONDS, self._remove_left)

    # --- deaths -------------------------------------------------------------------------------------------------------

    def kill_worker(self, seconds: float) -> None:
        """Kill the worker with all its tasks; another one starts after a while."""
        self.up = False
        self.server.worker_stopped()
        self._worker.loop.die()
        self._dead.append(self._worker)
        self.cri.abandon()
        for attempt in self._worker.tries:
            self.server.silent(attempt.activity, attempt.number)
        for due in self._armed.values():
            due.cancel()
        self._armed.clear()
        self._refused.clear()
        self._pods = {uid: _Pod() for uid in self._pods}
        self._boot += 1
        boot = self._boot
        self.clock.after(seconds, lambda: self._begin_worker(boot))

    def _begin_worker(self, boot: int) -> None:
        if boot != self._boot:
            return
        self.up = True
        self._worker = self._new_worker()
        for activity in self.server.activities:
            self.server.fail_elder(activity)
        self.server.worker_started()
        self.clock.after(LEFT_SECONDS, self._remove_left)
        for uid, pod in self._pods.items():
            pod.owed.append({"type": "Boot", "id": uid})
            if self.runtime.up and self.runtime.network:
                pod.owed.append({"type": "RuntimeReady", "id": uid})
            self._look(uid)

    # --- the agent: readiness -----------------------------------------------------------------------------------------

    def network_ready(self) -> None:
        """Notify the refused pods that the network is ready, as the agent's check each second does."""
        refused, self._refused = self._refused, set()
        for uid in sorted(refused):
            self._pod(uid).owed.append({"type": "RuntimeReady", "id": uid})
            self.clock.after(RELIST, partial(self._look, uid))

    # --- the agent: PLEG ----------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Schedule a listing shortly after a change in the runtime, as by a pidfd or the next relist."""
        sandboxes, containers = self.runtime.sandboxes.values(), self.runtime.containers.values()
        for uid in (*(each.uid for each in sandboxes), *(each.uid for each in containers)):
            self._pod(uid)
        for uid, pod in self._pods.items():
            if pod.look is None:
                # An exit is seen at once by its pidfd, all else by a relist.
                delay = EXIT_SEEN if self._worker.reader.newest_begun.counter % 4 else RELIST
                pod.look = self.clock.after(delay, partial(self._look, uid))

    def _look(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod.look is not None:
            pod.look.cancel()
        pod.look = None
        if not self.up:
            return
        if not self.runtime.up:
            pod.look = self.clock.after(RELIST, partial(self._look, uid))
            return
        self._worker.loop.create_task(self._relist(uid))

    async def _relist(self, uid: str) -> None:
        try:
            listing = await self._worker.reader.read(uid)
        except CriError:
            pod = self._pod(uid)
            if pod.look is None:
                pod.look = self.clock.after(RELIST, partial(self._look, uid))
            return
        pod = self._pod(uid)
        pod.newest = _newer(pod.newest, listing)
        self._settle(uid)

    def _acts(self, uid: str) -> None:
        """Record that a step acts in a pod; until it ends, it reports the pod's state to the workflow."""
        self._pod(uid).step_began = self.clock.now

    def _returned(self, listing: ObservedPod) -> None:
        pod = self._pod(listing.uid)
        pod.newest, pod.known = _newer(pod.newest, listing), _newer(pod.known, listing)

    def _settle(self, uid: str) -> None:
        """Send the pod's changes to the workflow by a signal, unless a step will report them or a signal is pending."""
        pod = self._pod(uid)
        if not self.up or pod.flying or pod.newest is None:
            return
        busy = self._worker.acts_in(uid) and self.clock.now - pod.step_began < STEP_PATIENCE
        if busy and not pod.owed:
            if pod.look is None:
                pod.look = self.clock.after(STEP_PATIENCE, partial(self._look, uid))
            return
        if pod.owed or _worth_telling(pod.known, pod.newest):
            self._deliver(uid, pod, pod.newest)

    def _deliver(self, uid: str, pod: _Pod, listing: ObservedPod) -> None:
        owed = pod.owed
        signal = {
            "events": owed or [{"type": "PodSync", "id": uid}],
            "status": _on_the_wire(listing),
            "node": FACTS,
        }
        ill = self.signals.pop(0) if self.signals else Ill("")
        if ill.kind:
            self.suffered(ill)
        pod.flying = True

        def arrives() -> None:
            self.server.signal("pleg", signal)

        def taken() -> None:
            pod.flying = False
            if self._pods.get(uid) is not pod:
                return
            if ill.kind != "lost":
                pod.owed = pod.owed[len(owed) :]
                pod.known = _newer(pod.known, listing)
            self._settle(uid)

        if ill.kind != "lost":
            self.clock.after(ill.seconds, arrives)
        if ill.kind == "doubled":
            self.clock.after(ill.seconds + 3.0, arrives)
        # A late signal is assumed to have arrived, so the next signal overtakes it.
        self.clock.after(5.0 if ill.kind == "lost" else 0.005, taken)

    def _pod(self, uid: str) -> _Pod:
        return self._pods.setdefault(uid, _Pod())

    # --- the agent: back-off queue ------------------------------------------------------------------------------------

    def arm(self, subject: str, restart: int, delay: float | None) -> None:
        """Signal the end of a back-off at that time; None cancels the signal."""
        if (due := self._armed.pop(subject, None)) is not None:
            due.cancel()
        if delay is None or not self.up:
            return

        def expire() -> None:
            self._armed.pop(subject, None)
            ill = self.expirations.pop(0) if self.expirations else Ill("")
            if ill.kind:
                self.suffered(ill)
            for _ in range({"lost": 0, "doubled": 2}.get(ill.kind, 1)):
                self.server.signal("backoff_queue", {"container": subject, "restart": restart})

        self._armed[subject] = self.clock.after(delay, expire)


class _Pod:
    """The agent's data about one pod."""

    def __init__(self) -> None:
        self.newest: ObservedPod | None = None
        self.known: ObservedPod | None = None
        self.owed: list[dict[str, str]] = []
        self.flying = False
        self.look: Due | None = None
        self.step_began = 0.0


def directory_of(node: object) -> tuple[Path, Callable[[], object]]:
    """Make a directory in memory for a node's files; return it and its finalizer, which also runs at the node's end."""
    directory = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None, prefix="simulated-"))
    return directory, weakref.finalize(node, shutil.rmtree, directory, ignore_errors=True)


def _facts() -> NodeFacts:
    return NodeFacts.model_validate(FACTS)


def _on_the_wire(*values: Any) -> Any:
    """Return the first value after a conversion to JSON and back; None if there is none."""
    return json.loads(_CONVERTER.to_payload(values[0]).data) if values else None


def _seq(listing: ObservedPod | None) -> Seq:
    return listing.seq if listing is not None else Seq(boot=0)


def _newer(one: ObservedPod | None, other: ObservedPod) -> ObservedPod:
    return other if one is None or _seq(one) < _seq(other) else one


def _worth_telling(known: ObservedPod | None, newest: ObservedPod) -> bool:
    """Return whether a listing has news, other than created instances and removed spent ones."""
    if not _seq(known) < _seq(newest):
        return False
    before, after = _seen(known), _seen(newest)
    spent = _spent(known)
    return any(
        after.get(id_) != state and not (id_ in spent and id_ not in after) for id_, state in before.items()
    ) or any(id_ not in before and state != "created" for id_, state in after.items())


def _seen(listing: ObservedPod | None) -> Mapping[str, str]:
    if listing is None:
        return {}
    sandboxes = {each.id: str(each.state) for each in listing.sandboxes}
    return sandboxes | {each.id: str(each.state) for each in listing.containers}


def _spent(listing: ObservedPod | None) -> set[str]:
    """Return the ended items of a listing that are not the newest of their kind."""
    if listing is None:
        return set()
    newest = {container.name: container.id for container in reversed(listing.containers)}
    dead = (each for each in listing.containers if each.state == "exited")
    return {each.id for each in dead if newest[each.name] != each.id} | {
        each.id for each in listing.sandboxes[1:] if not each.ready
    }
