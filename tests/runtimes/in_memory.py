"""Whether this machine has enough memory for the files of the servers that tests start.

An embedded runtime and a Temporal server make and remove very many files. Whenever a file is made, ext4 without a
journal skips each inode that was freed in the last minutes, which took 20 to 33 % of the CPU time of some tests. No
test checks a disk's content after a crash of its machine, and a test that needs a disk makes its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from syncpod.kernel.mountinfo import read_mounts

MEMORY = Path("/dev/shm")
"""A tmpfs on every Linux, for every user."""

ROOM = 4 << 30
"""The required free bytes, which are many times what was observed in use."""

_RESTRICTING = os.ST_RDONLY | os.ST_NOEXEC | os.ST_NODEV | os.ST_NOSUID
"""Mount flags that it must not have: containers run programs from it, and have device files in it."""


@cache
def has_room(memory: Path = MEMORY) -> bool:
    """Whether a directory is a tmpfs with room, which is as good as a disk for a runtime's images and containers."""
    is_tmpfs = any(each.mount_point == str(memory) and each.file_system == "tmpfs" for each in read_mounts())
    return (
        is_tmpfs
        and os.access(memory, os.W_OK | os.X_OK)
        and not os.statvfs(memory).f_flag & _RESTRICTING
        and min(shutil.disk_usage(memory).free, available_memory()) >= ROOM
        and _keeps_attributes(memory)
    )


def available_memory(told: Path = Path("/proc/meminfo")) -> int:
    """The bytes of memory available for new files, as estimated by the kernel."""
    lines = dict(line.split(":", 1) for line in told.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def _keeps_attributes(memory: Path) -> bool:
    """Whether files can have user attributes, which an overlay without root needs (Linux 6.6)."""
    with tempfile.TemporaryFile(dir=memory) as file:
        try:
            os.setxattr(file.fileno(), "user.syncpod", b"1")
        except OSError:
            return False
    return True
