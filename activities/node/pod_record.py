"""The record of a pod on its node: steps write it, and it names the Temporal cluster that has the pod's workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from activities.node.context import Node
from syncpod.cri.port import SandboxSummary
from syncpod.messages.identity import PodRef
from syncpod.node.directories import make_directories, own_directories
from syncpod.node.pod_records import Mark, PodRecord, cluster_of, mark_pod_record, read_pod_record, write_pod_record
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.names import CLUSTER_ANNOTATION, INCARNATION_ANNOTATION, NODE_LABEL, POD_UID_LABEL
from syncpod.translation.paths import is_uid


def note_pod(node: NodeContext, ref: PodRef, pod: Pod) -> None:
    """Write the pod's record into its directory, which is made if missing; marks of this life of the pod stay.

    Blocks; safe to repeat. Raises UnsafeName, OSError.
    """
    make_directories(own_directories(ref.uid, node))
    known = read_pod_record(node, ref.uid)
    if known is None or known.incarnation != ref.incarnation:
        known = PodRecord(incarnation=ref.incarnation)
    write_pod_record(node, known.model_copy(update={"pod": pod, "cluster": node.cluster}))


def mark_record(node: NodeContext, ref: PodRef, marks: Iterable[Mark]) -> PodRecord | None:
    """Set marks in the pod's record, unless it is of another life; return the record, None if there is none.

    Blocks; safe to repeat. Raises UnsafeName, OSError.
    """
    record = read_pod_record(node, ref.uid)
    for mark in marks if record is not None and record.incarnation == ref.incarnation else ():
        if record is not None and not getattr(record, mark):
            mark_pod_record(node, record, mark)
            record = record.model_copy(update={mark: True})
    return record


async def is_ours(node: Node, uid: str) -> bool:
    """Return whether this Temporal cluster has made or adopted every sandbox of a pod. Raises CriError."""
    labels = {NODE_LABEL: node.context.name, POD_UID_LABEL: uid}
    return not await anothers(node, await node.cri.list_pod_sandboxes(labels=labels))


async def anothers(node: Node, sandboxes: Iterable[SandboxSummary]) -> tuple[SandboxSummary, ...]:
    """Return the sandboxes of another Temporal cluster, by their pods' records or their own annotations."""
    listed = tuple(sandboxes)
    if not listed:
        return ()
    clusters = await asyncio.to_thread(lambda: [_cluster(node, each) for each in listed])
    return tuple(each for each, cluster in zip(listed, clusters, strict=True) if cluster != node.context.cluster)


def _cluster(node: Node, sandbox: SandboxSummary) -> str:
    """Return the Temporal cluster of a sandbox's pod. Blocks."""
    annotated = sandbox.annotations.get(CLUSTER_ANNOTATION, "")
    uid = sandbox.labels.get(POD_UID_LABEL, "")
    if not is_uid(uid):
        return annotated  # it belongs to no pod, so there is no record
    record = read_pod_record(node.context, uid)
    return cluster_of(record, sandbox.annotations.get(INCARNATION_ANNOTATION, ""), annotated)
