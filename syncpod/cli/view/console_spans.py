"""Finds spans among the lines of a worker's log, where OpenTelemetry's console exporter prints them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Span:
    """One span of a trace."""

    name: str
    trace: str
    """The trace's id."""
    id: str
    parent: str
    """The id of its parent span; "" = it has none."""
    begun: int
    """Nanoseconds since 1970."""
    ended: int
    attributes: Mapping[str, str]
    """The values as text, with lists as JSON."""

    @property
    def took(self) -> int:
        """How long it took, in nanoseconds."""
        return self.ended - self.begun


def spans_in(text: str) -> Iterator[Span]:
    """Yield the spans of a log in their order. Other lines, and spans that are cut off, are skipped."""
    decoder = json.JSONDecoder()
    for line in re.finditer(r"^\{$", text, re.MULTILINE):
        try:
            said, _ = decoder.raw_decode(text, line.start())
            yield _span(said)
        except (ValueError, KeyError, TypeError):
            continue


def _span(said: dict[str, Any]) -> Span:
    """Return one span. Raises KeyError, ValueError and TypeError for something else."""
    context = said["context"]
    return Span(
        name=said["name"],
        trace=context["trace_id"].removeprefix("0x"),
        id=context["span_id"].removeprefix("0x"),
        parent=(said["parent_id"] or "").removeprefix("0x"),
        begun=_nanoseconds(said["start_time"]),
        ended=_nanoseconds(said["end_time"]),
        attributes={key: _text(value) for key, value in said["attributes"].items()},
    )


def _nanoseconds(time: str) -> int:
    """Return a time in nanoseconds since 1970. The exporter prints microseconds."""
    at = datetime.fromisoformat(time)
    return int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)
