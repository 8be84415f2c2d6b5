"""A pod's records about ends of containers for its node's journal.

Holds: `explain` decides nothing by words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from syncpod.journal.causes import End, ends_of
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.lifecycle.status import PodFailure
from syncpod.messages.signals import DeletePod, Evict
from syncpod.messages.steps import Fault, StepResult
from tests.workflows.test_facts import NOW, SANDBOX, a_pod, exited, listing, running, seen
from workflows.pod import absorb, decide, desired, observing, outcome, verdicts
from workflows.pod.decision import Step
from workflows.pod.journaled import journal_records
from workflows.pod.state import PodState

GRACE = timedelta(seconds=30)


def begun(state: PodState) -> Step:
    step = decide.next_step(state, NOW).step
    assert step is not None
    decide.record_step(state, step, NOW)
    return step


def ends(state: PodState) -> list[End]:
    """The ends of the container `app` in the journal."""
    said = journal_records(state, (), (), NOW, since=None, is_gone=False)
    return ends_of(said.instances, said.entries, ())["app"]


def causes(state: PodState) -> dict[int, str]:
    """The words for each end of container `app`, by number of its instance."""
    return {end.instance.restart: end.cause.words for end in ends(state)}


def changed(image: str) -> dict[str, Any]:
    document = a_pod("Always", "app").model_dump(mode="json", by_alias=True, exclude_none=True)
    document["spec"]["containers"][0]["image"] = image
    return document


def ask_for_restart(state: PodState) -> None:
    absorb.absorb(state, "restart", ({"container": "app"},), NOW)


def lose_sandbox(state: PodState) -> None:
    observing.observe(
        state, listing(2, running("app"), sandboxes=(SANDBOX.model_copy(update={"state": "SANDBOX_NOTREADY"}),)), NOW
    )


def lose_state(state: PodState) -> None:
    observing.observe(state, listing(2, running("app").model_copy(update={"state": "unknown"})), NOW)


def expire(state: PodState) -> None:
    state.failure = PodFailure(reason=verdicts.DEADLINE_EXCEEDED)


KILLS: dict[KillCause, tuple[str, Callable[[PodState], object]]] = {
    KillCause.LIVENESS: ("Always", lambda state: setattr(state, "probes", {"liveness": {"app-0": "failure"}})),
    KillCause.STARTUP: ("Always", lambda state: setattr(state, "probes", {"startup": {"app-0": "failure"}})),
    KillCause.OPERATOR: ("Always", ask_for_restart),
    KillCause.UPDATE: ("Always", lambda state: desired.apply(state, changed("x:2"), NOW)),
    KillCause.SANDBOX: ("Always", lose_sandbox),
    KillCause.STATE_LOST: ("Always", lose_state),
    KillCause.LOST_FOR_GOOD: ("Never", lose_state),
    KillCause.DELETED: ("Always", lambda state: desired.delete(state, DeletePod(), NOW)),
    KillCause.EVICTED: ("Always", lambda state: verdicts.evict(state, Evict(reason="Evicted"), NOW)),
    KillCause.DEADLINE: ("Always", expire),
    KillCause.FAILED: ("Always", lambda state: verdicts.evict(state, Evict(reason="Preempting"), NOW)),
}
"""By cause: a restart policy, and the event of a running pod."""


@pytest.mark.parametrize("cause", KILLS)
def test_a_kill_is_explained_by_what_decided_it_and_not_by_its_words(cause: KillCause) -> None:
    policy, happen = KILLS[cause]
    state = seen(a_pod(policy, "app"), listing(1, running("app")))
    happen(state)
    step = decide.next_step(state, NOW).step
    assert step is not None
    decide.record_step(state, replace(step, why="reworded"), NOW)
    observing.observe(state, listing(3, exited("app", 143)), NOW + timedelta(hours=3))  # when it was listed
    (end,) = ends(state)
    assert end.cause.kind == cause


def test_a_failed_hook_is_told_with_its_output_even_if_the_next_one_has_failed_since() -> None:
    """The first restart has no back-off, so both may fail before the journal is written."""
    state, before = seen(a_pod("Always", "app"), listing(1)), tuple[ObservedContainer, ...]()
    for restart in range(2):
        step = begun(state)
        before = (exited("app", 137, restart), *before)
        result = StepResult(status=listing(restart + 2, *before)).model_dump(mode="json")
        outcome.failed_step(state, step, Fault.POST_START_HOOK_ERROR, f"no database {restart}", result, NOW, NOW)
    failed = "its postStart hook failed"
    assert causes(state) == {
        restart: f"{failed}: no database {restart}; killed after its grace period" for restart in range(2)
    }


def out_of_memory(code: int) -> ObservedContainer:
    return exited("app", code).model_copy(update={"reason": "OOMKilled", "finished_at": NOW})


@pytest.mark.parametrize("probe", ["liveness", "startup"])
@pytest.mark.parametrize(
    ("code", "later", "words"),
    [
        (137, timedelta(0), "out of memory"),
        (137, GRACE - timedelta(seconds=1), "out of memory"),
        (137, GRACE, "{} probe failed; a process ran out of memory"),  # the node's own SIGKILL
        (143, timedelta(0), "{} probe failed; a process ran out of memory"),
    ],
)
def test_a_probe_that_is_killed_with_its_container_is_not_why_it_ended(
    probe: str, code: int, later: timedelta, words: str
) -> None:
    state = seen(a_pod("Always", "app"), listing(1, running("app")))
    state.probes = {probe: {"app-0": "failure"}}
    step = begun(state)
    assert step.name == StepName.KILL_CONTAINER
    ended = listing(2, out_of_memory(code)).model_copy(update={"observed_at": NOW})
    observing.observe(state, ended, NOW + later)
    assert causes(state) == {0: words.format(probe)}
    (said,) = [each.message for each in state.events if each.reason == "Exited"]
    assert ("probe" in said) == ("probe" in words)


@pytest.mark.parametrize("probe", ["liveness", "startup"])
@pytest.mark.parametrize("is_again", [False, True])
def test_a_container_that_had_ended_before_its_kill_began_has_ended_by_itself(probe: str, is_again: bool) -> None:
    """This does not hold if an earlier step had stopped it."""
    state = seen(a_pod("Always", "app"), listing(1, running("app")))
    state.probes = {probe: {"app-0": "failure"}}
    step = begun(state)
    if is_again:
        decide.record_step(state, step, NOW)
    result = StepResult(status=listing(2, exited("app", 6)), ended_before=True)
    outcome.finished_step(state, step, result.model_dump(mode="json"), NOW, NOW)
    assert causes(state) == {0: f"{probe} probe failed" if is_again else "exited 6"}
    after = decide.next_step(state, NOW).step
    assert after is not None and after.name == StepName.START_CONTAINER


@pytest.mark.parametrize(("seconds", "words"), [(-0.1, "exited 6"), (0.1, "liveness probe failed")])
def test_a_container_that_was_seen_to_end_before_its_kill_was_decided_has_ended_by_itself(
    seconds: float, words: str
) -> None:
    """A listing may come before the result of the kill. The age of an end is by the node's clock alone."""
    state = seen(a_pod("Always", "app"), listing(1, running("app")))
    state.probes = {"liveness": {"app-0": "failure"}}
    begun(state)
    ended = exited("app", 6).model_copy(update={"finished_at": NOW})
    observed = listing(2, ended).model_copy(update={"observed_at": NOW + timedelta(seconds=5)})
    observing.observe(state, observed, NOW + timedelta(seconds=5 + seconds))
    assert causes(state) == {0: words}


