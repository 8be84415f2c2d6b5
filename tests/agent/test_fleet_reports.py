"""The pods that a node reports to its fleet as placed by the fleet."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from syncpod.agent.fleet.reports import FleetReports, _read
from syncpod.agent.published_pods import PublishedRun
from syncpod.messages.fleet import FLEET_SOURCE
from syncpod.messages.node import SOURCE_ANNOTATION, PodKey
from syncpod.pod.static import HASH_ANNOTATION
from tests.cli.manifests import manifest


@pytest.mark.parametrize(("made_for", "is_ours"), [("its-own", True), ("the-original", False)])
def test_a_copy_of_a_fleets_pod_is_not_the_fleets_and_its_requests_count(made_for: str, is_ours: bool) -> None:
    """Its annotations are its author's to write: with another pod's, it would take room that the fleet gives away."""
    pod: dict[str, Any] = manifest("copy")
    annotations = {SOURCE_ANNOTATION: FLEET_SOURCE, HASH_ANNOTATION: made_for}
    pod["metadata"] |= {"namespace": "default", "uid": "its-own", "annotations": annotations}
    found = _read(PublishedRun("run", Mock(pod=Mock(return_value=pod))))
    assert (found.is_ours, found.requests is None) == (is_ours, is_ours)


def test_a_listed_pod_that_another_client_has_ended_is_reported_as_gone() -> None:
    """Otherwise the fleet would show its last state until the node has started it again."""
    pod: dict[str, Any] = manifest("web")
    annotations = {SOURCE_ANNOTATION: FLEET_SOURCE, HASH_ANNOTATION: "its-own"}
    pod["metadata"] |= {"namespace": "default", "uid": "its-own", "annotations": annotations}
    runs = {"pod/default/web": PublishedRun("run", Mock(pod=Mock(return_value=pod)))}
    published = Mock(pods=lambda: runs, newest=runs.get)
    reports, key = FleetReports(published, "n1"), PodKey(namespace="default", name="web")
    first = reports.changed("", 1, ["default/web"], {})
    assert first is not None and [each.name for each in first.pods] == ["web"] and first.gone == ()
    runs.clear()
    second = reports.changed(first.version, 1, ["default/web"], {})
    assert second is not None and (second.present, second.gone) == ((key,), (key,))
    assert reports.changed(second.version, 1, ["default/web"], {}) is None
    whole = reports.changed("", 1, ["default/web"], {})
    assert whole is not None and whole.gone == (key,), "the fleet may have a report of it"
