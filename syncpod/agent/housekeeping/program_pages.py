"""Has the kernel free, whenever the node has come to rest, what worker and server need of their programs only for work.

Both read tens of megabytes of their programs' files when they start and when pods start or end. At rest they need
about a third of that, and the rest would stay in memory as long as nothing else needs it. A page that is needed again
is read again: some dozens of reads of the disk for each process.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.libc import malloc_trim
from syncpod.kernel.program_pages import free_own_pages, free_program_pages
from syncpod.settings.server_record import recorded_server_pid

REST_SECONDS: Final = 60.0
"""How long no step may have ended before the node counts as at rest."""
PAUSE_SECONDS: Final = 600.0
"""The shortest time between two such moments, since what is freed may have to be read from a slow disk again."""


class ProgramPages:
    """Frees them once after the start, and again after work. All methods but `free` belong to one event loop."""

    def __init__(self, free: Callable[[], object], *, rest: float = REST_SECONDS, pause: float = PAUSE_SECONDS) -> None:
        """Call `free`, which may block, in a thread. It may raise OSError, where the kernel does not do such things."""
        self._free = free
        self._rest = rest
        self._pause = pause
        self._worked_at = time.monotonic()
        self._has_worked = asyncio.Event()
        self._has_worked.set()  # the start was work

    def worked(self) -> None:
        """Note that the node has just done something for a pod."""
        self._worked_at = time.monotonic()
        self._has_worked.set()

    async def run(self) -> None:
        """Do so until cancelled."""
        while True:
            await self._has_worked.wait()
            if (left := self._worked_at + self._rest - time.monotonic()) > 0:
                await asyncio.sleep(left)
                continue
            self._has_worked.clear()
            with contextlib.suppress(OSError):
                await in_daemon_thread(self._free, name="program pages")
            await asyncio.sleep(self._pause)


def free_worker_and_server(state_dir: Path) -> None:
    """Free the pages of this process and, for root, those of the directory's Temporal server. Blocks. Raises OSError.

    Free memory of libc in this process goes back too. Should another process have the recorded number of the server by
    now, that one reads its pages again.
    """
    malloc_trim()
    free_own_pages()
    if (server := recorded_server_pid(state_dir)) is not None:
        free_program_pages(server)
