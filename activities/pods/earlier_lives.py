"""Ending earlier lives of a pod that still run because their workflows were terminated, and removing their remains."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from activities.node.pod_record import anothers
from activities.pods.removal import end_life, ended_life, remove_life
from activities.step_attempt import StepAttempt, warning
from syncpod.cri.port import SandboxSummary
from syncpod.messages import KillCause
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.messages.steps import KillPod
from syncpod.node.pod_records import PodRecord, read_pod_record
from syncpod.node.tombstones import record_of_ended_life, tombstone_at
from syncpod.translation.context import NodeContext
from syncpod.translation.names import (
    INCARNATION_ANNOTATION,
    NODE_LABEL,
    POD_NAME_LABEL,
    POD_NAMESPACE_LABEL,
    POD_UID_LABEL,
)
from syncpod.translation.paths import UnsafeName, is_uid


async def sandboxes_of_name(attempt: StepAttempt) -> tuple[SandboxSummary, ...]:
    """Return the sandboxes that pods of this namespace and name have on this node, whatever their UID. Raises CriError.

    A sandbox that has the name but no pod's UID is left out, and so left alone.
    """
    node, ref = attempt.node, attempt.ref
    listed = await node.cri.list_pod_sandboxes(
        labels={NODE_LABEL: node.context.name, POD_NAMESPACE_LABEL: ref.namespace, POD_NAME_LABEL: ref.name}
    )
    return tuple(each for each in listed if is_uid(_uid(each)))


async def end_earlier_lives(attempt: StepAttempt, listed: Sequence[SandboxSummary], *, grace_seconds: int) -> str:
    """Kill and remove every pod of this namespace and name, node and Temporal cluster that has another UID.

    `listed` are the sandboxes of the name (`sandboxes_of_name`), as they were when the step began or later. A name has
    one workflow at a time, and this step runs for it. So any other pod of that name has no workflow any more, and would
    run for ever. A pod of another cluster is left alone, since its workflow may still exist. A pod that the node is
    about to remove anyway is left alone too. Each container has `grace_seconds`, counted from the step's scheduling.

    Returns the UID of a pod that was left alone and still has a ready sandbox: while it runs, no first sandbox may be
    made. Returns "" if there is none, and for a life that already has a sandbox on the node. Mirrors
    pod_workers.go, v1.36, allowPodStart (a static pod starts when the last one of its full name has ended) and
    HandlePodCleanups (running pods without a source are killed). If the worker dies after a kill, the node removes the
    remains, as the tombstone allows. Raises CriError, OSError, and the errors of `end_life` and `remove_life`.
    """
    node, ref = attempt.node, attempt.ref
    elsewhere = await anothers(node, listed)
    ours = [each for each in listed if each not in elsewhere and _uid(each) != ref.uid]
    for life in await asyncio.to_thread(_lives_to_end, node.context, ours) if ours else ():
        attempt.doing = f"ends the pod {life.uid}, an earlier life of this name without a workflow"
        why = f"an earlier life of {ref.namespace}/{ref.name}, whose workflow is gone"
        kill = KillPod(ref=life, grace_seconds=grace_seconds, message=why, final=True, deleted=True)
        with attempt.on_life(life):
            killed = await end_life(attempt, kill, KillCause.EARLIER_LIFE)
            await remove_life(attempt, ended_life(life, killed), grace_seconds=grace_seconds)
        attempt.events.append(warning("EarlierLifeEnded", f"Killed and removed the pod {life.uid}: {why}."))
    if any((_uid(each), _incarnation(each)) == (ref.uid, ref.incarnation) for each in listed):
        return ""
    ready = {_uid(each) for each in elsewhere if each.state == "SANDBOX_READY"} - {ref.uid}
    return min(ready, default="")


async def remove_what_was_left(attempt: StepAttempt, *, grace_seconds: int) -> None:
    """Remove the remains of the last life under this pod's UID, if the node has not removed them yet.

    The UID of a static pod comes from its manifest, so the next life of the pod has the same directories. It must not
    find the volumes of the last life. Does nothing unless the pod's record is of another life, and that life has a
    tombstone. The step holds the turn of this UID, in which the node's collector would do the same, so it removes them
    here, before the volumes and the sandbox are made. Raises the errors of `remove_life`.
    """
    try:
        record = await asyncio.to_thread(record_of_ended_life, attempt.node.context, attempt.ref.uid)
    except UnsafeName:
        return  # the step itself reports the unsafe name
    if record is None or record.incarnation == attempt.ref.incarnation:
        return
    attempt.doing = "removes what the pod's last life has left"
    last = _life_of(record)
    with attempt.on_life(last):
        await remove_life(attempt, EndedLife(last), grace_seconds=grace_seconds)


def _lives_to_end(node: NodeContext, listed: Sequence[SandboxSummary]) -> tuple[PodRef, ...]:
    """Return the lives of the pods with these sandboxes, except those that the node will remove.

    The node will remove a life that has a tombstone and no ready sandbox. Blocks. Raises OSError.
    """
    lives = dict[str, PodRef]()
    for each in sorted(listed, key=lambda sandbox: (_uid(sandbox), sandbox.attempt)):
        life = PodRef(namespace=each.namespace, name=each.name, uid=_uid(each), incarnation=_incarnation(each))
        record = read_pod_record(node, life.uid)
        lives[life.uid] = life if record is None else _life_of(record)
    ready = {_uid(each) for each in listed if each.state == "SANDBOX_READY"}
    return tuple(
        each for each in lives.values() if each.uid in ready or tombstone_at(node, each.uid, each.incarnation) is None
    )


def _life_of(record: PodRecord) -> PodRef:
    meta = record.pod.metadata
    return PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid, incarnation=record.incarnation)


def _uid(sandbox: SandboxSummary) -> str:
    """Return the UID in a sandbox's labels, by which lists select; its metadata may have another."""
    return sandbox.labels.get(POD_UID_LABEL, "")


def _incarnation(sandbox: SandboxSummary) -> str:
    return sandbox.annotations.get(INCARNATION_ANNOTATION, "")
