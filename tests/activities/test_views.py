"""A step reuses the listing of the previous step only if nothing can have changed in between."""

from __future__ import annotations

from activities.node.views import LastViews
from syncpod.lifecycle.observed import ObservedPod, ObservedSandbox
from syncpod.messages.identity import PodRef

REF = PodRef(namespace="default", name="web", uid="u1", incarnation="life-1")
VIEW = ObservedPod(uid="u1", sandboxes=(ObservedSandbox(id="s1", state="SANDBOX_READY"),))


def test_a_step_reuses_the_view_returned_by_the_previous_step() -> None:
    views = LastViews()
    views.keep(REF, 3, VIEW)
    assert views.before(REF, 4, 1) == VIEW


def test_a_retry_a_gap_or_a_reset_workflow_requires_a_new_view() -> None:
    views = LastViews()
    views.keep(REF, 3, VIEW)
    assert views.before(REF, 4, 2) is None
    assert views.before(REF, 5, 1) is None
    assert views.before(REF, 3, 1) is None
    assert views.before(REF, 1, 1) is None


def test_the_first_step_of_an_incarnation_begins_with_an_empty_view() -> None:
    views = LastViews()
    views.keep(REF, 3, VIEW)
    reborn = REF.model_copy(update={"incarnation": "life-2"})
    assert views.before(reborn, 1, 1) == ObservedPod(uid="u1")
    assert views.before(reborn, 1, 2) is None


def test_a_restarted_node_requires_a_new_view_except_for_a_first_step() -> None:
    assert LastViews().before(REF, 4, 1) is None
    assert LastViews().before(REF, 1, 1) == ObservedPod(uid="u1")


def test_a_view_of_a_life_that_is_over_is_forgotten() -> None:
    views = LastViews()
    views.keep(REF, 3, VIEW)
    views.forget(REF)
    assert views.before(REF, 4, 1) is None
