"""Runs blocking work in threads: of its own if it may hang for ever, or of a pool whose threads have all begun."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

AGAIN_SECONDS: Final = 1.0
"""How long after a thread could not be started it is tried again."""
IDLE_SECONDS: Final = 10.0
"""How long a thread that has done its work waits for more."""


class DaemonThreads:
    """Daemon threads that are begun when none is free. All methods belong to one event loop.

    A hung thread of a pool is lost to everybody who uses the pool. Here it blocks nobody, not even the end of the
    process. A thread that has done its work takes more for a while: to start one blocks the event loop until it runs,
    which on a busy machine takes longer than the work.
    """

    def __init__(self) -> None:
        """Have no thread yet."""
        self._free: list[SimpleQueue[Callable[[], None]]] = []
        """Where the threads wait that have nothing to do. The last one to come is the first to go."""

    def run(self, work: Callable[[], _T], *, name: str) -> asyncio.Future[_T]:
        """Have `work` done by a thread, which has that name meanwhile; return a future for its result.

        Cancelling the future does not stop the work. Where no thread can be started, because the machine or this user
        has no process id left, the work begins as soon as one can: until then it is like one that hangs, which its
        callers are prepared for.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[_T] = loop.create_future()

        def run() -> None:
            threading.current_thread().name = name
            tell: Callable[[], Any]
            try:
                tell = partial(outcome.set_result, work())
            except BaseException as error:  # noqa: BLE001  # whatever it is, the future gets it
                tell = partial(outcome.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop may be closed already
                loop.call_soon_threadsafe(_unless_cancelled, outcome, tell)

        self._begin(run, outcome, name)
        return outcome

    def _begin(self, run: Callable[[], None], outcome: asyncio.Future[Any], name: str) -> None:
        """Give the work to a free thread, or to a new one.

        A method: a function in `run` that names itself would keep the work and its result until the next collection of
        garbage.
        """
        if outcome.done():
            return
        if self._free:
            self._free.pop().put(run)
            return
        try:
            threading.Thread(target=self._serve, args=(run,), name=name, daemon=True).start()
        except RuntimeError:
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._begin, run, outcome, name)

    def _serve(self, work: Callable[[], None]) -> None:
        """Do this work, and then all later work, as a thread."""
        mine: SimpleQueue[Callable[[], None]] = SimpleQueue()
        while True:
            work()
            del work  # the objects that it refers to are not kept while the thread waits
            threading.current_thread().name = "idle"
            self._free.append(mine)
            try:
                work = mine.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    self._free.remove(mine)
                except ValueError:  # it was given work just now
                    work = mine.get()
                else:
                    return


def in_daemon_thread(work: Callable[[], _T], *, name: str) -> asyncio.Future[_T]:
    """Have `work` done by a new thread of its own, as `DaemonThreads.run` does."""
    return DaemonThreads().run(work, name=name)


def started_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """Return a pool all of whose threads run already: when one is needed, there may be no process id for it."""
    pool, together = ThreadPoolExecutor(threads, name), threading.Barrier(threads)
    for _ in range(threads):
        pool.submit(together.wait)
    return pool


def _unless_cancelled(outcome: asyncio.Future[_T], tell: Callable[[], Any]) -> None:
    if not outcome.done():
        tell()
