"""Collects the values of a node's Secrets, which are hidden in all texts that leave the node.

If the values of a container's Secrets are no longer known, its texts are withheld as a whole.
"""

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
"""Replaces a container's text if the node may have lost Secrets' values that the container received."""


def known_secret_values(store: ObjectStore) -> frozenset[str]:
    """Return the values of all Secrets of the node, and the former values that containers have received.

    A new worker needs them: texts of containers and of the runtime may have values from an earlier worker. Blocks.
    Raises OSError.
    """
    now = secret_values(store, store.versions())
    return now.union(*(_of(former.ref, held) for former, held in store.former()))


def secret_values(store: ObjectStore, refs: Iterable[ObjectRef]) -> frozenset[str]:
    """Return the values of the Secrets among these objects, in the form of environments. Blocks.

    A missing Secret has no values. No container gets an unreadable Secret, so its error is only logged.
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
    """Return whether a container may have received a Secret's value that the node no longer has.

    A reboot clears all values. So this is True for a container from before the reboot, or of unknown age, if its pod
    refers to a Secret or has no record. `began` is when the container was made or started; None = not known. Before a
    worker reads any container, it calls the store's `begin_knowing`. Blocks. Raises OSError, UnsafeName.
    """
    since = store.known_since()
    if since is None or (began is not None and began.timestamp() >= since):
        return False
    record = read_pod_record(node, uid)
    return record is None or any(each.ref.kind == "Secret" for each in references(record.pod))
