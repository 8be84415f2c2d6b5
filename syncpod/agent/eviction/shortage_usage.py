"""Measures each pod's usage of the resource that the node is short of. Called only during a shortage.

Mirrors server/stats, v1.36, as the rankings of eviction/helpers.go read it. Differences: only pods with a sandbox are
measured and evicted, since a pod without one uses too little to matter. Files are counted on demand and for a limited
time, so the usage of a pod with very many files is a lower bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.agent.eviction.disk_usage import disk_usage
from syncpod.agent.eviction.running_stats import Newest, RunningStats
from syncpod.agent.record_cache import RecordCache
from syncpod.cri.errors import CriError
from syncpod.cri.port import ContainerStats, CriRuntime
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.lifecycle.eviction import RESOURCES, Signal
from syncpod.lifecycle.eviction_ranking import Candidate, ContainerUsage, PodUsage, Written
from syncpod.lifecycle.storage_limits import storage_limits
from syncpod.messages.identity import PodRef
from syncpod.node.cgroups import count_processes
from syncpod.node.pod_records import PodRecord
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, log_directory_of, volume_directory

log = logging.getLogger(__name__)

COUNT_SECONDS: Final = 5.0
"""Seconds for which one pod's files are counted."""
_AT_ONCE: Final = 8
_COUNTED_AT_ONCE: Final = 2


@dataclass(frozen=True)
class ActivePod:
    """A pod that has not finished, and where its files are."""

    ref: PodRef
    pod: Pod
    volumes: tuple[Path, ...]
    """The directories of its volumes on the node's disk."""
    logs: Path


class PodUsages:
    """Measures the pods of one node. All methods belong to one event loop."""

    def __init__(self, node: NodeContext, cri: CriRuntime, newest: Newest) -> None:
        """Measure the pods whose `newest` listing has a ready sandbox, through `cri` and on disk."""
        self._node = node
        self._stats = RunningStats(cri, newest)
        self._active = RecordCache(node, lambda record: _active(node, record))
        self._counting = asyncio.Semaphore(_COUNTED_AT_ONCE)

    async def active(self) -> dict[str, ActivePod]:
        """Return the pods that have a sandbox and have not finished, by UID. Raises OSError."""
        noted = await asyncio.to_thread(self._active.read)
        return {uid: pod for uid, pod in noted.items() if self._stats.has_sandbox(uid)}

    async def measure(self, pods: Mapping[str, ActivePod], signal: Signal) -> tuple[Candidate, ...]:
        """Return each pod's usage of the signal's resource; the usage is None if it cannot be measured."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def measured(uid: str, pod: ActivePod) -> Candidate:
            async with slots:
                try:
                    return Candidate(pod.pod, await self._usage(uid, pod, signal))
                except (CriError, OSError) as error:
                    log.warning("the usage of pod %s/%s is unknown: %s", pod.ref.namespace, pod.ref.name, error)
                    return Candidate(pod.pod, None)

        return tuple(await asyncio.gather(*(measured(uid, pod) for uid, pod in pods.items())))

    async def _usage(self, uid: str, pod: ActivePod, signal: Signal) -> PodUsage | None:
        """Measure one pod. Raises CriError, OSError."""
        resource = RESOURCES[signal]
        if resource == "pids":
            processes = await asyncio.to_thread(count_processes, self._node, uid)
            return None if processes is None else PodUsage(processes=processes)
        stats = await self._stats.read(uid)
        if resource == "memory":
            return PodUsage(tuple(ContainerUsage(each.name, memory=each.working_set_bytes) for each in stats))
        return await self._count(pod, stats)

    async def _count(self, pod: ActivePod, stats: list[ContainerStats]) -> PodUsage:
        """Count a pod's files. Raises OSError, also if its disk does not answer."""
        spec = pod.pod.spec
        own_names = {each.name for each in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)}

        def count() -> PodUsage:
            seconds = COUNT_SECONDS / (len(pod.volumes) + len(stats) + 1)

            def written(path: Path) -> Written:
                usage = disk_usage(path, seconds=seconds)
                return Written(usage.bytes, usage.inodes)

            def logs(name: str) -> Written:
                return (
                    written(pod.logs / name) if name in own_names else Written()
                )  # the name of an unknown container may not be a valid file name

            volumes = Written()
            for volume in pod.volumes:
                volumes = volumes.plus(written(volume))
            return PodUsage(tuple(ContainerUsage(s.name, layer=_layer(s), logs=logs(s.name)) for s in stats), volumes)

        async with self._counting:
            counting = in_daemon_thread(count, name=f"du {pod.ref.uid}")
            await asyncio.wait({counting}, timeout=2 * COUNT_SECONDS)
        if not counting.done():
            raise TimeoutError("its disk does not answer")
        return counting.result()


def _layer(stats: ContainerStats) -> Written | None:
    layer = stats.writable_layer
    return None if layer is None else Written(layer.used_bytes, layer.inodes_used)


def _active(node: NodeContext, record: PodRecord) -> ActivePod | None:
    if record.finished:
        return None
    pod, meta = record.pod, record.pod.metadata
    on_disk = storage_limits(pod).on_disk
    try:
        volumes = (volume_directory(node, meta.uid, volume) for volume in pod.spec.volumes if volume.name in on_disk)
        return ActivePod(
            ref=PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid, incarnation=record.incarnation),
            pod=pod,
            volumes=tuple(path for path in volumes if path is not None),
            logs=log_directory_of(pod, node),
        )
    except UnsafeName:  # create_sandbox refuses such a pod, and reports that
        return None
