"""Ending earlier lives of a pod that still run because their workflows were terminated, and removing their remains.

A life is an incarnation of a UID. Most pods have a new UID in each life; a static pod, and a pod with a UID of its own,
keeps its UID, and so its directories.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from activities.node.pod_record import anothers
from activities.pods.removal import end_life, ended_life, remove_life
from activities.step_attempt import StepAttempt, warning
from syncpod.cri.port import SandboxSummary
from syncpod.messages import KillCause
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.messages.steps import KillPod
from syncpod.node.pod_records import PodRecord, read_pod_record
from syncpod.node.tombstones import tombstone_at
from syncpod.translation.context import NodeContext
from syncpod.translation.names import (
    INCARNATION_ANNOTATION,
    NODE_LABEL,
    POD_NAME_LABEL,
    POD_NAMESPACE_LABEL,
    POD_UID_LABEL,
)
from syncpod.translation.paths import is_uid


async def sandboxes_of_name(attempt: StepAttempt) -> tuple[SandboxSummary, ...]:
    """Return the sandboxes that pods of this namespace and name have on this node, whatever their UID. Raises CriError.

    A sandbox that has the name but no pod's UID is left out, and so left alone.
    """
    node, ref = attempt.node, attempt.ref
    listed = await node.cri.list_pod_sandboxes(
        labels={NODE_LABEL: node.context.name, POD_NAMESPACE_LABEL: ref.namespace, POD_NAME_LABEL: ref.name}
    )
    return tuple(each for each in listed if is_uid(_uid(each)))


async def end_earlier_lives(
    attempt: StepAttempt, listed: Sequence[SandboxSummary], *, grace_seconds: int, adopts: bool = False
) -> str:
    """Kill and remove every other life of a pod of this namespace and name, on this node and Temporal cluster.

    `listed` are the sandboxes of the name (`sandboxes_of_name`), as they were when the step began or later. A name has
    one workflow at a time, and this step runs for it. So any other life of that name has no workflow any more, and
    would run for ever. A pod of another cluster is left alone, since its workflow may still exist. Each container has
    `grace_seconds`, counted from the step's scheduling.

    A life that the node is about to remove anyway is left alone too, unless it has this pod's UID, as each life of a
    static pod has: this pod must not find its volumes. The step holds the turn of this UID, so its caller writes the
    pod's record afterwards; a record of this life shows that no other life under the UID is left. A step that `adopts`
    the pod ends no life under its UID, and neither does one whose life already has a sandbox.

    Returns the UID of a pod that was left alone and still has a ready sandbox: while it runs, no first sandbox may be
    made. Returns "" if there is none, and for a life that already has a sandbox on the node. Mirrors
    pod_workers.go, v1.36, allowPodStart (a static pod starts when the last one of its full name has ended) and
    HandlePodCleanups (running pods without a source are killed). If the worker dies after a kill, the node removes the
    remains, as the tombstone allows. Raises CriError, OSError, UnsafeName, and the errors of `end_life` and
    `remove_life`.
    """
    node, ref = attempt.node, attempt.ref
    elsewhere = await anothers(node, listed)
    ours = [each for each in listed if each not in elsewhere]
    has_begun = any((_uid(each), _incarnation(each)) == (ref.uid, ref.incarnation) for each in listed)
    spares = adopts or has_begun
    for life in await asyncio.to_thread(lambda: tuple(_earlier_lives(node.context, ref, ours, spares_uid=spares))):
        with attempt.on_life(life.ref):
            await _end(attempt, life, grace_seconds)
    if has_begun:
        return ""
    ready = {_uid(each) for each in elsewhere if each.state == "SANDBOX_READY"} - {ref.uid}
    return min(ready, default="")


class _EarlierLife(NamedTuple):
    """A life to remove."""

    ref: PodRef
    is_over: bool
    """Whether it has ended already, and only its remains are left."""


async def _end(attempt: StepAttempt, life: _EarlierLife, grace_seconds: int) -> None:
    """Kill a life, unless it is over, and remove its remains. The attempt acts on that life."""
    ref = life.ref
    if life.is_over:
        attempt.doing = "removes what the pod's last life has left"
        await remove_life(attempt, EndedLife(ref), grace_seconds=grace_seconds)
        return
    attempt.doing = f"ends the pod {ref.uid}, an earlier life of this name without a workflow"
    why = f"an earlier life of {ref.namespace}/{ref.name}, whose workflow is gone"
    kill = KillPod(ref=ref, grace_seconds=grace_seconds, message=why, final=True, deleted=True)
    killed = await end_life(attempt, kill, KillCause.EARLIER_LIFE)
    await remove_life(attempt, ended_life(ref, killed), grace_seconds=grace_seconds)
    attempt.events.append(warning("EarlierLifeEnded", f"Killed and removed the pod {ref.uid}: {why}."))


def _earlier_lives(
    node: NodeContext, own: PodRef, listed: Sequence[SandboxSummary], *, spares_uid: bool
) -> Iterator[_EarlierLife]:
    """Yield the lives to remove, by these sandboxes of the name and by the pods' records: one for each UID.

    With `spares_uid`, no life under the own UID is among them. Blocks. Raises OSError, UnsafeName.
    """
    by_sandbox = {
        _uid(each): PodRef(namespace=each.namespace, name=each.name, uid=_uid(each), incarnation=_incarnation(each))
        for each in sorted(listed, key=lambda sandbox: sandbox.attempt)
        if _uid(each) != own.uid or _incarnation(each) not in ("", own.incarnation)
    }
    ready = {_uid(each) for each in listed if each.state == "SANDBOX_READY"}
    for uid in sorted({own.uid, *by_sandbox}):
        record = read_pod_record(node, uid)
        life = by_sandbox.get(uid) if record is None else _life_of(record)
        if life is None or (uid == own.uid and (spares_uid or life.incarnation in ("", own.incarnation))):
            continue
        is_over = uid not in ready and tombstone_at(node, uid, life.incarnation) is not None
        if uid == own.uid:
            # A life of another cluster, whose workflow may still exist, has a record and no sandbox in the list.
            if is_over or uid in by_sandbox or (record is not None and record.cluster == node.cluster):
                yield _EarlierLife(life, is_over)
        elif not is_over:
            yield _EarlierLife(life, is_over=False)


def _life_of(record: PodRecord) -> PodRef:
    meta = record.pod.metadata
    return PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid, incarnation=record.incarnation)


def _uid(sandbox: SandboxSummary) -> str:
    """Return the UID in a sandbox's labels, by which lists select; its metadata may have another."""
    return sandbox.labels.get(POD_UID_LABEL, "")


def _incarnation(sandbox: SandboxSummary) -> str:
    return sandbox.annotations.get(INCARNATION_ANNOTATION, "")
