"""The header that carries a trace's context through Temporal, in the format of the interceptors of Temporal's SDKs.

When a client of any SDK with such an interceptor signals or starts a pod, the pod's sync appears in the client's trace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext, TraceFlags
from temporalio.api.common.v1 import Payload

_NAME: Final = "_tracer-data"
"""The SDKs' name for it. Its payload is a JSON object of W3C Trace Context headers."""


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
