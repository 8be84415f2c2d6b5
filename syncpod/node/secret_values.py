"""The values of a node's Secrets, which the runtime's client redacts in every message."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from syncpod.objects import ObjectRef, ObjectStore, ObjectUnreadable, values
from syncpod.translation.env import Sources

log = logging.getLogger(__name__)


def known_secret_values(store: ObjectStore) -> frozenset[str]:
    """Return the values of all Secrets of the node, as `secret_values` does. Blocks. Raises OSError.

    For a new worker: the runtime may repeat values to it that an earlier worker gave to containers.
    """
    return secret_values(store, store.versions())


def secret_values(store: ObjectStore, refs: Iterable[ObjectRef]) -> frozenset[str]:
    """Return the values of those objects that are Secrets, as environments have them. Blocks.

    A missing Secret has none. One that cannot be read is given to no container, so it is only logged.
    """
    found: dict[ObjectRef, Mapping[str, bytes]] = {}
    for ref in {ref for ref in refs if ref.kind == "Secret"}:
        try:
            held = store.get(ref)
        except (ObjectUnreadable, OSError) as error:
            log.warning("%s", error)
            continue
        if held is not None:
            found[ref] = values(held)
    return Sources(found).secrets()
