"""How a time in which no worker served the node is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from syncpod.api.views.durations import short_duration
from syncpod.journal.records import Absence

_WHY: Final = {
    "stopped": "the previous one was stopped",
    "died": "the previous one had died",
    "machine": "the machine was rebooted",
}


def absence(one: Absence, clock: Callable[[datetime], str]) -> str:
    """Return it as a sentence: `no worker for 29s, until 14:02:40: the previous one had died`."""
    seconds = (one.ended - one.begun).total_seconds()
    length = f"{seconds:.1f}s" if seconds < 10 else short_duration(one.ended - one.begun)
    why = _WHY.get(one.how, "")
    return f"no worker for {length}, until {clock(one.ended)}{f': {why}' if why else ''}"
