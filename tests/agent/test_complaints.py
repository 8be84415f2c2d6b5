"""What fails each second is a line a minute in the log."""

from __future__ import annotations

import logging

import pytest

from syncpod.agent.complaints import Complaints

log = logging.getLogger(__name__)


def test_a_subject_has_a_line_a_minute_that_counts_the_others_and_one_at_once_after_all_was_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    complaints = Complaints(log, lambda: now)
    for second in range(62):
        now = float(second)
        complaints.say("u1", f"u1 cannot be read: {second}")
    complaints.say("u2", "u2 cannot be read")
    complaints.over("u1")
    complaints.say("u1", "u1 cannot be read again")
    assert [record.getMessage() for record in caplog.records] == [
        "u1 cannot be read: 0",
        "u1 cannot be read: 60 (and 59 times in the last minute)",
        "u2 cannot be read",
        "u1 cannot be read again",
    ]


def test_subjects_without_anything_new_are_forgotten() -> None:
    now = 0.0
    complaints = Complaints(log, lambda: now)
    for number in range(5_000):
        now = number / 10
        complaints.say(str(number), "cannot be read")
    assert len(complaints) < 1_100
