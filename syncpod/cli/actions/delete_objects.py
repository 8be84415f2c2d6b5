"""Deletes this machine's ConfigMaps and Secrets, without the modules that reach a server."""

from __future__ import annotations

import asyncio
from typing import Final

from syncpod.cli import deletion
from syncpod.cli.console import remark
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest
from syncpod.cli.input.kind_words import OBJECTS
from syncpod.cli.machine.own_objects import OwnObjects

NOTHING: Final = "No resources found"
"""The note that a selection has matched nothing."""


def delete_objects(request: DeletionRequest, how: Deleting) -> None:
    """Delete the requested ConfigMaps and Secrets; print a note if there were none. Raises Failure."""
    if not end_objects(request, how):
        remark(NOTHING)


def end_objects(request: DeletionRequest, how: Deleting) -> int:
    """Delete the ConfigMaps and Secrets of the request, and return their number; its pods are left out.

    Raises Failure, as `deletion.delete` does.
    """
    return asyncio.run(deletion.delete(OwnObjects(), request.of(list(OBJECTS.values())), how))
