"""Threads for work on a pod's files: each pod has its own threads, so a disk that hangs delays only the pods on it.

A hostPath may lie on a network file system whose server is gone, or on a FUSE file system whose process has stopped. A
call that touches it never returns, and nothing can interrupt its thread. In a pool that all pods share, a few such
calls are enough to stop every pod of the node.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

from syncpod.kernel.daemon_thread import DaemonThreads

_T = TypeVar("_T")

SILENT_SECONDS: Final = 5.0
"""Seconds that a thread may take before its disk is reported as not answering."""
MOST_THREADS: Final = 2_000
"""Maximum number of threads of all pods together. Only hanging calls of many pods that were deleted by force reach this
number."""


class DiskWork(StrEnum):
    """The work of a thread for its pod, which has at most one thread of each kind."""

    MAKE = "to make its directories and volumes"
    REFRESH = "to update its volumes"
    READ = "to read its files"
    LOGS = "to keep its logs"
    SHOW_LOGS = "to show its logs"
    COMPRESS = "to compress its logs"
    REMOVE = "to remove its directories and volumes"


class DiskSilent(OSError):
    """A disk has not answered within the time that the caller was willing to wait."""


class TooManySilent(OSError):
    """The node starts no more threads for disks, because too many of them hang."""


class PodThreads:
    """The threads of all pods of a node. All methods belong to one event loop."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        """Allow at most `most` threads at the same time."""
        self._most = most
        self._threads = DaemonThreads()
        self._busy: dict[tuple[str, DiskWork], tuple[asyncio.Future[Any], float]] = {}
        """The future of each thread's result and the monotonic time at which it began, by pod and kind."""

    async def run(self, uid: str, kind: DiskWork, work: Callable[[], _T]) -> _T:
        """Run `work` in a thread of this pod; return its result, or raise its error.

        This first waits for the pod's thread of the same kind, and for the thread that removes its files. Cancelling
        does not stop a thread; the next call of its kind then waits for its end. So a pod never has more threads than
        there are kinds. Raises :class:`TooManySilent`.
        """
        while busy := list(self._in_the_way(uid, kind)):
            await asyncio.wait(busy)
        if len(self._busy) >= self._most:
            raise TooManySilent(f"{len(self._busy)} calls to disks of this node's pods have not returned")
        key, inside = (uid, kind), contextvars.copy_context()
        thread = self._threads.run(partial(inside.run, work), name=f"{kind.name.lower()} {uid}")
        self._busy[key] = thread, time.monotonic()
        thread.add_done_callback(partial(self._ended, key))
        return await asyncio.shield(thread)

    def silence(self, uid: str) -> str:
        """Return a clause about a pod's thread that has waited :data:`SILENT_SECONDS` or longer; "" = there is none."""
        now = time.monotonic()
        busy = ((kind, self._busy.get((uid, kind))) for kind in DiskWork)
        waits = ((kind, now - found[1]) for kind, found in busy if found is not None)
        said = (
            f"waits {kind}: a disk has not answered for {for_:.0f} s" for kind, for_ in waits if for_ >= SILENT_SECONDS
        )
        return next(said, "")

    def _in_the_way(self, uid: str, kind: DiskWork) -> Iterator[asyncio.Future[Any]]:
        for each in dict.fromkeys((kind, DiskWork.REMOVE)):
            if (busy := self._busy.get((uid, each))) is not None:
                yield busy[0]

    def _ended(self, key: tuple[str, DiskWork], thread: asyncio.Future[Any]) -> None:
        del self._busy[key]
        if not thread.cancelled():
            thread.exception()  # this keeps asyncio from logging the error if the caller was cancelled
