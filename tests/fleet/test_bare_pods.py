"""A Pod that a fleet places: one copy, even if nodes are lost, return or are drained.

Holds: A Pod by itself is never made beside a copy that may still run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from syncpod.fleet.bare_pods import decide_bare, placement_changed
from syncpod.fleet.members import Member
from syncpod.fleet.rollout import RolloutSpec, WorkloadDecision
from syncpod.fleet.when_lost import WAIT, WhenLost
from tests.fleet.fleets import anti_affinity, pod
from tests.fleet.simulation import World

REPLACE = WhenLost("replace-after", timedelta(minutes=1))
STOP = WhenLost("stop-after", timedelta(minutes=1))
NODES = ("n1", "n2", "n3", "n4")


@dataclass
class OfOnePod(World):
    """A fleet with a single Pod."""

    def decide(self, members: Iterable[Member]) -> WorkloadDecision:
        return decide_bare(
            self.spec.when_lost, self.spec.grace, members, self.state, self.now, count(self.numbered + 1)
        )


def placed(rule: WhenLost = WAIT) -> OfOnePod:
    """Return a world in which the pod runs on n1, and at most one copy may exist."""
    world = OfOnePod(RolloutSpec("the pod", 1, max_surge=0, max_unavailable=1, recreate=True, when_lost=rule))
    world.settle()
    assert [each.node for each in world.members.values()] == ["n1"]
    assert world.decisions[-1].says == "it is on n1"
    return world


def test_a_pod_is_made_once_and_left_alone_when_it_has_ended() -> None:
    world = placed()
    (name,) = world.members
    world.members[name] = replace(world.members[name], ended=True, ready_since=None, status="Completed")
    decision = world.decide(world.members.values())
    assert (decision.create, decision.withdraw, decision.look_again) == ((), (), None)


def test_a_lost_pod_is_waited_for_by_default() -> None:
    world = placed()
    world.lose("n1")
    world.settle_whatever()
    assert len(world.members) == 1
    world.bring_back("n1")
    world.settle()
    assert [each.node for each in world.members.values()] == ["n1"]


def test_a_lost_pod_is_replaced_and_its_copy_goes_when_it_is_back() -> None:
    world = placed(REPLACE)
    world.lose("n1")
    world.settle()
    assert [(each.replaces, each.node) for each in world.members.values()] == [("", "n1"), ("web-1", "n2")]
    world.bring_back("n1")
    world.settle()
    assert [each.node for each in world.members.values()] == ["n2"]


def test_a_drained_node_ends_the_pod_before_another_is_made() -> None:
    world = placed()
    world.draining = {"n1"}
    first = world.step()
    assert (first.create, [each.why for each in first.withdraw]) == (
        (),
        ["web-1 on n1 is removed: n1 is being drained"],
    )
    assert first.says == "it waits until web-1 on n1 is gone"
    world.settle()
    assert [each.node for each in world.members.values()] == ["n2"]


def test_a_drained_node_that_is_lost_is_waited_for() -> None:
    world = placed()
    world.lose("n1")
    world.draining = {"n1"}
    world.settle_whatever(20)
    assert [each.node for each in world.members.values()] == ["n1"], "it may still run there"


@pytest.mark.parametrize("rule", [REPLACE, STOP])
def test_a_node_that_is_lost_in_its_drain_gives_its_pod_up_when_the_rule_says_so(rule: WhenLost) -> None:
    world = placed(rule)
    world.draining = {"n1"}
    assert world.step().withdraw
    world.lose("n1")
    world.settle()  # as long as the decision asks to look again: nothing else would wake it
    assert [(each.node, each.leaving) for each in world.members.values()] == [("n1", True), ("n2", False)]
    world.bring_back("n1")
    world.settle()
    assert [each.node for each in world.members.values()] == ["n2"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, "spec.nodeSelector"),
        ({"affinity": anti_affinity("web")}, "spec.affinity"),
        ({"tolerations": [{"operator": "Exists"}]}, "spec.tolerations"),
        ({"nodeName": "n2"}, "spec.nodeName"),
        ({"cpu": "1"}, ""),
    ],
)
def test_what_has_chosen_the_node_cannot_change(change: dict[str, Any], path: str) -> None:
    assert placement_changed(pod(), pod(**change)) == path


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("lose", "back", "drain", "uncordon")), st.sampled_from(NODES)),
        st.tuples(st.just("pass"), st.integers(1, 30).map(str)),
    ),
    max_size=12,
)


@example([("lose", "n1"), ("pass", "7"), ("lose", "n1"), ("drain", "n1"), ("drain", "n2")], REPLACE)
@settings(max_examples=60)
@given(events=EVENTS, rule=st.sampled_from((WAIT, REPLACE, STOP)))
def test_whatever_happens_there_is_one_copy_in_the_end_and_never_two_where_none_may_be(
    events: list[tuple[str, str]], rule: WhenLost
) -> None:
    world = placed(rule)
    for event, value in events:
        if event == "lose" and world.nodes[value]:
            world.lose(value)
        elif event == "back":
            world.bring_back(value)
        elif event == "drain":
            world.draining.add(value)
        elif event == "uncordon":
            world.draining.discard(value)
        for _ in range(int(value) if event == "pass" else 2):
            world.step()
            assert rule == REPLACE or len(world.running()) <= 1
    for name in NODES:
        world.bring_back(name)
    if len(world.draining) == len(NODES):
        world.draining.clear()
    world.settle()
    (left,) = world.members.values()
    assert left.node not in world.draining and left.ready_since is not None
