"""Blocking work in a thread of its own, for what may hang without end: nothing but its own answer waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")


def in_own_thread(work: Callable[[], _T], *, name: str) -> asyncio.Future[_T]:
    """Begin the work and return what will have its outcome, in the running event loop.

    A thread of a pool that hangs is missing to all who use the pool; this one is missed by nobody, the end of the
    process included. Giving up the future leaves the work to itself.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[_T] = loop.create_future()

    def run() -> None:
        tell: Callable[[], Any]
        try:
            tell = partial(outcome.set_result, work())
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is told
            tell = partial(outcome.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop may have ended long ago
            loop.call_soon_threadsafe(_unless_given_up, outcome, tell)

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome


def _unless_given_up(outcome: asyncio.Future[_T], tell: Callable[[], Any]) -> None:
    if not outcome.done():
        tell()
