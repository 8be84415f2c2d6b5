"""The reports of a stolen node are bounded, and those of an honest node always fit.

Holds: A node's workflow keeps its state within one payload, even if the node lies.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from syncpod.messages.fleet import Attended, FleetNodeReport, IntentTaken, PodReport
from syncpod.messages.node import KNOWN_LIMIT, PodKey
from workflows.entity import next_input
from workflows.fleet import node_changes
from workflows.fleet.node_changes import PLACED_LIMIT
from workflows.fleet.node_state import FleetNodeState, Placed
from workflows.fleet.report_bounds import NODE_LIMIT, POD_LIMIT, REPORTED_LIMIT, why_too_large

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = tuple(PodKey(namespace="default", name=f"p{number}") for number in range(REPORTED_LIMIT + 1))


def reports(count: int, **more: Any) -> tuple[PodReport, ...]:
    return tuple(PodReport(name=f"p{number}", **more) for number in range(count))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Attended(pods=reports(REPORTED_LIMIT + 1)), f"pods: must have no more than {REPORTED_LIMIT} pods, has 2001"),
        (Attended(present=KEYS), f"present: must have no more than {REPORTED_LIMIT} pods, has 2001"),
        (Attended(gone=KEYS), f"gone: must have no more than {REPORTED_LIMIT} pods, has 2001"),
        (Attended(gone=(PodKey(name="x" * 300),)), "gone[0]: must have a name of no more than 256 characters"),
        (Attended(version="x" * 300), "version: must be no more than 256 characters"),
        (Attended(life="x" * 65), "life: must be no more than 64 characters"),
        (
            Attended(node=FleetNodeReport(labels={"a": "x" * NODE_LIMIT})),
            f"node: must be no more than {NODE_LIMIT} bytes",
        ),
        (Attended(pods=reports(1, message="x" * POD_LIMIT)), f"pods[0]: must be no more than {POD_LIMIT} bytes"),
        (Attended(pods=reports(200, message="x" * 3000)), "bytes as JSON in all, are 60"),
    ],
)
def test_what_no_node_reports_is_refused_in_one_sentence(answer: Attended, said: str) -> None:
    state = FleetNodeState(fleet="f", name="n", placed={"default/a": placed(1_560_000)})
    why = why_too_large(state, answer)
    assert why.startswith("its report is refused: ") and said in why


def test_reports_do_not_add_up() -> None:
    """Each report is small, and none lists the present pods."""
    state = FleetNodeState(fleet="f", name="n", pods={each.key: each for each in reports(REPORTED_LIMIT)})
    assert "must be no more than 2000 with earlier ones, are 2001" in why_too_large(
        state, Attended(pods=(PodReport(name="another"),))
    )
    assert not why_too_large(state, Attended(pods=(PodReport(name="another"),), present=KEYS[:3]))


def test_a_report_of_a_pod_that_is_not_there_is_not_kept() -> None:
    state = FleetNodeState(fleet="f", name="n")
    node_changes.attended(state, Attended(pods=reports(3), present=KEYS[:1], node=FleetNodeReport(ready=True)), NOW)
    assert list(state.pods) == ["default/p0"]


def placed(size: int) -> Placed:
    return Placed(document={"metadata": {"name": "x" * size}}, generation=1)


def test_an_honest_node_with_as_many_pods_as_there_can_be_is_believed_and_its_state_fits_into_a_payload() -> None:
    state = FleetNodeState(fleet="f", name="n")
    state.placed = {f"default/p{number}": placed(1150) for number in range(PLACED_LIMIT)}
    honest = reports(
        PLACED_LIMIT,
        uid="0" * 36,
        status="CrashLoopBackOff",
        ready_since=NOW,
        started_at=NOW,
        ip="10.88.255.255",
        message="x" * 400,
    )
    answer = Attended(pods=honest, present=KEYS[:PLACED_LIMIT], node=FleetNodeReport(ready=True))
    assert not why_too_large(state, answer)
    node_changes.attended(state, answer, NOW)
    assert len(str(next_input(state))) < KNOWN_LIMIT + 150_000


def test_what_a_node_says_of_a_list_is_kept_only_for_what_is_in_it_and_cut() -> None:
    state = FleetNodeState(fleet="f", name="n", placed={"default/a": placed(1)}, referred=("Secret/default/s",))
    said = {f"default/{name}": "x" * 10_000 for name in "abcdef"}
    objects = {f"Secret/default/{name}": "x" * 10_000 for name in "stuvw"}
    node_changes.taken(state, IntentTaken(generation=1, refused=said, objects=objects), NOW)
    assert (list(state.refused), list(state.objects_refused)) == (["default/a"], ["Secret/default/s"])
    assert {len(why) for why in (*state.refused.values(), *state.objects_refused.values())} == {500}


def test_a_time_without_a_zone_is_no_report() -> None:
    """Who lists the fleet's pods computes with it."""
    with pytest.raises(ValueError, match="timezone"):
        PodReport.model_validate({"startedAt": "2026-01-01T00:00:00"})
