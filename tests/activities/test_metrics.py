"""The metrics of steps, with the kubelet's names and labels: starts, failed starts, deferred resizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from activities.node import metrics
from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import AllocateResources, Allocation
from syncpod.pod import Pod, resized
from tests.activities.bench import Bench, PodOnBench, container, fault_of

Counted = Callable[[], dict[tuple[str, str, str], int]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """The counters' increases since the beginning of the test, by name, container type and code or reason."""
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    for place, name in (
        ("_PODS", "kubelet_started_pods_total"),
        ("_PODS_ERRORS", "kubelet_started_pods_errors_total"),
        ("_REJECTIONS", "kubelet_admission_rejections_total"),
        ("_CONTAINERS", "kubelet_started_containers_total"),
        ("_CONTAINERS_ERRORS", "kubelet_started_containers_errors_total"),
        ("_INFEASIBLE_RESIZES", "kubelet_pod_infeasible_resizes_total"),
        ("_DEFERRED_ACCEPTED", "kubelet_pod_deferred_accepted_resizes_total"),
    ):
        monkeypatch.setattr(metrics, place, meter.create_counter(name))

    def read() -> dict[tuple[str, str, str], int]:
        data = reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        assert isinstance(point, NumberDataPoint)
                        labels = point.attributes or {}
                        code = next(
                            (
                                labels[each]
                                for each in ("code", "reason", "reason_detail", "retry_trigger")
                                if each in labels
                            ),
                            "",
                        )
                        key = (metric.name, str(labels.get("container_type", "")), str(code))
                        found[key] = int(point.value)
        return found

    return read


async def test_a_start_is_counted_once_and_its_adoption_is_not_counted(bench: Bench, counted: Counted) -> None:
    pod = bench.pod()
    for _ in range(2):
        await pod.create_sandbox()
        await pod.start()
    assert counted() == {
        ("kubelet_started_pods_total", "", ""): 1,
        ("kubelet_started_containers_total", "container", ""): 1,
    }


async def test_failed_starts_are_counted_by_waiting_reason(bench: Bench, counted: Counted) -> None:
    pod = bench.pod(container(command=("/no/such/program",)), container("absent", image="localhost:1/absent:1"))
    with bench.runtime.gates.refuse("runc-create"):
        await fault_of(pod.create_sandbox())
    await pod.create_sandbox()
    await fault_of(pod.start())
    await fault_of(pod.pull("absent"))
    assert counted() == {
        ("kubelet_started_pods_total", "", ""): 2,
        ("kubelet_started_pods_errors_total", "", ""): 1,
        ("kubelet_started_containers_total", "container", ""): 2,
        ("kubelet_started_containers_errors_total", "container", "RunContainerError"): 1,
        ("kubelet_started_containers_errors_total", "container", "ErrImagePull"): 1,
    }


async def test_rejected_pods_are_counted_by_reason(bench: Bench, counted: Counted) -> None:
    bench.node.context = replace(bench.node.context, capacity={"pods": 0})
    await fault_of(bench.pod().create_sandbox())
    assert counted() == {("kubelet_admission_rejections_total", "", "OutOfpods"): 1}


async def test_an_accepted_deferred_resize_is_counted_by_its_trigger(bench: Bench, counted: Counted) -> None:
    bench.node.context = replace(bench.node.context, capacity={"cpu": 2000})
    one, other, gone = (bench.pod(container(resources={"requests": {"cpu": "500m"}})) for _ in range(3))
    for pod in (one, other, gone):
        await pod.create_sandbox()
    begun = counted()
    assert await allocate(one, cpu_of(one, "900m")) == Allocation(), "there was room at once: that is not counted"
    assert (await allocate(other, cpu_of(other, "800m"))).pending == "Deferred"
    assert await allocate(one, cpu_of(one, "700m")) == Allocation()
    assert await allocate(other, cpu_of(other, "800m")) == Allocation()
    assert (await allocate(one, cpu_of(one, "800m"))).pending == "Deferred"
    assert await allocate(one, cpu_of(one, "600m")) == Allocation()
    assert (await allocate(one, cpu_of(one, "900m"))).pending == "Deferred"
    await gone.kill(grace=0)
    assert await gone.remove()
    assert await allocate(one, cpu_of(one, "900m")) == Allocation()
    assert (await allocate(one, cpu_of(one, "3"))).pending == "Infeasible"
    accepted = "kubelet_pod_deferred_accepted_resizes_total"
    assert {key: value for key, value in counted().items() if key not in begun} == {
        (accepted, "", "pod_resized"): 1,
        (accepted, "", "pod_updated"): 1,
        (accepted, "", "pods_removed"): 1,
        ("kubelet_pod_infeasible_resizes_total", "", "insufficient_node_allocatable"): 1,
    }


async def allocate(pod: PodOnBench, wanted: Pod) -> Allocation:
    request = AllocateResources(ref=pod.ref, fence=pod.next_fence(), pod=wanted)
    result = await pod.step(StepName.ALLOCATE_RESOURCES, request).result()
    assert result.allocation is not None
    return result.allocation


def cpu_of(pod: PodOnBench, cpu: str) -> Pod:
    return resized(pod.pod, {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]})
