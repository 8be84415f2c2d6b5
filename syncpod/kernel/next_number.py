"""Numbers that only grow, even if the clock is set back: a file keeps the highest one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LOCK_TRIES: Final = 50
_LOCK_PAUSE_SECONDS: Final = 0.001


def next_number(path: Path) -> int:
    """Return a number above all earlier ones of this file: the time in microseconds, or the highest plus one.

    Blocks briefly. Raises OSError.
    """
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with _locked(opened):
            said = os.pread(opened, 32, 0).strip()
            number = max(time.time_ns() // 1000, (int(said) if said.isdigit() else 0) + 1)
            os.pwrite(opened, f"{number:020d}\n".encode(), 0)
            return number
    finally:
        os.close(opened)


@contextlib.contextmanager
def _locked(opened: int) -> Iterator[None]:
    """Hold the file's lock during the block, or go on without it after 50 ms: a stopped holder must not stop the node.

    Without the lock, two processes could give the same number to two commands, and a workflow would refuse one.
    """
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            break
    yield
