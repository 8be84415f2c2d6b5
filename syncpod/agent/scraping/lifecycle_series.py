"""Counts a node's pods by the state of their lives, under the kubelet's names, from their statuses.

Mirrors kubelet_pods.go, v1.36, HandlePodCleanups, and pod_workers.go, PodWorkerState. A static pod whose file is gone
counts as orphan until it has ended; a pod of the API server counts as desired until the server has deleted it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric

from syncpod.messages.node import FILE_SOURCE, SOURCE_ANNOTATION

_STATES: Final = ("sync", "terminating", "terminated")
_TERMINAL: Final = ("Succeeded", "Failed")
_CONFIGS: Final = (
    ("desired", ""),
    ("desired", "true"),
    ("orphan", ""),
    ("orphan", "true"),
    ("runtime_only", "unknown"),
)
"""Values of the labels `config` and `static`. ``runtime_only`` is always 0: only pods with a workflow are counted."""


def lifecycle_series(pods: Iterable[Mapping[str, Any]]) -> Sequence[Metric]:
    """Return `kubelet_working_pods`, `kubelet_active_pods` and `kubelet_desired_pods` of these Pods, zeros included."""
    counts = Counter(_place(pod) for pod in pods)
    working = GaugeMetricFamily(
        "kubelet_working_pods",
        "Pods that have a workflow, by where they are in their lives.",
        labels=("lifecycle", "config", "static"),
    )
    for config, static in _CONFIGS:
        for state in _STATES:
            working.add_metric((state, config, static), counts[state, config, static])
    active = GaugeMetricFamily("kubelet_active_pods", "Pods that run or are to run.", labels=("static",))
    desired = GaugeMetricFamily("kubelet_desired_pods", "Pods that their source has.", labels=("static",))
    for static in ("", "true"):
        active.add_metric((static,), sum(counts["sync", config, static] for config in ("desired", "orphan")))
        desired.add_metric((static,), sum(counts[state, "desired", static] for state in _STATES))
    return (working, active, desired)


def _place(pod: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a pod's state, whether its source has it, and whether it is static."""
    meta, status = pod.get("metadata", {}), pod.get("status", {})
    is_static = meta.get("annotations", {}).get(SOURCE_ANNOTATION) == FILE_SOURCE
    is_deleted = bool(meta.get("deletionTimestamp"))
    state = "sync"
    if is_deleted or status.get("phase") in _TERMINAL:
        kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        runs = any("running" in each.get("state", {}) for kind in kinds for each in status.get(kind, ()))
        state = "terminating" if runs else "terminated"
    return state, "orphan" if is_static and is_deleted else "desired", "true" if is_static else ""
