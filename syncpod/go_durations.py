"""Durations in Go's form, as in Kubernetes' settings: ``90s``, ``1h30m``, ``1.5h``.

Mirrors Go 1.24, time.ParseDuration. Difference: a sign is refused, since no duration here may be negative.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_SECOND: Final = 10**9
_UNITS: Final = {
    **{"ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6},  # Unicode has the micro sign twice
    **{"s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND},
}
"""Nanoseconds in each unit."""
_PART: Final = re.compile(r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_LONGEST: Final = 2**63 - 1
"""Nanoseconds that Go's type holds: 2562047h47m16.854775807s, or 292 years."""
_DIGITS: Final = len(str(_LONGEST))


class GoDurationTooLong(ValueError):
    """The text is a duration, but longer than Go's type can hold."""


def parse_go_duration(text: str) -> int:
    """Return a duration in nanoseconds; a fraction of a nanosecond is dropped.

    Raises ValueError for a text that is not a duration, and GoDurationTooLong for one of more than 292 years.
    """
    if text == "0":
        return 0
    nanoseconds, position = 0, 0
    while part := _PART.match(text, position):
        nanoseconds = min(nanoseconds + _nanoseconds(part), _LONGEST + 1)
        position = part.end()
    if not text or position != len(text):
        raise ValueError(f"{text!r} is not a duration such as 1m30s")
    if nanoseconds > _LONGEST:
        raise GoDurationTooLong(f"{text!r} is longer than 2562047h")
    return nanoseconds


def _nanoseconds(part: re.Match[str]) -> int:
    """Return the nanoseconds of one number with its unit; for more than `_LONGEST`, return any larger number."""
    whole, fraction, unit = part[1].lstrip("0"), part[2] or "", _UNITS[part[3]]
    if len(whole) > _DIGITS:  # Python refuses to read a number of very many digits
        return _LONGEST + 1
    # Go computes with as many digits of a fraction as its integers hold, then in floating point. This does the same.
    value, scale = 0, 1.0
    for digit in fraction:
        longer = value * 10 + int(digit)
        if longer > _LONGEST:
            break
        value, scale = longer, scale * 10
    return int(whole or "0") * unit + int(value * (unit / scale))


def go_duration(duration: timedelta) -> str:
    """Write a duration as Go's time.Duration does: `10s`, `1m20s`, `5m0s`, `1h0m0s`, `1.5s`, `250ms`, `0s`."""
    microseconds = abs(duration) // timedelta(microseconds=1)
    sign = "-" if duration < timedelta(0) else ""
    if microseconds == 0:
        return "0s"
    if microseconds < 1_000:
        return f"{sign}{microseconds}µs"
    if microseconds < 1_000_000:
        return f"{sign}{_decimal(microseconds, 1_000)}ms"
    minutes, rest = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _decimal(value: int, unit: int) -> str:
    """Write `value`/`unit` without trailing zeros, exactly."""
    whole, part = divmod(value, unit)
    digits = str(unit + part)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
