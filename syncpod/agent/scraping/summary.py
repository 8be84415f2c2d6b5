"""The kubelet's Summary API (k8s.io/kubelet/pkg/apis/stats/v1alpha1, v1.36): the usage of the node and its pods.

An unknown value is absent, and never 0. `systemContainers`, `containerFs`, pressure, `io`, swap, health of volumes, and
user-defined metrics are always absent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from syncpod.agent.scraping.node_usage import NodeUsage
from syncpod.agent.scraping.pod_usage import RuntimeUsage
from syncpod.agent.scraping.volume_usage import VolumeUsage
from syncpod.cri.port import (
    ContainerStats,
    CpuUsage,
    FilesystemUsage,
    InterfaceUsage,
    MemoryUsage,
    SandboxStats,
)
from syncpod.node.disks import Disk

Wire = dict[str, Any]
_BLOCK: Final = 512
_LOOPBACK: Final = "lo"


@dataclass(frozen=True)
class Running:
    """A running container, and the directory of its logs."""

    started_at: datetime
    logs: Path | None
    """The directory with the logs of all its instances; None if its names are not valid in a path."""


@dataclass(frozen=True)
class Measured:
    """All measurements that a summary is made from."""

    at: datetime
    node_name: str
    node: NodeUsage
    usage: RuntimeUsage
    node_disk: Disk | None
    images: tuple[FilesystemUsage, Disk | None] | None
    started: Mapping[str, datetime]
    """When each sandbox was created, by its id."""
    running: Mapping[str, Running]
    """Running containers by id."""
    volumes: Mapping[str, Sequence[VolumeUsage]] = field(default_factory=dict)
    """Volumes by the UID of their pod. A pod is missing until its volumes have been measured."""
    claims: Mapping[str, Sequence[VolumeUsage]] = field(default_factory=dict)
    """Volumes of PersistentVolumeClaims by the UID of their pod."""


def summary(measured: Measured) -> Wire:
    """Return the whole answer. Blocks: it reads the sizes of logs."""
    pods = [_pod(measured, pod) for pod in measured.usage.pods if pod.id in measured.started]
    return {"node": _node(measured), "pods": pods}


def cpu_and_memory(whole: Wire) -> Wire:
    """Return the part of a summary that the query `only_cpu_and_memory` selects."""

    def part(of: Wire, *names: str) -> Wire:
        return {name: of[name] for name in (*names, "startTime", "cpu", "memory") if name in of}

    pods = [
        {**part(pod, "podRef"), "containers": [part(each, "name") for each in pod["containers"]]}
        for pod in whole["pods"]
    ]
    return {"node": part(whole["node"], "nodeName"), "pods": pods}


def _node(measured: Measured) -> Wire:
    node, at = measured.node, _time(measured.at)
    found: Wire = {"nodeName": measured.node_name}
    if node.booted_at is not None:
        found["startTime"] = _time(node.booted_at)
    found |= _cpu_and_memory(node.cpu, node.memory) | _network(node.interfaces, at)
    if measured.node_disk is not None:
        found["fs"] = {"time": at, **_of_disk(measured.node_disk), "usedBytes": measured.node_disk.used_bytes}
    if measured.images is not None:
        found["runtime"] = {"imageFs": _layer(*measured.images, at)}
    if node.max_pids is not None and node.tasks is not None:
        found["rlimit"] = {"time": at, "maxpid": node.max_pids, "curproc": node.tasks}
    return found


def _pod(measured: Measured, pod: SandboxStats) -> Wire:
    containers = [
        _container(measured, each, measured.running[each.id]) for each in pod.containers if each.id in measured.running
    ]
    found: Wire = {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": _time(measured.started[pod.id]),
        "containers": containers,
        **_cpu_and_memory(pod.cpu, pod.memory),
        **_network(pod.interfaces, _network_time(measured, pod)),
    }
    volumes = measured.volumes.get(pod.uid)
    if shown := (*(volumes or ()), *measured.claims.get(pod.uid, ())):
        found["volume"] = [_volume(each, pod.namespace) for each in shown]
    if volumes is not None and (written := _ephemeral(measured, containers, volumes)):
        found["ephemeral-storage"] = written
    if pod.processes is not None:
        found["process_stats"] = {"process_count": pod.processes}
    return found


def _volume(volume: VolumeUsage, namespace: str) -> Wire:
    used = {"usedBytes": volume.used_bytes, "inodesUsed": volume.inodes}
    claim = {"pvcRef": {"name": volume.claim, "namespace": namespace}} if volume.claim else {}
    return {"time": _time(volume.at), **_of_disk(volume.disk), **used, "name": volume.name, **claim}


def _ephemeral(measured: Measured, containers: Sequence[Wire], volumes: Sequence[VolumeUsage]) -> Wire:
    """Return how much a pod has written to the node's disks; {} if a part of it is unknown.

    Mirrors server/stats/helper.go, v1.36, calcEphemeralStorage: writable layers, logs, and volumes on disk.
    """
    parts = [each.get(part, {}) for each in containers for part in ("rootfs", "logs")]
    if measured.node_disk is None or not all("usedBytes" in each for each in parts):
        return {}
    local = [each for each in volumes if each.is_local]
    return {
        "time": _time(measured.at),
        **_of_disk(measured.node_disk),
        "usedBytes": sum(each["usedBytes"] for each in parts) + sum(each.used_bytes for each in local),
        "inodesUsed": sum(each.get("inodesUsed", 0) for each in parts) + sum(each.inodes for each in local),
    }


def _container(measured: Measured, container: ContainerStats, running: Running) -> Wire:
    at = _time(measured.at)
    found: Wire = {"name": container.name, "startTime": _time(running.started_at)}
    found |= _cpu_and_memory(container.cpu, container.memory)
    if container.writable_layer is not None:
        disk = measured.images[1] if measured.images is not None else None
        found["rootfs"] = _layer(container.writable_layer, disk, at)
    written = _written(running.logs) if running.logs is not None else None
    if written is not None:
        disk_of_logs = _of_disk(measured.node_disk) if measured.node_disk is not None else {}
        found["logs"] = {"time": at, **disk_of_logs, "usedBytes": written[0], "inodesUsed": written[1]}
    return found


def _cpu_and_memory(cpu: CpuUsage | None, memory: MemoryUsage | None) -> Wire:
    found: Wire = {}
    if cpu is not None:
        rate = {"usageNanoCores": cpu.nano_cores} if cpu.nano_cores is not None else {}
        found["cpu"] = {"time": _moment(cpu.measured_at_ns), **rate, "usageCoreNanoSeconds": cpu.used_ns}
    if memory is not None:
        said = {
            "availableBytes": memory.available_bytes,
            "usageBytes": memory.usage_bytes,
            "workingSetBytes": memory.working_set_bytes,
            "rssBytes": memory.rss_bytes,
            "pageFaults": memory.page_faults,
            "majorPageFaults": memory.major_page_faults,
        }
        found["memory"] = {"time": _moment(memory.measured_at_ns), **_known(said)}
    return found


def _network(interfaces: Sequence[InterfaceUsage], at: str) -> Wire:
    if not interfaces:
        return {}
    listed = [_interface(each) for each in interfaces]
    # CRI-O reports the loopback as the default interface.
    default = next((each for each in listed if each["name"] != _LOOPBACK), listed[0])
    return {"network": {"time": at, **default, "interfaces": listed}}


def _network_time(measured: Measured, pod: SandboxStats) -> str:
    """Return when a pod's network was measured. CRI-O does not report it, but measures at each call."""
    return _moment(pod.network_measured_at_ns) if pod.network_measured_at_ns else _time(measured.at)


