"""Finds orphans: pods that run on a node without a workflow, and containers and sandboxes without a pod's name.

Orphans that the server's records prove to be over are killed, and the node removes their remains as those of deleted
pods (`syncpod.agent.housekeeping.removals`). The others are left alone: the log and ``syncpod node``
name them, for ``syncpod adopt`` and ``syncpod prune``.

Mirrors kubelet_pods.go, v1.36, HandlePodCleanups, which kills the runtime's pods that are in no source. Difference:
more evidence is required (`syncpod.lifecycle.orphans`), since the server's database may be empty or another cluster's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple, Protocol

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all
from syncpod.agent.pod_workflows import PodWorkflows, without_workflow
from syncpod.agent.record_cache import RecordCache
from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle.orphans import NOT_AN_ORPHAN, ORPHAN_GRACE_SECONDS, Coverage, Found, Judgement, judge
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.node.inventory import Inventory, Nameless, PodInRuntime, take_inventory
from syncpod.node.report import Orphan
from syncpod.node.tombstones import record_of_ended_life, tombstone_at
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

SECONDS_PER_POD: Final = 0.03
"""The least seconds between two rounds for each pod of the node: a round takes 0.15 ms of the worker's CPU per pod."""
_AT_ONCE: Final = 8
"""How many orphans are ended at the same time."""


class _Life(NamedTuple):
    """The needed fields of a pod's record; ten thousand whole records would take much memory."""

    incarnation: str
    cluster: str


class Killer(Protocol):
    """Ends orphans between their pods' steps; see `activities.between.orphans`."""

    async def end_pod(
        self, ref: PodRef, is_orphan: Callable[[], Awaitable[bool]], *, grace_seconds: int, why: str
    ) -> EndedLife | str:
        """Kill a pod, if `is_orphan` confirms it; return the life that has ended, or why the pod goes on.

        The caller removes the remains of the life. The reason is "" if the pod is no longer an orphan. Raises CriError,
        OSError, and the errors of `is_orphan`.
        """

    async def end_nameless(self, found: Nameless, *, grace_seconds: int) -> str | None:
        """Kill and remove a container or sandbox without a pod's name. Return None if it is removed, else why it stays.

        Raises CriError.
        """


