"""CPU and memory of containers and sandboxes in the kernel's units.

Mirrors kuberuntime_container_linux.go, kuberuntime_sandbox_linux.go and cm/helpers_linux.go, v1.36. Pod-level resources
are refused on admission and take no part.
"""

from collections.abc import Mapping
from typing import Literal

from protos.cri.v1.api_pb2 import HugepageLimit, LinuxContainerResources
from syncpod.cri.node import Host
from syncpod.cri.oom_score import oom_score_adj
from syncpod.pod import Container, Pod, Quantity, parse_quantity

_SHARES_PER_CPU = 1024
_MIN_SHARES = 2
_MAX_SHARES = 262144
_PERIOD_US = 100_000
_MIN_QUOTA_US = 1000
_HUGEPAGES = "hugepages-"
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_ZERO = parse_quantity("0")

Amounts = Mapping[str, Quantity]
"""Quantities by resource name."""


def cpu_shares(milli_cpu: int) -> int:
    """Return the CPU weight of that many millicores: 1024 for a core, from 2 to 262144."""
    return min(max(milli_cpu * _SHARES_PER_CPU // 1000, _MIN_SHARES), _MAX_SHARES)


def cpu_quota(milli_cpu: int) -> int:
    """Return the microseconds of CPU that many millicores have in each 100 ms: at least 1000; 0 = no limit."""
    return max(milli_cpu * _PERIOD_US // 1000, _MIN_QUOTA_US) if milli_cpu else 0


def container_resources(pod: Pod, container: Container, host: Host) -> LinuxContainerResources:
    """Return what the container may use and how dispensable it is (generateLinuxContainerResources).

    Huge pages of every size the machine has are limited, to 0 unless asked for. Swap is not for containers, where its
    accounting allows keeping them from it (configureContainerSwapResources, NoSwap).
    """
    requests, limits = _amounts(container.resources.requests), _amounts(container.resources.limits)
    resources = _linux_resources(requests, limits, host)
    resources.oom_score_adj = oom_score_adj(pod, container, host.memory_bytes)
    resources.hugepage_limits.extend(_hugepage_limits(limits, host))
    if host.swap_controller and host.unified_cgroups:
        resources.unified["memory.swap.max"] = "0"
    elif host.swap_controller:
        resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes
    return resources


def sandbox_resources(pod: Pod, host: Host) -> LinuxContainerResources:
    """Return the resources of the pod as a whole, without its overhead (calculateSandboxResources)."""
    return _linux_resources(pod_amounts(pod, "requests"), pod_amounts(pod, "limits"), host)


def overhead_resources(pod: Pod, host: Host) -> LinuxContainerResources:
    """Return what the sandbox itself takes; nothing is set where the pod names no overhead."""
    if not pod.spec.overhead:
        return LinuxContainerResources()
    overhead = _amounts(pod.spec.overhead)
    return _linux_resources({"cpu": _ZERO} | dict(overhead), overhead, host)


def pod_amounts(pod: Pod, kind: Literal["requests", "limits"]) -> Amounts:
    """Return the pod's ``requests`` or ``limits``: the most that is needed at any one time.

    Main containers and sidecars add up. An init container runs with the sidecars started before it, and counts only
    where it needs more than they all do later (component-helpers resource/helpers.go, v1.36, PodRequests, PodLimits).
    """
    total: Amounts = {}
    for container in pod.spec.containers:
        total = _added(total, _amounts(getattr(container.resources, kind)))
    sidecars: Amounts = {}
    init_peak: Amounts = {}
    for container in pod.spec.init_containers:
        amounts = _amounts(getattr(container.resources, kind))
        if container.restart_policy == "Always":
            total = _added(total, amounts)
            sidecars = _added(sidecars, amounts)
            init_peak = _larger(init_peak, sidecars)
        else:
            init_peak = _larger(init_peak, _added(sidecars, amounts))
    return _larger(total, init_peak)


def _linux_resources(requests: Amounts, limits: Amounts, host: Host) -> LinuxContainerResources:
    """Turn CPU and memory into shares, quota and limit; a CPU request that is not set is the limit."""
    cpu_limit = limits.get("cpu", _ZERO)
    resources = LinuxContainerResources(
        cpu_period=_PERIOD_US,
        cpu_quota=cpu_quota(cpu_limit.milli_value()),
        cpu_shares=cpu_shares(requests.get("cpu", cpu_limit).milli_value()),
        memory_limit_in_bytes=limits.get("memory", _ZERO).value(),
    )
    if host.unified_cgroups:
        # One process out of memory ends the container, as the kubelet has it on cgroup v2.
        resources.unified["memory.oom.group"] = "1"
    return resources


def _hugepage_limits(limits: Amounts, host: Host) -> list[HugepageLimit]:
    wanted = {
        _page_size(parse_quantity(name.removeprefix(_HUGEPAGES)).value()): amount.value()
        for name, amount in limits.items()
        if name.startswith(_HUGEPAGES)
    }
    return [HugepageLimit(page_size=size, limit=wanted.get(size, 0)) for size in host.hugepage_sizes]


def _page_size(size: int) -> str:
    """Return a page size as cgroups name it: 2097152 is ``2MB`` (HugePageUnitSizeFromByteSize)."""
    unit = 0
    while size % 1024 == 0 and unit < len(_UNITS) - 1:
        size //= 1024
        unit += 1
    return f"{size}{_UNITS[unit]}"


def _amounts(written: Mapping[str, str]) -> Amounts:
    return {name: parse_quantity(text) for name, text in written.items()}


def _added(one: Amounts, other: Amounts) -> Amounts:
    return {name: Quantity(one.get(name, _ZERO).number + other.get(name, _ZERO).number) for name in (*one, *other)}


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, _ZERO), other.get(name, _ZERO)) for name in (*one, *other)}
