"""The identity of a process, which distinguishes a recorded one from another that has its number by now."""

from __future__ import annotations

from dataclasses import dataclass

from syncpod.kernel.machine import boot_id
from syncpod.kernel.procfs import process_stat


@dataclass(frozen=True)
class ProcessIdentity:
    """Identifies one process: a pid may be reused, but not with the same start time in the same boot."""

    pid: int
    started: int
    """Clock ticks between the machine's boot and the process's start."""
    boot: str
    """Id of the machine's boot."""


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a live process; None if there is none, or only a zombie."""
    stat = process_stat(pid)
    return None if stat is None or stat.state in ("Z", "X") else ProcessIdentity(pid, stat.start_ticks, boot_id())


def is_running(process: ProcessIdentity) -> bool:
    """Return whether exactly this process still runs."""
    return identify(process.pid) == process
