"""When a node has last heard of its fleet: pods that must not run twice are stopped some time after that.

The time is on disk, as that of a file, so that a node which was restarted, or rebooted, while it was cut off counts on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

FILE_NAME: Final = "fleet-contact"
RETURN_SECONDS: Final = 30.0
"""How long the fleet must be heard again before stopped pods may run. By then it has said which of two copies goes."""
_WRITTEN_SECONDS: Final = 5.0


class Contact:
    """When a node last heard from its fleet. Its methods are quick: on disk they touch the file's time alone."""

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Go on from what an earlier life of the worker noted; without a note, count from now. Blocks."""
        self._path, self._clock = state_dir / FILE_NAME, clock
        try:
            before = max(0.0, time.time() - self._path.stat().st_mtime)
        except OSError:
            before = 0.0
        self._at = self._written = clock() - before
        self._since: float | None = None
        """Since when the fleet is heard without a gap; None = it is not."""

    def heard(self) -> None:
        """Note that the fleet was heard now. Blocks briefly; a note that cannot be written is left to the next one."""
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
        """Return how long nothing has been heard."""
        return self._clock() - self._at

    def is_steady(self) -> bool:
        """Say whether the fleet is heard, and has been for :data:`RETURN_SECONDS`."""
        now = self._clock()
        return self._since is not None and now - self._at <= RETURN_SECONDS and now - self._since >= RETURN_SECONDS
