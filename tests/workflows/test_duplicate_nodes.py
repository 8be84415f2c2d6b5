"""Two machines with one node's name are found by their workers' lives; restarts and late answers are not mistaken.

Holds: A restart and a late answer are no second machine.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.fleet.offers import NodeOffer
from syncpod.messages.fleet import LIFE_LIMIT, OWNER_ANNOTATION, Attended, IntentTaken
from workflows.entity import next_input
from workflows.fleet import node_changes, node_report
from workflows.fleet.lives import CLOSE_SECONDS, FORGOTTEN_AFTER, LIVES, NEW_FOR
from workflows.fleet.node_state import FleetNodeState, Placed
from workflows.fleet.workload_news import as_reported
from workflows.rejections import Rejected

SECOND = timedelta(seconds=1)
MACHINES = {"a": "rack-1 (10.0.0.1)", "b": "rack-2 (10.0.0.2)"}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "annotations": {OWNER_ANNOTATION: "owner"}},
    "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
}


class Node:
    """A node's state, and a clock. Each request is sent as soon as the previous one is answered."""

    def __init__(self) -> None:
        self.state = FleetNodeState(fleet="f", name="n1", presence="Ready")
        self.state.placed["default/web"] = Placed(document=POD, generation=1)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def answers(self, *lives: str, after: timedelta = SECOND) -> None:
        """Let these lives answer one after another."""
        for life in lives:
            asked, self.now = self.now, self.now + after
            said = Attended(life=life, machine=MACHINES.get(life[:1], ""))
            node_changes.note_life(self.state, said, asked, self.now)

    def answers_late(self, life: str, *, asked: datetime) -> None:
        """Let a life answer an earlier request."""
        node_changes.note_life(self.state, IntentTaken(life=life), asked, self.now)

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.state.events]


def test_restarts_are_no_duplicate_nodes() -> None:
    node = Node()
    node.answers("a1", "a1", "a2", "a2", "a3", "a4", "a5", "a6", "a6")
    assert (node.state.trouble, node.reasons, node.state.untold) == ("", [], {})
    assert len(node.state.lives.known) == LIVES


def test_a_late_answer_of_the_life_before_is_no_twin() -> None:
    """A worker is killed while its answers are on their way, and they arrive after an answer of its next life."""
    node = Node()
    for number in range(5):
        node.answers(f"a{number}")
        asked = node.now
        node.answers(f"a{number + 1}")
        node.answers_late(f"a{number}", asked=asked)
        node.answers_late(f"never heard {number}", asked=asked)
        node.answers(f"a{number + 1}")
    assert (node.state.trouble, node.state.lives.returns) == ("", 0)


def test_a_machine_that_was_set_back_to_a_snapshot_of_its_memory_is_no_twin() -> None:
    node = Node()
    node.answers("a1", "a2", "a1", "a1", "a3")
    assert node.state.trouble == ""


def test_a_node_that_does_not_say_who_answers_is_as_before() -> None:
    node = Node()
    node.answers("", "a1", "", "b1", "", "", "x" * (LIFE_LIMIT + 1), "y" * (LIFE_LIMIT + 1))
    assert [each.id for each in node.state.lives.known] == ["a1", "b1"]
    assert node.state.lives.returns == 0


@pytest.mark.parametrize(
    "lives",
    [("a", "b", "a", "b"), ("a", "b1", "a", "b2", "a"), ("a", "b", "c", "a", "b")],
    ids=["two", "one of them restarts again and again", "three"],
)
def test_duplicate_nodes_are_reported_once_with_what_to_do(lives: tuple[str, ...]) -> None:
    node = Node()
    node.answers(*lives[:-1])
    assert node.state.trouble == ""
    node.answers(lives[-1])
    assert node.state.trouble.startswith("two machines answer as n1")
    for said in ("syncpod leave", "invite n1 anew", "syncpod fleet revoke n1 --serial"):
        assert said in node.state.trouble
    assert node_report.view(node.state).doubled and node_report.view(node.state).trouble == node.state.trouble
    node.answers(*lives, *lives)
    assert node.reasons == ["TwoMachines"]
    assert node.state.events[0].message == node.state.duplicate_nodes, "it is not cut"


def test_both_machines_are_named_also_if_one_is_a_copy_of_the_other() -> None:
    node = Node()
    node.answers("a", "b", "a", "b")
    assert "as n1, rack-1 (10.0.0.1) and rack-2 (10.0.0.2), and both run its pods" in node.state.duplicate_nodes
    node = Node()
    node.answers("a1", "a2", "a1", "a2")
    assert (
        "as n1, both called rack-1 (10.0.0.1), as a copy of a whole machine is, and both run"
        in node.state.duplicate_nodes
    )
    assert node.state.events[0].message == node.state.duplicate_nodes, "it is not cut"


def test_duplicate_nodes_get_no_new_pods_and_keep_those_that_they_have() -> None:
    node = Node()
    node.answers("a", "b", "a", "b")
    new = {**POD, "metadata": {"name": "new"}}
    with pytest.raises(Rejected, match=r"^node n1 takes no new pods: two machines answer as n1, rack-1 .* and rack-2"):
        node_changes.change(node.state, "place", ({"pods": [new]},), node.now)
    node_changes.change(node.state, "place", ({"pods": [POD], "owner": "owner"},), node.now)
    assert list(node.state.placed) == ["default/web"]
    news = node.state.news("owner", node.state.untold["owner"])
    assert (news.doubled, news.unschedulable) == (True, False)
    (offer,) = as_reported([NodeOffer("n1")], news)
    assert offer.doubled


def test_duplicate_nodes_are_forgotten_once_only_one_machine_has_answered_for_a_while() -> None:
    node = Node()
    node.answers("a", "b", "a", "b")
    node.state.untold = {}
    node.answers("b", after=FORGOTTEN_AFTER - SECOND)
    assert node.state.is_doubled and not node.state.is_open
    node.answers("b")
    assert node.state.is_open, "pods that wait for a node are tried again"
    assert (node.state.trouble, node.reasons, list(node.state.untold)) == ("", ["TwoMachines", "OneMachine"], ["owner"])
    node.answers("a", "b")
    assert node.state.is_doubled, "they are still known"


def test_a_node_is_asked_more_often_while_there_may_be_two_machines() -> None:
    node = Node()
    node.answers("a1", "a1")
    assert not node.state.lives.are_doubtful(node.now), "a node that was never restarted costs what it did"
    node.answers("a2")
    assert node.state.lives.are_doubtful(node.now)
    assert not node.state.lives.are_doubtful(node.now + NEW_FOR)
    node.answers("a1")
    assert node.state.lives.are_doubtful(node.now + NEW_FOR)
    assert FORGOTTEN_AFTER.total_seconds() / CLOSE_SECONDS >= 10, "duplicate_nodes are not forgotten by chance"


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 1000), st.integers(0, 5))))
def test_whatever_answers_the_state_stays_small_and_is_carried_from_run_to_run(
    said: list[tuple[str, int, int]],
) -> None:
    node = Node()
    for life, minutes, ago in said:
        node.now += timedelta(minutes=minutes)
        answer = Attended(life=life, machine=life * 1000)
        node_changes.note_life(node.state, answer, node.now - timedelta(minutes=ago), node.now)
        assert len(node.state.lives.model_dump_json()) < LIVES * 1000
    after = FleetNodeState.model_validate(next_input(node.state)["snapshot"])
    assert (after.lives, after.duplicate_nodes) == (node.state.lives, node.state.duplicate_nodes)
