"""Slots that keep a burst of calls from slowing each other down, but that a call which hangs does not keep for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from activities.node.fences import Holder


@asynccontextmanager
async def slot(holder: Holder, slots: asyncio.Semaphore, *, at_most_seconds: float) -> AsyncIterator[None]:
    """Wait for one of `slots` and hold it for the block, but no longer than `at_most_seconds`.

    What takes longer hangs, and uses nothing of what the slots are to share: its slot is another pod's then, while the
    block goes on without. Raises what `holder.interruptible` raises.
    """
    await holder.interruptible(slots.acquire())
    held = True

    def give_back() -> None:
        nonlocal held
        if held:
            held = False
            slots.release()

    hung = asyncio.get_running_loop().call_later(at_most_seconds, give_back)
    try:
        yield
    finally:
        hung.cancel()
        give_back()
