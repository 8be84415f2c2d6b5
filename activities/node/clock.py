"""The clock by which steps measure how long something takes: that of the event loop in which they run."""

from __future__ import annotations

import asyncio


def monotonic() -> float:
    """Return monotonic seconds, as the running event loop counts them. Raises RuntimeError outside of one."""
    return asyncio.get_running_loop().time()
