"""Spans of a pod's work: one for each sync of its workflow, below it one for each step, below those the CRI calls.

A workflow cannot create spans, since it is replayed. So the span of a sync starts outside of the workflow when the sync
schedules its first step, travels to the steps in a header, and ends when the workflow reports the end of the sync. A
replay creates none.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from syncpod.messages.identity import POD_WORKFLOW
from syncpod.messages.steps import KillContainer, PullImage, StartContainer, StepInput

SYNC_SPAN = "syncpod_sync_span"
"""Extern function ``(attributes, start_ns, end_ns)`` by which a workflow, not replaying, reports the end of a sync."""

_HEADER = "traceparent"
_OPEN_SYNCS = 10_000
_tracer = trace.get_tracer("syncpod")


class SyncSpans:
    """The open syncs, by run. Called from threads of workflow tasks; a run is in only one of them at a time."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Span] = OrderedDict()

    def under_way(self, run_id: str) -> SpanContext:
        """Return the span context of the run's sync; start its span if there is none."""
        span = self._open.get(run_id)
        if span is None:
            span = self._open[run_id] = _tracer.start_span("sync_pod", Context())
            while len(self._open) > _OPEN_SYNCS:
                self._open.popitem(last=False)[1].end()
        return span.get_span_context()

    def ended(self, attributes: Mapping[str, Any], start_ns: int, end_ns: int) -> None:
        """End the span of the calling workflow's sync; create the whole span if the sync had no steps.

        Times are the workflow's, in nanoseconds since 1970. A span that was started earlier ends now instead: its steps
        are timed by this machine's clock, and the workflow's clock is the server's.
        """
        span = self._open.pop(workflow.info().run_id, None)
        if span is None:
            span = _tracer.start_span("sync_pod", Context(), start_time=start_ns)
        else:
            end_ns = time.time_ns()
        for name, value in attributes.items():
            span.set_attribute(name, value)
        span.end(end_ns)


class TracingInterceptor(Interceptor):
    """Creates the spans. Without an OpenTelemetry SDK it adds nothing to what a workflow schedules."""

    def __init__(self) -> None:
        self._syncs = SyncSpans()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Give each step its span."""
        return _StepSpan(next)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Give workflows the function that ends a sync's span, and add the header to their steps."""
        syncs = self._syncs
        input.unsafe_extern_functions[SYNC_SPAN] = syncs.ended

        class SyncInbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(_SyncOutbound(outbound, syncs))

        return SyncInbound


class _SyncOutbound(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, syncs: SyncSpans) -> None:
        super().__init__(next)
        self._syncs = syncs

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        info = workflow.info()
        if info.workflow_type == POD_WORKFLOW and not workflow.unsafe.is_replaying():
            context = self._syncs.under_way(info.run_id)
            if context.is_valid:
                input.headers = {**input.headers, _HEADER: _payload(context)}
        return super().start_activity(input)


class _StepSpan(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        request = input.args[0] if input.args else None
        with _tracer.start_as_current_span(
            info.activity_type,
            context=_context(input.headers.get(_HEADER)),
            attributes=_about(info) | (_about_step(request) if isinstance(request, StepInput) else {}),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await super().execute_activity(input)
            except ApplicationError as error:
                span.set_attribute("error.type", error.type or "Error")
                span.set_status(Status(StatusCode.ERROR, error.message))
                raise
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise


def _about(info: activity.Info) -> dict[str, str | int]:
    return {
        "temporalWorkflowID": info.workflow_id or "",
        "temporalRunID": info.workflow_run_id or "",
        "temporalActivityID": info.activity_id,
        "syncpod.step.try": info.attempt,
    }


def _about_step(request: StepInput) -> dict[str, str | int]:
    """Return attributes that identify a step's target. No part of the pod's spec: its environment may hold secrets."""
    about: dict[str, str | int] = {
        "k8s.namespace.name": request.ref.namespace,
        "k8s.pod.name": request.ref.name,
        "k8s.pod.uid": request.ref.uid,
    }
    match request:
        case StartContainer():
            about |= {"k8s.container.name": request.container, "k8s.container.restart_count": request.restart}
        case PullImage():
            about["k8s.container.name"] = request.container
        case KillContainer():
            about |= {"k8s.container.name": request.target.name, "container.id": request.target.id}
    if isinstance(attempt := getattr(request, "attempt", None), int):
        about["syncpod.sandbox.attempt"] = attempt
    return about


def _payload(context: SpanContext) -> Payload:
    """Encode the header as in W3C Trace Context, as a JSON payload, which every SDK can read."""
    text = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(text).encode())


def _context(payload: Payload | None) -> Context:
    """Return the context of a step's span: below the sync's span, or a new trace."""
    if payload is None:
        return Context()
    try:
        _, trace_id, span_id, flags = json.loads(payload.data).split("-")
        context = SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
        )
    except (ValueError, AttributeError):
        return Context()
    return trace.set_span_in_context(NonRecordingSpan(context), Context())
