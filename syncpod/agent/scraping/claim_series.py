"""How full the volumes of claims are, under the kubelet's names (metrics/collectors/volume_stats.go, v1.36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from syncpod.agent.scraping.volume_usage import VolumeUsage

_SERIES: Final[Mapping[str, tuple[str, Callable[[VolumeUsage], int]]]] = {
    "capacity_bytes": ("Bytes of the file system that a claim's volume is on.", lambda each: each.disk.capacity_bytes),
    "available_bytes": ("Bytes that are free there.", lambda each: each.disk.available_bytes),
    "used_bytes": ("Bytes that are used there.", lambda each: each.used_bytes),
    "inodes": ("Inodes of that file system.", lambda each: each.disk.inodes),
    "inodes_free": ("Inodes that are free there.", lambda each: each.disk.inodes_free),
    "inodes_used": ("Inodes that are used there.", lambda each: each.inodes),
}


def claim_series(usage: Mapping[str, tuple[VolumeUsage, ...]], namespaces: Mapping[str, str]) -> Sequence[Metric]:
    """Return `kubelet_volume_stats_…` of each claim, once for all of its pods.

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
    for name, (text, value) in _SERIES.items():
        family = GaugeMetricFamily(f"kubelet_volume_stats_{name}", text, labels=("namespace", "persistentvolumeclaim"))
        for labels, each in sorted(claims.items(), key=lambda item: item[0]):
            family.add_metric(labels, value(each))
        families.append(family)
    return families
