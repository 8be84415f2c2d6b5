"""A node's answers to its fleet: activities on a queue of the fleet's server that only this node polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

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
