"""Measures the usage of the volumes of the node's pods, at most once a minute, and only on request.

Mirrors server/stats/volume_stat_calculator.go and volume/metrics_du.go, v1.36: emptyDir, configMap, secret, projected
and downwardAPI are measured, hostPath and images are not. A claim's usage is that of its file system, as the driver or
statfs reports it (csi_metrics.go, metrics_statfs.go). It is measured separately, because the file system may be remote
and hang. Differences: nothing is measured without a request; a volume whose measurement takes too long is left out; a
claim is reported even if its volume is a hostPath, or if its driver reports no usage.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from syncpod.agent.eviction.disk_usage import disk_usage
from syncpod.agent.record_cache import RecordCache
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.lifecycle.storage_limits import storage_limits
from syncpod.node.disks import Disk, read_disk
from syncpod.node.pod_records import PodRecord
from syncpod.objects.claims import claim_name
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, claim_link, volume_directory

_FRESH_SECONDS: Final = 60.0
"""Seconds for which a measurement is reused: the kubelet's volumeStatsAggPeriod."""
_COUNT_SECONDS: Final = 5.0
"""Seconds that the measurement of one volume may take."""
_PATIENCE_SECONDS: Final = 1.0
"""Seconds that a caller waits for a measurement. After that it gets the previous one."""


@dataclass(frozen=True)
class VolumeUsage:
    """The usage of one volume."""

    name: str
    at: datetime
    used_bytes: int
    inodes: int
    disk: Disk
    """The file system that the volume is on."""
    is_local: bool
    """Whether the volume counts as the pod's ephemeral storage: it is not in memory, and is not a Secret."""
    claim: str = ""
    """The name of its PersistentVolumeClaim; "" = it has none."""


@dataclass(frozen=True)
class _Made:
    """A volume that was created for a pod."""

    name: str
    path: Path
    is_local: bool = False
    claim: str = ""


class VolumesOfPods:
    """Measures volumes, in one thread at a time. Belongs to one event loop."""

    def __init__(self, node: NodeContext, *, of_claims: bool = False) -> None:
        """Measure the volumes that the node makes for its pods; with `of_claims`, the volumes of claims instead."""
        made = _claimed if of_claims else _made
        self._records = RecordCache(node, lambda record: made(node, record))
        self._known: Mapping[str, tuple[VolumeUsage, ...]] = {}
        self._stale_at = 0.0
        self._counting: asyncio.Future[Mapping[str, tuple[VolumeUsage, ...]]] | None = None

    async def measure(self) -> Mapping[str, tuple[VolumeUsage, ...]]:
        """Return the usage of volumes by the UID of their pods, at most a minute old.

        If a new measurement takes longer than `_PATIENCE_SECONDS`, the previous one is returned, which may lack new
        pods. A hanging disk blocks only one thread.
        """
        if self._counting is None and time.monotonic() >= self._stale_at:
            self._counting = in_daemon_thread(self._count, name="du of volumes")
        if self._counting is not None:
            await asyncio.wait({self._counting}, timeout=_PATIENCE_SECONDS)
            if self._counting.done():
                if self._counting.exception() is None:
                    self._known = self._counting.result()
                self._counting, self._stale_at = None, time.monotonic() + _FRESH_SECONDS
        return self._known

    def _count(self) -> Mapping[str, tuple[VolumeUsage, ...]]:
        """Measure all volumes. Blocks. Raises OSError if the pods cannot be listed."""
        return {
            uid: tuple(usage for each in made if (usage := _usage(each)) is not None)
            for uid, made in self._records.read().items()
        }


def with_drivers(
    measured: Mapping[str, tuple[VolumeUsage, ...]], reported: Mapping[str, Mapping[str, VolumeUsage | None]]
) -> Mapping[str, tuple[VolumeUsage, ...]]:
    """Return the usage of volumes by the UID of their pods: the drivers' reports replace the measurements.

    `reported` has volumes by UID and name; None = the driver has not answered, and then the volume is left out.
    """
    found = dict(measured)
    for uid, volumes in reported.items():
        others = tuple(each for each in measured.get(uid, ()) if each.name not in volumes)
        found[uid] = (*others, *(each for each in volumes.values() if each is not None))
    return found


def _made(node: NodeContext, record: PodRecord) -> tuple[_Made, ...] | None:
    pod = record.pod
    local = storage_limits(pod).on_disk
    try:
        paths = {each.name: volume_directory(node, pod.metadata.uid, each) for each in pod.spec.volumes}
    except UnsafeName:  # create_sandbox refuses such a pod
        return None
    return tuple(_Made(name, path, name in local) for name, path in paths.items() if path is not None)


def _claimed(node: NodeContext, record: PodRecord) -> tuple[_Made, ...] | None:
    pod = record.pod
    try:
        links = [(each, claim_link(node, pod.metadata.uid, each)) for each in pod.spec.volumes]
    except UnsafeName:
        return None
    found = ((each, link, claim_name(pod, each)) for each, link in links if link is not None)
    return tuple(_Made(each.name, link, claim=claim) for each, link, claim in found if claim) or None


def _usage(volume: _Made) -> VolumeUsage | None:
    """Measure one volume; None if it does not exist, cannot be read or takes too long."""
    try:
        if not volume.path.is_dir():
            return None
        if volume.claim:
            disk = read_disk(volume.path)
            inodes = disk.inodes - disk.inodes_free
            return VolumeUsage(volume.name, datetime.now(UTC), disk.used_bytes, inodes, disk, False, volume.claim)
        used, disk = disk_usage(volume.path, seconds=_COUNT_SECONDS), read_disk(volume.path)
    except OSError:
        return None
    if not used.whole:
        return None
    return VolumeUsage(volume.name, datetime.now(UTC), used.bytes, used.inodes, disk, volume.is_local)


_CLAIM_SERIES: Final[Mapping[str, tuple[str, Callable[[VolumeUsage], int]]]] = {
    "capacity_bytes": ("Bytes of the file system that a claim's volume is on.", lambda each: each.disk.capacity_bytes),
    "available_bytes": ("Bytes that are free there.", lambda each: each.disk.available_bytes),
    "used_bytes": ("Bytes that are used there.", lambda each: each.used_bytes),
    "inodes": ("Inodes of that file system.", lambda each: each.disk.inodes),
    "inodes_free": ("Inodes that are free there.", lambda each: each.disk.inodes_free),
    "inodes_used": ("Inodes that are used there.", lambda each: each.inodes),
}


def claim_series(usage: Mapping[str, tuple[VolumeUsage, ...]], namespaces: Mapping[str, str]) -> Sequence[Metric]:
    """Return `kubelet_volume_stats_…` of each claim (metrics/collectors/volume_stats.go, v1.36), once for all its pods.

    `usage` has the volumes by their pod's UID, and `namespaces` the pods' namespaces; other pods are left out.
    """
    claims = {
        (namespaces[uid], each.claim): each
        for uid, volumes in usage.items()
        if uid in namespaces
        for each in volumes
        if each.claim
    }
    families = []
    for name, (text, value) in _CLAIM_SERIES.items():
        family = GaugeMetricFamily(f"kubelet_volume_stats_{name}", text, labels=("namespace", "persistentvolumeclaim"))
        for labels, each in sorted(claims.items(), key=lambda item: item[0]):
            family.add_metric(labels, value(each))
        families.append(family)
    return families
