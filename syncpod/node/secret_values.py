"""The values of a node's Secrets, which are hidden in all texts that leave it; and which texts cannot be searched."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from syncpod.node.pod_records import read_pod_record
from syncpod.objects import ObjectRef, ObjectStore, ObjectUnknown, ObjectUnreadable, references, values
from syncpod.pod import ConfigMap, Secret
from syncpod.translation.context import NodeContext
from syncpod.translation.env import Sources

log = logging.getLogger(__name__)

WITHHELD: Final = (
    "not shown: this container began before the node knew the values of its pod's Secrets, so they cannot be hidden"
)
"""Stands for a container's text if the values that it was given are not known any more."""


def known_secret_values(store: ObjectStore) -> frozenset[str]:
    """Return the values of all Secrets of the node, and those that containers were given before.

    For a new worker: a container or the runtime may repeat values to it that an earlier worker gave to containers.
    Blocks. Raises OSError.
    """
    now = secret_values(store, store.versions())
    return now.union(*(_of(former.ref, held) for former, held in store.former()))


def secret_values(store: ObjectStore, refs: Iterable[ObjectRef]) -> frozenset[str]:
    """Return the values of those objects that are Secrets, as environments have them. Blocks.

    A missing Secret has none. One that cannot be read is given to no container, so it is only logged.
    """
    return frozenset().union(*_each(store, refs))


def _each(store: ObjectStore, refs: Iterable[ObjectRef]) -> Iterator[frozenset[str]]:
    for ref in {ref for ref in refs if ref.kind == "Secret"}:
        try:
            held = store.get(ref)
        except ObjectUnknown:
            continue
        except (ObjectUnreadable, OSError) as error:
            log.warning("%s", error)
            continue
        if held is not None:
            yield _of(ref, held)


def _of(ref: ObjectRef, held: ConfigMap | Secret) -> frozenset[str]:
    return Sources({ref: values(held)}).secrets()


def may_have_unknown(node: NodeContext, store: ObjectStore, uid: str, began: datetime | None) -> bool:
    """Say whether a container may have been given a Secret's value that the node does not know any more.

    So it is after a reboot, with which all values go, for a container of a pod that refers to a Secret, or of one that
    has no record. `began` is when it was made or started; None = not known. A worker has the store note since when it
    knows values before it looks at any container. Blocks. Raises OSError, UnsafeName.
    """
    since = store.known_since()
    if since is None or (began is not None and began.timestamp() >= since):
        return False
    record = read_pod_record(node, uid)
    return record is None or any(each.ref.kind == "Secret" for each in references(record.pod))
