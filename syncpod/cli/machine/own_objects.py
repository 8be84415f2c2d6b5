"""Deletes ConfigMaps and Secrets of this machine's node; running pods keep the values that they were given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from syncpod.cli.deletion import DeletionResult, Going, NotThere
from syncpod.cli.input.deletion_request import Selection, Thing
from syncpod.cli.machine.object_store import find, not_there, saying_what_failed, store_to_read
from syncpod.objects import Kind, ObjectRef


class OwnObjects:
    """The objects of this machine's node. A deletion takes effect at once."""

    async def selected(self, selection: Selection) -> list[Thing]:
        """Return the selected objects. Raises Failure."""
        found = [
            one
            for kind in selection.kinds
            for one in find(cast(Kind, kind), (), selection.namespace, selection.conditions)[0]
        ]
        return [Thing(one.kind, one.metadata.namespace or "default", one.metadata.name) for one in found]

    async def look(self, thing: Thing) -> DeletionResult:
        """Raise NotThere if there is no such object, and Failure if the store cannot be read."""
        with saying_what_failed():
            return _required(thing, is_there=store_to_read().get(_ref_of(thing)) is not None)

    async def end(self, thing: Thing) -> DeletionResult:
        """Remove the object from the node. Raises NotThere and Failure."""
        with saying_what_failed():
            return _required(thing, is_there=store_to_read().delete(_ref_of(thing)))

    async def begun(self, going: Sequence[Going]) -> Sequence[Going]:
        """Return these unchanged: an object is gone at once, so there is nothing to note."""
        return going

    async def until_in_vain(self, left: Callable[[], Sequence[Going]]) -> None:
        """Never return: the deletion of an object waits for no worker."""
        await asyncio.get_running_loop().create_future()


def _ref_of(thing: Thing) -> ObjectRef:
    return ObjectRef(cast(Kind, thing.kind), thing.namespace, thing.name)


def _required(thing: Thing, *, is_there: bool) -> DeletionResult:
    if not is_there:
        raise NotThere(not_there(thing.kind, thing.name, thing.namespace))
    return DeletionResult()
