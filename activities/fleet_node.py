"""What a fleet asks of a node, as activities on a queue of the fleet's server that only this node polls."""

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
    """A node that belongs to a fleet. Each method raises a non-retryable ApplicationError for another fleet's."""

    async def recall(self, asked: WhoAsks) -> Intent:
        """Return the newest list that the node was given."""

    async def take(self, intent: Intent) -> IntentTaken:
        """Have the node run what the list says. Raises ApplicationError of type StaleIntent for an older list."""

    async def attend(self, asked: Attend) -> Attended:
        """Return what has changed, as soon as something has."""


def fleet_answers(member: FleetMember) -> list[Callable[..., Any]]:
    """Return the activities to register with the worker that polls the fleet's server."""

    async def recall_intent(asked: WhoAsks) -> Intent:
        return await member.recall(asked)

    async def take_intent(intent: Intent) -> IntentTaken:
        return await member.take(intent)

    async def attend(asked: Attend) -> Attended:
        task = asyncio.create_task(member.attend(asked))
        try:
            while not (await asyncio.wait({task}, timeout=HEARTBEAT_SECONDS))[0]:
                activity.heartbeat()
        except asyncio.CancelledError:
            if not activity.is_worker_shutdown():
                raise
            # The next worker is asked anew at once, where a failure would say that something is wrong with the node.
            return Attended(version="")
        finally:
            task.cancel()
        return task.result()

    named = ((RECALL_INTENT, recall_intent), (TAKE_INTENT, take_intent), (ATTEND, attend))
    return [activity.defn(name=name)(answer) for name, answer in named]
