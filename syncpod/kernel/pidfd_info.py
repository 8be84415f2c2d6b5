"""The kernel's own word on how a process has ended: `ioctl(pidfd, PIDFD_GET_INFO)`, since Linux 6.15.

It answers about any process that a pidfd was opened of, whoever its parent is, from the moment at which it was reaped
for as long as the pidfd is open. So the end of a container's process is known though its runtime is down.
"""

from __future__ import annotations

import fcntl
import os
import struct

_INFO = struct.Struct("=QQ11Ii")
"""`struct pidfd_info` as it was first (64 bytes): mask, cgroup id, eleven ids of the process, its wait status."""
_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11
"""`_IOWR(0xFF, 11, struct pidfd_info)` of linux/pidfd.h."""
_EXIT = 1 << 3
"""PIDFD_INFO_EXIT: the wait status is asked for, and in the answer, is there."""
_SIGNALLED = 128
"""What runtimes add to the number of the signal that has ended a process."""


def tells_exits() -> bool:
    """Say whether this kernel may tell by pidfd how a process ended; what 6.13 and 6.14 cannot shows with the first."""
    try:
        pidfd = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        _ask(pidfd)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def exit_code(pidfd: int) -> int | None:
    """Return a process' exit code as runtimes have it (128 + n where signal n ended it); None = it is not reaped yet.

    Raises OSError where the kernel does not tell.
    """
    mask, status = _ask(pidfd)
    if not mask & _EXIT:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _SIGNALLED - code


def _ask(pidfd: int) -> tuple[int, int]:
    """Return the mask of what the kernel has answered, and the wait status."""
    answer = bytearray(_INFO.size)
    struct.pack_into("=Q", answer, 0, _EXIT)
    fcntl.ioctl(pidfd, _GET_INFO, answer)
    fields = _INFO.unpack(answer)
    return fields[0], fields[-1]
