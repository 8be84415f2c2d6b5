"""The agent's metrics, under the kubelet's names (metrics/metrics.go, v1.36).

They cost nothing until telemetry is on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

_meter = metrics.get_meter("syncpod.agent")
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The buckets of the kubelet's histograms of relists and probes (Prometheus' defaults)."""

relist_duration = _meter.create_histogram(
    "kubelet_pleg_relist_duration_seconds",
    unit="s",
    description="How long a relist took.",
    explicit_bucket_boundaries_advisory=SECONDS,
)
relist_interval = _meter.create_histogram(
    "kubelet_pleg_relist_interval_seconds",
    unit="s",
    description="Time between the starts of two relists.",
    explicit_bucket_boundaries_advisory=SECONDS,
)
discarded_events = _meter.create_counter(
    "kubelet_pleg_discard_events",
    description="Pod lifecycle events of pods that have no workflow.",
)

_last_seen = 0.0


def relisted() -> None:
    """Record that a relist has just succeeded."""
    global _last_seen
    _last_seen = time.time()


def _observe_last_seen(_: CallbackOptions) -> Iterable[Observation]:
    if _last_seen:
        yield Observation(_last_seen)


_meter.create_observable_gauge(
    "kubelet_pleg_last_seen_seconds",
    callbacks=[_observe_last_seen],
    unit="s",
    description="When the last relist succeeded, in seconds since 1970.",
)
evictions = _meter.create_counter(
    "kubelet_evictions",
    description="Pods evicted for their use of the node's resources, by eviction signal.",
)

collected_images = _meter.create_counter(
    "kubelet_image_garbage_collected_total",
    description="Images removed, by reason: lack of space, or age.",
)

orphaned_pods = _meter.create_counter(
    "kubelet_orphaned_runtime_pods_total",
    description="Pods found in the runtime that no workflow asks for.",
)

_collected = _meter.create_counter(
    "syncpod_garbage_collected_total",
    description="Dead containers and sandboxes, remains of gone pods, orphans and duplicates removed, by kind.",
)


def collected(kind: str, number: int) -> None:
    """Count what was removed: `kind` is `container`, `sandbox`, `pod`, `orphan` or `duplicate`."""
    if number:
        _collected.add(number, {"kind": kind})


workflow_restarts = _meter.create_counter(
    "syncpod_workflow_restarts_total",
    description="Pod workflows begun anew because their tasks failed again and again.",
)

_terminated = _meter.create_counter(
    "kubelet_terminated_containers_total",
    description="Containers that have ended, by container type, exit code and reason.",
)


def terminated(container_type: str, exit_code: str, reason: str) -> None:
    """Count a container that has ended."""
    _terminated.add(1, {"container_type": container_type, "exit_code": exit_code, "reason": reason})
