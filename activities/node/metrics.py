"""Counters of steps, under the kubelet's names (metrics/metrics.go, v1.36). They use only the OpenTelemetry API."""

from __future__ import annotations

from typing import Literal, get_args

from opentelemetry import metrics

from activities.node.ledger import Trigger
from syncpod.counters import counter_from_zero, each_of
from syncpod.messages import StepName
from syncpod.messages.steps import Fault
from syncpod.pod import ContainerKind

AttemptOutcome = Literal["done", "fault", "retry", "stale", "cancelled"]
"""How an attempt ended: it succeeded; it failed by the pod's fault; it failed otherwise, and Temporal may try it again;
it was superseded by a newer step of the pod; or it was cancelled."""
InfeasibleDetail = Literal["insufficient_node_allocatable", "limits_unenforced"]
"""Why a resize can never be allocated: the kubelet's name (v1.35) for a node that is too small, and our own name for a
runtime that cannot enforce the limit."""

_METER = metrics.get_meter("syncpod.activities")
_KINDS: tuple[str, ...] = get_args(ContainerKind)
_START_FAULTS = (
    *(Fault.ERR_IMAGE_PULL, Fault.ERR_IMAGE_NEVER_PULL, Fault.INVALID_IMAGE_NAME, Fault.IMAGE_INSPECT_ERROR),
    *(Fault.REGISTRY_UNAVAILABLE, Fault.SIGNATURE_VALIDATION_FAILED, Fault.CREATE_CONTAINER_CONFIG_ERROR),
    *(Fault.CREATE_CONTAINER_ERROR, Fault.RUN_CONTAINER_ERROR, Fault.POST_START_HOOK_ERROR),
)
_USUAL_REJECTIONS = ("Evicted", "NodeAffinity", "NodePorts", "OutOfcpu", "OutOfmemory", "OutOfpods", "SysctlForbidden")
_PODS = counter_from_zero(_METER, "kubelet_started_pods_total", description="Sandboxes whose creation was begun.")
_PODS_ERRORS = counter_from_zero(
    _METER, "kubelet_started_pods_errors_total", description="Sandboxes that could not be created."
)
_REJECTIONS = counter_from_zero(
    _METER,
    "kubelet_admission_rejections_total",
    description="Pods that were rejected, by the reason in their status.",
    known=each_of(reason=_USUAL_REJECTIONS),
)
_CONTAINERS = counter_from_zero(
    _METER,
    "kubelet_started_containers_total",
    description="Containers whose start was begun, by container type.",
    known=each_of(container_type=_KINDS),
)
_CONTAINERS_ERRORS = counter_from_zero(
    _METER,
    "kubelet_started_containers_errors_total",
    description="Containers that could not be started, by container type and the reason in their status.",
    known=each_of(container_type=_KINDS, code=_START_FAULTS),
)
_ATTEMPTS = counter_from_zero(
    _METER,
    "syncpod_step_attempts_total",
    description="Ended attempts of steps, by step and outcome.",
    known=each_of(step=StepName, outcome=get_args(AttemptOutcome)),
)

_DEFERRED_ACCEPTED = counter_from_zero(
    _METER,
    "kubelet_pod_deferred_accepted_resizes_total",
    description="Deferred resizes that were accepted later, by the reason for which they were tried again.",
    known=each_of(retry_trigger=get_args(Trigger)),
)
_INFEASIBLE_RESIZES = counter_from_zero(
    _METER,
    "kubelet_pod_infeasible_resizes_total",
    description="Resizes that the node can never allocate, by reason.",
    known=each_of(reason_detail=get_args(InfeasibleDetail)),
)
_RESIZE_DURATION = _METER.create_histogram(
    "kubelet_pod_resize_duration_milliseconds",
    unit="ms",
    description="Duration of applying a pod's allocated resources, by success.",
    explicit_bucket_boundaries_advisory=[
        10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000,
    ],
)  # fmt: skip

_PULL_DURATION = _METER.create_histogram(
    "kubelet_image_pull_duration_seconds",
    unit="s",
    description="Duration of pulls, by the size of their images.",
    explicit_bucket_boundaries_advisory=[
        1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
    ],
)  # fmt: skip
_MB, _GB = 1 << 20, 1 << 30
_SIZE_CLASSES = (
    (0, "0-10MB"),
    (10 * _MB, "10MB-100MB"),
    (100 * _MB, "100MB-500MB"),
    (500 * _MB, "500MB-1GB"),
    (_GB, "1GB-5GB"),
    (5 * _GB, "5GB-10GB"),
    (10 * _GB, "10GB-20GB"),
    (20 * _GB, "20GB-30GB"),
    (30 * _GB, "30GB-40GB"),
    (40 * _GB, "40GB-60GB"),
    (60 * _GB, "60GB-100GB"),
    (100 * _GB, "GT100GB"),
)


def count_sandbox() -> None:
    """Count a sandbox whose creation begins."""
    _PODS.add(1)


def count_failed_sandbox() -> None:
    """Count a sandbox that could not be created."""
    _PODS_ERRORS.add(1)


def count_rejection(reason: str) -> None:
    """Count a pod that is rejected."""
    _REJECTIONS.add(1, {"reason": reason})


def count_attempt(step: str, outcome: AttemptOutcome) -> None:
    """Count an attempt of a step that has ended."""
    _ATTEMPTS.add(1, {"step": step, "outcome": outcome})


def count_infeasible_resize(detail: InfeasibleDetail) -> None:
    """Count a resize that can never be allocated."""
    _INFEASIBLE_RESIZES.add(1, {"reason_detail": detail})


def count_accepted_resize(trigger: Trigger) -> None:
    """Count a deferred resize that is now accepted. `trigger` is the reason of the last try."""
    _DEFERRED_ACCEPTED.add(1, {"retry_trigger": trigger})


def time_resize(seconds: float, *, done: bool) -> None:
    """Record the duration of applying a resize, and whether it succeeded."""
    _RESIZE_DURATION.record(seconds * 1000, {"success": str(done).lower()})


def count_start(kind: ContainerKind) -> None:
    """Count a start of a container that has begun."""
    _CONTAINERS.add(1, {"container_type": kind})


def count_failed_start(kind: ContainerKind, fault: Fault, *, begun: bool = False) -> None:
    """Count a failed start, including one that failed before it had `begun` because of its image or configuration."""
    if not begun:
        count_start(kind)
    _CONTAINERS_ERRORS.add(1, {"container_type": kind, "code": fault.value})


def time_pull(seconds: float, size: int) -> None:
    """Record the duration of a successful pull, including the wait for others, by its image's size in bytes."""
    _PULL_DURATION.record(seconds, {"image_size_in_bytes": _size_class(size)})


def _size_class(size: int) -> str:
    """Return the label for a size; `N/A` if the size is not known (GetImageSizeBucket)."""
    return next((label for bound, label in reversed(_SIZE_CLASSES) if size > bound), "N/A")
