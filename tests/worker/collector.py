"""An OpenTelemetry collector on loopback, which accepts OTLP over HTTP and stores it."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self, TypeVar

from google.protobuf.message import Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

M = TypeVar("M", bound=Message)


class Collector:
    """A collector that serves until the `with` block ends, at a free port or the given one."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[Span] = []
        self.metrics: set[str] = set()
        self.resources: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name that http.server calls
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        """Keep one request."""
        if path == "/v1/traces":
            for traced in _parsed(ExportTraceServiceRequest(), body).resource_spans:
                self.resources.append(_resource(traced.resource))
                self.spans.extend(span for scope in traced.scope_spans for span in scope.spans)
        elif path == "/v1/metrics":
            for measured in _parsed(ExportMetricsServiceRequest(), body).resource_metrics:
                self.resources.append(_resource(measured.resource))
                self.metrics.update(metric.name for scope in measured.scope_metrics for metric in scope.metrics)
        else:
            raise ValueError(f"nothing is exported to {path}")

    def named(self, name: str) -> list[Span]:
        """Return the spans with that name, in the order of their starts."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start_time_unix_nano)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes(span: Span) -> dict[str, str]:
    """A span's attributes as text."""
    return {pair.key: _text(pair) for pair in span.attributes}


def _parsed(message: M, body: bytes) -> M:
    message.ParseFromString(body)
    return message


def _resource(resource: Resource) -> dict[str, str]:
    return {pair.key: _text(pair) for pair in resource.attributes}


def _text(pair: KeyValue) -> str:
    kind = pair.value.WhichOneof("value")
    return str(getattr(pair.value, kind)) if kind else ""
