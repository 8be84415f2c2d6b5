"""Deletes objects of a node alone or of a fleet: prints the results, and waits until all are gone.

Mirrors kubectl's pkg/cmd/delete/delete.go, v1.36: one failed deletion does not stop the others, and the command returns
when all objects are gone. An `Owner`, which is the node or the fleet, finds the objects and ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure, together
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest, Selection, Thing

NOTE_SECONDS: Final = 5.0
"""Seconds after which a command that waits for deletions first prints what these wait for."""
_LONGEST_PAUSE_SECONDS: Final = 60.0
_MOST_REPORTED: Final = 10
"""Maximum number of objects that one report of the wait names."""
_AT_ONCE: Final = 50
"""Maximum number of objects ended or queried at the same time: more could overload a node."""

DELETION_IS_KEPT: Final = "the deletion is kept, and continues once the node's worker runs (`syncpod up` there)"
"""The part of a sentence about a deletion while the pod's node is away."""


class NotThere(Failure):
    """An object that is to be deleted does not exist."""


@dataclass
class Going:
    """An object that is being deleted."""

    thing: Thing
    gone: Callable[[], Awaitable[None]]
    """Returns once it is gone. Raises Failure."""
    why: Callable[[], Awaitable[str]]
    """Returns what the deletion waits for, in a few words; "" once the object is gone. Raises Failure."""
    where: str = ""
    """The object's node, if several nodes may have an object of this name; else ""."""
    said: str = ""
    """The reason that was printed last; it is printed only when it changes."""

    def __str__(self) -> str:
        """Return it for a sentence: ``pod "web" on n1``."""
        return f"{self.thing}{f' on {self.where}' if self.where else ''}"


@dataclass(frozen=True)
class DeletionResult:
    """The result of one deletion."""

    places: Sequence[str] = ("",)
    """The nodes from which the object is deleted; a line is printed for each. "" = no node is named."""
    notes: Sequence[str] = ()
    going: Sequence[Going] = ()


class Owner(Protocol):
    """A node alone, or a fleet: it finds its objects and ends them."""

    async def selected(self, selection: Selection) -> list[Thing]:
        """Return the objects that match the selection. Raises Failure."""
        ...

    async def look(self, thing: Thing) -> DeletionResult:
        """Return what a dry run prints of the deletion. Raises NotThere and Failure."""
        ...

    async def end(self, thing: Thing) -> DeletionResult:
        """Request the deletion, and return before the object is gone. Raises NotThere and Failure."""
        ...

    async def begun(self, going: Sequence[Going]) -> Sequence[Going]:
        """Print why some of these do not end now, and return those to wait for. Raises Failure."""
        ...

    async def until_in_vain(self, left: Callable[[], Sequence[Going]]) -> None:
        """Return once nothing ends the remaining objects, since no worker serves this node. May never return."""
        ...


async def delete(owner: Owner, request: DeletionRequest, how: Deleting) -> int:
    """Delete objects concurrently, wait until they are gone, and return their number.

    A failed deletion does not stop the others. Raises one Failure for all failed deletions and a timeout.
    """
    things = list(request.things) if request.selection is None else await owner.selected(request.selection)
    if request.is_bare and not how.ignore_not_found:
        await _require_all(owner, things, how.kinds)
    failures: list[Failure] = []
    going: list[Going] = []
    verb = f"{'force deleted' if how.force else 'deleted'}{how.mark}"
    for thing, result in await _each(owner.look if how.mark else owner.end, things):
        if isinstance(result, Failure):
            failures += [] if how.ignore_not_found and isinstance(result, NotThere) else [result]
            continue
        for place in result.places:
            say(f"{thing} {verb} from {thing.namespace} namespace{f' on node/{place}' if place else ''}")
        for note in result.notes:
            remark(note)
        going += result.going
    try:
        going = [] if how.mark else list(await owner.begun(going))
        if how.wait:
            await until_gone(owner, going, how.patience)
    except Failure as failure:
        failures.append(failure)
    if failures:
        raise together(failures, done=len(failures) < len(things))
    return len(things)


