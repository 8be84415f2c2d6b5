"""What a page of several pods shows of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PodSummary:
    """One pod, in one line."""

    pod: str
    """``namespace/name``."""
    status: str
    """As ``get pods`` prints it: ``CrashLoopBackOff``, ``Init:1/2``."""
    restarts: int
    why: str
    """What it waits for, else why it is not ready; "" if neither is known."""
