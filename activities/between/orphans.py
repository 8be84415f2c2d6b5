"""Ends containers that should not run on a node: those of orphans or of no pod, and older duplicates of one name.

The agent finds and judges them (`syncpod.lifecycle.orphans`). This module ends them by the same functions as in a step,
in the turn of their pod, which is taken only if no step has that turn or waits for it. They are judged once more in
that turn, so that a pod applied meanwhile is not mistaken for the earlier pod. Nothing without the node's label is
touched.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from activities.containers.ending import Selection, emit_hook_events, end_containers, kill_target
from activities.containers.kill_timeout import within_kill_timeout
from activities.node.context import Node
from activities.node.pod_record import is_ours
from activities.pods.removal import end_life, ended_life
from activities.step_attempt import Interrupted, NotYet, PodFault, StepAttempt
from syncpod.cri.errors import NotFound
from syncpod.cri.port import ContainerSummary
from syncpod.messages import KillCause, ObservedContainer, ObservedPod
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.messages.steps import KillPod, KillTarget, StepInput, StepResult
from syncpod.node.inventory import Nameless, take_inventory
from syncpod.node.pod_records import PodRecord, read_pod_record
from syncpod.translation.names import NODE_LABEL

_USUAL_GRACE_SECONDS = 30
"""The grace period of a pod whose spec has none (DefaultTerminationGracePeriodSeconds)."""


class OrphanEnder:
    """Ends orphans on one node, in parallel with its steps."""

    def __init__(self, node: Node) -> None:
        """Use the same runtime, fences and reader as the node's steps."""
        self._node = node

    async def end_pod(
        self, ref: PodRef, is_orphan: Callable[[], Awaitable[bool]], *, grace_seconds: int, why: str
    ) -> EndedLife | str:
        """Kill a pod that has no workflow and is in no list, as its deletion would (`end_life`).

        Returns its life, whose remains the collector is to remove; if it has not ended, the reason, "" if the pod is no
        longer an orphan or a step has it. Its containers' preStop hooks run within the grace, if the pod's record has
        them. `is_orphan` is called in the pod's turn. A step of the pod that arrives meanwhile interrupts the end and
        gets the turn next. Raises CriError, OSError, and the errors of `is_orphan`.

        Mirrors pod_workers.go, v1.36, SyncTerminatingRuntimePod, and the garbage collection that follows it there.
        """
        attempt = self._attempt(ref)
        async with self._node.fences.undisturbed(ref.uid, attempt) as held:
            if not held:
                return ""
            record = await asyncio.to_thread(read_pod_record, self._node.context, ref.uid)
            if record is not None:
                ref = ref.model_copy(update={"incarnation": record.incarnation})
            view = await attempt.read()
            if not await is_orphan():  # last: if the pod is applied after this, its step interrupts the end
                return ""
            attempt.restart_clock()
            kill = KillPod(
                ref=ref,
                targets=_targets(view.containers, record, grace_seconds),
                grace_seconds=grace_seconds,
                message=why,
                final=True,
                deleted=True,
            )
            try:
                with attempt.on_life(ref):
                    return ended_life(ref, await end_life(attempt, kill, KillCause.ORPHAN))
            except Interrupted:
                return ""
            except (PodFault, NotYet) as obstacle:
                return str(obstacle)

    async def end_nameless(self, found: Nameless, *, grace_seconds: int) -> str | None:
        """Stop and remove a sandbox or container that has our label and still names no pod.

        It is of no pod's life, so it can have no tombstone, and nothing of it is on disk: it is removed at once. A
        sandbox is removed with its containers. A sandbox with a container that is not ours stays. Returns None once it
        is gone, else why it stays, as `end_pod`. Raises CriError.
        """
        attempt = self._attempt(PodRef(uid=found.uid))
        async with self._node.fences.undisturbed(found.uid or found.id, attempt) as held:
            inventory = await take_inventory(self._node.cri, self._node.context.name, {}) if held else None
            if inventory is None or found.id not in {each.id for each in inventory.nameless}:
                return ""
            if self._node.reader.belongs_to_pod(found.id):
                return "the runtime has listed it as a pod's"
            inside = await self._node.cri.list_containers()
            chosen = [each for each in inside if found.id in (each.id, each.sandbox_id)]
            if any(each.labels.get(NODE_LABEL) != self._node.context.name for each in chosen):
                return "it holds a container that is not ours"
            try:
                for each in chosen:
                    await self._end_container(attempt, each, grace_seconds)
                attempt.checkpoint()
            except Interrupted:
                return ""
            if found.kind == "sandbox":
                with contextlib.suppress(NotFound):
                    await self._node.cri.stop_pod_sandbox(found.id)
                await self._node.cri.remove_pod_sandbox(found.id)
            return None

    async def _end_container(self, attempt: StepAttempt, container: ContainerSummary, grace_seconds: int) -> None:
        """Stop a container if it may run, and remove it.

        Raises CriError, and Interrupted if a step of the container's pod arrives. A stop that was sent then goes on.
        """
        attempt.checkpoint()
        if container.state not in ("created", "exited"):
            target = KillTarget(id=container.id, grace_seconds=grace_seconds)
            call = self._node.stops.stop(container.id, target.timeout_seconds(0))
            await attempt.wait_for({call})
            call.result()
            attempt.checkpoint()
        await self._node.cri.remove_container(container.id)

    async def end_duplicates(
        self, uid: str, choose: Callable[[ObservedPod], Iterable[ObservedContainer]]
    ) -> tuple[int, str]:
        """End the containers of a pod that `choose` selects, with the pod's grace.

        Returns how many have ended, and why the others have not; the caller tries those again. Ended containers stay as
        dead instances until they are collected. Nothing happens while a step has the pod, nor to a pod of another
        Temporal cluster. Raises CriError, OSError.
        """
        attempt = self._attempt(PodRef(uid=uid))
        async with self._node.fences.undisturbed(uid, attempt) as held:
            if not held or not await is_ours(self._node, uid):
                return 0, ""
            chosen = tuple(choose(await attempt.read()))
            if not chosen:
                return 0, ""
            record = await asyncio.to_thread(read_pod_record, self._node.context, uid)
            said = record.pod.spec.termination_grace_period_seconds if record is not None else None
            grace = _USUAL_GRACE_SECONDS if said is None else said
            targets = {target.id: target for target in _targets(chosen, record, grace)}

            async def alive(view: ObservedPod) -> Selection:
                return [(c, targets[c.id]) for c in view.containers if c.id in targets and c.state != "exited"]

            async def end() -> StepResult:
                view = await end_containers(attempt, alive)
                emit_hook_events(attempt, targets.values())
                return StepResult(status=view)

            try:
                await within_kill_timeout(attempt, grace, end())
            except Interrupted:
                return 0, ""
            except PodFault as obstacle:
                return 0, str(obstacle)
            return len(chosen), ""

    def _attempt(self, ref: PodRef) -> StepAttempt:
        return StepAttempt(self._node, StepInput(ref=ref), number=1)


def _targets(
    containers: Iterable[ObservedContainer], record: PodRecord | None, grace_seconds: int
) -> tuple[KillTarget, ...]:
    """Return how to stop each running container, with its hook from the pod's record, if there is one."""
    pod = record.pod if record is not None else None
    return tuple(
        kill_target(each.id, each.name, pod, grace_seconds=grace_seconds, with_hook=grace_seconds > 0)
        for each in containers
        if each.state != "exited"
    )