async def _require_all(owner: Owner, things: Sequence[Thing], kinds: str) -> None:
    """Raise Failure if one of these things does not exist; their names were given without a kind."""
    failures = [result for _, result in await _each(owner.look, things) if isinstance(result, Failure)]
    if failures:
        lines = [*map(str, failures), f"nothing was deleted: a kind before names is one of {kinds}"]
        raise Failure("\n".join(lines))


async def _each(
    deed: Callable[[Thing], Awaitable[DeletionResult]], things: Sequence[Thing]
) -> list[tuple[Thing, DeletionResult | Failure]]:
    """Call `deed` for each of these, several at a time; a failure of one does not stop the others."""
    some = asyncio.Semaphore(_AT_ONCE)

    async def do(thing: Thing) -> tuple[Thing, DeletionResult | Failure]:
        async with some:
            try:
                return thing, await deed(thing)
            except Failure as failure:
                return thing, failure

    return await asyncio.gather(*map(do, things))


async def until_gone(owner: Owner, going: Sequence[Going], patience: timedelta | None) -> None:
    """Wait until all of these are gone; print meanwhile what they wait for.

    Raises Failure on a timeout, or once no worker can end the remaining objects. The failure names what each remaining
    object waits for.
    """
    if not going:
        return
    waits = {asyncio.ensure_future(each.gone()): each for each in going}

    def left() -> list[Going]:
        return [each for task, each in waits.items() if not task.done()]

    telling, in_vain = asyncio.create_task(_tell(left)), asyncio.create_task(owner.until_in_vain(left))
    ends: set[asyncio.Future[Any]] = {asyncio.gather(*waits, return_exceptions=True), in_vain}
    try:
        seconds = patience.total_seconds() if patience is not None else None
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        telling.cancel()
        in_vain.cancel()
    remaining = left()
    for task in waits:
        if task.done():
            task.result()
        task.cancel()
    if still := [(each, why) for each, why in await _reasons_of(remaining) if why]:
        raise Failure(_still_there(still, in_vain=in_vain.done() and not in_vain.cancelled()))


def _still_there(left: Sequence[tuple[Going, str]], *, in_vain: bool) -> str:
    """Return the message that these are not gone: the reason for each, and whether their deletions continue."""
    names = ", ".join(str(each) for each, _ in left)
    news = [f"{each}: {why}" for each, why in left if each.said != why]
    if in_vain:
        return "\n".join([f"no worker serves this node, so nothing ends {names} now", *news])
    fate = "the deletion is kept" if all(DELETION_IS_KEPT in why for _, why in left) else "the deletion continues"
    return "\n".join([f"timed out waiting for {names} to end; {fate}", *news])


async def _reasons_of(going: Sequence[Going]) -> list[tuple[Going, str]]:
    """Return these in order, each with the reason why it has not ended. Raises Failure."""
    some = asyncio.Semaphore(_AT_ONCE)

    async def why(each: Going) -> tuple[Going, str]:
        async with some:
            return each, await each.why()

    return await asyncio.gather(*map(why, sorted(going, key=lambda each: (each.thing, each.where))))


async def _tell(left: Callable[[], Sequence[Going]]) -> None:
    """Print what the deletions wait for whenever that has changed, at growing intervals, until cancelled."""
    pause = NOTE_SECONDS
    while True:
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        there = left()
        try:
            reasons = await _reasons_of(there[:_MOST_REPORTED])
        except Failure:  # `Going.gone` calls the server too, and raises if the failure lasts
            continue
        news = [(each, why) for each, why in reasons if why and why != each.said]
        for each, why in news:
            each.said = why
            remark(f"{each} is being deleted: {why}")
        if news and len(there) > _MOST_REPORTED:
            remark(f"{len(there) - _MOST_REPORTED} more are being deleted")
