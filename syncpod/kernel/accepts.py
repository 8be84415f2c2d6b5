"""The log of an event loop that cannot accept connections, because the process has as many files open as it may.

asyncio tries again each second, a hundred times each, and logs a traceback for each try.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from syncpod.rare_lines import RareLines

log = logging.getLogger(__name__)

REPEAT_SECONDS: Final = 60.0
"""The time between two warnings while it lasts."""
_ASYNCIO_SAYS: Final = "socket.accept() out of system resource"


def say_in_one_sentence(loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.monotonic) -> None:
    """Have the loop log one warning a minute while it accepts no connections; all other errors as before."""
    lines = RareLines(REPEAT_SECONDS, clock)

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if context.get("message") != _ASYNCIO_SAYS or not isinstance(error, OSError):
            loop.default_exception_handler(context)
        elif lines.left_out() is not None:
            log.warning("no new connection is accepted, and each second it is tried again: %s", error.strerror)

    loop.set_exception_handler(handle)
