"""Runs blocking work in threads: of its own if it may hang for ever, or of a pool whose threads have all begun."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

AGAIN_SECONDS: Final = 1.0
"""How long after a thread could not be started it is tried again."""


def in_daemon_thread(work: Callable[[], _T], *, name: str) -> asyncio.Future[_T]:
    """Start `work` in a new daemon thread and return a future for its result, in the running event loop.

    A hung thread of a pool is lost to everybody who uses the pool. A daemon thread of its own blocks nobody, not even
    the end of the process. Cancelling the future does not stop the work. Where no thread can be started, because the
    machine or this user has no process id left, the work begins as soon as one can: until then it is like one that
    hangs, which its callers are prepared for.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[_T] = loop.create_future()

    def run() -> None:
        tell: Callable[[], Any]
        try:
            tell = partial(outcome.set_result, work())
        except BaseException as error:  # noqa: BLE001  # whatever it is, the future gets it
            tell = partial(outcome.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop may be closed already
            loop.call_soon_threadsafe(_unless_cancelled, outcome, tell)

    def begin() -> None:
        if outcome.done():
            return
        try:
            threading.Thread(target=run, name=name, daemon=True).start()
        except RuntimeError:
            loop.call_later(AGAIN_SECONDS, begin)

    begin()
    return outcome


def started_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """Return a pool all of whose threads run already: when one is needed, there may be no process id for it."""
    pool, together = ThreadPoolExecutor(threads, name), threading.Barrier(threads)
    for _ in range(threads):
        pool.submit(together.wait)
    return pool


def _unless_cancelled(outcome: asyncio.Future[_T], tell: Callable[[], Any]) -> None:
    if not outcome.done():
        tell()
