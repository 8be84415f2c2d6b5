"""The first decision that differs between a history and its replay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio import workflow

import fleet_worker
import worker
from syncpod.replay import run
from syncpod.replay.comparison import Decided, Difference, difference
from syncpod.replay.history import KINDS

START, PULL, WAIT = "start container web, restart 1", "pull image web, restart 1", "wait 10 s"
THEN = (
    Decided(4, "create sandbox, attempt 0", 5),
    Decided(9, START, 10),
    Decided(15, WAIT, 16),
)
NOW = tuple(Decided(each.task, each.words) for each in THEN)
FAILED = "[TMPRL1100] Nondeterminism error: no command for HistoryEvent(id: 10, ActivityTaskScheduled)"


@pytest.mark.parametrize(
    ("now", "failure", "found"),
    [
        pytest.param(NOW, "", None, id="the same"),
        pytest.param(NOW[:2], "", None, id="a replay that was not asked for all"),
        pytest.param((*NOW, Decided(0, START)), "", None, id="a decision that no task of the history could have"),
        pytest.param((NOW[0], Decided(9, PULL)), "", Difference(10, START, PULL), id="another step"),
        pytest.param((*NOW[:2], Decided(15, "wait 20 s")), "", Difference(16, WAIT, "wait 20 s"), id="a longer wait"),
        pytest.param(NOW[:1], FAILED, Difference(10, START, "", FAILED), id="no step"),
        pytest.param((NOW[0], Decided(15, START)), "", Difference(10, START, ""), id="a step too late"),
        pytest.param((Decided(4, PULL), *NOW), "", Difference(5, THEN[0].words, PULL), id="one more at first"),
        pytest.param((*NOW[:2], Decided(9, PULL), NOW[2]), "", Difference(9, "", PULL), id="one more in between"),
        pytest.param((*NOW, Decided(15, PULL)), "", Difference(15, "", PULL), id="one more in the last task"),
    ],
)
def test_the_first_difference_is_found(now: tuple[Decided, ...], failure: str, found: Difference | None) -> None:
    assert difference(THEN, now, failure) == found


def test_a_difference_is_one_clause() -> None:
    assert (
        Difference(10, START, "").sentence()
        == f"event 10: in the history {START!r}, with the code at hand nothing more"
    )
    assert Difference(9, "", PULL).sentence() == f"event 9: in the history nothing more, with the code at hand {PULL!r}"


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from((START, PULL, WAIT)))), st.data())
def test_a_change_is_found_at_its_event_and_nothing_before_it(
    steps: list[tuple[int, str]], data: st.DataObject
) -> None:
    then = [Decided(10 * at + 1, words, 10 * at + 2) for at, (_, words) in enumerate(steps)]
    now = [Decided(each.task, each.words) for each in then]
    assert difference(then, now, "") is None
    if then:
        at = data.draw(st.integers(0, len(then) - 1))
        changed = [*now[:at], Decided(now[at].task, "kill pod"), *now[at + 1 :]]
        assert difference(then, changed, "") == Difference(then[at].event, then[at].words, "kill pod")


def test_every_workflow_that_a_worker_serves_can_be_replayed() -> None:
    served = {
        str(workflow._Definition.must_from_class(each).name)
        for program in (worker.SERVED, fleet_worker.SERVED)
        for each in program.workflows
    }
    assert served == set(KINDS)
    assert served == {workflow._Definition.must_from_class(each).name for each in run.WORKFLOWS}
