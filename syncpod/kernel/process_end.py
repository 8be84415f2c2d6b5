"""Watches by a pidfd for the end of a process of any parent; and compares pid namespaces."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

_OUR_NUMBER_AND_ITS_OWN = 2
"""The number of pids that a process has in a pid namespace directly below this process's."""


def shares_pids(other: int) -> bool:
    """Return whether the process with this pid is in the pid namespace of this process, so that both use the same pids.

    False if that is not known, as for a process of another user. Raises nothing.
    """
    try:
        return os.path.samestat(Path("/proc/self/ns/pid").stat(), Path(f"/proc/{other}/ns/pid").stat())
    except OSError:
        return False


def is_first_of_a_namespace(pid: int) -> bool:
    """Return whether a process has pid 1 in a pid namespace directly below this process's; False if it is gone.

    Raises nothing.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(numbers) == _OUR_NUMBER_AND_ITS_OWN and numbers[-1] == "1"


@contextlib.contextmanager
def listening(pid: int, ended: Callable[[], None]) -> Iterator[None]:
    """Call `ended` once during the block, when the process with this pid has ended; at once if there is none.

    A pid is reused only after its process has ended. So a process that was known to run with this pid has certainly
    ended when `ended` is called. Needs a running event loop. Raises OSError if the process cannot be watched.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        ended()
        yield
        return
    loop = asyncio.get_running_loop()

    def stop_and_report() -> None:
        loop.remove_reader(pidfd)
        ended()

    loop.add_reader(pidfd, stop_and_report)
    try:
        yield
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
