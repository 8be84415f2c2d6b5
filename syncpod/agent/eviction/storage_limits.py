"""Evicts pods that have written more to the node's disks than their limits allow.

Every ten seconds it measures each pod that has a limit: its volumes and logs by their blocks on disk, its containers'
writable layers by the runtime's stats. :mod:`syncpod.lifecycle.storage_limits` decides. The signal `evict` to a pod
over a limit is repeated until the server has accepted it, and the pod's workflow then ends the pod.

Mirrors eviction/eviction_manager.go, v1.36, localStorageEviction, and server/stats, which supplies its figures.
Differences: figures are about ten seconds old, while the kubelet measures volumes once a minute. The figures are older
only with hundreds of limited pods, or with volumes that take long to count. A pod whose files or shim hang does not
delay other pods.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all
from syncpod.agent.eviction.disk_usage import disk_usage
from syncpod.agent.eviction.running_stats import Newest, RunningStats
from syncpod.agent.record_cache import RecordCache
from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle.storage_limits import Excess, StorageLimits, StorageUsage, storage_excess, storage_limits
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import Evict
from syncpod.node.pod_records import PodRecord
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, etc_hosts_file, log_directory_of, volume_directory

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Seconds between two rounds: evictionMonitoringPeriod."""
COUNT_SECONDS = 10.0
"""Seconds for which one pod's files are counted. A hung disk occupies one of the `_AT_ONCE` slots for twice as long."""
REST = 20.0
"""The pause between two counts of a pod's files, as a multiple of the time that the last count took."""
IN_A_ROUND = 400
"""The most pods whose measurement one round starts: so each of 2,000 limited pods is measured within a minute."""
_AT_ONCE = 2
_RETRY_SECONDS = (0.1, 5.0)

Send = Callable[[PodRef, Evict], Awaitable[bool]]
"""Signals a pod; returns whether its workflow is open. Raises RPCError if the server does not answer."""


@dataclass(frozen=True)
class _LimitedPod:
    """A pod that has a limit, and where its files are."""

    ref: PodRef
    limits: StorageLimits
    volumes: Mapping[str, Path]
    """Directories by volume name."""
    in_memory: frozenset[str]
    """Volumes that may be mounts of their own, whose size the kernel enforces."""
    logs: Path
    containers: tuple[str, ...]
    etc_hosts: Path


@dataclass
class _Watch:
    """The state of one pod's measurement."""

    ref: PodRef
    due: float = 0.0
    """Monotonic time from which the pod may be measured again."""
    looking: asyncio.Task[None] | None = None
    evicted: bool = False
    """Whether `evict` was signalled, or the pod has no workflow: then it is not measured again."""
    complaint: str = ""
    """The last logged reason why the pod cannot be measured."""


@dataclass(frozen=True)
class _Counted:
    """The counted files of a pod."""

    usage: StorageUsage
    """The counted bytes, without the writable layers."""
    whole: bool
    """False if counting took too long or failed in part."""
    seconds: float
    """Seconds that counting took."""


