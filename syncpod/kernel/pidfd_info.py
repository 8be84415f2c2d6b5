"""Reads from the kernel how a process ended: `ioctl(pidfd, PIDFD_GET_INFO)`, since Linux 6.15.

The kernel knows the end of a process of any parent, from the moment it is reaped until its pidfd is closed. So a
container's exit code is known even while its runtime is down.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
from itertools import chain, repeat
from typing import Final

_INFO = struct.Struct("=QQ11Ii")
"""The first version of `struct pidfd_info` (64 bytes): mask, cgroup id, eleven ids of the process, its wait status."""
_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11
"""`_IOWR(0xFF, 11, struct pidfd_info)` of linux/pidfd.h."""
_EXIT = 1 << 3
"""PIDFD_INFO_EXIT: in the request it selects the wait status; in the answer it shows that the status is included."""
_SIGNALLED = 128
"""Runtimes report 128 plus the signal's number as the exit code of a process that a signal ended."""
_REAPED_AFTER: Final = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
"""Seconds between attempts to read an exit code, and then one second for each more: the kernel has the code only after
the parent has reaped the process, and the parent may hang."""


def reports_exits() -> bool:
    """Return whether this kernel has PIDFD_GET_INFO.

    Linux 6.13 and 6.14 have it without the exit code: there :func:`exit_code` raises.
    """
    try:
        pidfd = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        _get_info(pidfd)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def exit_code(pidfd: int) -> int | None:
    """Return a process's exit code as runtimes report it (128 + n for signal n); None if it is not reaped yet.

    Raises OSError if the kernel does not report exits.
    """
    mask, status = _get_info(pidfd)
    if not mask & _EXIT:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _SIGNALLED - code


async def exit_code_once_reaped(pidfd: int) -> int:
    """Wait until the kernel has a process's exit code, and return it as :func:`exit_code` does.

    The kernel has the code soon after the process has ended, unless the parent hangs. Raises OSError if the kernel does
    not report exits.
    """
    for pause in chain(_REAPED_AFTER, repeat(1.0)):
        await asyncio.sleep(pause)
        code = exit_code(pidfd)
        if code is not None:
            return code
    raise AssertionError  # not reached: the loop is endless


def _get_info(pidfd: int) -> tuple[int, int]:
    """Return the mask of the fields that the kernel has filled in, and the wait status."""
    answer = bytearray(_INFO.size)
    struct.pack_into("=Q", answer, 0, _EXIT)
    fcntl.ioctl(pidfd, _GET_INFO, answer)
    fields = _INFO.unpack(answer)
    return fields[0], fields[-1]
