"""`Killing` is recorded when a kill begins; a defect in a step is recorded, backs off, and delays no deletion.

Holds: The run of a deleted pod ends once nothing of the pod runs, and the node removes the rest.
Holds: An unforeseen error in a step is reported, backs off, and delays no deletion.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox, Seq
from syncpod.messages.identity import EndedLife
from syncpod.messages.signals import DeletePod
from syncpod.messages.steps import Fault, KillPod, StepEvent, StepResult
from syncpod.pod import ExecAction, Lifecycle, LifecycleHandler, admit_pod, container_hash, pod_to_wire
from workflows.pod import decide, desired, observing, outcome, report
from workflows.pod.decision import Step
from workflows.pod.published import PublishedPod
from workflows.pod.repetition import AT_ONCE
from workflows.pod.state import PodState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
HOOKED = Lifecycle(pre_stop=LifecycleHandler(exec=ExecAction(command=("true",))))
PROBE = {"exec": {"command": ["false"]}}


def a_pod(**states: str) -> PodState:
    """A pod with a container for each name, in this state in the runtime. Without names, it has no sandbox."""
    names = tuple(states) or ("web",)
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid"},
        "spec": {"containers": [{"name": name, "image": "x:1", "livenessProbe": PROBE} for name in names]},
    }
    state = PodState(pod=admit_pod(document), incarnation="life")
    if states:
        observing.observe(state, listing(1, **states), NOW)
    report.update_status(state, (), NOW)
    return state


def listing(counter: int, **states: Any) -> ObservedPod:
    sandbox = ObservedSandbox(id="s0", state="SANDBOX_READY", ip="10.0.0.1", incarnation="life")
    containers = tuple(
        ObservedContainer(
            id=f"{name}-0", name=name, sandbox_id="s0", state=state, hash=container_hash(name, "x:1"),
            started_at=None if state == "created" else NOW, created_at=NOW, incarnation="life",
        )
        for name, state in states.items()
    )  # fmt: skip
    seq = Seq(boot=1, counter=counter)
    return ObservedPod(seq=seq, uid="uid", observed_at=NOW, sandboxes=(sandbox,), containers=containers)


def begun(state: PodState, now: datetime) -> Step:
    step = decide.next_step(state, now).step
    assert step is not None
    decide.record_step(state, step, now)
    return step


def killing(state: PodState) -> list[tuple[str, str, int, datetime | None]]:
    """The events of kills, each with its time to the second: those of one moment differ by microseconds."""
    told = [each for each in state.events if each.reason == "Killing"]
    return [(e.container, e.message, e.count, e.last and e.last.replace(microsecond=0)) for e in told]


def told_by_the_step(*names: str) -> tuple[StepEvent, ...]:
    return tuple(StepEvent(reason="Killing", message=f"Stopping container {name}", container=name) for name in names)


def test_a_killing_event_is_recorded_once_for_each_running_container_when_its_kill_begins() -> None:
    """Row 77: the event, then preStop and the grace."""
    state = a_pod(web="running", side="created")
    desired.delete(state, DeletePod(), NOW)
    step = begun(state, NOW)
    assert step.name == StepName.KILL_POD
    assert killing(state) == [("web", "Stopping container web", 1, NOW)], "the one that does not run is not ended yet"
    result = StepResult(status=listing(2, web="running", side="created"), events=told_by_the_step("web", "side"))
    outcome.finished_step(state, step, result.model_dump(mode="json"), NOW, LATER)
    assert killing(state) == [
        ("web", "Stopping container web", 1, NOW),
        ("side", "Stopping container side", 1, LATER),
    ], "and what the step has found is told by it"
    again = begun(state, LATER)
    assert killing(state)[-1] == ("web", "Stopping container web", 2, LATER), "as each kill of the kubelet's"
    payload = StepResult(events=told_by_the_step("web")).model_dump(mode="json")
    outcome.failed_step(state, again, "ExceededGracePeriod", "too long", payload, LATER, LATER + timedelta(seconds=9))
    assert killing(state)[-1] == ("web", "Stopping container web", 2, LATER)


def test_the_killing_event_says_why_one_container_is_killed() -> None:
    state = a_pod(web="running", side="running")
    state.probes = {"liveness": {"web-0": "failure"}}
    step = begun(state, NOW)
    assert (step.name, step.container) == (StepName.KILL_CONTAINER, "web")
    assert killing(state) == [("web", step.why, 1, NOW)]


def test_a_defect_in_a_step_is_an_event_backs_off_and_does_not_delay_a_deletion() -> None:
    state = a_pod()
    step = begun(state, NOW)
    assert step.name == StepName.CREATE_SANDBOX
    message = "ValueError: Value out of range: 10000000000000000000000"
    outcome.failed_step(state, step, Fault.INTERNAL_ERROR.value, message, None, NOW, NOW)
    assert [(e.type, e.reason, e.message) for e in state.events][-1] == ("Warning", "InternalError", message)
    held = decide.next_step(state, NOW)
    assert held.step is None
    assert [(hold.subject, hold.reason, hold.until) for hold in held.holds] == [
        ("create_sandbox", "InternalError", NOW + timedelta(seconds=10))
    ]
    report.update_status(state, held.holds, NOW)
    waiting = state.status.container_statuses[0].state.waiting
    assert waiting is not None
    assert (waiting.reason, waiting.message) == ("ContainerCreating", f"InternalError: {message}")
    desired.delete(state, DeletePod(), NOW)
    assert begun(state, NOW).name == StepName.KILL_POD


@pytest.mark.parametrize(("ending", "grace"), [(False, 0), (True, 1)])
def test_a_grace_of_zero_becomes_one_second_only_if_the_pod_ends(ending: bool, grace: int) -> None:
    state = a_pod(web="running")
    spec = state.pod.spec.model_copy(update={"termination_grace_period_seconds": 0})
    state.pod = state.pod.model_copy(update={"spec": spec})
    if ending:
        desired.delete(state, DeletePod(), NOW)
    else:
        lost = listing(2, web="running")
        sandbox = lost.sandboxes[0].model_copy(update={"state": "SANDBOX_NOTREADY"})
        observing.observe(state, lost.model_copy(update={"sandboxes": (sandbox,)}), NOW)
    step = begun(state, NOW)
    assert isinstance(step.input, KillPod)
    assert (step.input.grace_seconds, step.input.targets[0].grace_seconds) == (grace, grace)
    assert state.kill_by == NOW + timedelta(seconds=grace)


def test_a_kill_request_names_the_hook_unless_the_grace_excludes_it() -> None:
    """Row 78: so the step can report a hook that had no time, except if the request asked for that."""

    def kill(grace: int, *later: datetime) -> KillPod:
        state = a_pod(web="running")
        hooked = state.pod.spec.containers[0].model_copy(update={"lifecycle": HOOKED})
        spec = state.pod.spec.model_copy(
            update={"termination_grace_period_seconds": grace, "containers": (hooked,), "restart_policy": "Never"}
        )
        state.pod = state.pod.model_copy(update={"spec": spec})
        lost = listing(2, web="running")
        sandbox = lost.sandboxes[0].model_copy(update={"state": "SANDBOX_NOTREADY"})
        observing.observe(state, lost.model_copy(update={"sandboxes": (sandbox,)}), NOW)
        for now in (NOW, *later):
            step = begun(state, now).input
        assert isinstance(step, KillPod)
        return step

    assert kill(0).targets[0].pre_stop is None
    assert kill(4).targets[0].pre_stop == HOOKED.pre_stop
    again = kill(4, LATER).targets[0]
    assert (again.grace_seconds, again.pre_stop) == (0, HOOKED.pre_stop)


@pytest.mark.parametrize("end", ["deleted", "killed with a shorter grace"])
def test_a_defect_in_a_kill_does_not_delay_the_pods_end(end: str) -> None:
    state = a_pod(web="running")
    if end == "deleted":
        state.replacing = {"web-0": True}
    else:
        desired.delete(state, DeletePod(), NOW)
        state.ends_sooner = False
    step = begun(state, NOW)
    outcome.failed_step(state, step, Fault.FAILED_KILL_POD.value, "OverflowError: too large", None, NOW, NOW)
    assert [hold.reason for hold in decide.next_step(state, NOW).holds] == ["FailedKillPod"]
    desired.delete(state, DeletePod(grace_period_seconds=None if end == "deleted" else 1), NOW)
    if state.ends_sooner:
        state.forget_stuck_kills()  # as the loop does
    assert begun(state, NOW).name == StepName.KILL_POD


def test_a_removal_is_told_which_sandboxes_a_kill_has_stopped() -> None:
    """It stops the other sandboxes: one may have kept its network."""
    state = a_pod(web="exited")
    desired.delete(state, DeletePod(), NOW)
    kill = begun(state, NOW)
    stopped = listing(2, web="exited")
    dead = stopped.sandboxes[0].model_copy(update={"state": "SANDBOX_NOTREADY"})
    answer = StepResult(status=stopped.model_copy(update={"sandboxes": (dead,)}))
    outcome.finished_step(state, kill, answer.model_dump(mode="json", by_alias=True), NOW, LATER)
    again = begun(state, LATER)
    assert isinstance(again.input, KillPod)
    assert (again.input.targets, again.input.stopped) == ((), ("s0",))


# --- the end of a life ------------------------------------------------------------------------------------------------


def killed(state: PodState, *, over: bool = True) -> PodState:
    """The state after the kill of a deleted pod, whose node counts its life as over or not."""
    step = begun(state, NOW)
    assert isinstance(step.input, KillPod)
    stopped = ObservedSandbox(id="s0", state="SANDBOX_NOTREADY", incarnation="life")
    status = listing(2, web="exited").model_copy(update={"sandboxes": (stopped,)})
    result = StepResult(status=status, over=over)
    outcome.finished_step(state, step, result.model_dump(mode="json"), NOW, LATER)
    return state


def test_a_run_ends_after_the_kill_and_the_node_removes_what_is_left() -> None:
    state = a_pod(web="running")
    desired.delete(state, DeletePod(), NOW)
    state = killed(state)
    assert (state.removed, decide.next_step(state, LATER).step) == (True, None)
    assert PublishedPod(state, LATER).ended_life is None
    assert PublishedPod(state, LATER, is_gone=True).ended_life == EndedLife(state.ref, ("s0",), state.observed)


def test_a_kill_that_was_not_told_of_the_deletion_is_followed_by_one_that_is() -> None:
    """The pod was deleted while it was killed for another reason, or the worker is of an older version."""
    state = a_pod(web="running")
    desired.delete(state, DeletePod(), NOW)
    state = killed(state, over=False)
    step = begun(state, LATER)
    assert isinstance(step.input, KillPod)
    assert (state.removed, step.input.deleted, step.input.targets) == (False, True, ())


def test_a_run_ends_after_the_kill_too_if_another_pod_was_applied_in_its_place() -> None:
    state = a_pod(web="running")
    desired.delete(state, DeletePod(), NOW)
    heir = pod_to_wire(state.pod) | {"metadata": {"name": "web", "namespace": "default", "uid": "another"}}
    desired.apply(state, heir, NOW)
    state = killed(state)
    assert (state.removed, state.successor is not None) == (True, True)


def test_a_step_that_is_done_again_and_again_without_a_change_waits() -> None:
    """As tried: the node counted a kill as done that the workflow still wanted, 40 times a second."""
    state = a_pod(web="running")
    desired.delete(state, DeletePod(), NOW)
    done = 0
    while (step := decide.next_step(state, NOW).step) is not None and done < 20:
        decide.record_step(state, step, NOW)
        outcome.finished_step(state, step, StepResult().model_dump(mode="json"), NOW, NOW)
        done += 1
    assert done == AT_ONCE + 2
    [held] = decide.next_step(state, NOW).holds
    assert (held.subject, held.reason, held.delay) == ("kill_pod", "NoEffect", timedelta(seconds=10))
    event = state.events[-1]
    assert (event.reason, event.type) == ("FailedKillPod", "Warning") and "nothing has changed" in event.message

    step = begun(state, NOW + timedelta(seconds=11))
    outcome.finished_step(state, step, StepResult().model_dump(mode="json"), NOW, NOW + timedelta(seconds=12))
    [held] = decide.next_step(state, NOW + timedelta(seconds=12)).holds
    assert held.delay == timedelta(seconds=20)

    step = begun(state, NOW + timedelta(seconds=40))
    changed = StepResult(status=listing(2, web="exited"))
    outcome.finished_step(state, step, changed.model_dump(mode="json"), NOW, NOW + timedelta(seconds=41))
    assert not state.backoff.entries, "a change ends it"
