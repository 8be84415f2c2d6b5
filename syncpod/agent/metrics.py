"""The agent's metrics, under the kubelet's names (metrics/metrics.go, v1.36).

They cost nothing while telemetry is off.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from syncpod.counters import counter_from_zero, each_of
from syncpod.lifecycle.eviction import RESOURCES
from syncpod.lifecycle.storage_limits import EXCESS_SIGNALS

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
mirror_pods = _meter.create_gauge(
    "kubelet_mirror_pods",
    description="Mirrors of static pods that the API server has.",
)
discarded_events = counter_from_zero(
    _meter,
    "kubelet_pleg_discard_events",
    description="Pod lifecycle events of pods without a workflow.",
)

dropped_pod_watches = counter_from_zero(
    _meter,
    "kubelet_pod_watch_events_dropped_total",
    description="Watchers of the Pods API that were dropped, because they did not keep up.",
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
evictions = counter_from_zero(
    _meter,
    "kubelet_evictions",
    description="Pods evicted for their use of the node's resources, by eviction signal.",
    known=each_of(eviction_signal=(*RESOURCES, *EXCESS_SIGNALS)),
)

collected_images = counter_from_zero(
    _meter,
    "kubelet_image_garbage_collected_total",
    description="Images removed, by reason: disk space or age.",
    known=each_of(reason=("space", "age")),
)

orphaned_pods = counter_from_zero(
    _meter,
    "kubelet_orphaned_runtime_pods_total",
    description="Pods found in the runtime that have no workflow.",
)

_collected = counter_from_zero(
    _meter,
    "syncpod_garbage_collected_total",
    description="Dead containers and sandboxes, and remains of pods, removed; orphans and duplicates ended; by kind.",
    known=each_of(kind=("container", "sandbox", "pod", "orphan", "duplicate")),
)


def collected(kind: str, number: int) -> None:
    """Count removals. `kind` is `container`, `sandbox`, `pod`, `orphan` or `duplicate`."""
    if number:
        _collected.add(number, {"kind": kind})


_journal_records = counter_from_zero(
    _meter, "syncpod_journal_records_total", description="Records written to the node's journal."
)
journal_failures = counter_from_zero(
    _meter, "syncpod_journal_write_failures_total", description="Writes of the node's journal that failed."
)
_journal_bytes = 0


def journaled(records: int, used_bytes: int) -> None:
    """Count records that were written to the journal, and note how many bytes the journal's file has now.

    Any thread may call it.
    """
    global _journal_bytes
    _journal_records.add(records)
    _journal_bytes = used_bytes


def _observe_journal(_: CallbackOptions) -> Iterable[Observation]:
    if _journal_bytes:
        yield Observation(_journal_bytes)


_meter.create_observable_gauge(
    "syncpod_journal_bytes",
    callbacks=[_observe_journal],
    unit="By",
    description="Size of the node's journal, as its limit counts it.",
)

_START_SECONDS: Final = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600),
)
"""The buckets of the kubelet's histograms of starts."""
pod_start_duration = _meter.create_histogram(
    "kubelet_pod_start_duration_seconds",
    unit="s",
    description="Time from when the node first saw a pod until it ran.",
    explicit_bucket_boundaries_advisory=_START_SECONDS,
)
pod_start_total_duration = _meter.create_histogram(
    "kubelet_pod_start_total_duration_seconds",
    unit="s",
    description="Time from a pod's creation until all its containers ran.",
    explicit_bucket_boundaries_advisory=_START_SECONDS,
)
pod_start_sli_duration = _meter.create_histogram(
    "kubelet_pod_start_sli_duration_seconds",
    unit="s",
    description="Time from a stateless pod's creation until all its containers ran, without pulls and init containers.",
    explicit_bucket_boundaries_advisory=_START_SECONDS,
)

workflow_restarts = counter_from_zero(
    _meter,
    "syncpod_workflow_restarts_total",
    description="Pod workflows that were restarted because their tasks failed again and again.",
)

_USUAL_ENDS: Final = (("0", "Completed"), ("1", "Error"), ("137", "Error"), ("137", "OOMKilled"), ("143", "Error"))
_terminated = counter_from_zero(
    _meter,
    "kubelet_terminated_containers_total",
    description="Containers that have ended, by container type, exit code and reason.",
    known=[
        {"container_type": kind, "exit_code": code, "reason": reason}
        for kind in ("container", "init_container", "ephemeral_container")
        for code, reason in _USUAL_ENDS
    ],
)


def terminated(container_type: str, exit_code: str, reason: str) -> None:
    """Count a container that has ended."""
    _terminated.add(1, {"container_type": container_type, "exit_code": exit_code, "reason": reason})
