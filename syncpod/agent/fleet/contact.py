"""When a node last heard from its fleet: pods that must not run twice are stopped some time after that.

The time is kept on disk, as a file's modification time. So a node that is restarted or rebooted while it is cut off
continues to count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

FILE_NAME: Final = "fleet-contact"
RETURN_SECONDS: Final = 30.0
"""How long contact must last before stopped pods may run again. By then the fleet has withdrawn one of two copies."""
_WRITTEN_SECONDS: Final = 5.0


class Contact:
    """When a node last heard from its fleet. Its methods are quick: on disk they only touch a file."""

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Continue from the time that an earlier worker has noted; without one, count from now. Blocks."""
        self._path, self._clock = state_dir / FILE_NAME, clock
        try:
            before = max(0.0, time.time() - self._path.stat().st_mtime)
        except OSError:
            before = 0.0
        self._at = self._written = clock() - before
        self._since: float | None = None
        """Since when the contact has lasted without a gap; None = there is no contact."""

    def heard(self) -> None:
        """Note contact with the fleet now. Blocks briefly. A failed write is ignored: another one follows."""
        now = self._clock()
        if self._since is None or now - self._at > RETURN_SECONDS:
            self._since = now
        self._at = now
        if now - self._written >= _WRITTEN_SECONDS:
            try:
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                try:
                    os.utime(descriptor)
                finally:
                    os.close(descriptor)
            except OSError:
                return
            self._written = now

    def silent_seconds(self) -> float:
        """Return how long ago the last contact was."""
        return self._clock() - self._at

    def is_steady(self) -> bool:
        """Say whether the contact has lasted for :data:`RETURN_SECONDS`."""
        now = self._clock()
        return self._since is not None and now - self._at <= RETURN_SECONDS and now - self._since >= RETURN_SECONDS
