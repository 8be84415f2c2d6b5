"""Runs blocking work in daemon threads if it may hang for ever, else in a pool whose threads all start at once."""

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
"""Seconds until the next try after a thread could not be started."""
IDLE_SECONDS: Final = 10.0
"""Seconds for which a thread that has done its work waits for more."""


class DaemonThreads:
    """Daemon threads that are started when none is free. All methods belong to one event loop.

    A hung thread of a pool is lost to all users of the pool. Here a hung thread blocks neither other work nor the end
    of the process. A thread that has done its work waits a while for more: the start of a thread blocks the event loop
    until the thread runs, which may take longer than the work.
    """

    def __init__(self) -> None:
        """Begin without threads."""
        self._free: list[SimpleQueue[Callable[[], None]]] = []
        """The queues of the idle threads. The thread that became idle last gets the next work."""

    def run(self, work: Callable[[], _T], *, name: str) -> asyncio.Future[_T]:
        """Run `work` in a thread, which has that name meanwhile; return a future for its result.

        Cancelling the future does not stop the work. If no thread can be started, because the machine or this user has
        no process id left, the work begins once one can. Until then it looks like work that hangs; callers are prepared
        for that.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[_T] = loop.create_future()

        def run() -> None:
            threading.current_thread().name = name
            tell: Callable[[], Any]
            try:
                tell = partial(outcome.set_result, work())
            except BaseException as error:  # noqa: BLE001  # the future receives any error
                tell = partial(outcome.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop may be closed already
                loop.call_soon_threadsafe(_unless_cancelled, outcome, tell)

        self._begin(run, outcome, name)
        return outcome

    def _begin(self, run: Callable[[], None], outcome: asyncio.Future[Any], name: str) -> None:
        """Give the work to a free thread, or to a new one.

        This is a method because a function in `run` that refers to itself would keep the work and its result until the
        next garbage collection.
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
        """Run this work, and then later work, in the current thread."""
        mine: SimpleQueue[Callable[[], None]] = SimpleQueue()
        while True:
            work()
            del work  # otherwise the waiting thread would keep the objects of the work
            threading.current_thread().name = "idle"
            self._free.append(mine)
            try:
                work = mine.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    self._free.remove(mine)
                except ValueError:  # the thread has just been given work
                    work = mine.get()
                else:
                    return


def in_daemon_thread(work: Callable[[], _T], *, name: str) -> asyncio.Future[_T]:
    """Run `work` in a new thread, as `DaemonThreads.run` does."""
    return DaemonThreads().run(work, name=name)


def started_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """Return a pool whose threads all run already: later there may be no process id left for a new one."""
    pool, together = ThreadPoolExecutor(threads, name), threading.Barrier(threads)
    for _ in range(threads):
        pool.submit(together.wait)
    return pool


def _unless_cancelled(outcome: asyncio.Future[_T], tell: Callable[[], Any]) -> None:
    if not outcome.done():
        tell()