class Orphans:
    """Watches one node for orphans. All methods belong to one event loop."""

    def __init__(
        self,
        node: NodeContext,
        workflows: PodWorkflows,
        cri: CriRuntime,
        killer: Killer,
        coverage: Callable[[], Awaitable[Coverage]],
        *,
        begin_anew: Callable[[PodRef], Awaitable[bool]],
        hand_over: Callable[[EndedLife], None],
        is_signed: bool = False,
        period: float = 60.0,
    ) -> None:
        """Check every `period` seconds; on a large node the checks are rarer (`pause_seconds`).

        `coverage` returns the state of the node's workflow; it may raise RPCError. `begin_anew` restarts a pod's
        workflow if the server has terminated it because of a limit, and returns whether that was so: such a pod is no
        orphan. `is_signed` is True if commands to the node are signed: then the server's records alone are not enough
        to kill a pod. `hand_over` is called with each killed orphan, so that its remains are removed.
        """
        self._begin_anew = begin_anew
        self._hand_over = hand_over
        self._is_signed = is_signed
        self._node = node
        self._workflows = workflows
        self._cri = cri
        self._killer = killer
        self._coverage = coverage
        self._period = period
        self._records = RecordCache(node, lambda record: _Life(record.incarnation, record.cluster))
        self._known: dict[str, Orphan] = {}
        self._pods = 0
        """How many pods the last round found in the runtime and in records."""
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.total = 0
        """How many orphans this worker has ended."""

    @property
    def found(self) -> tuple[Orphan, ...]:
        """The orphans that the last round found."""
        return tuple(self._known.values())

    async def run(self) -> None:
        """Check until cancelled; then cancel the kills under way. The next round repeats a failed query."""
        complaint = ""
        try:
            while True:
                await asyncio.sleep(pause_seconds(self._pods, self._period))
                try:
                    await self.round()
                except (RPCError, CriError) as error:
                    log.debug("orphans are not looked for: %s", error)
                except OSError as error:
                    if where_and_why(error) != complaint:
                        log.warning("the pods' records cannot be read, so orphans are not looked for: %s", error)
                    complaint = where_and_why(error)
                else:
                    complaint = ""
        finally:
            await cancel_all(self._under_way.values())

    async def round(self) -> tuple[Orphan, ...]:
        """Check once, and start to kill orphans if that is allowed; return all. Raises RPCError, CriError, OSError."""
        inventory = await self._inventory()
        self._pods = len(inventory.pods)
        suspects = await self._suspects(inventory)
        coverage = await self._covered() if suspects or inventory.nameless else Coverage()
        found: dict[str, Orphan] = {}
        for pod in suspects:
            judgement = await self._judged(pod, coverage)
            if judgement.orphan:
                found[pod.uid] = self._orphan_pod(pod, judgement)
                if judgement.kill:
                    self._begin(found[pod.uid], partial(self._end_pod, pod, judgement))
        for thing in inventory.nameless:
            judgement = judge(_as_found(thing), coverage, cluster=self._node.cluster)
            found[thing.id] = self._nameless(thing, judgement)
            if judgement.kill:
                self._begin(
                    found[thing.id], partial(self._killer.end_nameless, thing, grace_seconds=ORPHAN_GRACE_SECONDS)
                )
        self._report(found)
        return self.found

    # --- evidence -----------------------------------------------------------------------------------------------------

    async def _inventory(self) -> Inventory:
        records = await asyncio.to_thread(self._records.read)
        return await take_inventory(self._cri, self._node.name, records)

    async def _suspects(self, inventory: Inventory) -> tuple[PodInRuntime, ...]:
        """Return the pods without a workflow in visibility, which may lag, so that each must be checked."""
        pods = inventory.pods
        if not pods:
            return ()
        refs = [PodRef(namespace=pod.namespace, name=pod.name, uid=uid) for uid, pod in pods.items()]
        alone = {ref.uid for ref in without_workflow(refs, await self._workflows.open())}
        return tuple(pod for uid, pod in pods.items() if uid in alone or pod.cluster != self._node.cluster)

    async def _judged(self, pod: PodInRuntime, coverage: Coverage) -> Judgement:
        """Judge a pod by the server's current state of its workflow. Raises RPCError."""
        if not pod.is_alive and await asyncio.to_thread(record_of_ended_life, self._node, pod.uid) is not None:
            return NOT_AN_ORPHAN  # its life is over, and the node finds its remains by the record (`removals`)
        ended = await asyncio.to_thread(tombstone_at, self._node, pod.uid, pod.incarnation)
        found = Found(uid=pod.uid, cluster=pod.cluster, made_at=pod.made_at, ended_here=ended is not None)
        if pod.cluster != self._node.cluster:
            return judge(found, coverage, cluster=self._node.cluster)
        ref = PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        standing = await self._workflows.standing(ref)
        if standing == "closed" and ended is None and await self._begin_anew(ref):
            return NOT_AN_ORPHAN
        found = replace(found, standing=standing)
        return judge(found, coverage, cluster=self._node.cluster)

    async def _still(self, uid: str) -> bool:
        """Read all evidence again, and say whether the pod must still be killed."""
        pod = (await self._inventory()).pods.get(uid)
        return pod is not None and (await self._judged(pod, await self._covered())).kill

    async def _covered(self) -> Coverage:
        """Return the state of the node's workflow, with the evidence that a kill requires. Raises RPCError."""
        return replace(await self._coverage(), needs_tombstone=self._is_signed)

    # --- ending -------------------------------------------------------------------------------------------------------

    def _begin(self, orphan: Orphan, end: Callable[[], Awaitable[EndedLife | str | None]]) -> None:
        """End an orphan in a task of its own, if it has none yet, so that a hanging one delays no other orphan."""
        key = orphan.uid or orphan.id

        async def ending() -> None:
            async with self._slots:
                try:
                    ended = await end()
                except (RPCError, CriError, OSError) as error:
                    ended = where_and_why(error)
            if not isinstance(ended, str):
                self.total += 1
                metrics.collected("orphan", 1)
                log.warning("killed %s: %s", _called(orphan), orphan.why)
            elif ended:
                log.warning("%s is to be killed (%s), but stays for now: %s", _called(orphan), orphan.why, ended)
            if isinstance(ended, EndedLife):
                self._hand_over(ended)

        if key not in self._under_way:
            task = asyncio.create_task(ending(), name=f"end of orphan {key}")
            self._under_way[key] = task
            task.add_done_callback(lambda ended: self._has_ended(key, ended))

    def _has_ended(self, key: str, task: asyncio.Task[None]) -> None:
        del self._under_way[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("orphan %s stays for now because of a defect", key, exc_info=error)

    async def _end_pod(self, pod: PodInRuntime, judgement: Judgement) -> EndedLife | str:
        ref = PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid, incarnation=pod.incarnation)
        return await self._killer.end_pod(
            ref, partial(self._still, pod.uid), grace_seconds=ORPHAN_GRACE_SECONDS, why=f"orphan: {judgement.why}"
        )

    # --- reporting ----------------------------------------------------------------------------------------------------

    def _orphan_pod(self, pod: PodInRuntime, judgement: Judgement) -> Orphan:
        return Orphan(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            why=judgement.why,
            left=judgement.but,
            running=pod.running,
            since=self._since(pod.uid),
        )

    def _nameless(self, thing: Nameless, judgement: Judgement) -> Orphan:
        return Orphan(
            kind=thing.kind,
            id=thing.id,
            why=judgement.why,
            left=judgement.but,
            running=thing.running,
            since=self._since(thing.id),
        )

    def _since(self, key: str) -> datetime:
        known = self._known.get(key)
        return known.since if known is not None and known.since is not None else datetime.now(UTC)

    def _report(self, found: dict[str, Orphan]) -> None:
        for key, orphan in found.items():
            known = self._known.get(key)
            if known is None:
                metrics.orphaned_pods.add(1)
            if known is None or (known.why, known.left) != (orphan.why, orphan.left):
                fate = f"it is left alone, since {orphan.left}" if orphan.left else "it is killed"
                log.warning(
                    "orphan: %s has %d containers running, and %s; %s",
                    _called(orphan),
                    orphan.running,
                    orphan.why,
                    fate,
                )
        for key in self._known.keys() - found.keys():
            log.info("%s is no longer an orphan", _called(self._known[key]))
        self._known = found


def pause_seconds(pods: int, period: float) -> float:
    """Return the seconds between two rounds on a node with this many pods, at least `period`. Pure.

    On a large node the pauses grow with the number of pods, so that the rounds' share of a core stays the same.
    """
    return max(period, SECONDS_PER_POD * pods)


def _as_found(thing: Nameless) -> Found:
    return Found(uid="", cluster=thing.cluster, made_at=thing.made_at)


def _called(orphan: Orphan) -> str:
    """Return the name of an orphan for the log."""
    if orphan.uid:
        return f"pod {orphan.namespace}/{orphan.name} (uid {orphan.uid})"
    return f"{orphan.kind} {orphan.id} (names no pod)"
