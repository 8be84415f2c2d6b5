"""The handler for events of pods, including pods that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from syncpod.api.field_selector import parse_field_selector
from syncpod.api.lists import rendered
from syncpod.api.messages import Answer, Request
from syncpod.api.source import PodSource
from syncpod.api.statuses import ApiError
from syncpod.api.views.events import WIDE, PodEvent, by_time, cells_of, document, events_of, gone_events
from syncpod.api.views.tables import column_definitions, partial_metadata

_FIELDS: Final = (
    *("metadata.name", "metadata.namespace", "reason", "type", "source.host"),
    *(f"involvedObject.{field}" for field in ("kind", "namespace", "name", "uid", "fieldPath")),
)
_SEEN_WIDE: Final = tuple(name for name in WIDE if name in ("SUBOBJECT", "SOURCE", "FIRST SEEN", "COUNT", "NAME"))


async def list_events(source: PodSource, asked: Request, namespace: str | None) -> Answer:
    """Answer with an EventList or a Table, the newest event last. It includes the last hour's events of gone pods."""
    try:
        fields = parse_field_selector(asked.one("fieldSelector"), _FIELDS)
    except ValueError as wrong:
        raise ApiError(400, f"{wrong}") from None
    pods = await source.open_pods(namespace, ())
    await source.settle_journal()
    now = datetime.now(UTC)

    def found() -> list[PodEvent]:
        present = [event for one in pods for event in events_of(one.reads.pod(), one.reads.events())]
        return by_time([*present, *gone_events(source.state_dir, source.node, present, namespace, now)])

    def chosen(event: PodEvent) -> Iterator[dict[str, Any]]:
        if fields.matches(shown := document(event)):
            yield shown

    events = await asyncio.to_thread(found)
    if not asked.wants_table:
        head: dict[str, Any] = {"kind": "EventList", "apiVersion": "v1", "metadata": {"resourceVersion": ""}}
        return Answer(rendered(head, "items", events, chosen))
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": ""}}
    head["columnDefinitions"] = column_definitions(WIDE, hidden=_SEEN_WIDE)

    def row(event: PodEvent) -> Iterator[dict[str, Any]]:
        for shown in chosen(event):
            yield {"cells": list(cells_of(event, now, wide=True)), "object": partial_metadata(shown)}

    return Answer(rendered(head, "rows", events, row))
