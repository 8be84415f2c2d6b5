"""Counters of steps, with the kubelet's names (metrics/metrics.go, v1.36); by the OpenTelemetry API alone."""

from __future__ import annotations

from opentelemetry import metrics

from syncpod.messages import ContainerKind, Fault

_METER = metrics.get_meter("syncpod.activities")
_PODS = _METER.create_counter("started_pods_total", description="Sandboxes that were begun.")
_PODS_ERRORS = _METER.create_counter("started_pods_errors_total", description="Sandboxes that could not be made.")
_CONTAINERS = _METER.create_counter(
    "started_containers_total", description="Containers whose start was begun, by container type."
)
_CONTAINERS_ERRORS = _METER.create_counter(
    "started_containers_errors_total",
    description="Containers that could not be started, by container type and the reason they then wait with.",
)


def count_sandbox() -> None:
    """Count a sandbox that is begun."""
    _PODS.add(1)


def count_failed_sandbox() -> None:
    """Count a sandbox that was begun and could not be made."""
    _PODS_ERRORS.add(1)


def count_start(kind: ContainerKind) -> None:
    """Count a container of which the runtime is asked."""
    _CONTAINERS.add(1, {"container_type": kind})


def count_failed_start(kind: ContainerKind, fault: Fault, *, begun: bool = False) -> None:
    """Count a start that failed; one not yet `begun` (its image or its configuration) is counted as a start too."""
    if not begun:
        count_start(kind)
    _CONTAINERS_ERRORS.add(1, {"container_type": kind, "code": fault.value})
