"""Durations and moments as kubectl writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_NONE: Final = "<none>"


def short_duration(span: timedelta) -> str:
    """Write a duration with at most two units, and the second only for short durations: ``95s``, ``4m10s``, ``3d4h``.

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


def read_moment(text: str | None) -> datetime | None:
    """Read a moment of a Pod's JSON, in RFC 3339; None = there is none."""
    return datetime.fromisoformat(text) if text else None


def age(since: datetime | None, now: datetime | None = None) -> str:
    """Write how long ago a moment was; ``<unknown>`` if it is None."""
    return "<unknown>" if since is None else short_duration((now or datetime.now(UTC)) - since)


def stamp(at: datetime | None) -> str | None:
    """Write a moment for JSON, in milliseconds and UTC; None = there is none."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at is not None else None


def moment_text(at: datetime | None) -> str:
    """Write a moment as ``kubectl describe`` does, in local time; ``<none>`` if there is none."""
    return at.astimezone().strftime("%a, %d %b %Y %H:%M:%S %z") if at else _NONE
