"""Makes the series of the kubelet's ``/metrics/resource`` (metrics/collectors/resource_metrics.go, v1.36).

As in the kubelet, the timestamps are those of the runtime's measurements, so that rates are correct even if a
measurement is old. A value that the runtime does not report has no series.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from syncpod.agent.scraping.node_usage import NodeUsage
from syncpod.agent.scraping.pod_usage import RuntimeUsage
from syncpod.cri.port import CpuUsage, MemoryUsage

_CONTAINER: Final = ("container", "pod", "namespace")
_POD: Final = ("pod", "namespace")
_NANO: Final = 10**9

Starts = Mapping[str, datetime]
"""The start time of each running container, by id."""


def resource_series(usage: RuntimeUsage, node: NodeUsage, starts: Starts) -> Sequence[Metric]:
    """Return all metric families. If the runtime does not answer, they have no pods, and the error gauge is 1."""
    families = _Families()
    for pod in usage.pods:
        whose = (pod.name, pod.namespace)
        for container in pod.containers:
            if container.id not in starts:
                continue  # it has ended since the measurement
            labels = (container.name, *whose)
            families.started.add_metric(labels, starts[container.id].timestamp())
            _add(families.container_cpu, families.container_memory, labels, container.cpu, container.memory)
        _add(families.pod_cpu, families.pod_memory, whose, pod.cpu, pod.memory)
    _add(families.node_cpu, families.node_memory, (), node.cpu, node.memory)
    for failed in families.failed:
        failed.add_metric((), not usage.is_known)
    return families.all


class _Families:
    """The families of one answer, empty at first."""

    def __init__(self) -> None:
        self.node_cpu = CounterMetricFamily("node_cpu_usage_seconds", "CPU time used on the node.", labels=())
        self.node_memory = GaugeMetricFamily("node_memory_working_set_bytes", "Working set of the node.", labels=())
        self.pod_cpu = CounterMetricFamily("pod_cpu_usage_seconds", "CPU time used by a pod.", labels=_POD)
        self.pod_memory = GaugeMetricFamily("pod_memory_working_set_bytes", "Working set of a pod.", labels=_POD)
        self.container_cpu = CounterMetricFamily(
            "container_cpu_usage_seconds", "CPU time used by a container.", labels=_CONTAINER
        )
        self.container_memory = GaugeMetricFamily(
            "container_memory_working_set_bytes", "Working set of a container.", labels=_CONTAINER
        )
        self.started = GaugeMetricFamily(
            "container_start_time_seconds", "When a container started, in seconds since 1970.", labels=_CONTAINER
        )
        self.failed = tuple(
            GaugeMetricFamily(name, "1 if the runtime does not report the usage of pods, else 0.", labels=())
            for name in ("scrape_error", "resource_scrape_error")
        )

    @property
    def all(self) -> Sequence[Metric]:
        return (
            *(self.node_cpu, self.node_memory, self.pod_cpu, self.pod_memory),
            *(self.container_cpu, self.container_memory, self.started, *self.failed),
        )


def _add(
    cpu_family: CounterMetricFamily,
    memory_family: GaugeMetricFamily,
    labels: Iterable[str],
    cpu: CpuUsage | None,
    memory: MemoryUsage | None,
) -> None:
    if cpu is not None:
        cpu_family.add_metric(tuple(labels), cpu.used_ns / _NANO, timestamp=cpu.measured_at_ns / _NANO)
    if memory is not None and memory.working_set_bytes is not None:
        at = memory.measured_at_ns / _NANO
        memory_family.add_metric(tuple(labels), memory.working_set_bytes, timestamp=at)
