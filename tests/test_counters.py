"""Counters begin at zero, so that Prometheus sees their first increase."""

from __future__ import annotations

from enum import StrEnum

import pytest
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from syncpod import counters
from syncpod.counters import begin_at_zero, counter_from_zero, each_of


class Number(StrEnum):
    """Labels of a counter."""

    ONE = "1"
    TWO = "2"


def test_known_labels_begin_at_zero_and_others_with_their_first_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_FROM_ZERO", [])
    reader = InMemoryMetricReader()
    meter: Meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    plain = counter_from_zero(meter, "plain_total", description="")
    labelled = counter_from_zero(meter, "labelled_total", description="", known=each_of(a=Number, b=("x",)))
    assert values(reader) == {}
    begin_at_zero()
    zeros = {("plain_total",): 0, ("labelled_total", "1", "x"): 0, ("labelled_total", "2", "x"): 0}
    assert values(reader) == zeros
    plain.add(1)
    labelled.add(1, {"a": "2", "b": "x"})
    labelled.add(1, {"a": "3", "b": "y"})
    assert values(reader) == zeros | {
        ("plain_total",): 1,
        ("labelled_total", "2", "x"): 1,
        ("labelled_total", "3", "y"): 1,
    }


def values(reader: InMemoryMetricReader) -> dict[tuple[str, ...], float]:
    data = reader.get_metrics_data()
    found = [
        ((metric.name, *map(str, (point.attributes or {}).values())), point.value)
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if isinstance(point, NumberDataPoint)
    ]
    assert len(dict(found)) == len(found), "one series for one set of labels"
    return dict(found)


def test_a_node_has_few_series_that_may_stay_zero() -> None:
    """Prometheus keeps each of them for each node."""
    import worker  # noqa: F401  # it imports whatever counts

    numbers = [len(known) for _, known in counters._FROM_ZERO]
    assert max(numbers) <= 100
    assert 100 < sum(numbers) <= 400
