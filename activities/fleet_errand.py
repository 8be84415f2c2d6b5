"""Commands that a node runs for its fleet: an activity on the queue that only this node polls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from temporalio import activity

from syncpod.messages.errand import RUN_ERRAND, Errand, ErrandPiece

_BEAT_SECONDS: Final = 3.0


def errand_answer(run: Callable[[Errand], Awaitable[ErrandPiece]]) -> Callable[..., Any]:
    """Return the activity to register with the worker that polls the fleet's server."""

    async def run_errand(asked: Errand) -> ErrandPiece:
        task = asyncio.ensure_future(run(asked))
        try:
            while not (await asyncio.wait({task}, timeout=_BEAT_SECONDS))[0]:
                activity.heartbeat()
        except asyncio.CancelledError:
            return ErrandPiece(refused="the worker of the node is stopping")
        finally:
            task.cancel()
        return task.result()

    return activity.defn(name=RUN_ERRAND)(run_errand)
