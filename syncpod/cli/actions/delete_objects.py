"""Deletes this machine's ConfigMaps and Secrets, without the modules that reach a server."""

from __future__ import annotations

import asyncio

from syncpod.cli import deletion
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest
from syncpod.cli.input.kind_words import OBJECTS
from syncpod.cli.machine.own_objects import OwnObjects


def delete_objects(request: DeletionRequest, how: Deleting) -> int:
    """Delete the requested ConfigMaps and Secrets, and return their number. Raises Failure, as `deletion.delete` does.

    Pods of the request are left out.
    """
    return asyncio.run(deletion.delete(OwnObjects(), request.of(list(OBJECTS.values())), how))
