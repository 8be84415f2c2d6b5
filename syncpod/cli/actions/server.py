"""The work of ``syncpod server``: the Temporal dev server in the foreground."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import subprocess


_SETTLED_SECONDS: Final = 30.0
"""Seconds until a started server's worker has probably connected; then memory that only the start needed is freed."""


async def until_ended(child: subprocess.Popen[bytes], settled: Callable[[], None]) -> int:
    """Return the child's exit code; end it on SIGINT and SIGTERM. Calls `settled` once it has served for a while.

    Another thread waits for the child, since a main thread blocked in waitpid could miss a signal. The event loop is
    woken by each signal, whichever thread the kernel delivers it to.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, child.terminate)
    loop.call_later(_SETTLED_SECONDS, settled)
    return await asyncio.to_thread(child.wait)
