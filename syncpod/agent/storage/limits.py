"""Puts out pods that have written more to the node's disks than their limits let them.

Every ten seconds each pod that has a limit is measured: its volumes and logs by their blocks on disk, its containers'
writable layers by the runtime. What that amounts to is decided in :mod:`syncpod.lifecycle.storage_limits`; a pod beyond
a limit is signalled `evict` until the server has taken it, and its workflow does the rest.

Mirrors eviction/eviction_manager.go, v1.36, localStorageEviction, and server/stats, from which it has its figures.
Differences: figures are some ten seconds old, where the kubelet measures volumes each minute; older ones only with
hundreds of pods that have limits, or volumes that take long to count; a pod whose files or shim hang holds up no other.
A pod without a limit costs a stat of its record, and no more.
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
from syncpod.agent.own_thread import in_own_thread
from syncpod.agent.record_cache import RecordCache
from syncpod.agent.storage.disk_usage import disk_usage
from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.lifecycle.observed import ObservedPod
from syncpod.lifecycle.storage_limits import Excess, StorageLimits, StorageUsage, storage_excess, storage_limits
from syncpod.messages import Evict, PodRef
from syncpod.node.pod_records import PodRecord
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, etc_hosts_file, log_directory_of, volume_directory

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""evictionMonitoringPeriod."""
COUNT_SECONDS = 10.0
"""How long one pod's files are counted at most, and how long their disk may hang before others go on."""
REST = 20.0
"""How many times longer than it took to count a pod's files they are then left alone."""
STATS_SECONDS = 2.0
"""How long the runtime may take to say what one pod's containers have written; a hung shim never says it."""
IN_A_ROUND = 400
"""How many pods are begun to be measured at a time, so that 2,000 with limits each have their turn within a minute."""
_AT_ONCE = 2
_RETRY_SECONDS = (0.1, 5.0)

Send = Callable[[PodRef, Evict], Awaitable[bool]]
"""Signals a pod; returns whether there was a workflow to take it. Raises RPCError while the server is away."""
Newest = Callable[[str], ObservedPod | None]
"""Returns the newest listing of the pod with that UID."""


@dataclass(frozen=True)
class _LimitedPod:
    """A pod that has a limit, and where its files are."""

    ref: PodRef
    limits: StorageLimits
    volumes: Mapping[str, Path]
    """Their directories, by name."""
    in_memory: frozenset[str]
    """Volumes that may be file systems of their own, with a size that the kernel holds them to."""
    logs: Path
    containers: tuple[str, ...]
    etc_hosts: Path


@dataclass
class _Watch:
    """What has been made of one pod."""

    ref: PodRef
    due: float = 0.0
    """Monotonic time from which it may be measured again."""
    looking: asyncio.Task[None] | None = None
    put_out: bool = False
    """Its workflow has been told."""
    complaint: str = ""
    """What was last said of why it cannot be measured."""


@dataclass(frozen=True)
class _Counted:
    """What a pod's files come to."""

    usage: StorageUsage
    """But for the writable layers."""
    whole: bool
    """Whether all was counted."""
    seconds: float
    """How long it took."""


