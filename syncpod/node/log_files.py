"""The files of one container instance's log: the one that grows, and those that were rotated away.

Names are the kubelet's (logs/container_log_manager.go, v1.36): ``0.log`` grows, ``0.log.<YYYYMMDD-HHMMSS>`` was rotated
then, with ``.gz`` once it is compressed; ``.tmp`` is being compressed.
"""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path
from typing import Final

COMPRESSED: Final = ".gz"
UNFINISHED: Final = ".tmp"


def rotated_files(path: Path) -> list[Path]:
    """Return what was rotated away of a log and is still kept, oldest first, each once. Blocks."""
    found: dict[str, Path] = {}
    for file in sorted(path.parent.glob(f"{path.name}.*")):  # a file comes before what it is compressed to
        if not file.name.endswith(UNFINISHED):
            found.setdefault(file.name.removesuffix(COMPRESSED), file)
    return [found[name] for name in sorted(found)]


def is_being_written(descriptor: int) -> bool:
    """Say whether anybody has a file open for writing; True where that cannot be told. `descriptor` is open to read.

    The kernel gives a lease for reading only to a file that nobody may write to. It is given back at once; who opens
    the file in that moment waits for it, and the signal that tells us so is one that nobody heeds.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    return False
