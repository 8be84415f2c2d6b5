"""Frees those pages of a program that it does not need now, such as the code of its start.

These pages hold parts of the program's file. They count as the process's memory until the kernel takes them away, which
it may do at any time, and does when memory runs short. The kernel reads a page from the file again when it is needed.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Final

from syncpod.kernel.libc import madvise, process_madvise

_MADV_PAGEOUT: Final = 21
_MAPPING: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r(.)\S* \S+ \S+ \d+\s+(/.*)")
"""A readable mapping of a file in /proc/PID/maps: its begin, its end, whether it is writable, and the file."""


def free_program_pages(pid: int) -> int:
    """Have the kernel free the pages of a process's own program; return the number of bytes.

    Its data stays, and so do pages that another process of this program uses. Blocks for some milliseconds. Raises
    OSError: EPERM for anybody but root, ENOSYS before Linux 5.10, and another one if the process has ended.
    """
    program = str(Path(f"/proc/{pid}/exe").readlink())
    pidfd = os.pidfd_open(pid)
    try:
        return sum(
            process_madvise(pidfd, begin, length, _MADV_PAGEOUT)
            for begin, length, file in _mappings(pid)
            if file == program
        )
    finally:
        os.close(pidfd)


def free_own_pages() -> int:
    """Have the kernel free the pages of this process's program and of its libraries; return the number of bytes.

    Its data stays, and so do pages that another process uses. The kernel ignores the advice for files of other users.
    Blocks for some milliseconds. Raises OSError before Linux 5.4.
    """
    freed = 0
    for begin, length, _ in _mappings(os.getpid()):
        try:
            madvise(begin, length, _MADV_PAGEOUT)
        except OSError as error:
            if error.errno != errno.ENOMEM:  # the mapping has gone since it was listed
                raise
        else:
            freed += length
    return freed


def _mappings(pid: int) -> list[tuple[int, int, str]]:
    """Return the address, the length and the file of each read-only mapping of a file in a process's memory."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    found = [match for line in lines if (match := _MAPPING.fullmatch(line)) and match[3] == "-"]
    return [(begin, int(match[2], 16) - begin, match[4]) for match in found if (begin := int(match[1], 16))]
