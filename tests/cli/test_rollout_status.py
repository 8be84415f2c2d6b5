"""`fleet rollout status` describes a rollout in kubectl's words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from syncpod.cli.temporal.fleet_workloads import _as_restarted
from syncpod.cli.view.rollout_status import rollout_status
from syncpod.fleet.revisions import Revision
from syncpod.fleet.workload_documents import RESTARTED_AT
from syncpod.messages.workload import WorkloadView

NOW = datetime(2026, 7, 1, tzinfo=UTC)
FIRST = Revision(1, "a", NOW, good_since=NOW)
WHOLE: dict[str, Any] = {"desired": 3, "replicas": 3, "updated": 3, "ready": 3, "available": 3}
HEAD = 'Waiting for deployment "web" rollout to finish: '


def view(**more: Any) -> WorkloadView:
    """A Deployment whose second template is rolled out."""
    fields: dict[str, Any] = {
        "kind": "Deployment",
        "name": "web",
        "observed": True,
        "revision": "b",
        "history": (FIRST, Revision(2, "b", NOW)),
        **WHOLE,
    }
    return WorkloadView(**(fields | more))


@pytest.mark.parametrize(
    ("found", "state", "said"),
    [
        (view(), "done", 'deployment "web" successfully rolled out'),
        (view(updated=1, replicas=4), "waiting", f"{HEAD}1 out of 3 new replicas have been updated..."),
        (view(replicas=4), "waiting", f"{HEAD}1 old replicas are pending termination..."),
        (view(available=2), "waiting", f"{HEAD}2 of 3 updated replicas are available..."),
        (view(revision="a"), "waiting", "Waiting for deployment spec update to be observed..."),
        (view(observed=False), "waiting", "Waiting for deployment spec update to be observed..."),
        (view(revision="a", paused=True), "waiting", f"{HEAD}0 out of 3 new replicas have been updated..."),
        (
            view(revision="a", history=(FIRST, Revision(2, "b", NOW, given_up="web-4 of b fails; rolling back to a"))),
            "failed",
            'deployment "web" was rolled back: web-4 of b fails; rolling back to a',
        ),
        (
            view(updated=2, stalled="b made no progress in 10m"),
            "failed",
            'deployment "web" exceeded its progress deadline: b made no progress in 10m',
        ),
        (view(deleting=True), "failed", 'deployment "web" is being deleted'),
        (view(kind="DaemonSet"), "done", 'daemon set "web" successfully rolled out'),
        (view(kind="DaemonSet", available=1, complete=True), "done", 'daemon set "web" successfully rolled out'),
        (
            view(kind="DaemonSet", updated=1),
            "waiting",
            'Waiting for daemon set "web" rollout to finish: 1 out of 3 new pods have been updated...',
        ),
        (
            view(kind="DaemonSet", available=1, replicas=4),
            "waiting",
            'Waiting for daemon set "web" rollout to finish: 1 of 3 updated pods are available...',
        ),
    ],
)
def test_a_rollout_is_told_in_kubectls_words(found: WorkloadView, state: str, said: str) -> None:
    status = rollout_status(found)
    assert (status.state, status.text) == (state, said)


def test_another_revision_than_the_one_asked_for_fails() -> None:
    assert rollout_status(view(), 2).state == "done"
    assert rollout_status(view(), 1).text == "desired revision (1) is different from the running revision (2)"


def test_a_manifest_that_is_applied_again_keeps_the_last_restart() -> None:
    def document(**annotations: str) -> dict[str, Any]:
        return {"kind": "Deployment", "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {}}}}

    restarted = document(**{RESTARTED_AT: "2026-07-01T12:00:00Z", "note": "a"})
    before = view(document=restarted)
    assert _as_restarted(document(note="a"), before) == restarted
    own = document(**{RESTARTED_AT: "2026-08-01T12:00:00Z"})
    assert _as_restarted(own, before) == own
    assert _as_restarted(document(note="a"), view(document=document(note="b"))) == document(note="a")
    assert _as_restarted(document(note="a"), None) == document(note="a")
