"""A node's answers to its fleet: activities on a queue of the fleet's server that only this node polls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from temporalio import activity

from syncpod.messages.fleet import (
    ATTEND,
    HEARTBEAT_SECONDS,
    RECALL_INTENT,
    TAKE_INTENT,
    Attend,
    Attended,
    Intent,
    IntentTaken,
    WhoAsks,
)
from syncpod.messages.remote_command import RUN_REMOTE_COMMAND, RemoteCommand, RemoteCommandPiece

_BEAT_SECONDS: Final = 3.0
"""Seconds between two heartbeats while a command runs."""


class FleetMember(Protocol):
    """A node that belongs to a fleet. Each method raises a non-retryable ApplicationError if another fleet asks."""

    async def recall(self, asked: WhoAsks) -> Intent:
        """Return the newest list that the node was given."""

    async def take(self, intent: Intent) -> IntentTaken:
        """Have the node run the pods of a list. Raises ApplicationError of type StaleIntent for an older list."""

    async def attend(self, asked: Attend) -> Attended:
        """Return changes on the node, as soon as there are any."""

    def farewell(self) -> Attended:
        """Return the last report of a node that goes away in order; an empty one if it does not."""


def fleet_answers(member: FleetMember) -> list[Callable[..., Any]]:
    """Return the activities to register with the worker that polls the fleet's server."""

    async def recall_intent(asked: WhoAsks) -> Intent:
        return await member.recall(asked)

    async def take_intent(intent: Intent) -> IntentTaken:
        return await member.take(intent)

    async def attend(asked: Attend) -> Attended:
        task = asyncio.create_task(member.attend(asked))
        try:
            while not (await asyncio.wait({task}, timeout=_pause()))[0]:
                activity.heartbeat()
        except asyncio.CancelledError:
            # The worker is stopping, or nobody waits any more. The next `attend` asks anew, so this is not an error.
            return member.farewell()
        finally:
            task.cancel()
        return task.result()

    named = ((RECALL_INTENT, recall_intent), (TAKE_INTENT, take_intent), (ATTEND, attend))
    return [activity.defn(name=name)(answer) for name, answer in named]


def _pause() -> float:
    """Return the seconds between two heartbeats: a third of the timeout, and at most HEARTBEAT_SECONDS."""
    timeout = activity.info().heartbeat_timeout
    return min(HEARTBEAT_SECONDS, timeout.total_seconds() / 3) if timeout else HEARTBEAT_SECONDS


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
