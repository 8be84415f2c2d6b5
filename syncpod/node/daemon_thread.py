"""Runs blocking work that may hang for ever in a daemon thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")


def in_daemon_thread(work: Callable[[], _T], *, name: str) -> asyncio.Future[_T]:
    """Start `work` in a new daemon thread and return a future for its result, in the running event loop.

    A hung thread of a pool is lost to everybody who uses the pool. A daemon thread of its own blocks nobody, not even
    the end of the process. Cancelling the future does not stop the work.
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

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome


def _unless_cancelled(outcome: asyncio.Future[_T], tell: Callable[[], Any]) -> None:
    if not outcome.done():
        tell()
