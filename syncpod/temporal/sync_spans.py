"""The spans of a pod's syncs. They are recorded outside the workflow: a replayed workflow must not record spans.

A sync is the work of a run from one rest to the next: a trigger wakes the run, which decides, takes a step, decides
again, and so on until no step may begin. Each sync is one trace, however long the workflow lives::

    sync_pod                       from the trigger to the next rest
    ├─ await_workflow_task         until the worker gets the trigger: the server, its queue, the worker's queue
    ├─ decide                      the decision, with its reason and its plan
    ├─ await_step                  until the worker gets the step
    ├─ create_sandbox              the step, with its calls to the runtime below it
    ├─ await_workflow_task
    └─ …

A replay records no spans. A sync that one worker begins and another one ends lacks one half.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN_CONTEXT, Link, NonRecordingSpan, Span, SpanContext

_OPEN_SYNCS: Final = 10_000
"""The most open syncs; beyond that the oldest is ended. A run that ends before it rests leaves its sync open."""

_TRIGGERS: Final = 20
"""The most triggers that one sync names: a flood of signals is one sync."""

_tracer = trace.get_tracer("syncpod")


@dataclass
class _Sync:
    """One sync of a run. Times are in nanoseconds since 1970, by this machine's clock."""

    triggers: list[str] = field(default_factory=list)
    causes: list[SpanContext] = field(default_factory=list)
    """The spans of the senders of the triggers, if the senders passed a span on."""
    began_ns: int = 0
    """When the first trigger reached the server; 0 if that is not known."""
    span: Span | None = None
    accounted_ns: int = 0
    """The time up to which spans account for the sync."""
    deciding_ns: int = 0


class SyncSpans:
    """The open syncs of a worker, by run. Called by the threads of workflow tasks and by the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Sync] = OrderedDict()

    def triggered(self, run_id: str, trigger: str, cause: SpanContext, at: datetime | None = None) -> None:
        """Note a run's trigger: the name of a signal or update, or ``start``; with its time of arrival, if known."""
        with self._lock:
            sync = self._sync(run_id)
            if len(sync.triggers) < _TRIGGERS and trigger not in sync.triggers:
                sync.triggers.append(trigger)
            if cause.is_valid and len(sync.causes) < _TRIGGERS and cause not in sync.causes:
                sync.causes.append(cause)
            if at is not None and not sync.began_ns:
                sync.began_ns = int(at.timestamp() * 1e9)

    def deciding(self, run_id: str, task_began: datetime) -> None:
        """Note that a run is about to decide. `task_began` is the server's time for the start of the workflow task."""
        now = time.time_ns()
        with self._lock:
            sync = self._sync(run_id)
            if sync.span is None:
                began = min(now, sync.began_ns or int(task_began.timestamp() * 1e9))
                sync.span = self._begun(sync, began)
                sync.accounted_ns = began
            _span("await_workflow_task", sync.span, sync.accounted_ns, now)
            sync.deciding_ns = sync.accounted_ns = now

    def decided(self, run_id: str, attributes: Mapping[str, Any]) -> None:
        """Record the span of the latest decision."""
        now = time.time_ns()
        with self._lock:
            sync = self._sync(run_id)
            if sync.span is not None and sync.deciding_ns:
                _span("decide", sync.span, sync.deciding_ns, now, attributes)
                sync.accounted_ns = now

    def context(self, run_id: str) -> SpanContext:
        """Return the span context for a step of the run; an invalid one if no spans are recorded."""
        with self._lock:
            span = self._sync(run_id).span
            return span.get_span_context() if span is not None else INVALID_SPAN_CONTEXT

    def step_ended(self, run_id: str) -> None:
        """Note that a step of the run has just ended on this worker: its span accounts for the time until now."""
        with self._lock:
            if (sync := self._open.get(run_id)) is not None:
                sync.accounted_ns = time.time_ns()

    def rested(self, run_id: str, attributes: Mapping[str, Any]) -> None:
        """End the run's sync."""
        with self._lock:
            sync = self._open.pop(run_id, None)
            if sync is not None and sync.span is not None:
                sync.span.set_attributes(attributes)
                sync.span.end()

    def _sync(self, run_id: str) -> _Sync:
        sync = self._open.get(run_id)
        if sync is None:
            sync = self._open[run_id] = _Sync()
            while len(self._open) > _OPEN_SYNCS:
                _, oldest = self._open.popitem(last=False)
                if oldest.span is not None:
                    oldest.span.end()
        return sync

    def _begun(self, sync: _Sync, began_ns: int) -> Span:
        """Begin the sync's span below the span that sent its first trigger, with links to the other senders' spans."""
        parent, *others = sync.causes or [INVALID_SPAN_CONTEXT]
        return _tracer.start_span(
            "sync_pod",
            below(parent),
            attributes={"syncpod.triggers": sync.triggers},
            links=[Link(other) for other in others],
            start_time=began_ns,
        )


def below(parent: SpanContext) -> Context:
    """Return a context that makes a span a child of `parent`, or the root of a trace if `parent` is not valid."""
    return trace.set_span_in_context(NonRecordingSpan(parent), Context()) if parent.is_valid else Context()


def _span(name: str, parent: Span, start_ns: int, end_ns: int, attributes: Mapping[str, Any] | None = None) -> None:
    """Record a complete span.

    If two clocks differ so that the span would end before its start, the span takes no time.
    """
    context = below(parent.get_span_context())
    _tracer.start_span(name, context, attributes=attributes, start_time=min(start_ns, end_ns)).end(end_ns)
