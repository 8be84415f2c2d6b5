"""Gives memory back to the kernel that the worker has had and no longer needs, also on a node that never rests.

One pod can make the worker need much for a moment: a run with a large history is replayed, or a large message is
refused again and again. Afterwards libc keeps what was freed between other blocks, and the runs that have left the
SDK's cache wait as cycles for a collection, which Python makes very rarely (`worker.py`: a full one stops everything).
So a gigabyte stayed for as long as the worker lived. Here both are done, but only after the process has grown.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.libc import malloc_trim

LOOK_SECONDS: Final = 30.0
GROWTH_BYTES: Final = 32 * 1024**2
GROWTH_PARTS: Final = 8
"""A process has grown if it has this much more than the last time, and an eighth: a large node's pods need much, and a
full collection stops it the longer, the more there is."""


class FreeMemory:
    """Looks after the process's memory. Belongs to one event loop."""

    def __init__(
        self,
        resident: Callable[[], int],
        trim: Callable[[], None] = malloc_trim,
        collect: Callable[[], object] = gc.collect,
        *,
        period: float = LOOK_SECONDS,
    ) -> None:
        """`resident` returns how many bytes the process has. `trim` runs in a thread, `collect` in the loop's."""
        self._resident, self._trim, self._collect = resident, trim, collect
        self._period = period
        self._least = resident()
        """The least that the process has had since its last growth."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._period)
            await self.look()

    async def look(self) -> None:
        """Give back what is free if the process has grown; collect cycles only if it has still grown after that."""
        if not self._has_grown():
            return
        await in_daemon_thread(self._trim, name="free memory")
        if self._has_grown():
            self._collect()
            await in_daemon_thread(self._trim, name="free memory")
        self._least = self._resident()  # all that is left is needed

    def _has_grown(self) -> bool:
        now = self._resident()
        self._least = min(self._least, now)
        return now - self._least > max(GROWTH_BYTES, self._least // GROWTH_PARTS)


def resident_bytes() -> int:
    """Return how much memory this process has (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
