"""Spans of time as kubectl writes and reads them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")

_LONGEST: Final = (2**63 - 1) / 1e9
"""Seconds in the longest of Go's durations, which count nanoseconds: 2562047h47m16.85s, or 292 years."""


def parse_duration(text: str) -> timedelta:
    """Read a Go duration such as ``90s``, ``1h30m`` or ``0``. Raises ValueError with what would be right.

    Of a sum that Go's type cannot hold, too, as time.ParseDuration does.
    """
    if text == "0":
        return timedelta(0)
    seconds, position = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != position:
            break
        seconds += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if not text or position != len(text):
        raise ValueError(f"{text!r} is no duration: write 30s, 5m or 1h30m")
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is too long a duration: write at most 2562047h")
    return timedelta(seconds=seconds)


def short_duration(span: timedelta) -> str:
    """Write a span with at most two units, the second one only while it still matters: ``95s``, ``4m10s``, ``3d4h``.

    Mirrors apimachinery's pkg/util/duration, v1.36, HumanDuration.
    """
    seconds = int(span.total_seconds())
    if seconds < -1:
        return "<invalid>"
    seconds = max(0, seconds)
    minutes, hours = seconds // 60, seconds // 3600
    days, years = hours // 24, hours // 24 // 365
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if years < 2:
        return f"{days}d"
    if years < 8:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(large: int, unit: str, small: int, lesser: str) -> str:
    return f"{large}{unit}{small}{lesser}" if small else f"{large}{unit}"


def age(since: datetime | None, now: datetime | None = None) -> str:
    """Write how long ago a moment was; ``<unknown>`` where there is none."""
    return "<unknown>" if since is None else short_duration((now or datetime.now(UTC)) - since)
