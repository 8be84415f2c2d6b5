"""Records on this machine's node that a pod is deleted by force, although the node does not answer."""

from __future__ import annotations

from syncpod.cli.failure import BadInput
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.machine.checked_node import this_node
from syncpod.node.pod_records import read_pod_record
from syncpod.node.tombstones import write_tombstone
from syncpod.translation.paths import UnsafeName


def leave_order(fetched: FetchedPod) -> bool:
    """Write a pod's tombstone on this machine's node; return whether it was written. Blocks.

    The node's next worker then ends the pod's running containers. Only a user who may read the node's key can write
    tombstones. The UID comes from the server, and is not trusted: the node's record of this UID must have the pod's
    name.
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
        return False  # another user's directory, a full disk, or no node here; the caller reports it
    return True
