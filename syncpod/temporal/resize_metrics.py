"""What is counted of resizes that only a pod's workflow knows, with the kubelet's names (metrics/metrics.go, v1.36).

What steps know of a resize (that it was applied, that it never can be) they count themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation
from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

RESIZES = "syncpod_resizes"
"""Extern function ``(workflow_id, pending, in_progress, requested)`` by which a workflow, not replaying, says how its
pod's resize stands. `pending` is the reason why it has not begun, or ""; `requested` has what is asked for since it
last said so: resource, requirement and operation of each change."""

_meter = metrics.get_meter("syncpod")
_requested = _meter.create_counter(
    "container_requested_resizes_total",
    description="Resizes that were asked for: of each container each resource, requests and limits apart.",
)
_pending: dict[str, str] = {}
_in_progress: set[str] = set()


def resizes(workflow_id: str, pending: str, in_progress: bool, requested: Sequence[tuple[str, str, str]]) -> None:
    """Count how the resize of a pod stands. Called from the threads of workflow tasks."""
    if pending:
        _pending[workflow_id] = pending.lower()
    else:
        _pending.pop(workflow_id, None)
    (_in_progress.add if in_progress else _in_progress.discard)(workflow_id)
    for resource, requirement, operation in requested:
        _requested.add(1, {"resource": resource, "requirement": requirement, "operation": operation})


def observe_pending(_: CallbackOptions) -> Iterable[Observation]:
    """Return how many pods wait to be resized, by why; nothing for a reason that none waits for."""
    return [Observation(number, {"reason": why}) for why, number in Counter(tuple(_pending.values())).items()]


def observe_in_progress(_: CallbackOptions) -> Iterable[Observation]:
    """Return how many pods are being resized."""
    return [Observation(len(_in_progress))]


_meter.create_observable_gauge(
    "pod_pending_resizes", callbacks=[observe_pending], description="Pods that wait to be resized, by why."
)
_meter.create_observable_gauge(
    "pod_in_progress_resizes", callbacks=[observe_in_progress], description="Pods that are being resized."
)


class ResizeMetricsInterceptor(Interceptor):
    """Gives workflows the function that counts."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Give it; nothing of the workflow is intercepted."""
        input.unsafe_extern_functions[RESIZES] = resizes
        return None
