"""A pod's events about fields that have no effect on its node."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.fleet import FLEET_SOURCE, OWNER_ANNOTATION
from syncpod.messages.node import API_SOURCE
from workflows.node.decide import document_of
from workflows.node.state import Wanted
from workflows.pod.start import initial_state

OF_PLACEMENT = {
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {
        "matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]}},
    "tolerations": [{"operator": "Exists"}],
}  # fmt: skip
OWNED = {OWNER_ANNOTATION: "workload/Deployment/default/web"}


def ignored(source: str, annotations: dict[str, str]) -> list[str]:
    """Return the fields that the events of a pod from this source call ignored."""
    meta = {"name": "web", "namespace": "default", "annotations": annotations}
    spec = {"containers": [{"name": "web", "image": "busybox:1"}], **OF_PLACEMENT, "priorityClassName": "high"}
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    start = {"pod": document_of(Wanted(document=document, uid="u"), source)}
    now = datetime(2026, 3, 1, tzinfo=UTC)
    state, refusal = initial_state(start, "pod/default/web", now, uuid.uuid4, "node/n1", decisions=DECISION_VERSION)
    assert not refusal
    return [each.message.partition(":")[0] for each in state.events if each.reason == "Ignored"]


@pytest.mark.parametrize(
    ("source", "annotations"),
    [(API_SOURCE, {}), ("file", OWNED), (FLEET_SOURCE, {}), (API_SOURCE, OWNED)],
    ids=["applied here", "from a file", "by a fleet, with a nodeName", "a copy of a fleet's"],
)
def test_a_pod_that_no_fleet_has_placed_is_told_what_only_placement_reads(
    source: str, annotations: dict[str, str]
) -> None:
    affinity = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    assert ignored(source, annotations) == [affinity, "spec.priorityClassName", "spec.tolerations"]


def test_a_pod_that_a_fleet_has_placed_is_not_told_that_the_fields_the_fleet_went_by_have_no_effect() -> None:
    assert ignored(FLEET_SOURCE, OWNED) == ["spec.priorityClassName"]
