"""The spans of syncs: their traces, and input of strangers that must not break them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext, TraceFlags, use_span
from temporalio.api.common.v1 import Payload

from syncpod.live_spans import live_context
from syncpod.temporal import sync_spans
from syncpod.temporal.sync_spans import SyncSpans
from syncpod.temporal.tracing import context_of, with_context

NOW = datetime.now(UTC)
ONE, OTHER = (SpanContext(number, number, is_remote=True, trace_flags=TraceFlags(1)) for number in (1, 2))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(sync_spans, "_tracer", provider.get_tracer("test"))
    return exporter


def named(made: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in made.get_finished_spans() if span.name == name]


def test_a_sync_is_in_the_trace_of_its_first_trigger_and_links_to_the_others(made: InMemorySpanExporter) -> None:
    syncs = SyncSpans()
    for trigger, cause in (("pleg", INVALID_SPAN_CONTEXT), ("update_pod", ONE), ("pleg", OTHER), ("pleg", OTHER)):
        syncs.triggered("run", trigger, cause)
    syncs.deciding("run", NOW)
    syncs.rested("run", {"syncpod.phase": "Running"})
    (sync,) = named(made, "sync_pod")
    assert sync.parent == ONE
    assert [link.context for link in sync.links] == [OTHER]
    assert dict(sync.attributes or {}) == {"syncpod.triggers": ("pleg", "update_pod"), "syncpod.phase": "Running"}


def test_the_time_of_a_sync_is_accounted_for_without_a_gap(made: InMemorySpanExporter) -> None:
    syncs = SyncSpans()
    syncs.triggered("run", "start", INVALID_SPAN_CONTEXT, NOW - timedelta(seconds=5))
    syncs.deciding("run", NOW)
    syncs.decided("run", {"syncpod.step": "create_sandbox"})
    syncs.step_ended("run")
    syncs.deciding("run", NOW)
    syncs.decided("run", {})
    syncs.rested("run", {})
    (sync,) = named(made, "sync_pod")
    (waited, again), (first, _) = named(made, "await_workflow_task"), named(made, "decide")
    assert sync.start_time == waited.start_time == int((NOW - timedelta(seconds=5)).timestamp() * 1e9)
    assert waited.end_time == first.start_time
    assert again.start_time is not None
    assert first.end_time is not None
    assert again.start_time >= first.end_time


def test_what_is_told_of_runs_that_are_not_known_is_no_error(made: InMemorySpanExporter) -> None:
    syncs = SyncSpans()
    syncs.step_ended("gone")
    syncs.rested("gone", {})
    syncs.decided("gone", {})
    assert not syncs.context("gone").is_valid
    assert made.get_finished_spans() == ()


def test_a_crowd_of_syncs_that_never_rest_is_bounded(
    made: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_spans, "_OPEN_SYNCS", 3)
    syncs = SyncSpans()
    for run in range(5):
        syncs.deciding(str(run), NOW)
    assert len(named(made, "sync_pod")) == 2, "the oldest have ended"


def test_a_span_begun_by_a_task_that_outlives_its_step_is_in_a_trace_of_its_own() -> None:
    tracer = TracerProvider().get_tracer("test")
    with use_span(tracer.start_span("step"), end_on_exit=False) as step:
        assert (
            tracer.start_span("within", live_context()).get_span_context().trace_id == step.get_span_context().trace_id
        )
        step.end()
        assert (
            tracer.start_span("later", live_context()).get_span_context().trace_id != step.get_span_context().trace_id
        )


def test_a_context_comes_out_of_the_header_as_it_went_in() -> None:
    assert context_of(with_context({}, ONE)) == ONE
    assert with_context({"other": Payload()}, INVALID_SPAN_CONTEXT) == {"other": Payload()}


def test_a_header_is_written_as_the_sdks_write_it() -> None:
    header = with_context({}, ONE)["_tracer-data"]
    assert json.loads(header.data) == {"traceparent": f"00-{1:032x}-{1:016x}-01"}
    assert header.metadata["encoding"] == b"json/plain"


@given(
    st.one_of(
        st.binary(max_size=80),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=60),
            lambda inner: st.lists(inner) | st.dictionaries(st.just("traceparent"), inner),
        ).map(lambda value: json.dumps(value).encode()),
        st.from_regex("-".join(["[0-9a-fA-F_+ ]{0,40}"] * 4), fullmatch=True).map(
            lambda text: json.dumps({"traceparent": text}).encode()
        ),
    )
)
def test_any_header_is_a_context_or_none(data: bytes) -> None:
    headers: Mapping[str, Payload] = {"_tracer-data": Payload(data=data)}
    context = context_of(headers)
    assert context_of(with_context({}, context)) == (context if context.is_valid else INVALID_SPAN_CONTEXT)
