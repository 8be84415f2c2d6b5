"""The kubelet's metrics of how full the volumes of claims are."""

from __future__ import annotations

from datetime import UTC, datetime

from syncpod.agent.scraping.volume_usage import VolumeUsage, claim_series
from syncpod.node.disks import Disk


def usage(name: str, claim: str, used: int = 4) -> VolumeUsage:
    disk = Disk(device=1, capacity_bytes=10, available_bytes=6, used_bytes=used, inodes=9, inodes_free=7)
    return VolumeUsage(name, datetime.now(UTC), used, 2, disk, False, claim)


def test_each_claim_is_told_once_and_what_is_no_claim_not_at_all() -> None:
    volumes = {"u1": (usage("a", "disk"), usage("b", "")), "u2": (usage("x", "disk"),), "gone": (usage("y", "old"),)}
    found = claim_series(volumes, {"u1": "shop", "u2": "shop"})
    told = {family.name: [(sample.labels, sample.value) for sample in family.samples] for family in found}
    labels = {"namespace": "shop", "persistentvolumeclaim": "disk"}
    assert told == {
        "kubelet_volume_stats_capacity_bytes": [(labels, 10)],
        "kubelet_volume_stats_available_bytes": [(labels, 6)],
        "kubelet_volume_stats_used_bytes": [(labels, 4)],
        "kubelet_volume_stats_inodes": [(labels, 9)],
        "kubelet_volume_stats_inodes_free": [(labels, 7)],
        "kubelet_volume_stats_inodes_used": [(labels, 2)],
    }