@pytest.mark.parametrize("cause", KILLS)
@pytest.mark.parametrize("is_removed", [False, True])
def test_a_container_that_had_ended_before_the_node_decided_to_end_it_has_ended_by_itself(
    cause: KillCause, is_removed: bool
) -> None:
    """A worker that was paused sees the exit after the deletion. The step may have removed the container."""
    policy, happen = KILLS[cause]
    state = seen(a_pod(policy, "app"), listing(1, running("app")))
    happen(state)
    begun(state)
    ended = exited("app", 6).model_copy(update={"finished_at": NOW - timedelta(minutes=1)})
    after = listing(3, *(() if is_removed else (ended,))).model_copy(update={"observed_at": NOW})
    stopped = (ended.exit,) if is_removed and ended.exit is not None else ()
    observing.record_stopped(state, stopped, after, NOW + timedelta(seconds=1))
    observing.observe(state, after, NOW + timedelta(seconds=1))
    told = [line for line in state.history if line.kind == "exit"]
    is_of_its_end = cause in (KillCause.SANDBOX, KillCause.STATE_LOST, KillCause.LOST_FOR_GOOD)
    assert [line.fact for line in told[:1]] == [cause if is_of_its_end else ""]
    if not is_removed and not is_of_its_end:
        assert causes(state) == {0: "exited 6"}


@pytest.mark.parametrize("is_deleted", [False, True])
def test_an_exempt_exit_before_its_kill_waits_as_recorded_runs_did_if_the_pod_goes_on(is_deleted: bool) -> None:
    pod = a_pod("Always", "app")
    pod.metadata.annotations["syncpod.dev/backoff-exempt-exit-codes"] = "6"
    state = seen(pod, listing(1, running("app")))
    KILLS[KillCause.DELETED if is_deleted else KillCause.OPERATOR][1](state)
    begun(state)
    ended = exited("app", 6).model_copy(update={"finished_at": NOW - timedelta(minutes=1)})
    observing.observe(state, listing(2, ended).model_copy(update={"observed_at": NOW}), NOW)
    assert causes(state) == {0: "exited 6" if is_deleted else "restarted by an operator"}
