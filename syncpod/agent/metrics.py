"""The agent's metrics, under the kubelet's names (metrics/metrics.go, v1.36).

They cost nothing until telemetry is on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from syncpod.messages.identity import PodRef

_meter = metrics.get_meter("syncpod.agent")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The buckets of the kubelet's relist histograms (Prometheus' defaults)."""

relist_duration = _meter.create_histogram(
    "pleg_relist_duration_seconds",
    unit="s",
    description="How long a relist took.",
    explicit_bucket_boundaries_advisory=_SECONDS,
)
relist_interval = _meter.create_histogram(
    "pleg_relist_interval_seconds",
    unit="s",
    description="Time between the starts of two relists.",
    explicit_bucket_boundaries_advisory=_SECONDS,
)
discarded_events = _meter.create_counter(
    "pleg_discard_events",
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
    "pleg_last_seen_seconds",
    callbacks=[_observe_last_seen],
    unit="s",
    description="When the last relist succeeded, in seconds since 1970.",
)
evictions = _meter.create_counter(
    "evictions",
    description="Pods evicted for their use of the node's resources, by eviction signal.",
)

_probes = _meter.create_counter("prober_probe_total", description="Probes of containers, by type and result.")
_probe_duration = _meter.create_histogram(
    "prober_probe_duration_seconds",
    unit="s",
    description="How long a probe took.",
    explicit_bucket_boundaries_advisory=_SECONDS,
)


def probed(type_: str, result: str, ref: PodRef, container: str, seconds: float) -> None:
    """Count a probe: `result` is `successful`, `failed` or `unknown`."""
    who = {"container": container, "pod": ref.name, "namespace": ref.namespace}
    _probes.add(1, {"probe_type": type_.capitalize(), "result": result, **who, "pod_uid": ref.uid})
    _probe_duration.record(seconds, {"probe_type": type_.capitalize(), **who})


collected_images = _meter.create_counter(
    "image_garbage_collected_total",
    description="Images removed, by reason: lack of space, or age.",
)

orphaned_pods = _meter.create_counter(
    "orphaned_runtime_pods_total",
    description="Pods found in the runtime that no workflow asks for.",
)

_collected = _meter.create_counter(
    "garbage_collected_total",
    description="Dead containers and sandboxes, remains of gone pods, orphans and duplicates removed, by kind.",
)


def collected(kind: str, number: int) -> None:
    """Count what was removed: `kind` is `container`, `sandbox`, `pod`, `orphan` or `duplicate`."""
    if number:
        _collected.add(number, {"kind": kind})


workflow_restarts = _meter.create_counter(
    "workflow_restarts_total",
    description="Pod workflows begun anew because their tasks failed again and again.",
)
