"""Turns OpenTelemetry on if the standard ``OTEL_`` variables request it. Otherwise its SDK is not even imported.

An endpoint requests it (``OTEL_EXPORTER_OTLP_ENDPOINT``, or that of one signal), and so does an exporter
(``OTEL_TRACES_EXPORTER``, ``OTEL_METRICS_EXPORTER``: ``otlp``, ``console``, ``none``); ``OTEL_SDK_DISABLED=true``
overrides both. The SDK and its exporters read everything else themselves (headers, intervals, sampler, resource
attributes). The rest of the project uses only the API, which does nothing until this module has been called.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

from syncpod.collector_outage import CollectorOutage
from syncpod.redaction import of_process
from syncpod.settings.values import SettingsInvalid

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricReader, MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

Signal = Literal["traces", "metrics"]
Exporter = Literal["otlp", "console"]
Protocol = Literal["grpc", "http/protobuf"]

_GRPC_PORT = 4317


@dataclass(frozen=True)
class TelemetryRequest:
    """The telemetry that the environment requests."""

    traces: Exporter | None = None
    metrics: Exporter | None = None
    traces_protocol: Protocol = "http/protobuf"
    metrics_protocol: Protocol = "http/protobuf"

    def __bool__(self) -> bool:
        """Return whether anything is requested."""
        return self.traces is not None or self.metrics is not None


def requested(environ: Mapping[str, str]) -> TelemetryRequest:
    """Read the ``OTEL_`` variables. Raises SettingsInvalid for an unknown exporter or protocol."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return TelemetryRequest()
    return TelemetryRequest(
        traces=_exporter(environ, "traces"),
        metrics=_exporter(environ, "metrics"),
        traces_protocol=_protocol(environ, "traces"),
        metrics_protocol=_protocol(environ, "metrics"),
    )


def _exporter(environ: Mapping[str, str], signal: Signal) -> Exporter | None:
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    match environ.get(variable, "").strip().lower():
        case "":
            return "otlp" if _endpoint(environ, signal) else None
        case "none":
            return None
        case "otlp":
            return "otlp"
        case "console":
            return "console"
        case other:
            raise SettingsInvalid(f"{variable}={other}: must be otlp, console or none")


def _endpoint(environ: Mapping[str, str], signal: Signal) -> str:
    own = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return own or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or ""


def _outage(environ: Mapping[str, str], signal: Signal) -> CollectorOutage:
    """Return the log of outages of a signal's collector. It names the endpoint without user and password."""
    where = _address(_endpoint(environ, signal)).netloc.rpartition("@")[2]
    return CollectorOutage("spans" if signal == "traces" else "metrics", where or "localhost")


def _port(environ: Mapping[str, str], signal: Signal) -> int | None:
    try:
        return _address(_endpoint(environ, signal)).port
    except ValueError:
        own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
        variable = own if environ.get(own) else "OTEL_EXPORTER_OTLP_ENDPOINT"
        raise SettingsInvalid(f"{variable}: the port must be a number of at most 65535") from None


def _address(endpoint: str) -> SplitResult:
    return urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")


def _protocol(environ: Mapping[str, str], signal: Signal) -> Protocol:
    """Return the requested protocol; by default gRPC at the port of gRPC, else HTTP, as in the specification."""
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"
    variable = own if environ.get(own) else "OTEL_EXPORTER_OTLP_PROTOCOL"
    match environ.get(variable, "").strip().lower():
        case "":
            return "grpc" if _port(environ, signal) == _GRPC_PORT else "http/protobuf"
        case "grpc":
            return "grpc"
        case "http/protobuf":
            return "http/protobuf"
        case other:
            raise SettingsInvalid(f"{variable}={other}: must be grpc or http/protobuf")


class Telemetry:
    """The providers that were turned on, to be flushed at the end."""

    def __init__(self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None) -> None:
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider

    @property
    def traces(self) -> bool:
        """Whether spans are recorded."""
        return self._tracer_provider is not None

    def flush(self, *, patience_seconds: float = 3.0) -> None:
        """Export buffered data, and stop recording. Waits at most `patience_seconds` for a slow collector."""
        ending = [
            threading.Thread(target=provider.shutdown, daemon=True)
            for provider in (self._tracer_provider, self._meter_provider)
            if provider is not None
        ]
        deadline = time.monotonic() + patience_seconds
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join(max(0.0, deadline - time.monotonic()))


