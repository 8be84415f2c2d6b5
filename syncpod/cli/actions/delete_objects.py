"""Deletes this machine's ConfigMaps and Secrets, and reads which objects manifests name; both need no server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from syncpod.cli import deletion
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest, Thing
from syncpod.cli.input.kind_words import OBJECTS
from syncpod.cli.input.manifests import named_in
from syncpod.cli.machine.own_objects import OwnObjects


def delete_objects(request: DeletionRequest, how: Deleting) -> int:
    """Delete the requested ConfigMaps and Secrets, and return their number. Raises Failure, as `deletion.delete` does.

    Pods of the request are left out.
    """
    return asyncio.run(deletion.delete(OwnObjects(), request.of(list(OBJECTS.values())), how))


def things_in_manifests(filename: Sequence[str], namespace: str) -> list[Thing]:
    """Return the pods, ConfigMaps and Secrets that the manifests name. Raises BadInput."""
    pods, objects = named_in(filename, namespace)
    return [Thing("Pod", *pod) for pod in pods] + [Thing(each.kind, each.namespace, each.name) for each in objects]