class StorageEviction:
    """Watches the pods of one node. All methods belong to one event loop."""

    def __init__(self, node: NodeContext, cri: CriRuntime, newest: Newest, send: Send) -> None:
        """Measure what `newest` says has a sandbox; tell pods by `send`."""
        self._cri = cri
        self._newest = newest
        self._send = send
        self._limited = RecordCache(node, lambda record: _limited(node, record))
        self._pods: dict[str, _Watch] = {}
        self._counting = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Look for ever; ended, give up what is under way."""
        try:
            while True:
                try:
                    await self.look()
                except OSError as error:
                    log.warning("the pods' records cannot be read, so nobody is held to a limit of storage: %s", error)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await self.close()

    async def look(self) -> tuple[asyncio.Task[None], ...]:
        """Begin to measure the pods that it is time for; return what is then under way. Raises OSError."""
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
            if watch.looking is None and not watch.put_out and now >= watch.due and (sandbox := self._sandbox(uid)):
                waiting.append((watch, pod, sandbox))
        for watch, pod, sandbox in sorted(waiting, key=lambda each: each[0].due)[:IN_A_ROUND]:
            watch.looking = asyncio.create_task(self._hold(pod, sandbox, watch), name=f"storage of {pod.ref.uid}")
        return tuple(watch.looking for watch in self._pods.values() if watch.looking is not None)

    async def close(self) -> None:
        """Give up what is under way; whoever is beyond a limit still is in the next life."""
        looking = [watch.looking for watch in self._pods.values() if watch.looking is not None]
        for uid in tuple(self._pods):
            self._forget(uid)
        await asyncio.gather(*looking, return_exceptions=True)

    def _forget(self, uid: str) -> None:
        watch = self._pods.pop(uid, None)
        if watch is not None and watch.looking is not None:
            watch.looking.cancel()

    def _sandbox(self, uid: str) -> str:
        """Return the id of the pod's sandbox that is ready; "" if there is none: then nothing of it writes."""
        listing = self._newest(uid)
        return next((each.id for each in listing.sandboxes if each.ready), "") if listing else ""

    async def _hold(self, pod: _LimitedPod, sandbox: str, watch: _Watch) -> None:
        """Measure one pod, and put it out if it is beyond a limit."""
        try:
            layers = await self._layers(pod, sandbox, watch)
            counted = await self._count(pod, watch)
            excess = storage_excess(pod.limits, replace(counted.usage, layers=layers))
            if excess is not None:
                await self._put_out(pod, excess)
                watch.put_out = True
            elif not counted.whole:
                self._complain(watch, "there is too much of it, or not all of it can be read; more is not counted")
            watch.due = time.monotonic() + REST * counted.seconds
        except OSError as error:
            self._complain(watch, str(error))
        finally:
            watch.looking = None

    async def _layers(self, pod: _LimitedPod, sandbox: str, watch: _Watch) -> dict[str, int]:
        """Return what the running containers have written to their own layers; nothing where it matters to no limit.

        The last dead instance of each, which is kept, does not count (stats/cri_stats_provider.go,
        removeTerminatedContainers).
        """
        if pod.limits.pod is None:
            return {}
        try:
            measured = await self._cri.list_container_stats(sandbox_id=sandbox, timeout_seconds=STATS_SECONDS)
        except CriError as error:
            self._complain(watch, f"the runtime does not say what its containers have written: {error}")
            return {}
        listing = self._newest(pod.ref.uid)
        running = {each.id for each in listing.containers if each.state == "running"} if listing else set()
        return {
            each.name: each.writable_layer.used_bytes
            for each in measured
            if each.id in running and each.writable_layer is not None
        }

    async def _count(self, pod: _LimitedPod, watch: _Watch) -> _Counted:
        """Count the pod's files, a few pods at a time; one whose disk hangs is waited for apart. Raises OSError."""
        async with self._counting:
            counting = in_own_thread(lambda: _count(pod), name=f"du {pod.ref.uid}")
            await asyncio.wait({counting}, timeout=2 * COUNT_SECONDS)
        if not counting.done():
            self._complain(watch, "its disk does not answer")
        return await counting

    async def _put_out(self, pod: _LimitedPod, excess: Excess) -> None:
        """Signal the pod's workflow until that is in its history, or there is no such workflow."""
        ref = pod.ref
        log.warning("pod %s/%s is put out: %s", ref.namespace, ref.name, excess.message.rstrip())
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
            log.warning("pod %s/%s is beyond its limit, but no workflow asks for it", ref.namespace, ref.name)

    def _complain(self, watch: _Watch, why: str) -> None:
        if watch.complaint != why:
            log.warning("what pod %s/%s has written is not known: %s", watch.ref.namespace, watch.ref.name, why)
        watch.complaint = why


def _limited(node: NodeContext, record: PodRecord) -> _LimitedPod | None:
    """Return what there is to hold a pod to, None where nothing is."""
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
    except UnsafeName as unsafe:  # create_sandbox has refused it, and said so to the pod
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
