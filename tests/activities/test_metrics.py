"""What steps count: starts begun and starts failed, with the kubelet's names and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from activities import metrics
from tests.activities.bench import Bench, container, fault_of

Counted = Callable[[], dict[tuple[str, str, str], int]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """The counters' values by name, container type and code or reason, from the beginning of the test."""
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    for place, name in (
        ("_PODS", "started_pods_total"),
        ("_PODS_ERRORS", "started_pods_errors_total"),
        ("_REJECTIONS", "admission_rejections_total"),
        ("_CONTAINERS", "started_containers_total"),
        ("_CONTAINERS_ERRORS", "started_containers_errors_total"),
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
                        code = labels.get("code", labels.get("reason", ""))
                        key = (metric.name, str(labels.get("container_type", "")), str(code))
                        found[key] = int(point.value)
        return found

    return read


async def test_a_start_is_counted_once_and_its_adoption_not_at_all(bench: Bench, counted: Counted) -> None:
    pod = bench.pod()
    for _ in range(2):
        await pod.create_sandbox()
        await pod.start()
    assert counted() == {("started_pods_total", "", ""): 1, ("started_containers_total", "container", ""): 1}


async def test_failures_are_counted_by_the_reason_that_the_container_waits_with(bench: Bench, counted: Counted) -> None:
    pod = bench.pod(container(command=("/no/such/program",)), container("absent", image="localhost:1/absent:1"))
    with bench.runtime.gates.refuse("runc-create"):
        await fault_of(pod.create_sandbox())
    await pod.create_sandbox()
    await fault_of(pod.start())
    await fault_of(pod.pull("absent"))
    assert counted() == {
        ("started_pods_total", "", ""): 2,
        ("started_pods_errors_total", "", ""): 1,
        ("started_containers_total", "container", ""): 2,
        ("started_containers_errors_total", "container", "RunContainerError"): 1,
        ("started_containers_errors_total", "container", "ErrImagePull"): 1,
    }


async def test_a_pod_that_is_turned_away_is_counted_by_the_reason(bench: Bench, counted: Counted) -> None:
    bench.node.context = replace(bench.node.context, capacity={"pods": 0})
    await fault_of(bench.pod().create_sandbox())
    assert counted() == {("admission_rejections_total", "", "OutOfpods"): 1}
