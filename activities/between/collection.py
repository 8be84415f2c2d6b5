"""Garbage collection between a pod's steps: dead containers and sandboxes, and the remains of a pod that is gone.

The agent decides which objects may be removed (`syncpod.lifecycle.container_gc`). This module removes them, by the same
functions as in a step. No removal races with a step:

- The collector holds the pod's turn, which it takes only if no step has that turn or waits for it. A step that arrives
  meanwhile waits for the call under way. Steps look before they act, and need not remove an object that is gone.
- The objects are chosen from a listing that was read in that turn, so it has everything that steps have made.
- A sandbox or container that the runtime is still making for a dead worker is not listed. It can only become the newest
  one, and the newest is never collected. A container listed as created is removed only after a time in which any start
  of it would have ended.
- A pod's directory is removed only if the runtime has nothing of its UID, and has had nothing for longer than
  RunPodSandbox may take, and if no workflow of this pod is open. If a pod with that UID is applied meanwhile, its first
  step waits for the turn, and then makes everything again.
- Nothing with another node's label is touched, and no pod whose sandbox or record names another Temporal cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, NamedTuple

from activities.containers.removal import remove_dead, remove_sandbox, remove_unstarted
from activities.node.context import Node
from activities.node.pod_record import anothers, is_ours
from activities.pods.life_end import leave_tombstone
from activities.pods.removal import remove_life, remove_remains
from activities.pods.stopping import stop_sandbox
from activities.step_attempt import Interrupted, NotYet, PodFault, StepAttempt
from syncpod.messages import ObservedPod
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.messages.step_table import Stage
from syncpod.messages.steps import StepInput
from syncpod.node.directories import remove_pod_volumes
from syncpod.node.pod_records import PodRecord, read_pod_record
from syncpod.node.pod_threads import DiskWork
from syncpod.node.tombstones import tombstone_at
from syncpod.translation.context import NodeContext
from syncpod.translation.names import NODE_LABEL, POD_UID_LABEL

PATIENCE_SECONDS: Final = 5.0
"""Seconds that a removal waits for a hanging disk. Then it fails, and is tried again later."""


class Collected(NamedTuple):
    """How many objects were removed."""

    containers: int = 0
    sandboxes: int = 0


class Collector:
    """Collects garbage on one node, in parallel with its steps."""

    def __init__(self, node: Node) -> None:
        """Use the same runtime, fences and reader as the node's steps."""
        self._node = node

    async def collect(self, uid: str, choose: Callable[[ObservedPod], Collection[str]]) -> Collected:
        """Remove the dead containers of a pod, with their logs, and the dead sandboxes that `choose` selects by id.

        `choose` is called with each new listing until nothing more is removed, since a sandbox is removed only once it
        has no containers. Only containers that have ended or have never started are removed. Nothing happens while a
        step has the pod, nor to a pod of another Temporal cluster. Raises CriError, OSError.
        """
        attempt = self._attempt(PodRef(uid=uid))
        gone = _Gone()
        async with self._node.fences.undisturbed(uid, attempt) as held:
            if not held or not await is_ours(self._node, uid):
                return Collected()
            while True:
                view = await attempt.read()
                before = gone.so_far
                try:
                    await gone.remove(attempt, view, choose(view))
                except Interrupted:
                    return gone.so_far
                if gone.so_far == before:
                    return before

    async def remove(self, life: EndedLife, is_gone: Callable[[PodRef, bool], Awaitable[bool]]) -> bool:
        """Remove the remains of a pod's life, as `remove_remains` does; return whether nothing is left to do.

        A tombstone shows that the life is over. Without a tombstone, the remains are removed only if nothing of the pod
        is alive, and if `is_gone` confirms that the pod has no open workflow. `is_gone` is called last; its second
        argument is whether the runtime still lists dead objects of the pod. Nothing is left to do if the node's record
        is of another life of the pod. Without a tombstone, the same is true if there is no record, or if the record
        names another Temporal cluster.

        The removal waits in the node's queue, behind pods that are to be stopped. If a step of the pod arrives, this
        returns False, and the caller tries again. Raises the errors of `remove_remains` and `is_gone`.
        """
        attempt = self._attempt(life.ref)
        self._node.agent.pleg.step_began(life.ref.uid)  # so that no signal reports what is removed
        try:
            async with self._node.fences.undisturbed(life.ref.uid, attempt) as held:
                if not held:
                    return False
                async with attempt.in_queue(Stage.CLEARING):
                    is_done = await self._remove(attempt, life, is_gone)
        except (Interrupted, NotYet, PodFault):
            return False
        finally:
            self._node.agent.pleg.step_ended(life.ref.uid)
        if is_done:
            self._node.views.forget(life.ref)
            self._node.fences.forget_later(life.ref)
        return is_done

    async def _remove(
        self, attempt: StepAttempt, life: EndedLife, is_gone: Callable[[PodRef, bool], Awaitable[bool]]
    ) -> bool:
        ref = life.ref
        record, is_over = await asyncio.to_thread(_recorded, self._node.context, ref)
        if record is not None and record.incarnation != ref.incarnation:
            return True
        if is_over:
            grace = (record.pod.spec.termination_grace_period_seconds or 0) if record is not None else 0
            await remove_life(attempt, life, grace_seconds=grace, patience_seconds=PATIENCE_SECONDS)
        elif record is not None and record.cluster == self._node.context.cluster:
            view = await self._judged_gone(attempt, is_gone)
            if view is None:
                return False
            attempt.checkpoint()
            await leave_tombstone(attempt)
            await remove_remains(attempt, view, stopped=life.stopped, patience_seconds=PATIENCE_SECONDS)
        else:
            return True
        self._node.agent.pleg.returned(self._node.reader.nothing(ref.uid))
        return True

    async def _judged_gone(
        self, attempt: StepAttempt, is_gone: Callable[[PodRef, bool], Awaitable[bool]]
    ) -> ObservedPod | None:
        """Return a pod's listing if it has nothing alive, no open workflow, and no other node's or cluster's object."""
        if await self._is_anothers(attempt.ref.uid):
            return None
        view = await attempt.read()
        if any(each.ready for each in view.sandboxes) or any(each.state != "exited" for each in view.containers):
            return None
        return view if await is_gone(attempt.ref, bool(view.sandboxes or view.containers)) else None

    async def empty(self, uid: str) -> bool:
        """Remove the volumes of a pod that was evicted and has ended; return whether they are removed.

        The volumes' use of the disk may be the reason for the eviction. Nothing happens while a step has the pod, nor
        while the runtime lists a container of it. Raises CriError, OSError.

        Mirrors kubelet.go, v1.36, SyncTerminatedPod. Difference: the kubelet does this for every pod that has ended.
        """
        attempt = self._attempt(PodRef(uid=uid))
        async with self._node.fences.undisturbed(uid, attempt) as held:
            if not held:
                return False
            context = self._node.context
            record = await asyncio.to_thread(read_pod_record, context, uid)
            if record is None or not (record.finished and record.evicted and record.cluster == context.cluster):
                return False
            if await self._is_anothers(uid) or (await attempt.read()).containers:
                return False
            removing = partial(remove_pod_volumes, context, uid)
            await attempt.on_disk(DiskWork.REMOVE, removing, patience_seconds=PATIENCE_SECONDS)
            return True

    def _attempt(self, ref: PodRef) -> StepAttempt:
        return StepAttempt(self._node, StepInput(ref=ref), number=1)

    async def _is_anothers(self, uid: str) -> bool:
        """Return whether another node or another cluster has something of that UID in the runtime. Raises CriError."""
        context, cri = self._node.context, self._node.cri
        of_this_uid = {POD_UID_LABEL: uid}
        sandboxes, containers = await asyncio.gather(
            cri.list_pod_sandboxes(labels=of_this_uid), cri.list_containers(labels=of_this_uid)
        )
        owners = {each.labels.get(NODE_LABEL) for each in sandboxes} | {c.labels.get(NODE_LABEL) for c in containers}
        if owners - {context.name}:
            return True
        return bool(await anothers(self._node, sandboxes))