def configure(
    environ: Mapping[str, str] = os.environ, *, service: str, instance: str = "", scraped: bool = False
) -> Telemetry:
    """Turn on the telemetry that the environment requests, once per process, as service `service`.

    ``OTEL_SERVICE_NAME`` overrides `service`; `instance` becomes ``service.instance.id``. With `scraped`, the metrics
    are also in the registry of `prometheus_client`. Raises SettingsInvalid.
    """
    request = requested(environ)
    if not request and not scraped:
        return Telemetry(None, None)
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    described = {"service.name": service} | ({"service.instance.id": instance} if instance else {})
    resource = Resource.create(described).merge(OTELResourceDetector().detect())
    return Telemetry(
        _trace(request, resource, _outage(environ, "traces")) if request.traces else None,
        _meter(request, resource, _outage(environ, "metrics"), scraped=scraped) if request.metrics or scraped else None,
    )


def _trace(request: TelemetryRequest, resource: Resource, outage: CollectorOutage) -> TracerProvider:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_hiding(_span_exporter(request, outage))))
    trace.set_tracer_provider(provider)
    return provider


def _meter(request: TelemetryRequest, resource: Resource, outage: CollectorOutage, *, scraped: bool) -> MeterProvider:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    readers: list[MetricReader] = []
    if request.metrics is not None:
        readers.append(PeriodicExportingMetricReader(_metric_exporter(request, outage)))
    if scraped:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader

        readers.append(PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False))
    provider = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    return provider


def _hiding(exporter: SpanExporter) -> SpanExporter:
    """Return an exporter that hides the values of Secrets in the errors of spans, then calls `exporter`."""
    from opentelemetry.sdk.trace.export import SpanExporter

    class Hiding(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return exporter.export([_hidden(span) for span in spans])

        def shutdown(self) -> None:
            exporter.shutdown()

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return exporter.force_flush(timeout_millis)

    return Hiding()


def _hidden(span: ReadableSpan) -> ReadableSpan:
    """Return a span without the values of Secrets in its error. Its other fields have only names and ids."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Status

    if not (said := span.status.description):
        return span
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=span.attributes,
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code, of_process.redact(said)),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _span_exporter(request: TelemetryRequest, outage: CollectorOutage) -> SpanExporter:
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExportResult

    if request.traces == "console":
        return ConsoleSpanExporter()
    if request.traces_protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter

        _log_each_reason()

        class WatchedGrpc(GrpcSpanExporter):
            def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
                return outage.export(partial(super().export, spans), SpanExportResult.SUCCESS)

        return WatchedGrpc()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter

    class WatchedHttp(HttpSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return outage.export(partial(super().export, spans), SpanExportResult.SUCCESS)

    return WatchedHttp()


def _metric_exporter(request: TelemetryRequest, outage: CollectorOutage) -> MetricExporter:
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricExportResult

    if request.metrics == "console":
        return ConsoleMetricExporter()
    if request.metrics_protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter

        _log_each_reason()

        class WatchedGrpc(GrpcMetricExporter):
            def export(self, metrics_data: MetricsData, *more: Any, **options: Any) -> MetricExportResult:
                return outage.export(
                    partial(super().export, metrics_data, *more, **options), MetricExportResult.SUCCESS
                )

        return WatchedGrpc()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetricExporter

    class WatchedHttp(HttpMetricExporter):
        def export(self, metrics_data: MetricsData, *more: Any, **options: Any) -> MetricExportResult:
            return outage.export(partial(super().export, metrics_data, *more, **options), MetricExportResult.SUCCESS)

    return WatchedHttp()


def _log_each_reason() -> None:
    """Make the gRPC exporters log every failure: their own filter drops a record that resembles the previous one.

    The previous record may be about the other signal, and then the log would lack the cause of this outage.
    `CollectorOutage` limits the lines.
    """
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
    for each in list(logger.filters):
        logger.removeFilter(each)
