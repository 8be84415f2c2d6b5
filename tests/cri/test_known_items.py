"""Items of a listing are translated once, and again only if they have changed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from protos.cri.v1 import api_pb2 as cri
from syncpod.cri import records
from syncpod.cri.known_items import TURN_SECONDS, KnownItems
from syncpod.cri.port import ContainerSummary

CHANGES: dict[str, dict[str, Any]] = {
    "state": {"state": cri.CONTAINER_EXITED},
    "created_at": {"created_at": 2_000_000},
    "image": {"image": cri.ImageSpec(image="other")},
    "image_ref": {"image_ref": "sha256:1"},
    "labels": {"labels": {"a": "2"}},
    "annotations": {"annotations": {"b": "2"}},
    "sandbox_id": {"pod_sandbox_id": "other"},
    "name": {"metadata": cri.ContainerMetadata(name="other")},
    "attempt": {"metadata": cri.ContainerMetadata(name="app", attempt=1)},
}


def container(id_: str = "c1", **changed: Any) -> cri.Container:
    """A container as it is received: parsed anew for each listing."""
    told: dict[str, Any] = {
        "metadata": cri.ContainerMetadata(name="app"),
        "pod_sandbox_id": "s1",
        "state": cri.CONTAINER_RUNNING,
        "created_at": 1_000_000,
        "labels": {"a": "1"},
        "annotations": {"b": "1"},
    }
    return cri.Container.FromString(cri.Container(id=id_, **{**told, **changed}).SerializeToString())


def test_an_unchanged_item_is_the_same_record() -> None:
    known = KnownItems(records.container_summary)
    (first,) = known.records([container()])
    assert first == records.container_summary(container())
    assert known.records([container("c2"), container()])[1] is first


@pytest.mark.parametrize("field", [field.name for field in fields(ContainerSummary) if field.name != "id"])
def test_whatever_changes_is_seen(field: str) -> None:
    known = KnownItems(records.container_summary)
    known.records([container()])
    changed = container(**CHANGES[field])
    assert known.records([changed]) == (records.container_summary(changed),)
    assert getattr(known.records([changed])[0], field) != getattr(records.container_summary(container()), field)


def test_what_is_gone_is_dropped_also_if_nothing_is_left() -> None:
    now = 0.0
    known = KnownItems(records.container_summary, lambda: now)
    known.records([container("c1"), container("c2")])
    for _ in range(3):
        now += TURN_SECONDS + 1
        known.records([])
    assert len(known) == 0


def test_short_lists_in_between_cost_nobody_a_record_and_what_is_gone_is_dropped() -> None:
    known = KnownItems(records.container_summary)
    crowd = [container(f"c{number}") for number in range(100)]
    first = known.records(crowd)
    for turn in range(100):
        known.records([container("c5")])
        assert all(old is new for old, new in zip(first, known.records(crowd), strict=True)), turn
    for _ in range(100):
        known.records(crowd[:10])
    assert len(known) <= 20
