"""Gives memory back to the kernel: after growth, and the pages of programs whenever the node has come to rest.

One pod can make the worker need much for a moment: a run with a large history is replayed, or a large message is
refused again and again. Afterwards libc keeps what was freed between other blocks, and the runs that have left the
SDK's cache wait as cycles for a collection, which Python makes very rarely (`worker.py`: a full one stops everything).
So a gigabyte stayed for as long as the worker lived. `FreeMemory` does both, but only after the process has grown: by
much while the node works, and by less once it has come to rest, when a flood of pods is over.

Worker and server read tens of megabytes of their programs' files when they start and when pods start or end. At rest
they need about half of that, and the rest would stay in memory as long as nothing else needs it. `ProgramPages` frees
it; a page that is needed again is read again, some dozens of reads of the disk for each process. Four pairs of nodes
with and without it are in docs/engineering/performance-log.md: it saves 56 of 272 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.libc import malloc_trim
from syncpod.kernel.program_pages import free_own_pages, free_program_pages
from syncpod.settings.process_records import recorded_server_pid

LOOK_SECONDS: Final = 30.0
GROWTH_BYTES: Final = 32 * 1024**2
GROWTH_PARTS: Final = 8
"""A process has grown if it has this much more than the last time, and an eighth: a large node's pods need much, and a
full collection stops it the longer, the more there is."""
REST_PARTS: Final = 4
"""At rest a process has grown if it has a quarter of that more than at the last rest."""
REST_SECONDS: Final = 60.0
"""How long no step may have ended before the node counts as at rest."""
PAUSE_SECONDS: Final = 600.0
"""The shortest time between two such moments, since what is freed may have to be read from a slow disk again."""


class FreeMemory:
    """Looks after the process's memory. Belongs to one event loop."""

    def __init__(
        self,
        resident: Callable[[], int],
        trim: Callable[[], None] = malloc_trim,
        collect: Callable[[], object] = gc.collect,
        *,
        period: float = LOOK_SECONDS,
        rest: float = REST_SECONDS,
    ) -> None:
        """`resident` returns how many bytes the process has. `trim` runs in a thread, `collect` in the loop's."""
        self._resident, self._trim, self._collect = resident, trim, collect
        self._period, self._rest = period, rest
        self._least = self._at_rest = resident()
        """The least that the process has had since its last growth, and that it has had at rest."""
        self._worked_at: float | None = None
        """When the node has done something for a pod, if it has since the last rest."""

    def worked(self) -> None:
        """Note that the node has just done something for a pod."""
        self._worked_at = time.monotonic()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._period)
            await self.look()

    async def look(self) -> None:
        """Give back what is free if the process has grown; collect cycles only if it has still grown after that."""
        if self._has_come_to_rest():
            self._worked_at = None
            if await self._given_back(self._has_grown_since_rest):
                self._at_rest = self._resident()
        elif await self._given_back(self._has_grown):
            self._least = self._resident()  # all that is left is needed

    async def _given_back(self, has_grown: Callable[[], bool]) -> bool:
        """Give back what is free if the process has grown; say whether it had."""
        if not has_grown():
            return False
        await in_daemon_thread(self._trim, name="free memory")
        if has_grown():
            self._collect()
            await in_daemon_thread(self._trim, name="free memory")
        return True

    def _has_grown(self) -> bool:
        now = self._resident()
        self._least = min(self._least, now)
        return now - self._least > max(GROWTH_BYTES, self._least // GROWTH_PARTS)

    def _has_grown_since_rest(self) -> bool:
        now = self._resident()
        self._at_rest = min(self._at_rest, now)
        return REST_PARTS * (now - self._at_rest) > max(GROWTH_BYTES, self._at_rest // GROWTH_PARTS)

    def _has_come_to_rest(self) -> bool:
        return self._worked_at is not None and time.monotonic() - self._worked_at >= self._rest


def resident_bytes() -> int:
    """Return how much memory this process has (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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
