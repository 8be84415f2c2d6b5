"""The settings of the cgroups of pods, of their tiers and of all pods together: weights and limits.

Mirrors cm/helpers_linux.go, v1.36, ResourceConfigForPod, and cm/cgroup_manager_linux.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from syncpod.lifecycle.qos import pod_qos
from syncpod.pod import Pod, parse_quantity
from syncpod.pod.amounts import HUGE_PAGES, pod_amounts, read_amounts
from syncpod.translation.context import Host
from syncpod.translation.resources import MIN_SHARES, PERIOD_US, bytes_of, cpu_quota, cpu_shares, hugepage_limits

PIDS_OF_PODS: Final = 0.9
"""The fraction of the machine's process ids that all pods together may have. The node needs the rest to end a fork
bomb."""


@dataclass(frozen=True)
class CgroupLimits:
    """The settings to write into a cgroup. None leaves a setting unchanged, which in a new cgroup means no limit."""

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    """CPU time in microseconds of each 100 ms."""
    memory: int | None = None
    """Maximum bytes of memory."""
    hugepages: Mapping[str, int] | None = None
    """Maximum bytes of huge pages, by page size as cgroups name it."""
    pids: int | None = None
    """Maximum number of processes and threads."""


def limits_of_all_pods(capacity: Mapping[str, int], host: Host, reserved_pids: int = 0) -> CgroupLimits:
    """Return the settings of the cgroup above all pods: limits of the node's capacity, and of process ids.

    `capacity` is the kubelet's allocatable, before its deduction for evictions. At least `reserved_pids` process ids
    are left to the machine. CPU is a weight, since pods may use idle CPU time. A resource that is not in `capacity` is
    not limited. Mirrors cm/node_container_manager_linux.go, v1.36, getCgroupConfigInternal, with the default
    enforceNodeAllocatable. Difference: without systemReserved or kubeReserved, the kubelet leaves no process ids to the
    machine.
    """
    pages = {name: parse_quantity(str(amount)) for name, amount in capacity.items() if name.startswith(HUGE_PAGES)}
    return CgroupLimits(
        cpu_shares=cpu_shares(capacity["cpu"]) if "cpu" in capacity else None,
        memory=capacity.get("memory"),
        hugepages={each.page_size: each.limit for each in hugepage_limits(pages, host)} if pages else None,
        pids=max(0, min(int(host.max_pids * PIDS_OF_PODS), host.max_pids - reserved_pids)) or None,
    )


def pod_limits(pod: Pod, host: Host) -> CgroupLimits:
    """Return the limits of the whole pod, its overhead included.

    CPU and memory are limited if the pod has a pod-level limit, or if every container has one. Difference: a sidecar
    without a limit counts as unlimited even if sidecars before it have limits.
    """
    requests, limits = pod_amounts(pod, "requests"), pod_amounts(pod, "limits")
    cpu = limits["cpu"].milli_value() if _is_limited(pod, "cpu") else 0
    memory = bytes_of(limits["memory"]) if _is_limited(pod, "memory") else 0
    milli_cpu = requests["cpu"].milli_value() if "cpu" in requests and pod_qos(pod) != "BestEffort" else 0
    return CgroupLimits(
        cpu_shares=cpu_shares(milli_cpu),
        cpu_quota=cpu_quota(cpu) or None,
        memory=memory or None,
        hugepages={each.page_size: each.limit for each in hugepage_limits(requests, host)},
    )


def pod_level_controllers(pod: Pod) -> Mapping[str, str]:
    """Return by resource the controllers that must enforce the pod-level limits. A limit of 0 counts as none."""
    amounts = read_amounts(pod.spec.resources.limits) if pod.spec.resources is not None else {}
    controllers = {name: "hugetlb" if name.startswith(HUGE_PAGES) else name for name in amounts}
    return {name: controllers[name] for name, amount in amounts.items() if amount.number > 0}


def burstable_limits(milli_cpu: int) -> CgroupLimits:
    """Return the burstable tier's settings: its weight is that of `milli_cpu`, the sum of its pods' CPU requests."""
    return CgroupLimits(cpu_shares=cpu_shares(milli_cpu))


BEST_EFFORT_LIMITS = CgroupLimits(cpu_shares=MIN_SHARES)
"""The best-effort tier has the least weight, however many pods are in it."""


class File(NamedTuple):
    """A value for a file of a cgroup."""

    controller: str
    name: str
    value: str


def as_files(limits: CgroupLimits, version: int) -> tuple[File, ...]:
    """Return the files to write, in the order of writing."""
    pages = (limits.hugepages or {}).items()
    pids = [File("pids", "pids.max", str(limits.pids))] if limits.pids is not None else []
    if version == 1:
        files = [File("cpu", "cpu.shares", str(limits.cpu_shares))] if limits.cpu_shares is not None else []
        if limits.cpu_quota is not None:
            files.append(File("cpu", "cpu.cfs_period_us", str(PERIOD_US)))
            files.append(File("cpu", "cpu.cfs_quota_us", str(limits.cpu_quota)))
        if limits.memory is not None:
            files.append(File("memory", "memory.limit_in_bytes", str(limits.memory)))
        files += [File("hugetlb", f"hugetlb.{size}.limit_in_bytes", str(limit)) for size, limit in pages]
        return (*files, *pids)
    files = [File("cpu", "cpu.weight", str(cpu_weight(limits.cpu_shares)))] if limits.cpu_shares is not None else []
    if limits.cpu_quota is not None:
        files.append(File("cpu", "cpu.max", f"{limits.cpu_quota} {PERIOD_US}"))
    if limits.memory is not None:
        files.append(File("memory", "memory.max", str(limits.memory)))
    files += [File("hugetlb", f"hugetlb.{size}.max", str(limit)) for size, limit in pages]
    return (*files, *pids)


def cpu_weight(shares: int) -> int:
    """Return the weight of cgroup v2, from 1 to 10000, for shares from 2 to 262144 (getCPUWeight)."""
    return 10000 if shares >= 262144 else 1 + (shares - 2) * 9999 // 262142


def shares_of_weight(weight: int) -> int:
    """Return the shares for a weight of version 2, as precisely as possible (CpuWeightToCPUShares)."""
    return 2 + (weight - 1) * 262142 // 9999


def _is_limited(pod: Pod, name: str) -> bool:
    """Return whether a resource is limited for all containers of the pod together."""
    spec = pod.spec
    if pod_level_controllers(pod).get(name):
        return True
    containers = (*spec.containers, *spec.init_containers)
    limits = [read_amounts(container.resources.limits).get(name) for container in containers]
    return all(limit is not None and limit.number > 0 for limit in limits)
