"""A failure that repeats each second is logged once per minute."""

from __future__ import annotations

import logging

import pytest

from syncpod.rare_lines import RareLines

log = logging.getLogger(__name__)


def test_a_subject_has_a_line_a_minute_that_counts_the_others_and_one_at_once_after_all_was_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    lines = RareLines(60.0, lambda: now)
    for second in range(62):
        now = float(second)
        lines.warn(log, "u1", f"u1 cannot be read: {second}")
    lines.warn(log, "u2", "u2 cannot be read")
    lines.over("u1")
    lines.warn(log, "u1", "u1 cannot be read again")
    assert [record.getMessage() for record in caplog.records] == [
        "u1 cannot be read: 0",
        "u1 cannot be read: 60 (and 59 times since the last such line)",
        "u2 cannot be read",
        "u1 cannot be read again",
    ]


@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_the_subject_with_the_oldest_line_is_forgotten_however_many_are_made_up(seconds: float) -> None:
    now = 0.0
    lines = RareLines(60.0, lambda: now)
    for number in range(5_000):
        now = number * seconds
        assert lines.left_out(str(number)) == 0
        assert lines.left_out(str(number)) is None
    assert len(lines) == 1_000
