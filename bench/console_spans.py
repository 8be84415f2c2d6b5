"""Spans as the console exporter of OpenTelemetry prints them, found among the other lines of a worker's log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


def spans_in(text: str) -> Iterator[Span]:
    """Yield the spans of a log, in its order; what is not one is passed over, also one that is cut off."""
    decoder = json.JSONDecoder()
    for line in re.finditer(r"^\{$", text, re.MULTILINE):
        try:
            said, _ = decoder.raw_decode(text, line.start())
            yield _span(said)
        except (ValueError, KeyError, TypeError):
            continue


def _span(said: dict[str, Any]) -> Span:
    """Return one span. Raises KeyError, ValueError and TypeError for what is none."""
    context = said["context"]
    return Span(
        name=said["name"],
        trace_id=_bytes(context["trace_id"]),
        span_id=_bytes(context["span_id"]),
        parent_span_id=_bytes(said["parent_id"]) if said["parent_id"] else b"",
        start_time_unix_nano=_nanoseconds(said["start_time"]),
        end_time_unix_nano=_nanoseconds(said["end_time"]),
        attributes=[KeyValue(key=key, value=_value(value)) for key, value in said["attributes"].items()],
    )


def _bytes(hexadecimal: str) -> bytes:
    return bytes.fromhex(hexadecimal.removeprefix("0x"))


def _nanoseconds(time: str) -> int:
    """Return a time since 1970; the exporter prints microseconds."""
    at = datetime.fromisoformat(time)
    return int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000


def _value(value: object) -> AnyValue:
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[_value(each) for each in value]))
    return AnyValue(string_value=str(value))