def _recorded(node: NodeContext, ref: PodRef) -> tuple[PodRecord | None, bool]:
    """Return the pod's record, and whether this life of the pod has a tombstone. Blocks. Raises OSError, UnsafeName."""
    return read_pod_record(node, ref.uid), tombstone_at(node, ref.uid, ref.incarnation) is not None


class _Gone:
    """The removed objects of one pod; nothing is removed twice, even if the runtime still lists it."""

    def __init__(self) -> None:
        self._containers: set[str] = set()
        self._sandboxes: set[str] = set()

    @property
    def so_far(self) -> Collected:
        """How many objects have been removed so far."""
        return Collected(len(self._containers), len(self._sandboxes))

    async def remove(self, attempt: StepAttempt, view: ObservedPod, chosen: Collection[str]) -> None:
        """Remove the chosen objects that are not alive.

        Raises CriError, and Interrupted between two removals once a step of the pod arrives.
        """
        for container in view.containers:
            attempt.checkpoint()
            if container.id not in chosen or container.id in self._containers:
                continue
            if container.state == "exited":
                await remove_dead(attempt, container)
                self._containers.add(container.id)
            elif container.state == "created" and await remove_unstarted(attempt, container.id):
                self._containers.add(container.id)
        homes = {container.sandbox_id for container in view.containers}
        for sandbox in view.sandboxes:
            attempt.checkpoint()
            if sandbox.id not in chosen or sandbox.id in self._sandboxes or sandbox.ready or sandbox.id in homes:
                continue
            await stop_sandbox(attempt, sandbox)
            await remove_sandbox(attempt, sandbox)
            self._sandboxes.add(sandbox.id)
