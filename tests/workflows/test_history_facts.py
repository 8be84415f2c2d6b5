"""Records for programs in a pod's history: `explain` reads these, never the texts for people.

Holds: `explain` decides nothing by words.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncpod.journal.records import Fact, HistoryEntry
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.messages.signals import DeletePod
from syncpod.messages.steps import KillPod, RemoveContainers, StepResult
from syncpod.pod import admit_pod
from workflows.pod import absorb, desired, journaled, observing, outcome, report
from workflows.pod.decision import Hold, Step
from workflows.pod.state import Kill, PodState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"containers": [{"name": "operator", "image": "busybox:1"}]},
}
ENDED = ObservedContainer(
    id="1", name="operator", state="exited", restart_count=3, exit_code=137, reason="Error", started_at=NOW
)


@pytest.fixture
def state() -> PodState:
    pod = admit_pod({**MANIFEST, "metadata": {**MANIFEST["metadata"], "uid": "uid"}})
    return PodState(pod=pod.model_copy(update={"metadata": pod.metadata.model_copy(update={"generation": 9})}))


def newest(state: PodState) -> HistoryEntry:
    """The newest line, as it is in the journal."""
    return journaled.journal_records(state, (), (), NOW, since=None, is_gone=False).entries[-1]


def test_a_change_of_the_spec_is_told_from_one_of_labels(state: PodState) -> None:
    changed = {**MANIFEST, "spec": {"containers": [{"name": "operator", "image": "busybox:2"}]}}
    desired.apply(state, changed, NOW)
    assert (newest(state).fact, newest(state).reason.partition(":")[0]) == (Fact.SPEC_CHANGED, "generation 10")
    desired.apply(state, {**changed, "metadata": {**MANIFEST["metadata"], "labels": {"a": "b"}}}, NOW)
    assert newest(state).fact == ""


def test_a_deletion_has_its_grace_and_what_follows_the_pod(state: PodState) -> None:
    desired.delete(state, DeletePod(grace_period_seconds=30), NOW)
    assert (newest(state).fact, newest(state).seconds) == (Fact.DELETED, 30)
    desired.apply(state, MANIFEST, NOW)
    assert newest(state).fact == Fact.SUCCESSOR_APPLIED
    desired.delete(state, DeletePod(grace_period_seconds=2), NOW)
    lines = journaled.journal_records(state, (), (), NOW, since=None, is_gone=False).entries[-2:]
    assert [each.fact for each in lines] == [Fact.SUCCESSOR_DROPPED, Fact.GRACE_SHORTENED]
    assert lines[-1].seconds == 2


@pytest.mark.parametrize(("appeared", "fact"), [("", Fact.BACK_OFF_ENDED), ("Secret s", "")])
def test_who_ends_a_back_off_is_known_whatever_the_container_is_called(
    state: PodState, appeared: str, fact: str
) -> None:
    signal = "backoff_queue" if appeared else "backoff_expired"
    absorb.absorb(state, signal, ({"container": "operator", "appeared": appeared},), NOW)
    line = newest(state)
    assert (line.kind, line.container, line.fact, line.is_command) == ("signal", "operator", fact, not appeared)


def test_a_wait_has_its_reason_and_its_delay(state: PodState) -> None:
    delay = timedelta(seconds=10)
    report.note_holds(state, [Hold("operator", 1, NOW + delay, delay, "CrashLoopBackOff", "words")], NOW)
    assert (newest(state).fact, newest(state).seconds) == (Fact.CRASH_LOOP, 10)
    report.note_holds(state, [Hold("operator", 1, None, delay, "RestartLimitReached", "words")], NOW)
    assert (newest(state).fact, newest(state).seconds) == ("RestartLimitReached", None)


@pytest.mark.parametrize(("ran", "why"), [((), "deleted"), (("web", "log"), "deleted; preStop of web, log ran")])
def test_a_kill_tells_whose_hooks_have_run(state: PodState, ran: tuple[str, ...], why: str) -> None:
    step = Step(StepName.KILL_POD, KillPod(), "", "deleted", key="step/kill_pod")
    outcome.finished_step(state, step, StepResult(pre_stops=ran).model_dump(mode="json"), NOW, NOW)
    assert (newest(state).subject, newest(state).reason) == ("kill_pod", why)


def test_the_removal_that_restarts_all_containers_is_told_from_any_other(state: PodState) -> None:
    for resets, fact in ((True, Fact.RESTARTS_ALL), (False, "")):
        step = Step(StepName.REMOVE_CONTAINER, RemoveContainers(), "", "words", key="step/remove", resets=resets)
        outcome.finished_step(state, step, StepResult().model_dump(mode="json"), NOW, NOW)
        assert newest(state).fact == fact


def test_the_ends_of_what_a_restart_of_all_stops_are_told_once_and_as_other_ends_are(state: PodState) -> None:
    """No listing has them after the step. One that shows such an end may be on its way meanwhile."""
    words = "a restart rule asks for all containers to be restarted"
    asks = RemoveContainers(ids=("1",), kill=("1",), message=words)
    step = Step(StepName.REMOVE_CONTAINER, asks, "", words, key="step/remove", resets=True)
    state.killed = {"1": Kill(why=words, cause="rule")}
    result = StepResult(stopped=(Exit(id="1", name="operator", restart=3, exit_code=137, reason="Error"),))
    outcome.finished_step(state, step, result.model_dump(mode="json"), NOW, NOW)
    line = newest(state)
    assert (line.kind, line.subject, line.restart, line.outcome) == ("exit", "operator", 3, "exited 137 (Error)")
    assert (line.reason, line.fact) == (f"{words}; killed after its grace period", "rule")
    assert [*state.exits] == [], "nothing follows from it"
    observing.observe(state, ObservedPod(uid="uid", containers=(ENDED,)), NOW)
    outcome.finished_step(state, step, result.model_dump(mode="json"), NOW, NOW)
    assert [exit_.id for exit_ in state.exits] == ["1"], "the late listing counts as before"
    assert [each.kind for each in state.history] == ["step", "exit", "step"], "a listing tells it, or a step, not both"


def test_an_end_that_a_step_has_told_is_not_told_again_by_the_listing_of_the_next_one(state: PodState) -> None:
    step = Step(StepName.REMOVE_CONTAINER, RemoveContainers(), "", "words", key="step/remove", resets=True)
    stopped = (Exit(id="1", name="operator", restart=3, exit_code=137, reason="Error"),)
    listed = ObservedPod(uid="uid", containers=(ENDED,))
    for result in (StepResult(stopped=stopped), StepResult(status=listed)):
        outcome.finished_step(state, step, result.model_dump(mode="json"), NOW, NOW)
    assert [exit_.id for exit_ in state.exits] == ["1"]
    assert [each.kind for each in state.history] == ["step", "exit", "step"]


def test_the_events_of_one_task_have_the_order_of_their_times(state: PodState) -> None:
    said = ("Started", "Pulled", "Created", "Started", "BackOff")
    for reason in said:
        state.event(NOW, "Normal", reason, reason, "operator")
    kept = journaled.journal_records(state, (), (), NOW, since=None, is_gone=False).events
    in_order = sorted(kept, key=lambda each: each.last)
    assert [each.reason for each in in_order] == ["Pulled", "Created", "Started", "BackOff"]
    assert len({each.last for each in kept}) == len(kept)
    state.event(NOW + timedelta(seconds=1), "Normal", "Killing", "Killing")
    assert state.events[-1].last == NOW + timedelta(seconds=1)
