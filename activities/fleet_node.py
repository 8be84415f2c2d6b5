"""A node's answers to its fleet: activities on a queue of the fleet's server that only this node polls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

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

_Answer = TypeVar("_Answer")

_BEAT_SECONDS: Final = 3.0
"""Seconds between two heartbeats while a command runs."""


class FleetMember(Protocol):
    """A node that belongs to a fleet.

    Each method raises a non-retryable ApplicationError if the request comes from another fleet.
    """

    async def recall(self, asked: WhoAsks) -> Intent:
        """Return the newest list of pods that the fleet has given the node."""

    async def take(self, intent: Intent) -> IntentTaken:
        """Store a list of pods for the node to run. Raises ApplicationError of type StaleIntent for an older list."""

    async def attend(self, asked: Attend) -> Attended:
        """Wait until something has changed on the node, and return the changes."""

    def farewell(self) -> Attended:
        """Return the last report of a node that leaves in order; an empty report if it is not leaving."""


def fleet_answers(member: FleetMember) -> list[Callable[..., Any]]:
    """Return the activities that serve the fleet's lists and reports, for the worker that polls the fleet's server."""

    async def recall_intent(asked: WhoAsks) -> Intent:
        return await member.recall(asked)

    async def take_intent(intent: Intent) -> IntentTaken:
        return await member.take(intent)

    async def attend(asked: Attend) -> Attended:
        # If an `attend` is cancelled, the next one starts afresh, so the cancellation is no error.
        return await _beating(member.attend(asked), _pause(), member.farewell)

    named = ((RECALL_INTENT, recall_intent), (TAKE_INTENT, take_intent), (ATTEND, attend))
    return [activity.defn(name=name)(answer) for name, answer in named]


def _pause() -> float:
    """Return the seconds between two heartbeats: a third of the timeout, and at most HEARTBEAT_SECONDS."""
    timeout = activity.info().heartbeat_timeout
    return min(HEARTBEAT_SECONDS, timeout.total_seconds() / 3) if timeout else HEARTBEAT_SECONDS


def remote_command_answer(run: Callable[[RemoteCommand], Awaitable[RemoteCommandPiece]]) -> Callable[..., Any]:
    """Return the activity that runs commands for the fleet, for the worker that polls the fleet's server."""

    async def run_remote_command(asked: RemoteCommand) -> RemoteCommandPiece:
        stopping = RemoteCommandPiece(refused="the worker of the node is stopping")
        return await _beating(run(asked), _BEAT_SECONDS, lambda: stopping)

    return activity.defn(name=RUN_REMOTE_COMMAND)(run_remote_command)


async def _beating(work: Awaitable[_Answer], seconds: float, cancelled: Callable[[], _Answer]) -> _Answer:
    """Return the result of `work`, with a heartbeat every `seconds`.

    If the activity is cancelled, because the worker stops or the caller waits no more, the work is cancelled, and the
    result of `cancelled` is returned.
    """
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=seconds))[0]:
            activity.heartbeat()
    except asyncio.CancelledError:
        return cancelled()
    finally:
        task.cancel()
    return task.result()
