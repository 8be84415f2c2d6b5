"""Lists the nodes, workloads, pods and objects of a fleet, as its server has them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from syncpod.cli.failure import Failure
from syncpod.cli.listing import Form, FoundObjects, ListingPrinter
from syncpod.cli.streams import interrupts
from syncpod.cli.temporal import fleet, fleet_lists

if TYPE_CHECKING:
    from temporalio.client import Client


def print_things(things: Mapping[str, Sequence[str]], form: Form, state_dir: str) -> None:
    """Print the named objects of each kind, or all that `form` chooses; a watch ends with Ctrl-C.

    Raises BadInput, and Failure once all is printed, with the names that do not exist.
    """

    async def work(client: Client) -> None:
        with ListingPrinter(form) as listing:
            for kind, names in things.items():
                await _show(listing, partial(fleet_lists.find, client, kind, names, form))
            listing.end()
        if listing.missing:
            raise Failure("\n".join(listing.missing))

    if form.watch:
        interrupts.enable()
    fleet.run(work, state_dir=state_dir)


async def _show(listing: ListingPrinter, find: Callable[[], Awaitable[FoundObjects]]) -> None:
    """Print the objects of one kind that `find` returns; a watch awaits `find` again and again."""
    found = await find()
    goes_on = listing.begin(found)
    while goes_on:
        await asyncio.sleep(found.pause)
        found = await find()
        listing.go_on(found)
