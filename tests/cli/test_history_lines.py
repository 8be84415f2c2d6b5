"""The lines that `history` makes from Temporal's own history of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.api.history.v1 import HistoryEvent

from syncpod.cli.view.history_lines import from_events, lines
from syncpod.journal.records import HistoryEntry
from syncpod.messages.steps import Outcome

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def scheduled(number: int, name: str, task: int) -> HistoryEvent:
    event = HistoryEvent(event_id=number)
    event.activity_task_scheduled_event_attributes.activity_type.name = name
    event.activity_task_scheduled_event_attributes.workflow_task_completed_event_id = task
    return event


def ended(number: int, step: int) -> HistoryEvent:
    event = HistoryEvent(event_id=number)
    event.activity_task_completed_event_attributes.scheduled_event_id = step
    return event


@pytest.mark.parametrize("ends", [(5, 6), (6, 5)])
def test_steps_of_one_task_are_shown_in_the_order_in_which_they_were_begun(ends: tuple[int, int]) -> None:
    events = [scheduled(5, "create_sandbox", 4), scheduled(6, "start_container", 4), ended(9, ends[0])]
    assert [each.subject for each in from_events([*events, ended(10, ends[1])])] == [
        "create_sandbox",
        "start_container",
    ]


def test_a_step_of_a_later_task_is_shown_where_it_has_ended() -> None:
    events = [scheduled(5, "pull_image", 4), scheduled(8, "start_container", 7), ended(9, 8), ended(10, 5)]
    assert [each.subject for each in from_events(events)] == ["start_container", "pull_image"]


def test_a_start_that_waited_for_another_is_shown_after_it() -> None:
    events = [scheduled(5, "start_init_container", 4), scheduled(8, "start_container", 7), ended(9, 8), ended(10, 5)]
    assert [each.subject for each in from_events(events)] == ["start_init_container", "start_container"]


def test_a_start_stands_before_the_exit_that_came_before_its_result() -> None:
    def after(milliseconds: int, kind: str, subject: str, **more: object) -> HistoryEntry:
        return HistoryEntry(NOON + timedelta(milliseconds=milliseconds), kind, subject, "app", **more)  # type: ignore[arg-type]

    told = [
        after(0, "decision", "sync"),
        after(90, "step", "create_sandbox", took_ms=90),
        after(150, "exit", "app"),
        after(160, "step", "start_container", took_ms=60),
        after(160, "hold", "app"),
        after(170, "exit", "aside"),
        after(170, "step", "remove_container"),  # it began with what caused it
    ]
    shown = [" ".join(line.split()[1:4]) for line in lines(told, headers=False)]
    assert [line.partition(" ")[2] for line in shown] == [
        "decision sync",
        "step create_sandbox",
        "step start_container",
        "exit app",
        "hold app",
        "exit aside",
        "step remove_container",
    ]


def test_steps_whose_results_came_together_keep_their_order_even_if_the_second_was_begun_ahead() -> None:
    at = NOON + timedelta(seconds=1)
    told = [
        HistoryEntry(at, "step", "start_container", "a", took_ms=180),
        HistoryEntry(at, "step", "start_container", "b", took_ms=210),
        HistoryEntry(NOON + timedelta(seconds=2), "exit", "b"),
    ]
    shown = [line.split() for line in lines(told, headers=False)]
    assert [words[2:5] for words in shown[:2]] == [["step", "start_container", name] for name in "ab"]
    assert shown[0][1] == shown[1][1], "no line is later than the one below it"


def test_a_start_that_did_not_come_to_its_turn_is_left_out() -> None:
    told = [
        HistoryEntry(NOON, "step", "start_container", "app", outcome=str(outcome), attempt=1)
        for outcome in (Outcome.NOT_BEGUN, Outcome.DONE)
    ]
    (line,) = lines(told, headers=False)
    assert "done" in line
