"""What of a node's Secrets no message may repeat: their values, gathered for the runtime's client to withhold."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from syncpod.objects import ObjectRef, ObjectStore, ObjectUnreadable, values
from syncpod.translation.env import Sources

log = logging.getLogger(__name__)


def known_secret_values(store: ObjectStore) -> frozenset[str]:
    """Return the values of all Secrets of the node, as `secret_values` does. Blocks. Raises OSError.

    For a worker that has just begun: what its elder gave to containers, the runtime may repeat to it.
    """
    return secret_values(store, store.versions())


def secret_values(store: ObjectStore, refs: Iterable[ObjectRef]) -> frozenset[str]:
    """Return the values of those objects that are Secrets, as environments have them. Blocks.

    A Secret that is not there has none; one that cannot be read is given to nobody, and is said in the log alone.
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
