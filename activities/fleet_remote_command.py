"""Commands that a node runs for its fleet: an activity on the queue that only this node polls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from temporalio import activity

from syncpod.messages.remote_command import RUN_REMOTE_COMMAND, RemoteCommand, RemoteCommandPiece

_BEAT_SECONDS: Final = 3.0


def remote_command_answer(run: Callable[[RemoteCommand], Awaitable[RemoteCommandPiece]]) -> Callable[..., Any]:
    """Return the activity to register with the worker that polls the fleet's server."""

    async def run_remote_command(asked: RemoteCommand) -> RemoteCommandPiece:
        task = asyncio.ensure_future(run(asked))
        try:
            while not (await asyncio.wait({task}, timeout=_BEAT_SECONDS))[0]:
                activity.heartbeat()
        except asyncio.CancelledError:
            return RemoteCommandPiece(refused="the worker of the node is stopping")
        finally:
            task.cancel()
        return task.result()

    return activity.defn(name=RUN_REMOTE_COMMAND)(run_remote_command)
