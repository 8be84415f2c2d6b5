"""Resize metrics that only a pod's workflow can report, under the kubelet's names (metrics/metrics.go, v1.36).

The steps themselves count resizes that were applied, and resizes that are infeasible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation
from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from syncpod.counters import counter_from_zero, each_of
from syncpod.messages.worker_functions import RESIZES

_meter = metrics.get_meter("syncpod")
_requested = counter_from_zero(
    _meter,
    "kubelet_container_requested_resizes_total",
    description="Requested resizes, by resource, requests or limits, and operation.",
    known=each_of(
        resource=("cpu", "memory"),
        requirement=("requests", "limits"),
        operation=("add", "remove", "increase", "decrease"),
    ),
)
_pending: dict[str, str] = {}
_in_progress: set[str] = set()


def resizes(workflow_id: str, pending: str, in_progress: bool, requested: Sequence[tuple[str, str, str]]) -> None:
    """Record the state of a pod's resize. Called from threads of workflow tasks."""
    if pending:
        _pending[workflow_id] = pending.lower()
    else:
        _pending.pop(workflow_id, None)
    (_in_progress.add if in_progress else _in_progress.discard)(workflow_id)
    for resource, requirement, operation in requested:
        _requested.add(1, {"resource": resource, "requirement": requirement, "operation": operation})


def forget(workflow_id: str) -> None:
    """Stop counting the resize of a pod whose workflow was terminated: its last task did not stop the count."""
    _pending.pop(workflow_id, None)
    _in_progress.discard(workflow_id)


def observe_pending(_: CallbackOptions) -> Iterable[Observation]:
    """Return how many pods wait to be resized, by reason."""
    return [Observation(number, {"reason": why}) for why, number in Counter(tuple(_pending.values())).items()]


def observe_in_progress(_: CallbackOptions) -> Iterable[Observation]:
    """Return how many pods are being resized."""
    return [Observation(len(_in_progress))]


_meter.create_observable_gauge(
    "kubelet_pod_pending_resizes", callbacks=[observe_pending], description="Pods that wait to be resized, by reason."
)
_meter.create_observable_gauge(
    "kubelet_pod_in_progress_resizes", callbacks=[observe_in_progress], description="Pods that are being resized."
)


class ResizeMetricsInterceptor(Interceptor):
    """Gives workflows the function that records resizes."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Provide the function. Nothing in the workflow is intercepted."""
        input.unsafe_extern_functions[RESIZES] = resizes
        return None