class LocalStorageEviction:
    """Watches the pods of one node. All methods belong to one event loop."""

    def __init__(self, node: NodeContext, cri: CriRuntime, newest: Newest, send: Send) -> None:
        """Measure pods that have a sandbox in their `newest` listing; signal pods with `send`."""
        self._stats = RunningStats(cri, newest)
        self._send = send
        self._limited = RecordCache(node, lambda record: _limited(node, record))
        self._pods: dict[str, _Watch] = {}
        self._counting = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Measure until cancelled; then cancel the measurements under way."""
        try:
            while True:
                try:
                    await self.look()
                except OSError as error:
                    log.warning("the pods' records cannot be read, so storage limits are not enforced: %s", error)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await self.close()

    async def look(self) -> tuple[asyncio.Task[None], ...]:
        """Start measuring the pods that are due; return all measurements under way. Raises OSError."""
        pods = await asyncio.to_thread(self._limited.read)
        for uid in self._pods.keys() - pods.keys():
            self._forget(uid)
        now = time.monotonic()
        waiting = []
        for uid, pod in pods.items():
            watch = self._pods.get(uid)
            if watch is None or watch.ref != pod.ref:
                self._forget(uid)
                watch = self._pods[uid] = _Watch(pod.ref)
            if watch.looking is None and not watch.evicted and now >= watch.due and self._stats.has_sandbox(uid):
                waiting.append((watch, pod))
        for watch, pod in sorted(waiting, key=lambda each: each[0].due)[:IN_A_ROUND]:
            watch.looking = asyncio.create_task(self._hold(pod, watch), name=f"storage of {pod.ref.uid}")
        return tuple(watch.looking for watch in self._pods.values() if watch.looking is not None)

    async def close(self) -> None:
        """Cancel the measurements; the next worker finds a pod over its limit again."""
        looking = [watch.looking for watch in self._pods.values() if watch.looking is not None]
        self._pods.clear()
        await cancel_all(looking)

    def _forget(self, uid: str) -> None:
        watch = self._pods.pop(uid, None)
        if watch is not None and watch.looking is not None:
            watch.looking.cancel()

    async def _hold(self, pod: _LimitedPod, watch: _Watch) -> None:
        """Measure one pod, and evict it if it is over a limit."""
        try:
            layers = await self._layers(pod, watch)
            counted = await self._count(pod, watch)
            excess = storage_excess(pod.limits, replace(counted.usage, layers=layers))
            if excess is not None:
                await self._evict(pod, excess)
                watch.evicted = True
            elif not counted.whole:
                self._complain(
                    watch, "there is too much to count, or not all of it can be read; the rest is not counted"
                )
            watch.due = time.monotonic() + REST * counted.seconds
        except OSError as error:
            self._complain(watch, where_and_why(error))
        finally:
            watch.looking = None

    async def _layers(self, pod: _LimitedPod, watch: _Watch) -> dict[str, int]:
        """Return the bytes that running containers have written to their layers; empty if no limit depends on it."""
        if pod.limits.pod is None:
            return {}
        try:
            measured = await self._stats.read(pod.ref.uid)
        except CriError as error:
            self._complain(watch, f"the runtime does not report its container stats: {error}")
            return {}
        return {each.name: each.writable_layer.used_bytes for each in measured if each.writable_layer is not None}

    async def _count(self, pod: _LimitedPod, watch: _Watch) -> _Counted:
        """Count the pod's files. Raises OSError.

        Only a few pods are counted at a time, but a hung disk delays no other pod.
        """
        async with self._counting:
            counting = in_daemon_thread(lambda: _count(pod), name=f"du {pod.ref.uid}")
            await asyncio.wait({counting}, timeout=2 * COUNT_SECONDS)
        if not counting.done():
            self._complain(watch, "its disk does not answer")
        return await counting

    async def _evict(self, pod: _LimitedPod, excess: Excess) -> None:
        """Signal the pod's workflow; retry until the server has accepted the signal, or has no such workflow."""
        ref = pod.ref
        log.warning("pod %s/%s is evicted: %s", ref.namespace, ref.name, excess.message.rstrip())
        pause, longest = _RETRY_SECONDS
        while True:
            try:
                taken = await self._send(ref, Evict(uid=ref.uid, message=excess.message))
                break
            except RPCError as error:
                log.debug("eviction of pod %s/%s: %s", ref.namespace, ref.name, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)
        if taken:
            metrics.evictions.add(1, {"eviction_signal": excess.signal})
        else:
            log.warning("pod %s/%s is over its limit, but has no workflow", ref.namespace, ref.name)

    def _complain(self, watch: _Watch, why: str) -> None:
        if watch.complaint != why:
            log.warning("the storage usage of pod %s/%s is unknown: %s", watch.ref.namespace, watch.ref.name, why)
        watch.complaint = why


def _limited(node: NodeContext, record: PodRecord) -> _LimitedPod | None:
    """Return the pod of a record with its limits; None if it has none."""
    pod, meta = record.pod, record.pod.metadata
    limits = storage_limits(pod)
    if not limits:
        return None
    counted = {*limits.volumes, *(limits.on_disk if limits.pod else ())}
    volumes = [volume for volume in pod.spec.volumes if volume.name in counted]
    containers = (*pod.spec.containers, *pod.spec.init_containers, *pod.spec.ephemeral_containers)
    try:
        return _LimitedPod(
            ref=PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid, incarnation=record.incarnation),
            limits=limits,
            volumes={v.name: path for v in volumes if (path := volume_directory(node, meta.uid, v))},
            in_memory=frozenset(v.name for v in volumes if v.empty_dir is not None and v.empty_dir.medium),
            logs=log_directory_of(pod, node),
            containers=tuple(container.name for container in containers),
            etc_hosts=etc_hosts_file(node, meta.uid),
        )
    except UnsafeName as unsafe:  # create_sandbox refuses such a pod, and reports that
        log.debug("pod %s/%s is not measured: %s", meta.namespace, meta.name, unsafe)
        return None


def _count(pod: _LimitedPod) -> _Counted:
    """Count the pod's files. Blocks. Raises OSError."""
    begun = time.monotonic()
    whole = True

    def size(path: Path, *, own_mount: bool = True) -> int:
        nonlocal whole
        usage = disk_usage(path, seconds=begun + COUNT_SECONDS - time.monotonic(), own_mount=own_mount)
        whole = whole and usage.whole
        return usage.bytes

    volumes = {name: size(path, own_mount=name not in pod.in_memory) for name, path in pod.volumes.items()}
    logs, others = {}, 0
    if pod.limits.pod is not None:
        logs = {name: size(pod.logs / name) for name in pod.containers}
        others = size(pod.etc_hosts)
    return _Counted(StorageUsage(volumes=volumes, logs=logs, others=others), whole, time.monotonic() - begun)
