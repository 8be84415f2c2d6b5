"""The order to end a pod that is deleted by force while its node is away, left in the records of that node."""

from __future__ import annotations

from syncpod.cli.failure import BadInput
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.orphans.found_orphans import this_node
from syncpod.node.pod_records import read_pod_record
from syncpod.node.tombstones import write_tombstone
from syncpod.translation.paths import UnsafeName


def leave_order(fetched: FetchedPod) -> bool:
    """Note in the records of this machine's node that a pod's life is over; return whether that is noted. Blocks.

    The node's next worker then ends what runs of it. Only a user who may read the node's key can write there. The
    server's word for the UID is not trusted: the node's record under it must be of the same name.
    """
    meta = fetched.pod.metadata
    try:
        node = this_node()
        if node.name != fetched.pod.spec.node_name or not meta.uid:
            return False
        record = read_pod_record(node, meta.uid)
        if record is None or (record.pod.metadata.namespace, record.pod.metadata.name) != fetched.key:
            return False
        write_tombstone(node, meta.uid, record.incarnation)
    except (OSError, UnsafeName, BadInput):
        return False  # another user's directory, a full disk, or no node here: the caller says what follows
    return True
