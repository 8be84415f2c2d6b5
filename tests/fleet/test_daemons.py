"""DaemonSets: their nodes, rollouts while nodes come and go, and never two pods on one node.

Holds: A rollout keeps to `maxSurge` and `maxUnavailable`, and goes back to the last good template.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncpod.fleet.daemons import DaemonRolloutSpec, Standing, decide_daemons, standing, with_daemon_tolerations
from syncpod.fleet.members import Member
from syncpod.fleet.offers import NodeOffer, Taint
from syncpod.fleet.rollout import Counts, RolloutState, WorkloadDecision
from syncpod.pod import Pod
from tests.fleet.fleets import node, pod
from tests.fleet.simulation import BAD, START

RUNNING = Standing(True, True)
RUNS, STAYS, NEITHER = (True, True), (False, True), (False, False)


@pytest.mark.parametrize(
    ("asking", "offer", "expected"),
    [
        (pod(), node(), RUNS),
        (pod(), node(unschedulable=True), STAYS),
        (pod(), node(presence="NotReady"), STAYS),
        (pod(), node(presence="Unknown"), STAYS),
        (pod(), node(doubled=True), STAYS),
        (pod(), node(taints=(Taint("gpu"),)), STAYS),
        (pod(), node(taints=(Taint("gpu", effect="NoExecute"),)), NEITHER),
        (pod(), node(taints=(Taint("node.kubernetes.io/disk-pressure"),)), RUNS),
        (pod(tolerations=[{"key": "gpu", "operator": "Exists"}]), node(taints=(Taint("gpu"),)), RUNS),
        (pod(nodeSelector={"disk": "ssd"}), node(), NEITHER),
        (pod(nodeSelector={"disk": "ssd"}), node(labels={"disk": "ssd"}), RUNS),
        (pod(cpu="64"), node(), RUNS),
        (pod(nodeName="n2"), node(), NEITHER),
    ],
)
def test_nodes_that_a_daemon_set_is_for(asking: Pod, offer: NodeOffer, expected: tuple[bool, bool]) -> None:
    found = standing(with_daemon_tolerations(asking), offer)
    assert (found.should_run, found.may_stay) == expected


@dataclass
class Nodes:
    """Nodes that can be reached or not, and the pods of a DaemonSet on them."""

    spec: DaemonRolloutSpec
    nodes: dict[str, Standing] = field(
        default_factory=lambda: {f"n{number}": Standing(True, True) for number in (1, 2, 3)}
    )
    unseen: set[str] = field(default_factory=set)
    """Nodes that did not answer the last survey."""
    now: datetime = START
    state: RolloutState = field(default_factory=RolloutState)
    members: dict[str, Member] = field(default_factory=dict)
    said: list[WorkloadDecision] = field(default_factory=list)
    numbered: int = 0

    def step(self) -> WorkloadDecision:
        self.now += timedelta(seconds=5)
        for member in list(self.members.values()):
            self._report(member)
        before = list(self.members.values())
        seen = self.seen()
        args = (self.state, self.now)
        decision = decide_daemons(self.spec, seen, before, *args, self.numbers(), self.unseen)
        turned = dict(reversed(seen.items()))
        assert decision == decide_daemons(self.spec, turned, reversed(before), *args, self.numbers(), self.unseen)
        self._check(before, decision)
        self.state = decision.state
        for withdrawal in decision.withdraw:
            self.members[withdrawal.name] = replace(self.members[withdrawal.name], leaving=True)
        for creation in decision.create:
            self.numbered = creation.number
            name = f"log-{creation.number}"
            self.members[name] = Member(name, creation.revision, self.now, creation.node)
        self.said.append(decision)
        return decision

    def numbers(self) -> Iterator[int]:
        return count(self.numbered + 1)

    def seen(self) -> dict[str, Standing]:
        return {name: each for name, each in self.nodes.items() if name not in self.unseen}

    def settle(self) -> None:
        quiet = 0
        for _ in range(100):
            before = (self.state, [replace(one, unknown_since=None) for one in self.members.values()])
            self.step()
            after = (self.state, [replace(one, unknown_since=None) for one in self.members.values()])
            quiet = quiet + 1 if before == after and self.said[-1].look_again is None else 0
            if quiet == 3:  # no pod takes longer to start
                return
        raise AssertionError(f"does not settle: {self.said[-1]}")

    def _report(self, member: Member) -> None:
        here = self.nodes.get(member.node)
        if here is None:
            del self.members[member.name]
        elif not here.is_present:
            self.members[member.name] = replace(member, presence="Unknown", unknown_since=self.now)
        elif member.leaving:
            del self.members[member.name]
        elif member.revision == BAD:
            self.members[member.name] = replace(member, presence="Ready", status="CrashLoopBackOff")
        elif self.now - member.created > timedelta(seconds=7):
            since = member.ready_since or self.now
            self.members[member.name] = replace(member, presence="Ready", status="Running", ready_since=since)

    def _check(self, before: list[Member], decision: WorkloadDecision) -> None:
        gone = {withdrawal.name for withdrawal in decision.withdraw}
        stays = [one for one in before if not one.leaving and one.name not in gone]
        for name in self.nodes:
            kept = [one for one in stays if one.node == name]
            made = [one for one in decision.create if one.node == name]
            is_ending = any(one.node == name and (one.leaving or one.name in gone) for one in before)
            assert not made or not is_ending
            assert len(kept) + len(made) <= (2 if self.spec.max_surge else 1)
        assert not (self.unseen and (decision.complete or decision.became_good or "is rolled out" in decision.says))
        assert self.unseen.isdisjoint(one.node for one in before if one.name in gone and not one.ended)
        present = [name for name, each in self.seen().items() if each.is_present and each.should_run]
        if self.spec.max_surge == 0 and isinstance(self.spec.max_unavailable, int):
            was = {one.node for one in before if not one.leaving and one.is_available(self.now, self.spec.min_ready)}
            still = {one.node for one in stays if one.is_available(self.now, self.spec.min_ready)}
            lost = (was - still) & set(present)
            assert not lost or len(set(present) - still) <= self.spec.max_unavailable


def test_each_node_has_one_pod_and_a_new_node_gets_one() -> None:
    fleet = Nodes(DaemonRolloutSpec("a"))
    fleet.settle()
    assert [one.node for one in fleet.members.values()] == ["n1", "n2", "n3"] and fleet.state.good == "a"
    fleet.nodes["n4"] = Standing(True, True)
    fleet.settle()
    assert len(fleet.members) == 4
    fleet.nodes["n4"] = Standing(False, False, why="its labels have changed")
    assert [one.why for one in fleet.step().withdraw] == ["log-4 on n4 is removed: its labels have changed"]


def test_it_is_said_which_pod_is_missing() -> None:
    spec, state = DaemonRolloutSpec("a"), RolloutState(asked="a", target="a", good="a")
    pods = [Member(f"log-{each}", "a", START, node=f"n{each}", status="Running") for each in (1, 2)]
    nodes = {each.node: Standing(True, True) for each in pods}
    said = decide_daemons(spec, nodes, [replace(pods[0], ready_since=START), pods[1]], state, START, count(3)).says
    assert said == "a is incomplete: 2 of 2 nodes have it, 1 is available; log-2 on n2 is not ready: Running"


def test_a_rollout_goes_from_node_to_node_and_past_one_that_is_lost() -> None:
    fleet = Nodes(DaemonRolloutSpec("a"))
    fleet.settle()
    fleet.nodes["n2"] = Standing(False, True, is_present=False)
    fleet.spec = DaemonRolloutSpec("b")
    assert len(fleet.step().withdraw) == 1
    fleet.settle()
    assert fleet.state.good == "b"
    assert {one.node: one.revision for one in fleet.members.values()} == {"n1": "b", "n2": "a", "n3": "b"}
    fleet.nodes["n2"] = Standing(True, True)
    fleet.settle()
    assert {one.revision for one in fleet.members.values()} == {"b"} and len(fleet.members) == 3


@pytest.mark.parametrize(
    ("tolerations", "offer", "numbers"),
    [
        ([], node(presence="Unknown"), (2, 2, 2, 1)),
        ([{"operator": "Exists"}], node(presence="Unknown"), (3, 3, 2, 0)),
        ([], node(presence="NotReady"), (2, 2, 2, 1)),
        ([], node(unschedulable=True), (3, 3, 3, 0)),
        ([], node(taints=(Taint("spare", effect="NoSchedule"),)), (2, 2, 2, 1)),
    ],
)
def test_a_lost_or_cordoned_node_counts_while_its_pod_tolerates_its_taints(
    tolerations: list[dict[str, str]], offer: NodeOffer, numbers: tuple[int, ...]
) -> None:
    """As in a DaemonSet's status in Kubernetes: a lost node's taint has the effect NoSchedule too."""
    fleet = Nodes(DaemonRolloutSpec("a"))
    fleet.settle()
    fleet.nodes["n2"] = standing(with_daemon_tolerations(pod(tolerations=tolerations)), offer)
    counts = fleet.step().counts
    assert (counts.desired, counts.replicas, counts.available, counts.misscheduled) == numbers
    assert fleet.said[-1].complete == "a", "the rollout does not wait for that node"


def test_a_removed_node_counts_no_more() -> None:
    fleet = Nodes(DaemonRolloutSpec("a"))
    fleet.settle()
    del fleet.nodes["n2"]
    fleet.settle()
    assert (fleet.said[-1].counts.desired, fleet.said[-1].counts.replicas) == (2, 2)


def test_a_node_that_a_survey_misses_keeps_its_pod() -> None:
    """It is joining again, or its workflow was beginning a new run. A removed node is reported to owners instead."""
    fleet = Nodes(DaemonRolloutSpec("a"))
    fleet.settle()
    fleet.unseen.add("n2")
    fleet.spec = DaemonRolloutSpec("b")
    fleet.settle()
    assert {one.node: one.revision for one in fleet.members.values()} == {"n1": "b", "n2": "a", "n3": "b"}
    assert fleet.state.good == "a", "n2 may lack its pod"
    fleet.unseen.clear()
    fleet.settle()
    assert {one.node: one.revision for one in fleet.members.values()} == {"n1": "b", "n2": "b", "n3": "b"}
    assert fleet.state.good == "b"


@pytest.mark.parametrize("earlier", [(), ("n2", "n3")])
def test_a_template_does_not_become_good_on_the_nodes_that_a_survey_has_read(earlier: tuple[str, ...]) -> None:
    """Before, it was rolled out with one pod of three, and a failure on the next node had nothing to go back to.

    `earlier`: nodes that an earlier survey of the same run has found.
    """
    pods = [
        Member(f"log-{number}", revision, START, f"n{number}", ready_since=START, status="Running")
        for number, revision in ((1, "b"), (2, "a"), (3, "a"))
    ]
    state = RolloutState(asked="b", target="b", good="a", replicas=3)
    nodes = {name: Standing(True, True) for name in ("n1", *earlier)}
    found = decide_daemons(DaemonRolloutSpec("b"), nodes, pods, state, START, count(4), ("n2", "n3"))
    assert (found.became_good, found.complete, found.withdraw, found.create) == ("", "", (), ())
    assert found.says == "b is being rolled out: 1 of 3 nodes have it, 3 are available; no answer from n2, n3"
    assert found.counts == Counts(desired=3, replicas=3, updated=1, ready=3, available=3)


def test_a_pod_that_is_down_on_an_unread_node_counts_for_the_bounds_of_a_rollout() -> None:
    ready = [Member(f"log-{each}", "a", START, f"n{each}", ready_since=START, status="Running") for each in (1, 2)]
    down = Member("log-3", "a", START, "n3", status="Running")
    state, nodes = RolloutState(asked="b", target="b", good="a", replicas=3), dict.fromkeys(("n1", "n2"), RUNNING)
    for pods, going in (([*ready, down], 0), (ready, 1)):
        unread = {one.node for one in pods} - nodes.keys()
        found = decide_daemons(DaemonRolloutSpec("b"), nodes, pods, state, START, count(4), unread)
        assert len(found.withdraw) == going


def test_a_rollout_does_not_wait_for_a_node_that_takes_no_pods() -> None:
    fleet = Nodes(DaemonRolloutSpec("a"))
    fleet.settle()
    fleet.nodes["n2"] = Standing(False, True)
    fleet.spec = DaemonRolloutSpec("b")
    fleet.settle()
    assert fleet.state.good == "b"
    assert {one.node: one.revision for one in fleet.members.values()} == {"n1": "b", "n2": "a", "n3": "b"}
    fleet.nodes["n2"] = Standing(True, True)
    fleet.settle()
    assert {one.revision for one in fleet.members.values()} == {"b"} and len(fleet.members) == 3


@pytest.mark.parametrize("spec", [DaemonRolloutSpec("a"), DaemonRolloutSpec("a", max_unavailable=0, max_surge=1)])
def test_a_bad_template_stops_at_its_first_pod_and_goes_back(spec: DaemonRolloutSpec) -> None:
    fleet = Nodes(spec)
    fleet.settle()
    fleet.spec = replace(spec, revision=BAD)
    fleet.settle()
    assert sum(one.revision == BAD for each in fleet.said for one in each.create) == 1
    assert {one.revision for one in fleet.members.values()} == {"a"} and len(fleet.members) == 3
    assert "fails with CrashLoopBackOff; rolling back to a" in fleet.state.rolled_back


def test_with_a_surge_a_node_is_never_without_a_pod() -> None:
    fleet = Nodes(DaemonRolloutSpec("a", max_unavailable=0, max_surge="50%"))
    fleet.settle()
    fleet.spec, before = replace(fleet.spec, revision="b"), len(fleet.said)
    first = fleet.step()
    assert len(first.create) == 2 and not first.withdraw
    fleet.settle()
    assert all(each.counts.available >= 3 for each in fleet.said[before:])
    assert {one.revision for one in fleet.members.values()} == {"b"}


@settings(max_examples=60)
@given(
    spec=st.sampled_from(
        (
            DaemonRolloutSpec("a"),
            DaemonRolloutSpec("a", 2),
            DaemonRolloutSpec("a", 0, 1),
            DaemonRolloutSpec("a", 0, "100%"),
        )
    ),
    events=st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from(("lose", "back", "leave", "taint", "cordon", "miss", "find")),
                st.sampled_from(("n1", "n2", "n3", "n4")),
            ),
            st.tuples(st.just("roll"), st.sampled_from(("a", "b", BAD))),
            st.tuples(st.just("pass"), st.sampled_from(("2", "10"))),
        ),
        max_size=8,
    ),
)
def test_whatever_happens_each_node_ends_with_one_pod(spec: DaemonRolloutSpec, events: list[tuple[str, str]]) -> None:
    fleet = Nodes(spec)
    fleet.settle()
    for event, value in events:
        match event:
            case "lose" if value in fleet.nodes:
                fleet.nodes[value] = replace(fleet.nodes[value], should_run=False, is_present=False)
            case "back":
                fleet.nodes[value] = Standing(True, True)
            case "leave":
                fleet.nodes.pop(value, None)
            case "miss":
                fleet.unseen.add(value)
            case "find":
                fleet.unseen.discard(value)
            case "cordon" if value in fleet.nodes:
                fleet.nodes[value] = Standing(False, True)
            case "taint" if value in fleet.nodes:
                fleet.nodes[value] = Standing(False, False, why="it is tainted")
            case "roll":
                fleet.spec = replace(spec, revision=value)
        for _ in range(int(value) if event == "pass" else 2):
            fleet.step()
    fleet.unseen.clear()
    for name in fleet.nodes:
        fleet.nodes[name] = Standing(True, True)
    fleet.settle()
    assert sorted(one.node for one in fleet.members.values()) == sorted(fleet.nodes)
    if fleet.nodes:
        assert {one.revision for one in fleet.members.values()} == {fleet.state.good}
        assert bool(fleet.state.rolled_back) or fleet.state.good == fleet.spec.revision
