"""Durations as kubectl writes and reads them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.api.views.durations import age, short_duration
from syncpod.cli.input.arguments import read_duration
from tests.cli.pods import NOW

DAY = 24 * 3600


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (250, "4m10s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3600, "2d1h"),
        (8 * DAY, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (731 * DAY, "2y1d"),
        (8 * 365 * DAY + DAY, "8y"),
    ],
)
def test_a_duration_is_formatted_short(seconds: int, written: str) -> None:
    assert short_duration(timedelta(seconds=seconds)) == written


def test_an_unknown_time_has_an_unknown_age() -> None:
    assert age(None) == "<unknown>"
    assert age(NOW - timedelta(seconds=5), NOW) == "5s"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("0", 0), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25)),
        *(
            ("1d", DAY),
            ("0d", 0),
            ("90d", 90 * DAY),
            ("2d1h30m", 2 * DAY + 5400),
            ("2y", 730 * DAY),
            ("2y1d", 731 * DAY),
        ),
    ],
)
def test_a_go_duration_is_read(text: str, seconds: float) -> None:
    assert read_duration(text).total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "1w", "1.5d", "1h2d", "1d2y", "2d1", "-1d", "-5s", "5m!", "s5"])
def test_an_invalid_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write 30s, 5m, 1h30m or 2d"):
        read_duration(text)


@pytest.mark.parametrize(
    "text", ["99999999999h", "20000000h", "2562048h", f"{'9' * 400}ns", "2562047h1h", "293y", "999999999d"]
)
def test_a_duration_beyond_gos_range_is_too_long(text: str) -> None:
    assert read_duration("2562047h") == timedelta(hours=2_562_047)
    with pytest.raises(ValueError, match="is too long a duration: write at most 2562047h"):
        read_duration(text)


@given(st.integers(min_value=0, max_value=10**6))
def test_formatted_seconds_are_parsed_back(seconds: int) -> None:
    assert read_duration(f"{seconds // 60}m{seconds % 60}s") == timedelta(seconds=seconds)


@given(st.integers(min_value=0, max_value=290 * 365 * DAY))
def test_any_printed_age_is_a_duration_too(seconds: int) -> None:
    age_of = short_duration(timedelta(seconds=seconds))
    assert short_duration(read_duration(age_of)) == age_of
