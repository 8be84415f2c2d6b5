"""Whether a process has set its traps: a newly started shell has none yet, and a signal kills it."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.agent.waiting import until


def traps(pid: int, number: signal.Signals = signal.SIGTERM) -> bool:
    """Return whether a process catches or ignores a signal; False if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    masks = (int(line.split()[1], 16) for line in lines if line.startswith(("SigIgn:", "SigCgt:")))
    return any(mask >> (number - 1) & 1 for mask in masks)


async def until_trapped(pid: int, *numbers: signal.Signals) -> None:
    """Wait until a process has set its traps, for SIGTERM by default. Raises TimeoutError."""
    for number in numbers or (signal.SIGTERM,):
        await until(lambda number=number: traps(pid, number))  # type: ignore[misc]
