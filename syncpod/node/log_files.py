"""The log files of one container instance: the current one and the rotated ones.

Names are the kubelet's (logs/container_log_manager.go, v1.36): ``0.log`` is current, ``0.log.<YYYYMMDD-HHMMSS>`` was
rotated at that time, ``.gz`` is compressed, ``.tmp`` is being compressed.
"""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path
from typing import Final

COMPRESSED: Final = ".gz"
UNFINISHED: Final = ".tmp"


def rotated_files(path: Path) -> list[Path]:
    """Return the rotated files of a log that are still kept, oldest first, each once. Blocks."""
    found: dict[str, Path] = {}
    for file in sorted(path.parent.glob(f"{path.name}.*")):  # a file sorts before its compressed form
        if not file.name.endswith(UNFINISHED):
            found.setdefault(file.name.removesuffix(COMPRESSED), file)
    return [found[name] for name in sorted(found)]


def is_being_written(descriptor: int) -> bool:
    """Say whether anybody has a file open for writing; True if that cannot be told. `descriptor` is open for reading.

    The kernel grants a read lease only on a file that nobody has open for writing. The lease is given back at once; an
    open in that moment waits for it, and the signal that announces it is ignored.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    return False
