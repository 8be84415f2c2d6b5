"""Writing a pod's record on its node, by the steps that are given the whole pod."""

from __future__ import annotations

from syncpod.messages.identity import PodRef
from syncpod.node.directories import make_directories, own_directories
from syncpod.node.pod_records import PodRecord, read_pod_record, write_pod_record
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext


def note_pod(node: NodeContext, ref: PodRef, pod: Pod) -> None:
    """Write the pod's record into its directory, made if missing; marks of this life of the pod stay.

    Blocks; safe to repeat. Raises UnsafeName, OSError.
    """
    make_directories(own_directories(ref.uid, node))
    known = read_pod_record(node, ref.uid)
    if known is None or known.incarnation != ref.incarnation:
        known = PodRecord(incarnation=ref.incarnation)
    write_pod_record(node, known.model_copy(update={"pod": pod, "cluster": node.cluster}))
