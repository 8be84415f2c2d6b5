"""Spans and metrics of CRI calls, with the kubelet's names (kuberuntime/instrumented_services.go, v1.36).

This uses only the OpenTelemetry API, so without a configured SDK it does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from syncpod.counters import counter_from_zero, each_of
from syncpod.cri.calls import CALLS
from syncpod.live_spans import live_context

_TRACER = trace.get_tracer("syncpod.cri")
_METER = metrics.get_meter("syncpod.cri")

_KNOWN: Final = each_of(operation_type=tuple(call.operation for call in CALLS.values()))
"""The series that begin at zero: one for each CRI call of the client."""

_OPERATIONS = counter_from_zero(
    _METER,
    "kubelet_runtime_operations_total",
    description="Runtime operations, including failed ones, by operation type.",
    known=_KNOWN,
)
_ERRORS = counter_from_zero(
    _METER,
    "kubelet_runtime_operations_errors_total",
    description="Runtime operations that failed, by operation type.",
    known=_KNOWN,
)
_DURATION = _METER.create_histogram(
    "kubelet_runtime_operations_duration_seconds",
    unit="s",
    description="Duration of runtime operations, by operation type.",
    explicit_bucket_boundaries_advisory=[0.005 * 2.5**step for step in range(14)],
)
_SANDBOX_DURATION = _METER.create_histogram(
    "kubelet_run_podsandbox_duration_seconds",
    unit="s",
    description="Duration of RunPodSandbox, by runtime handler.",
    explicit_bucket_boundaries_advisory=[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
)
_SANDBOX_ERRORS = counter_from_zero(
    _METER,
    "kubelet_run_podsandbox_errors_total",
    description="RunPodSandbox calls that failed, by runtime handler.",
    known=each_of(runtime_handler=("",)),
)

_LOSING_SUPPORT = _METER.create_gauge(
    "kubelet_cri_losing_support",
    description="1 if the runtime lacks a call that a kubelet of this version of Kubernetes needs.",
)


def without_runtime_config() -> None:
    """Record that the runtime lacks RuntimeConfig, which kubelets will require from 1.37 on (app/server.go)."""
    _LOSING_SUPPORT.set(1, {"version": "1.37.0"})


@contextmanager
def operation(name: str, *, rpc: str, attributes: Mapping[str, str | int]) -> Iterator[None]:
    """Record one call in its span `cri.<name>` and in metrics: its count, its duration, its failure or cancellation.

    `name` is the kubelet's operation_type, and `rpc` the full method name. The span shows only `attributes`: names and
    ids, never configurations, because environments hold secrets.
    """
    service, _, method = rpc.strip("/").partition("/")
    labels = {"operation_type": name}
    shown = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method, **attributes}
    started = time.monotonic()
    with _TRACER.start_as_current_span(
        f"cri.{name}",
        context=live_context(),
        kind=SpanKind.CLIENT,
        attributes=shown,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            _ERRORS.add(1, labels)
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR, str(error)))
            raise
        finally:
            _OPERATIONS.add(1, labels)
            _DURATION.record(time.monotonic() - started, labels)


@contextmanager
def sandbox_run(runtime_handler: str) -> Iterator[None]:
    """Record the duration and the failure of one RunPodSandbox call, by runtime handler."""
    labels = {"runtime_handler": runtime_handler}
    started = time.monotonic()
    try:
        yield
    except BaseException:
        _SANDBOX_ERRORS.add(1, labels)
        raise
    finally:
        _SANDBOX_DURATION.record(time.monotonic() - started, labels)
