"""After a pod's workflow was terminated and its remains are gone, the agent keeps nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.metrics import CallbackOptions

from syncpod.agent.published_pods import PublishedPods
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.temporal import resize_metrics
from tests.agent.node_endpoint import node_of
from tests.agent.published import OfNoPod

WEB = PodRef(namespace="default", name="web", uid="u1", incarnation="life-2")


class OfWeb(OfNoPod):
    """Returns the newest state of the pod."""

    uid, incarnation, is_gone, is_unready = WEB.uid, WEB.incarnation, False, False
    at: Any = None
    history_length = 0


async def test_a_terminated_pod_is_forgotten_with_its_pending_resize_and_a_later_life_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resize_metrics, "_pending", {})
    monkeypatch.setattr(resize_metrics, "_in_progress", set())
    workflow_id = pod_workflow_id("default", "web")
    published = PublishedPods(node_of(tmp_path))
    published.take(workflow_id, "run", cast("Any", OfWeb()))
    resize_metrics.resizes(workflow_id, "Deferred", True, ())
    for other in ({"uid": "u2"}, {"incarnation": "life-1"}, {"name": "other"}):
        published.forget(WEB.model_copy(update=other))
        assert (len(published), _resizes()) == (1, (1, 1))
    published.forget(WEB)
    assert (len(published), _resizes()) == (0, (0, 0))


def _resizes() -> tuple[int, int]:
    """The numbers of pending resizes and of those in progress."""
    (progress,) = resize_metrics.observe_in_progress(CallbackOptions())
    return sum(int(each.value) for each in resize_metrics.observe_pending(CallbackOptions())), int(progress.value)
