"""The clock for the durations and deadlines of steps: that of their event loop."""

from __future__ import annotations

import asyncio


def monotonic() -> float:
    """Return monotonic seconds, as the running event loop counts them. Raises RuntimeError outside of one."""
    return asyncio.get_running_loop().time()
