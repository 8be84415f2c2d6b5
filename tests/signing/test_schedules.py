"""An attempt of a step is distinguished from a replayed copy by its schedule time, also without records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from syncpod.temporal import signed_steps
from syncpod.temporal.signed_steps import LATEST, Schedules

DECIDED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STEP = f"run-1-3-{int(DECIDED.timestamp())}"
SOON = DECIDED + timedelta(seconds=2)
COPY = "it is a copy of a step that was scheduled before"


def test_each_try_of_a_step_is_taken() -> None:
    schedules = Schedules()
    assert [schedules.refusal(STEP, "run-1", SOON) for _ in range(3)] == ["", "", ""]
    assert Schedules().refusal(STEP, "run-1", SOON) == "", "by another worker too"


@pytest.mark.parametrize("later", [timedelta(milliseconds=1), timedelta(hours=1)])
def test_what_is_scheduled_a_second_time_is_refused(later: timedelta) -> None:
    schedules = Schedules()
    assert schedules.refusal(STEP, "run-1", SOON) == ""
    assert schedules.refusal(STEP, "run-1", SOON + later) == COPY
    assert schedules.refusal(STEP, "run-1", SOON) == "", "the step itself goes on"


def test_a_worker_that_knows_of_no_step_refuses_what_is_late() -> None:
    assert Schedules().refusal(STEP, "run-1", DECIDED + LATEST) == ""
    assert Schedules().refusal(STEP, "run-1", DECIDED + LATEST + timedelta(seconds=1)) == COPY


@pytest.mark.parametrize("step_id", [STEP, "run-2", "run-2-3-x", "run-2x-3-1767323045"])
def test_a_step_of_another_run_is_refused(step_id: str) -> None:
    assert Schedules().refusal(step_id, "run-2", SOON) == "it is a copy from another run"


def test_no_more_is_remembered_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_steps, "REMEMBERED", 2)
    schedules = Schedules()
    ids = [f"run-1-{number}-{int(DECIDED.timestamp())}" for number in range(3)]
    assert [schedules.refusal(each, "run-1", SOON) for each in ids] == ["", "", ""]
    later = SOON + timedelta(seconds=1)
    assert [schedules.refusal(each, "run-1", later) for each in (*ids[1:], ids[0])] == [COPY, COPY, ""]
