"""Makes the series of the kubelet's ``/metrics/cadvisor`` that dashboards and rules use, from CRI statistics.

Names and labels are cAdvisor's. A sample without `container` is a pod's; a sample without `pod` is the node's. As in
cAdvisor, `name` is the container's id. Values that a runtime does not report have no series: throttling, page cache,
tasks by state, and the devices of a disk. The label `id` is missing, since a runtime does not report the cgroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from syncpod.agent.scraping.node_usage import NodeUsage
from syncpod.agent.scraping.pod_usage import RuntimeUsage
from syncpod.cri.port import ContainerStats, CpuUsage, InterfaceUsage, MemoryUsage, SandboxStats
from syncpod.translation.context import Host

_WHO: Final = ("container", "image", "name", "namespace", "pod")
_NANO: Final = 10**9
_NODE: Final = ("",) * len(_WHO)


@dataclass(frozen=True)
class RunningContainer:
    """A running container."""

    started_at: datetime
    image: str


Running = Mapping[str, RunningContainer]
"""Running containers by id."""


def container_series(usage: RuntimeUsage, node: NodeUsage, host: Host, running: Running) -> Sequence[Metric]:
    """Return all metric families. If the runtime does not answer, they have no pods, and the error gauge is 1."""
    families = _Families()
    families.of_machine(host)
    families.add(_NODE, node.cpu, node.memory)
    families.add_network(_NODE, node.interfaces, 0)
    for pod in usage.pods:
        families.add_pod(pod)
        for each in pod.containers:
            if each.id in running:  # else it has ended since the measurement
                families.add_container(pod, each, running[each.id])
    families.failed.add_metric((), not usage.is_known)
    return families.all


class _Families:
    """The families of one answer, empty at first."""

    def __init__(self) -> None:
        self.cpu = CounterMetricFamily("container_cpu_usage_seconds", "CPU time used.", labels=(*_WHO, "cpu"))
        self.memory = {
            name: GaugeMetricFamily(f"container_memory_{name}_bytes", text, labels=_WHO)
            for name, text in (
                ("usage", "Memory used, page cache included."),
                ("working_set", "Memory that cannot be reclaimed without harm."),
            )
        }
        self.rss = GaugeMetricFamily("container_memory_rss", "Anonymous memory, in bytes.", labels=_WHO)
        self.faults = CounterMetricFamily(
            "container_memory_failures", "Page faults.", labels=(*_WHO, "failure_type", "scope")
        )
        self.network = {
            name: CounterMetricFamily(f"container_network_{name}", text, labels=("image", "interface", *_WHO[2:]))
            for name, text in (
                ("receive_bytes", "Bytes received."),
                ("receive_errors", "Errors while receiving."),
                ("transmit_bytes", "Bytes sent."),
                ("transmit_errors", "Errors while sending."),
            )
        }
        self.written = GaugeMetricFamily(
            "container_fs_usage_bytes", "Size of the writable layer.", labels=(*_WHO, "device")
        )
        self.processes = GaugeMetricFamily("container_processes", "Processes of a pod.", labels=_WHO)
        self.started = GaugeMetricFamily(
            "container_start_time_seconds", "When a container started, in seconds since 1970.", labels=_WHO
        )
        self.cores = GaugeMetricFamily("machine_cpu_cores", "Logical processors of the machine.", labels=())
        self.machine_memory = GaugeMetricFamily("machine_memory_bytes", "Memory of the machine.", labels=())
        self.failed = GaugeMetricFamily(
            "container_scrape_error", "1 if the runtime does not report the usage of pods, else 0.", labels=()
        )

    @property
    def all(self) -> Sequence[Metric]:
        return (
            *(self.cpu, *self.memory.values(), self.rss, self.faults, *self.network.values(), self.written),
            *(self.processes, self.started, self.cores, self.machine_memory, self.failed),
        )

    def of_machine(self, host: Host) -> None:
        self.cores.add_metric((), host.cpus)
        self.machine_memory.add_metric((), host.memory_bytes)

    def add_pod(self, pod: SandboxStats) -> None:
        who = ("", "", "", pod.namespace, pod.name)
        self.add(who, pod.cpu, pod.memory)
        self.add_network(who, pod.interfaces, pod.network_measured_at_ns)
        if pod.processes is not None:
            self.processes.add_metric(who, pod.processes)

    def add_container(self, pod: SandboxStats, container: ContainerStats, running: RunningContainer) -> None:
        who = (container.name, running.image, container.id, pod.namespace, pod.name)
        self.add(who, container.cpu, container.memory)
        self.started.add_metric(who, running.started_at.timestamp())
        if (layer := container.writable_layer) is not None:
            self.written.add_metric((*who, layer.mountpoint), layer.used_bytes)

    def add(self, who: Iterable[str], cpu: CpuUsage | None, memory: MemoryUsage | None) -> None:
        """Add the CPU and memory of a container, a pod or the node."""
        labels = tuple(who)
        if cpu is not None:
            self.cpu.add_metric((*labels, "total"), cpu.used_ns / _NANO, timestamp=cpu.measured_at_ns / _NANO)
        if memory is None:
            return
        at = memory.measured_at_ns / _NANO
        for family, size in (
            (self.memory["usage"], memory.usage_bytes),
            (self.memory["working_set"], memory.working_set_bytes),
            (self.rss, memory.rss_bytes),
        ):
            if size is not None:
                family.add_metric(labels, size, timestamp=at)
        for kind, number in (("pgfault", memory.page_faults), ("pgmajfault", memory.major_page_faults)):
            if number is not None:
                self.faults.add_metric((*labels, kind, "hierarchy"), number, timestamp=at)

    def add_network(self, who: Sequence[str], interfaces: Iterable[InterfaceUsage], measured_at_ns: int) -> None:
        """Add the traffic of a pod or the node; `measured_at_ns` is 0 if the runtime does not report a time."""
        at = measured_at_ns / _NANO or None
        for each in interfaces:
            for name, number in (
                ("receive_bytes", each.rx_bytes),
                ("receive_errors", each.rx_errors),
                ("transmit_bytes", each.tx_bytes),
                ("transmit_errors", each.tx_errors),
            ):
                if number is not None:
                    self.network[name].add_metric((who[1], each.name, *who[2:]), number, timestamp=at)
