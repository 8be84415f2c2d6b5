"""Slots: they limit how many calls run at once, and a call that hangs does not keep its slot for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from activities.node.fences import Holder


@asynccontextmanager
async def slot(holder: Holder, slots: asyncio.Semaphore, *, at_most_seconds: float) -> AsyncIterator[None]:
    """Wait for one of `slots` and hold it for the block, but no longer than `at_most_seconds`.

    A block that takes longer hangs, and uses none of what the slots share. Another pod then gets its slot, while the
    block goes on. Raises what `holder.interruptible` raises.
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
