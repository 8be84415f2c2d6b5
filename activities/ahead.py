"""A container that is created before the turn of its start, while the runtime is busy with the one before it.

    step a   StartContainer is sent, or its process has ended ──────► reads the pod ─► done
    step b        └► prepared, CreateContainer ··· waits ········ is it as expected? ─► start mark, StartContainer

Before its turn nobody sees the container: it is in no listing of this worker, counts in no metric, and has no start
mark. If its turn does not come, it is removed, and whoever acts in the pod next waits for that. If the worker dies
before, the next try of the start finds a container that was never told to start, and clears it away.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from activities.containers.noted_starts import which_counts
from activities.containers.removal import remove_unstarted
from activities.images.presence import FoundImages
from activities.node.fences import Claim
from activities.preparing import Prepared, prepare
from activities.step_attempt import MadeEarly, StepAttempt
from syncpod.cri.errors import CriError, DeadlineExceeded
from syncpod.messages import ObservedContainer
from syncpod.messages.steps import StartContainer
from syncpod.node.reader import Instance


@dataclass(frozen=True)
class Created:
    """A container that was asked for before its turn."""

    images: FoundImages
    pod_ips: tuple[str, ...]
    """The pod's addresses, of which its files and its environment tell."""
    id: str
    """"" if the runtime did not answer in time: the container may still appear."""


@dataclass(frozen=True)
class MadeAhead:
    """What was made for a start before its turn."""

    prepared: Prepared | None = None
    """None where an image was missing, or something went wrong: the start does all of it itself, and reports that."""
    created: Created | None = None


class Ahead(MadeEarly):
    """Makes what a start needs while it waits for its turn, its container too where that is possible.

    Whoever has one ends it with `drop`, which removes what nobody has taken.
    """

    def __init__(self, attempt: StepAttempt, request: StartContainer, claim: Claim) -> None:
        self._attempt, self._request, self._claim = attempt, request, claim
        self._instance = Instance(request.ref.uid, request.ref.incarnation, request.container, request.restart)
        self._is_sent = self._is_taken = False
        self._container_id = ""
        self._work = asyncio.create_task(self._make())

    async def take(self) -> MadeAhead:
        """Return what was made: the turn has come, and from now on it is the start's own. Raises Interrupted."""
        await self._attempt.interruptible(asyncio.wait({self._work}))
        self._is_taken = True
        self._attempt.node.reader.show(self._instance)
        failed = self._work.cancelled() or self._work.exception() is not None
        return MadeAhead() if failed else self._work.result()

    async def drop(self) -> None:
        """End the work, and remove the container that was created unless it was taken. Raises CriError, OSError.

        A call that was sent is awaited. If the removal fails, the next try of the start clears the container away.
        """
        if not self._is_sent:
            self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        try:
            if self._is_sent and not self._is_taken:
                await self._remove()
        finally:
            self._attempt.node.reader.show(self._instance)
            self._attempt.node.fences.leave(self._attempt.ref, self._attempt)

    async def _make(self) -> MadeAhead:
        attempt, request, node = self._attempt, self._request, self._attempt.node
        prepared = await prepare(attempt, request)
        if prepared is None or prepared.configured is None or which_counts(prepared.mark, request) is not None:
            return MadeAhead(prepared)
        if attempt.asked or not node.fences.join(attempt.ref, self._claim, attempt):
            return MadeAhead(prepared)
        node.reader.hide(self._instance)
        self._is_sent = True
        asked = prepared.configured
        try:
            self._container_id = await node.cri.create_container(request.sandbox_id, asked.container, asked.sandbox)
        except DeadlineExceeded:
            pass
        except CriError:  # if the turn comes, the start asks again, and reports what is wrong
            return MadeAhead(prepared)
        return MadeAhead(prepared, Created(prepared.images, asked.pod_ips, self._container_id))

    async def _remove(self) -> None:
        """Remove the container. If the runtime has not said which one it is, look whether there is one."""
        if self._container_id:
            await remove_unstarted(self._attempt, self._container_id)
            return
        self._attempt.node.reader.show(self._instance)
        await remove_never_started(self._attempt, self._request)


async def made_ahead(attempt: StepAttempt) -> MadeAhead:
    """Return what was made for the start while it waited, and have it belong to the start. Raises Interrupted."""
    return await attempt.ahead.take() if isinstance(attempt.ahead, Ahead) else MadeAhead()


async def drop_ahead(attempt: StepAttempt) -> None:
    """Undo what was made for the start while it waited, except what the start has taken. Raises CriError, OSError."""
    ahead, attempt.ahead = attempt.ahead, None
    if ahead is not None:
        await ahead.drop()


def is_its(instance: ObservedContainer, request: StartContainer) -> bool:
    """Say whether an instance is the one that a start makes, whichever try of it has made it."""
    named = instance.name == request.container and instance.restart_count == request.restart
    return named and instance.incarnation == request.ref.incarnation


async def remove_never_started(attempt: StepAttempt, request: StartContainer) -> None:
    """Remove what earlier tries of a start have created and nobody has told to start. Raises CriError, OSError."""
    for each in (await attempt.read()).containers:
        if is_its(each, request) and each.state == "created":
            await remove_unstarted(attempt, each.id)
