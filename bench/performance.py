"""Writes the measured part of docs/performance.md, between two marks; the rest of the page stays as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import machine
from bench.against import ROUNDS, contest, measure, rows
from bench.figures import Row, markdown
from bench.lives import histories
from bench.stage import stage

DOCUMENT: Final = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
LOG: Final = DOCUMENT.parent / "engineering" / "performance-log.md"
BEGIN: Final = "<!-- measured: python -m bench --against kubelet -->"
END: Final = "<!-- /measured -->"
BUSY: Final = 1.0
"""A load average above this before a measurement makes its figures misleading."""
WARNING: Final = (
    "**The machine was busy: times and ratios mislead, since a side with more processes waits more often.** "
    "Only the counts of events hold.\n\n"
)


async def against_kubelet(version: str, say: Callable[[str], None]) -> tuple[str, str]:
    """Measure all sides on a containerd of this version, and write the page; return its new text, and "".

    If the times are void, the page stays as it is, and the measurements are returned with a sentence that has the
    reason. Raises `Missing` if the machine lacks a part, and TimeoutError.
    """
    before = machine.load()
    say(f"starting two containerd {version}, a kubelet, two Temporal servers, a worker and the prototype's")
    async with contest(version) as at:
        samples = await measure(at, ROUNDS, say)
        versions, why_void = at.versions, at.hindrance()
    say("history")
    async with stage(version) as staged:
        events = await histories(staged)
    text = report(markdown(rows(samples)), events, machine.environment(versions, before), is_busy=before > BUSY)
    if not why_void:
        DOCUMENT.write_text(written(DOCUMENT.read_text(), text))
    return text, why_void


def report(table: str, events: tuple[Row, ...], environment: str, *, is_busy: bool) -> str:
    """Return the measured part of the page, with a warning if the machine was busy."""
    lives = markdown([("a pod's history", "events"), *((row.what, f"{row.engine.median:.0f}") for row in events)])
    counted = ", ".join(f"{what} {number}" for what, number in ROUNDS.items())
    return (
        f"\nMeasured on {today()}, {os.cpu_count()} cores. Rounds counted: {counted}; medians, with the range.\n\n"
        f"{WARNING if is_busy else ''}{table}\n\n{lives}\n\n{environment}\n\n"
    )


def today() -> str:
    """Return today's date for a document: ``November 26, 2026``."""
    now = datetime.now(UTC)
    return f"{now:%B} {now.day}, {now.year}"


def written(page: str, text: str, *, begin: str = BEGIN) -> str:
    """Return the page with `text` between the mark `begin` and END. Raises ValueError unless it has one such place."""
    new, places = re.subn(f"(?<={re.escape(begin)}\n).*?(?={re.escape(END)})", lambda _: text, page, flags=re.DOTALL)
    if places != 1:
        raise ValueError(f"the page must have one place between {begin} and {END}, and has {places}")
    return new
