"""Durations are parsed as by Go's time.ParseDuration."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.go_durations import GoDurationTooLong, parse_go_duration

UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
LONGEST = 2**63 - 1
"""The longest duration in nanoseconds."""


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("5s", 5 * 10**9),
        ("5.0s", 5 * 10**9),
        ("5.s", 5 * 10**9),
        (".5s", 5 * 10**8),
        ("1.004s", 1_004 * 10**6),
        ("100.00100s", 100_001 * 10**6),
        ("3h30m", 12_600 * 10**9),
        ("10.5s4m", 250_500 * 10**6),
        ("1h2m3s4ms5us6ns", 3_723_004_005_006),
        ("39h9m14.425s", 140_954_425 * 10**6),
        ("12µs", 12_000),
        ("12μs", 12_000),
        ("52763797000ns", 52_763_797_000),
        ("0.3333333333333333333h", 1_200 * 10**9),
        ("9007199254740993ns", 9_007_199_254_740_993),
        ("0.9223372036854775807h", 3_320_413_933_267),
        ("0.100000000000000000000h", 360 * 10**9),
        ("9223372036854775807ns", LONGEST),
        ("9223372036854775.807us", LONGEST),
        ("2562047h47m16.854775807s", LONGEST),
        (f"{'0' * 5000}7s", 7 * 10**9),
        (f"1.{'0' * 5000}7s", 10**9),
    ],
)
def test_durations_that_go_accepts_are_read(text: str, nanoseconds: int) -> None:
    assert parse_go_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "3", "00", "-", "s", ".", ".s", "..5s", "1.2.3s", "-5s", "+5s", "1d", "1 s", " 1s", "1s ", "1s\n", "1S"),
        *("1,5s", "٣s", "1e3s", "0x1s", "1h0", "s5", "1ms1", "1m s", "1\0s"),
    ],
)
def test_durations_that_go_refuses_and_signed_ones_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 1m30s"):
        parse_go_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        *("9223372036854775808ns", "9223372036854775.808us", "2562047h47m16.854775808s", "2562048h", f"{'9' * 5000}h"),
        *("2562047h1h", "1ns1ns9223372036854775807ns"),
    ],
)
def test_a_duration_beyond_gos_range_is_refused(text: str) -> None:
    with pytest.raises(GoDurationTooLong):
        parse_go_duration(text)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.sampled_from(sorted(UNITS))), min_size=1, max_size=5))
def test_the_parts_of_a_duration_are_added_up(parts: list[tuple[int, str]]) -> None:
    total = sum(number * UNITS[unit] for number, unit in parts)
    text = "".join(f"{number}{unit}" for number, unit in parts)
    if total <= LONGEST:
        assert parse_go_duration(text) == total
    else:
        with pytest.raises(GoDurationTooLong):
            parse_go_duration(text)


@given(st.integers(0, 10**6), st.text("0123456789", max_size=30), st.sampled_from(sorted(UNITS)))
def test_a_fraction_is_read_to_the_nanosecond(whole: int, fraction: str, unit: str) -> None:
    exact = Fraction(f"{whole}.{fraction or '0'}") * UNITS[unit]
    assert abs(parse_go_duration(f"{whole}.{fraction}{unit}") - exact) <= 1


@given(st.text("0123456789.smhunµμ+- ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        nanoseconds = parse_go_duration(text)
    except ValueError:
        return
    assert 0 <= nanoseconds <= LONGEST
    assert text == "0" or parse_go_duration(f"{text}1ns") == nanoseconds + 1
