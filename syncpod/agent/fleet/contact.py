"""Records when a node last had contact with its fleet.

Pods that must not run twice are stopped once their node has been without contact for too long.

The time of the last contact is kept on disk, as seconds since the machine's boot, and as a file's modification time. So
the count continues after a restart of the worker, or a reboot of the machine, without contact. The wall clock is used
only across a reboot. If the wall clock shows less time than the machine has been up, the clock is wrong, and the time
without contact counts as infinite.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncpod.kernel.procfs import boot_id

FILE_NAME: Final = "fleet-contact"
RETURN_SECONDS: Final = 30.0
"""Seconds of contact until stopped pods may run again. By then the fleet has withdrawn one of two copies of a pod."""
_WRITTEN_SECONDS: Final = 5.0
"""The least seconds between two writes to the file."""


def since_boot() -> float:
    """Return the seconds since the machine's boot, with time in suspension, which passes for the fleet too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Contact:
    """The time of a node's last contact with its fleet. Its methods write at most one line to the disk."""

    def __init__(self, state_dir: Path, clock: Callable[[], float] = since_boot, boot: str | None = None) -> None:
        """Continue from the time that an earlier worker has noted; without one, count from now. Blocks.

        `boot` is the id of this boot of the machine; None = the kernel's.
        """
        self._path, self._clock = state_dir / FILE_NAME, clock
        self._boot = boot_id() if boot is None else boot
        self._at = self._written = clock() - self._before()
        self._since: float | None = None
        """When the present contact began, by the clock; None = no contact since this worker's start."""
        self._gap = 0.0
        """The longest gap in seconds since contact was last steady. All such gaps lie before `_since`."""

    def note_contact(self) -> None:
        """Record a contact with the fleet now. Blocks briefly. A failed write is ignored, since another one follows."""
        now = self._clock()
        if self._since is None or now - self._at > RETURN_SECONDS:
            was_steady = self._since is not None and self._at - self._since >= RETURN_SECONDS
            self._gap = max(now - self._at, 0.0 if was_steady else self._gap)
            self._since = now
        self._at = now
        if now - self._written >= _WRITTEN_SECONDS:
            try:
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                try:
                    os.pwrite(descriptor, f"{self._boot} {now:020.3f}\n".encode(), 0)
                    os.utime(descriptor)
                finally:
                    os.close(descriptor)
            except OSError:
                return
            self._written = now

    def silent_seconds(self) -> float:
        """Return the seconds since the last contact; infinity if they cannot be known."""
        return self._clock() - self._at

    def absent_seconds(self) -> float:
        """Return the seconds without contact. After a gap, the gap's length counts until the contact is steady."""
        silent = self.silent_seconds()
        return silent if self.is_steady() else max(silent, self._gap)

    def is_steady(self) -> bool:
        """Say whether the contact has lasted for :data:`RETURN_SECONDS`."""
        now = self._clock()
        return self._since is not None and now - self._at <= RETURN_SECONDS and now - self._since >= RETURN_SECONDS

    def _before(self) -> float:
        """Return the seconds since the contact that an earlier worker recorded; 0 if there is no record."""
        try:
            by_clock = time.time() - self._path.stat().st_mtime
            boot, _, noted = self._path.read_text(errors="replace").partition(" ")
        except OSError:
            return 0.0
        least, now = 0.0, self._clock()
        if self._boot and boot == self._boot:
            try:
                return max(0.0, now - float(noted))
            except ValueError:
                pass  # the worker died while it wrote
        elif noted:
            least = now  # the note is from before this boot
        return by_clock if by_clock >= least else math.inf
