"""CPU and memory of containers and sandboxes in the kernel's units, and the OOM scores of containers.

Mirrors kuberuntime_container_linux.go, kuberuntime_sandbox_linux.go and cm/helpers_linux.go, v1.36.
"""

from protos.cri.v1.api_pb2 import HugepageLimit, LinuxContainerResources
from syncpod.lifecycle.phase import is_critical
from syncpod.lifecycle.qos import pod_qos
from syncpod.pod import Container, Pod, Quantity, parse_quantity
from syncpod.pod.amounts import HUGE_PAGES, Amounts, containers_amounts, pod_amounts, read_amounts
from syncpod.translation.context import Host

MIN_SHARES = 2
PERIOD_US = 100_000
"""Microseconds over which CPU is limited."""

_SHARES_PER_CPU = 1024
_MAX_SHARES = 262144
_MIN_QUOTA_US = 1000
_MAX_QUOTA_US = 2**44 - 1
"""The kernel's maximum (sched/core.c, MAX_BW), more CPUs than any machine has."""
_MAX_BYTES = 2**63 - 1
"""CRI's largest number, which the kernel treats as no limit."""
_GUARANTEED = -997
_BEST_EFFORT = 1000
_RANGE = 1000
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_ZERO = parse_quantity("0")


def cpu_shares(milli_cpu: int) -> int:
    """Return the CPU shares for this many millicores: 1024 per core, from 2 to 262144."""
    return min(max(milli_cpu * _SHARES_PER_CPU // 1000, MIN_SHARES), _MAX_SHARES)


def cpu_quota(milli_cpu: int) -> int:
    """Return the CPU quota for this many millicores, in microseconds per 100 ms; 0 = no limit.

    The quota is at least 1000, and at most the kernel's maximum.
    """
    return min(max(milli_cpu * PERIOD_US // 1000, _MIN_QUOTA_US), _MAX_QUOTA_US) if milli_cpu else 0


def bytes_of(amount: Quantity) -> int:
    """Return an amount in whole bytes, reduced to CRI's largest number, since a sum over containers can be larger."""
    return min(amount.value(), _MAX_BYTES)


def container_resources(pod: Pod, container: Container, host: Host) -> LinuxContainerResources:
    """Return the container's limits and its oom_score_adj (generateLinuxContainerResources).

    A container without a limit of its own gets the pod-level limit. Huge pages of every size of the machine are
    limited, to 0 if not requested. If the kernel accounts for swap, containers get none
    (configureContainerSwapResources, NoSwap).
    """
    requests, limits = read_amounts(container.resources.requests), _bounded(pod, container)
    resources = _linux_resources(requests, limits, host)
    resources.oom_score_adj = oom_score_adj(pod, container, host.memory_bytes)
    resources.hugepage_limits.extend(hugepage_limits(limits, host))
    if host.swap_controller and host.unified_cgroups:
        resources.unified["memory.swap.max"] = "0"
    elif host.swap_controller:
        resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes
    return resources


def sandbox_resources(pod: Pod, host: Host) -> LinuxContainerResources:
    """Return the sandbox's resources: the whole pod's, without its overhead (calculateSandboxResources)."""
    return _linux_resources(
        pod_amounts(pod, "requests", overhead=False), pod_amounts(pod, "limits", overhead=False), host
    )


def overhead_resources(pod: Pod, host: Host) -> LinuxContainerResources:
    """Return the sandbox's overhead; empty if the pod sets none."""
    if not pod.spec.overhead:
        return LinuxContainerResources()
    overhead = read_amounts(pod.spec.overhead)
    return _linux_resources({"cpu": _ZERO} | dict(overhead), overhead, host)


def hugepage_limits(amounts: Amounts, host: Host) -> list[HugepageLimit]:
    """Return the limit for each of the machine's sizes of huge pages; 0 for a size without an amount (HugePageLimits).

    Empty if cgroups cannot limit them: containerd would ignore the kubelet's limits, and CRI-O would refuse them.
    """
    if not host.hugetlb_controller:
        return []
    wanted = {
        _page_size(parse_quantity(name.removeprefix(HUGE_PAGES)).value()): bytes_of(amount)
        for name, amount in amounts.items()
        if name.startswith(HUGE_PAGES)
    }
    return [HugepageLimit(page_size=size, limit=wanted.get(size, 0)) for size in host.hugepage_sizes]


def _bounded(pod: Pod, container: Container) -> Amounts:
    """Return a container's limits, with pod-level limits where it has none (getCPULimit, getMemoryLimit)."""
    own = {
        name: amount
        for name, amount in read_amounts(container.resources.limits).items()
        if amount > _ZERO or name.startswith(HUGE_PAGES)
    }
    whole = read_amounts(pod.spec.resources.limits) if pod.spec.resources is not None else {}
    return {**whole, **own}


def _linux_resources(requests: Amounts, limits: Amounts, host: Host) -> LinuxContainerResources:
    """Convert CPU and memory to shares, quota and limit; an unset CPU request defaults to the limit."""
    cpu_limit = limits.get("cpu", _ZERO)
    resources = LinuxContainerResources(
        cpu_period=PERIOD_US,
        cpu_quota=cpu_quota(cpu_limit.milli_value()),
        cpu_shares=cpu_shares(requests.get("cpu", cpu_limit).milli_value()),
        memory_limit_in_bytes=bytes_of(limits.get("memory", _ZERO)),
    )
    if host.kills_containers_whole:
        resources.unified["memory.oom.group"] = "1"
    return resources


def _page_size(size: int) -> str:
    """Return a page size as cgroups name it: 2097152 is ``2MB`` (HugePageUnitSizeFromByteSize)."""
    unit = 0
    while size % 1024 == 0 and unit < len(_UNITS) - 1:
        size //= 1024
        unit += 1
    return f"{size}{_UNITS[unit]}"


def oom_score_adj(pod: Pod, container: Container, memory_bytes: int) -> int:
    """Return the container's oom_score_adj, from -997 to 1000: a container that requests more memory is killed later.

    ``memory_bytes`` is the node's. A burstable container gets 3 to 999, and a sidecar at most the score of the main
    container that requests least. The containers share equally the part of the pod-level request beyond their own
    requests (qos/policy.go, v1.36, GetContainerOOMScoreAdjust). The class `system-node-critical` counts only for a pod
    that is static, or critical by its priority (types/pod_update.go, IsNodeCriticalPod). The kernel would otherwise
    spare a pod that the node evicts like any other.
    """
    if pod.spec.priority_class_name == "system-node-critical" and is_critical(pod):
        return _GUARANTEED
    match pod_qos(pod):
        case "Guaranteed":
            return _GUARANTEED
        case "BestEffort":
            return _BEST_EFFORT
    requested = _memory_request(container)
    if container.restart_policy == "Always" and any(init.name == container.name for init in pod.spec.init_containers):
        requested = max(requested, min(_memory_request(main) for main in pod.spec.containers))
    score = _RANGE - _RANGE * (requested + _share_of_the_rest(pod)) // memory_bytes
    return min(max(score, _RANGE + _GUARANTEED), _BEST_EFFORT - 1)


def _share_of_the_rest(pod: Pod) -> int:
    """Return each container's equal share, in bytes, of the pod-level memory request beyond the containers' own.

    kubelet/qos/helpers.go, v1.36, remainingPodMemReqPerContainer.
    """
    whole = pod.spec.resources.requests if pod.spec.resources is not None else {}
    requested = parse_quantity(whole.get("memory", "0")).value()
    if not requested:
        return 0
    of_containers = containers_amounts(pod.spec, "requests").get("memory", _ZERO).value()
    return (requested - of_containers) // (len(pod.spec.containers) + len(pod.spec.init_containers))


def _memory_request(container: Container) -> int:
    return parse_quantity(container.resources.requests.get("memory", "0")).value()