def _interface(usage: InterfaceUsage) -> Wire:
    said = {
        "rxBytes": usage.rx_bytes,
        "rxErrors": usage.rx_errors,
        "txBytes": usage.tx_bytes,
        "txErrors": usage.tx_errors,
    }
    return {"name": usage.name, **_known(said)}


def _layer(usage: FilesystemUsage, disk: Disk | None, at: str) -> Wire:
    """Return the usage of a disk by images, or by a container's layer."""
    when = _time(usage.measured_at) if usage.measured_at is not None else at
    room = _of_disk(disk) if disk is not None else {}
    return {"time": when, **room, "usedBytes": usage.used_bytes, "inodesUsed": usage.inodes_used}


def _of_disk(disk: Disk) -> Wire:
    room = {"availableBytes": disk.available_bytes, "capacityBytes": disk.capacity_bytes}
    return room | ({"inodesFree": disk.inodes_free, "inodes": disk.inodes} if disk.inodes else {})


def _written(logs: Path) -> tuple[int, int] | None:
    """Return bytes on disk and number of files of a log directory; None if it cannot be read."""
    try:
        with os.scandir(logs) as entries:
            sizes = [entry.stat(follow_symlinks=False).st_blocks * _BLOCK for entry in entries]
    except OSError:
        return None
    return sum(sizes), len(sizes)


def _known(said: Mapping[str, int | None]) -> Wire:
    return {name: number for name, number in said.items() if number is not None}


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(nanoseconds: int) -> str:
    return _time(datetime.fromtimestamp(nanoseconds / 10**9, UTC))
