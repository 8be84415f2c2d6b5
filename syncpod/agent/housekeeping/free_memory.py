"""Returns memory to the kernel: freed memory after the process has grown, and program pages when the node is at rest.

One pod can make the worker need much memory for a moment, for instance to replay a run with a large history. Afterwards
libc keeps freed memory between other blocks. Runs that have left the SDK's cache are reference cycles until Python
collects them, which it does very rarely (`worker.py`: a full collection stops everything). So a gigabyte would stay for
as long as the worker lives. `FreeMemory` trims libc's memory and collects cycles, but only after the process has grown:
by much while the node works, and by less once the node is at rest, after many pods have ended.

Worker and server read tens of megabytes of their programs' files when they start, and when pods start or end. At rest
they need about half of these pages, and the other pages would stay in memory as long as no other process needs the
memory. `ProgramPages` frees them; a page that is needed again is read again, some dozens of disk reads for each
process. It saves 56 of 272 MiB, as four pairs of nodes with and without it show (docs/engineering/performance-log.md).
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
"""A process has grown if its memory exceeds its minimum since the last growth by more than `GROWTH_BYTES`, and by more
than an eighth of that minimum. The eighth is for large nodes: the more memory there is, the longer a full collection
stops the process."""
REST_PARTS: Final = 4
"""At rest, memory is trimmed after a quarter of the growth in `GROWTH_PARTS`, counted from the last rest."""
REST_SECONDS: Final = 60.0
"""Seconds without a change in any pod after which the node counts as at rest."""
PAUSE_SECONDS: Final = 600.0
"""The least seconds between two times that program pages are freed: they may have to be read from a slow disk again."""


class FreeMemory:
    """Trims the process's memory after growth. Belongs to one event loop."""

    def __init__(
        self,
        resident: Callable[[], int],
        trim: Callable[[], None] = malloc_trim,
        collect: Callable[[], object] = gc.collect,
        *,
        period: float = LOOK_SECONDS,
        rest: float = REST_SECONDS,
    ) -> None:
        """`resident` returns the process's resident bytes. `trim` runs in a thread, `collect` in the loop's thread."""
        self._resident, self._trim, self._collect = resident, trim, collect
        self._period, self._rest = period, rest
        self._least = self._at_rest = resident()
        """`_least` is the minimum of resident bytes since the last growth, `_at_rest` the minimum since the last
        rest."""
        self._worked_at: float | None = None
        """Monotonic time of the last change in a pod; None if there was none since the last rest."""

    def worked(self) -> None:
        """Note that the node has just done something for a pod."""
        self._worked_at = time.monotonic()

    async def run(self) -> None:
        """Check periodically until cancelled."""
        while True:
            await asyncio.sleep(self._period)
            await self.look()

    async def look(self) -> None:
        """Return free memory to the kernel if the process has grown; collect cycles only if that was not enough."""
        if self._has_come_to_rest():
            self._worked_at = None
            if await self._given_back(self._has_grown_since_rest):
                self._at_rest = self._resident()
        elif await self._given_back(self._has_grown):
            self._least = self._resident()  # the remaining memory counts as needed

    async def _given_back(self, has_grown: Callable[[], bool]) -> bool:
        """Give freed memory back to the kernel if the process has grown; return whether it had grown."""
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
    """Return the resident memory of this process in bytes (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class ProgramPages:
    """Frees program pages once after the start, and again when the node has come to rest. Belongs to one event loop."""

    def __init__(self, free: Callable[[], object], *, rest: float = REST_SECONDS, pause: float = PAUSE_SECONDS) -> None:
        """Call `free` in a thread; it may block. An OSError of it is ignored: the kernel may not support this."""
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
        """Free pages whenever the node has come to rest, until cancelled."""
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

    Also trims libc's memory in this process. If another process has meanwhile got the server's recorded pid, that
    process only has to read its pages again.
    """
    malloc_trim()
    free_own_pages()
    if (server := recorded_server_pid(state_dir)) is not None:
        free_program_pages(server)
