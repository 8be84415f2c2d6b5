"""Interceptors that record the spans of a pod's syncs (:mod:`syncpod.temporal.sync_spans`), steps and signals.

Without an OpenTelemetry SDK, they add nothing to the commands of workflows and clients. With one, a header carries the
trace's context through Temporal, in the format of the interceptors of Temporal's SDKs. So if a client of any SDK with
such an interceptor signals or starts a pod, the pod's sync appears in the client's trace.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from temporalio import activity, client, workflow
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from syncpod.live_spans import live_context
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.messages.steps import KillContainer, PullImage, StartContainer, StepInput
from syncpod.messages.worker_functions import DECIDED, DECIDING, RESTED
from syncpod.temporal.sync_spans import SyncSpans, below

_tracer = trace.get_tracer("syncpod")


class TracingInterceptor(Interceptor):
    """Records the spans of syncs and steps."""

    def __init__(self) -> None:
        self._syncs = SyncSpans()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Record a span for each step."""
        return _StepSpan(next, self._syncs)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Give workflows the functions that report their syncs, and add the trace header to their steps."""
        syncs = self._syncs

        def deciding() -> None:
            syncs.deciding(workflow.info().run_id, workflow.now())

        def decided(attributes: Mapping[str, Any]) -> None:
            syncs.decided(workflow.info().run_id, attributes)

        def rested(attributes: Mapping[str, Any]) -> None:
            syncs.rested(workflow.info().run_id, attributes)

        input.unsafe_extern_functions.update({DECIDING: deciding, DECIDED: decided, RESTED: rested})

        class SyncInbound(_SyncInbound):
            spans = syncs

        return SyncInbound


class _SyncInbound(WorkflowInboundInterceptor):
    """Notes the triggers of a pod's syncs."""

    spans: SyncSpans

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_SyncOutbound(outbound, self.spans))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        self._triggered("start", input.headers, begins=True)
        return await super().execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        self._triggered(input.signal, input.headers)
        await super().handle_signal(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        self._triggered(input.update, input.headers)
        return await super().handle_update_handler(input)

    def _triggered(self, trigger: str, headers: Mapping[str, Payload], *, begins: bool = False) -> None:
        info = workflow.info()
        if info.workflow_type == POD_WORKFLOW and not workflow.unsafe.is_replaying():
            at = info.start_time if begins else None
            self.spans.triggered(info.run_id, trigger, context_of(headers), at)


class _SyncOutbound(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, syncs: SyncSpans) -> None:
        super().__init__(next)
        self._syncs = syncs

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        info = workflow.info()
        if info.workflow_type == POD_WORKFLOW and not workflow.unsafe.is_replaying():
            input.headers = with_context(input.headers, self._syncs.context(info.run_id))
        return super().start_activity(input)


class _StepSpan(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, syncs: SyncSpans) -> None:
        super().__init__(next)
        self._syncs = syncs

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        request = input.args[0] if input.args else None
        parent = below(context_of(input.headers))
        if parent:
            _awaited(info, parent)
        with _tracer.start_as_current_span(
            info.activity_type,
            context=parent,
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
            finally:
                self._syncs.step_ended(info.workflow_run_id or "")


def _awaited(info: activity.Info, parent: Context) -> None:
    """Record the span from the time at which the server scheduled this try of a step until this worker began it."""
    now = time.time_ns()
    scheduled = min(now, int(info.current_attempt_scheduled_time.timestamp() * 1e9))
    _tracer.start_span("await_step", parent, start_time=scheduled).end(now)


def _about(info: activity.Info) -> dict[str, str | int]:
    return {
        "temporalWorkflowID": info.workflow_id or "",
        "temporalRunID": info.workflow_run_id or "",
        "temporalActivityID": info.activity_id,
        "syncpod.step.try": info.attempt,
    }


def _about_step(request: StepInput) -> dict[str, str | int]:
    """Return attributes that identify a step's target. They have no part of the pod's spec, which may hold secrets."""
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


class TracedSignals(client.Interceptor):
    """Records a span for each signal that a client sends. The sync that the signal triggers is below this span."""

    def intercept_client(self, next: client.OutboundInterceptor) -> client.OutboundInterceptor:
        """Wrap a client's calls."""
        return _TracedSignal(next)


class _TracedSignal(client.OutboundInterceptor):
    async def signal_workflow(self, input: client.SignalWorkflowInput) -> None:
        with _tracer.start_as_current_span(
            f"signal {input.signal}",
            context=live_context(),
            kind=SpanKind.PRODUCER,
            attributes={"temporalWorkflowID": input.id},
            record_exception=False,
        ) as span:
            input.headers = with_context(input.headers, span.get_span_context())
            await super().signal_workflow(input)


_NAME: Final = "_tracer-data"
"""The name of the header in which the SDKs pass a trace's context. Its payload is a JSON object of W3C Trace Context
headers."""


def with_context(headers: Mapping[str, Payload], context: SpanContext) -> dict[str, Payload]:
    """Return headers with `context` added; unchanged if the context is not valid."""
    if not context.is_valid:
        return dict(headers)
    text = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    data = json.dumps({"traceparent": text}).encode()
    return {**headers, _NAME: Payload(metadata={"encoding": b"json/plain"}, data=data)}


def context_of(headers: Mapping[str, Payload]) -> SpanContext:
    """Return the context that headers carry; an invalid context if they carry none that can be read."""
    if _NAME not in headers:
        return INVALID_SPAN_CONTEXT
    try:
        _, trace_id, span_id, flags = json.loads(headers[_NAME].data)["traceparent"].split("-")
        return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    except (ValueError, TypeError, KeyError, AttributeError):
        return INVALID_SPAN_CONTEXT
