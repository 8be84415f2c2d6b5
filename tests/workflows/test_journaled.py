"""What a pod's workflow tells its node's journal about ends of containers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from syncpod.journal.causes import ends_of
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.lifecycle.step_name import StepName
from syncpod.messages.steps import Fault, StepResult
from tests.workflows.test_facts import NOW, a_pod, exited, listing, running, seen
from workflows.pod import decide, outcome
from workflows.pod.decision import Step
from workflows.pod.journaled import told
from workflows.pod.state import PodState

GRACE = timedelta(seconds=30)


def begun(state: PodState) -> Step:
    step = decide.next_step(state, NOW).step
    assert step is not None
    decide.record_step(state, step, NOW)
    return step


def causes(state: PodState) -> dict[int, str]:
    """The words for each end of container `app`, by number of its instance."""
    said = told(state, (), (), NOW, since=None, is_gone=False)
    return {end.instance.restart: end.cause.words for end in ends_of(said.instances, said.lines, ())["app"]}


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
    outcome.observe(state, ended, NOW + later)
    assert causes(state) == {0: words.format(probe)}
    (said,) = [each.message for each in state.events if each.reason == "Exited"]
    assert ("probe" in said) == ("probe" in words)
