"""Rollouts: their bounds, the rollback from a bad template, scaling, and pods of lost nodes.

Holds: A rollout keeps to `maxSurge` and `maxUnavailable`, and goes back to the last good template.
Holds: Once all lost nodes are back, no pod that was asked for once runs twice.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncpod.fleet.members import Member, leaving_order
from syncpod.fleet.rollout import Counts, RolloutSpec, RolloutState, decide
from syncpod.fleet.sizes import surge_and_unavailable
from syncpod.fleet.when_lost import WAIT, WhenLost
from tests.fleet.simulation import BAD, DUD, START, World

SECOND = timedelta(seconds=1)
REPLACE = WhenLost("replace-after", timedelta(minutes=1))
STOP = WhenLost("stop-after", timedelta(minutes=1))


def rolled_out(spec: RolloutSpec) -> World:
    world = World(spec)
    world.settle()
    assert world.state.good == spec.revision and len(world.counted()) == spec.replicas
    return world


def test_a_first_rollout_makes_all_pods_at_once() -> None:
    world = World(RolloutSpec("a", 3))
    first = world.step()
    assert [creation.revision for creation in first.create] == ["a", "a", "a"]
    assert first.says == "a is being rolled out: 0 of 3 pods have it, 0 are available"
    world.settle()
    assert (world.state.good, world.decisions[-1].says) == ("a", "a is rolled out")


LACKING = (
    ({"status": "NotReady"}, "web-2 on n2 is not ready: NotReady"),
    ({"presence": "Unknown"}, "web-2 on n2 is unknown, since its node is unreachable"),
    ({"presence": "NotReady"}, "web-2 on n2 is not ready, as its node is not"),
    ({"node": "", "status": ""}, "web-2 has no node yet"),
    ({"ready_since": START}, "web-2 on n2 has been ready for less than minReadySeconds"),
)


@pytest.mark.parametrize(("change", "lacks"), LACKING)
def test_of_a_workload_with_all_its_pods_it_is_said_what_is_missing(change: dict[str, Any], lacks: str) -> None:
    fine = Member("web-1", "a", START, node="n1", status="Running", ready_since=START - 60 * SECOND)
    other = replace(fine, name="web-2", node="n2", ready_since=None)
    spec, state = RolloutSpec("a", 2, min_ready=SECOND), RolloutState(asked="a", target="a", good="a", replicas=2)
    said = decide(spec, [fine, replace(other, **change)], state, START, count(3)).says
    assert said == f"a is incomplete: 2 of 2 pods have it, 1 is available; {lacks}"
    said = decide(spec, [fine, replace(other, **change)], replace(state, good=""), START, count(3)).says
    assert said == f"a is being rolled out: 2 of 2 pods have it, 1 is available; {lacks}"


def test_a_new_template_replaces_pods_within_its_bounds() -> None:
    world = rolled_out(RolloutSpec("a", 4, max_surge=1, max_unavailable=1))
    world.spec = replace(world.spec, revision="b")
    decision = world.step()
    assert (len(decision.create), len(decision.withdraw)) == (1, 1)
    assert decision.withdraw[0].why.endswith("is removed: it is of a, and b is being rolled out")
    world.settle()
    assert world.state.good == "b" and {one.revision for one in world.counted()} == {"b"}


def test_a_bad_template_stops_at_its_first_failing_pod_and_goes_back() -> None:
    world = rolled_out(RolloutSpec("a", 4, max_surge=1, max_unavailable=0))
    world.spec = replace(world.spec, revision=BAD)
    world.settle()
    made = [creation for decision in world.decisions for creation in decision.create if creation.revision == BAD]
    assert len(made) == 1
    back, failed = next((each.rolled_back, each.failed) for each in world.decisions if each.rolled_back)
    assert failed == "web-5"
    fails = "web-5 on n1 of bad fails with CrashLoopBackOff"
    assert back == f"{fails}: back-off 10s restarting failed container; rolling back to a"
    assert world.decisions[-1].says == f"a is rolled out; {back}"
    assert {one.revision for one in world.counted()} == {"a"} and len(world.counted()) == 4
    world.spec = replace(world.spec, revision="c")
    world.settle()
    assert world.state.good == "c" and world.state.rolled_back == ""


def test_a_template_without_progress_goes_back_at_its_deadline() -> None:
    world = rolled_out(RolloutSpec("a", 2, deadline=60 * SECOND))
    world.spec = replace(world.spec, revision=DUD)
    world.settle()
    back, failed = next((each.rolled_back, each.failed) for each in world.decisions if each.rolled_back)
    assert failed == "web-3"
    assert (
        back
        == "dud made no progress in 1m0s: 0 of 2 pods available; web-3 on n3 is not ready: Running; rolling back to a"
    )


def test_a_first_template_that_fails_has_no_way_back() -> None:
    world = World(RolloutSpec(BAD, 2, deadline=60 * SECOND))
    world.settle_whatever(20)
    assert (world.state.target, world.state.rolled_back, len(world.counted())) == (BAD, "", 2)
    assert world.decisions[-1].says.startswith(
        "bad made no progress in 1m0s: 0 of 2 pods available; web-1 on n1: back-off"
    )


def test_a_pod_in_trouble_holds_others_up() -> None:
    old = [Member(f"web-{number}", "a", START, "n1", ready_since=START) for number in (1, 2, 3)]
    state = RolloutState(asked="b", target="b", good="a", replicas=3, progressed_at=START)
    now = START + 10 * SECOND
    first_exit = Member("web-4", "b", START, "n2", status="Error")
    assert not decide(RolloutSpec("b", 3, max_surge=2), [*old, first_exit], state, now, count(5)).create
    assert decide(
        RolloutSpec("b", 3, max_surge=2), [*old, replace(first_exit, status="Running")], state, now, count(5)
    ).create


def test_recreate_waits_until_all_others_are_gone() -> None:
    world = rolled_out(RolloutSpec("a", 3, recreate=True))
    world.spec = replace(world.spec, revision="b")
    decision = world.step()
    assert (len(decision.withdraw), len(decision.create)) == (3, 0)
    assert decision.says == "b waits until web-1 on n1 is gone: 0 of 3 pods have it, 0 are available"
    world.settle()
    assert {one.revision for one in world.counted()} == {"b"}


def test_a_lost_pod_is_awaited_under_recreate_and_no_lack_of_progress() -> None:
    world = rolled_out(RolloutSpec("a", 1, recreate=True, deadline=60 * SECOND))
    world.lose(world.members["web-1"].node)
    world.spec = replace(world.spec, revision="b")
    world.settle_whatever(50)
    assert set(world.members) == {"web-1"} and not world.state.rolled_back
    world.bring_back("n1")
    world.settle()
    assert {one.revision for one in world.members.values()} == {"b"}


def test_recreate_goes_on_when_a_pod_that_is_ending_on_a_lost_node_is_given_up() -> None:
    world = rolled_out(RolloutSpec("a", 1, recreate=True, deadline=None, when_lost=REPLACE))
    world.spec = replace(world.spec, revision="b")
    assert world.step().withdraw
    world.lose("n1")
    world.settle()
    assert world.state.good == "b"


def test_a_pause_lets_only_the_number_change() -> None:
    world = rolled_out(RolloutSpec("a", 3))
    world.spec = replace(world.spec, revision="b", replicas=5, paused=True)
    world.settle()
    assert [one.revision for one in world.counted()] == ["a"] * 5
    assert world.decisions[-1].says == "a is rolled out; b is held back, since it is paused"
    assert world.decisions[-1].counts == Counts(desired=5, replicas=5, updated=0, ready=5, available=5)
    world.spec = replace(world.spec, replicas=2)
    world.settle()
    assert [one.revision for one in world.counted()] == ["a"] * 2
    world.spec = replace(world.spec, paused=False)
    world.settle()
    assert [one.revision for one in world.counted()] == ["b"] * 2
    assert not World(RolloutSpec("a", 3, paused=True)).step().create


def test_a_paused_rollout_in_trouble_grows_by_good_pods() -> None:
    world = rolled_out(RolloutSpec("a", 4, max_surge=1))
    world.spec = replace(world.spec, revision=BAD)
    world.step()
    world.spec = replace(world.spec, paused=True)
    world.settle_whatever(10)
    assert [one.status for one in world.counted() if one.revision == BAD] == ["CrashLoopBackOff"]
    world.spec = replace(world.spec, replicas=6)
    world.settle_whatever(10)
    revisions = sorted(one.revision for one in world.counted())
    assert revisions == ["a"] * 5 + [BAD]


def test_a_pod_that_is_lost_after_the_rollout_is_no_lack_of_progress() -> None:
    world = rolled_out(RolloutSpec("a", 2, deadline=60 * SECOND))
    world.step(3600)
    world.lose("n1")
    assert world.step().stalled == world.step(120).stalled == ""
    world.spec = replace(world.spec, replicas=3)
    world.settle_whatever(10)
    lost = "web-1 on n1 is unknown, since its node is unreachable"
    assert world.step(120).stalled == f"a made no progress in 1m0s: 2 of 3 pods available; {lost}"


def test_a_pause_in_a_rollout_does_not_count_against_its_deadline() -> None:
    world = rolled_out(RolloutSpec("a", 2, deadline=60 * SECOND))
    world.spec = replace(world.spec, revision="b")
    assert world.step().create
    world.spec = replace(world.spec, paused=True)
    world.step()
    world.spec = replace(world.spec, paused=False)
    assert not world.step(seconds=3600).rolled_back
    world.settle()
    assert (world.state.good, world.state.rolled_back) == ("b", "")


def test_pods_that_end_are_replaced_more_and_more_slowly() -> None:
    world = rolled_out(RolloutSpec("a", 2))
    member = world.counted()[0]
    world.members[member.name] = replace(member, ended=True, status="Evicted")
    decision = world.step()
    assert [one.why for one in decision.withdraw] == [f"{member.called} is removed: it ended with Evicted"]
    assert not decision.create and decision.look_again == world.now + 10 * SECOND
    world.settle()
    assert len(world.counted()) == 2 and world.state.setbacks == 0


def test_minimal_readiness_delays_what_counts_as_available() -> None:
    world = rolled_out(RolloutSpec("a", 2, min_ready=30 * SECOND))
    ready = [decision.counts.ready for decision in world.decisions].index(2)
    available = [decision.counts.available for decision in world.decisions].index(2)
    assert available - ready == 6
    assert world.decisions[ready].look_again == START + (ready + 1) * 5 * SECOND + 30 * SECOND


def test_who_goes_first() -> None:
    ready = Member("ready", "a", START, "n1", ready_since=START)
    members = [
        Member("unplaced", "a", START),
        Member("lost", "a", START, "n9", presence="Unknown", ready_since=START),
        Member("failing", "a", START, "n2", status="CrashLoopBackOff"),
        Member("starting", "a", START, "n3"),
        replace(ready, name="cheap", node="n4", deletion_cost=-1),
        replace(ready, name="doubled", created=START + SECOND),
        ready,
        replace(ready, name="later", node="n5", ready_since=START + SECOND),
        replace(ready, name="restarted", node="n6", restarts=2),
        replace(ready, name="newer", node="n7", created=START + SECOND),
        replace(ready, name="old", node="n8"),
    ]
    expected = [
        *("unplaced", "lost", "failing", "starting", "cheap", "doubled", "ready"),
        *("later", "restarted", "newer", "old"),
    ]
    assert [member.name for member in leaving_order(members)] == expected
    assert [member.name for member in leaving_order(reversed(members))] == expected


def lost_world(rule: WhenLost) -> tuple[World, str]:
    world = rolled_out(RolloutSpec("a", 3, when_lost=rule))
    world.lose("n2")
    (name,) = (one.name for one in world.counted() if one.node == "n2")
    return world, name


def test_a_lost_pod_is_waited_for() -> None:
    world, _ = lost_world(WAIT)
    world.settle()
    assert not any(decision.create for decision in world.decisions[-3:]) and len(world.members) == 3
    world.bring_back("n2")
    world.settle()
    assert len(world.members) == 3


def test_a_lost_pod_is_replaced_and_goes_when_its_node_is_back() -> None:
    world, name = lost_world(REPLACE)
    world.settle()
    assert world.state.written_off == (name,) and len(world.counted()) == 3
    world.bring_back("n2")
    decision = world.step()
    since = world.members["web-4"].ready_since
    assert since is not None
    assert [one.why for one in decision.withdraw] == [
        f"{name} on n2 is removed: its replacement web-4 on n4 has been ready since {since:%Y-%m-%dT%H:%M:%SZ}"
    ]
    world.settle()
    assert len(world.members) == 3 and not world.state.written_off


def test_a_node_that_is_back_before_the_replacement_is_ready_keeps_its_pod() -> None:
    world, name = lost_world(REPLACE)
    while not any(decision.create for decision in world.decisions[-1:]):
        world.step()
    world.bring_back("n2")
    assert [one.why for one in world.step().withdraw] == [
        f"web-4 on n4 is removed: {name} on n2 is back, and web-4 was not available yet"
    ]
    world.settle()
    assert set(world.members) == {"web-1", "web-2", "web-3"}


def test_a_pod_that_its_node_stops_is_replaced_only_after_its_end() -> None:
    world, _ = lost_world(STOP)
    lost_at = world.now
    while not any(decision.create for decision in world.decisions[-1:]):
        world.step()
    assert world.now >= lost_at + timedelta(minutes=1, seconds=60)


def test_a_replacement_that_is_lost_in_turn_leaves_one_copy() -> None:
    world, _ = lost_world(REPLACE)
    world.settle()
    world.lose(world.members["web-4"].node)
    world.settle()
    for name in list(world.nodes):
        world.bring_back(name)
    world.settle()
    assert len(world.members) == 3 == len(world.counted())


def test_pods_of_a_drained_node_go_once_others_are_available() -> None:
    world = rolled_out(RolloutSpec("a", 4, max_surge=1, max_unavailable=0))
    world.draining = {"n1"}
    first = world.step()
    assert (len(first.create), first.withdraw) == (1, ())
    world.settle()
    assert (len(world.members), {each.node for each in world.members.values()} & {"n1"}) == (4, set())
    said = [each.why for decision in world.decisions for each in decision.withdraw]
    assert said == ["web-1 on n1 is removed: n1 is being drained"]
    assert world.state.good == "a" and not world.state.rolled_back


def test_a_drain_that_gets_nowhere_rolls_nothing_back() -> None:
    world = rolled_out(RolloutSpec("a", 4, max_surge=0, max_unavailable=1, deadline=60 * SECOND))
    world.draining = set(world.nodes)
    world.settle_whatever(40)
    assert sum(bool(each.ready_since) for each in world.members.values()) == 3
    assert not world.state.rolled_back and world.decisions[-1].says.startswith("a made no progress in 1m0s")
    lacking = next(name for name, each in world.members.items() if not each.node)
    full = "0/3 nodes are available: 3 node(s) were unschedulable"
    world.members[lacking] = replace(world.members[lacking], message=f"{full}.")
    assert world.step().says == f"a made no progress in 1m0s: 0 of 4 pods available; {lacking}: {full}"
    world.draining.clear()
    world.settle()
    assert len(world.members) == 4


def test_a_paused_rollout_moves_its_pods_too() -> None:
    world = rolled_out(RolloutSpec("a", 3, max_surge=1, max_unavailable=0))
    world.spec, world.draining = replace(world.spec, paused=True), {"n1", "n2"}
    world.settle()
    assert {each.node for each in world.members.values()} == {"n3", "n4"} and len(world.members) == 3


RULES = st.sampled_from((WAIT, REPLACE, STOP))
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("lose"), st.sampled_from(("n1", "n2", "n3", "n4"))),
        st.tuples(st.just("back"), st.sampled_from(("n1", "n2", "n3", "n4"))),
        st.tuples(st.just("roll"), st.sampled_from(("a", "b", BAD, DUD))),
        st.tuples(st.just("scale"), st.integers(0, 5)),
        st.tuples(st.just("pause"), st.booleans()),
        st.tuples(st.just("drain"), st.sampled_from(("n1", "n2", "n3", "n4"))),
        st.tuples(st.just("uncordon"), st.sampled_from(("n1", "n2", "n3", "n4"))),
        st.tuples(st.just("pass"), st.integers(1, 30)),
    ),
    max_size=10,
)


@settings(max_examples=60)
@given(
    events=EVENTS,
    rule=RULES,
    surge=st.sampled_from((0, 1, "50%")),
    unavailable=st.sampled_from((0, 1, "50%")),
    recreate=st.booleans(),
    replicas=st.integers(1, 5),
)
def test_whatever_happens_bounds_hold_and_one_copy_is_left_of_each(
    events: list[tuple[str, str | int | bool]],
    rule: WhenLost,
    surge: int | str,
    unavailable: int | str,
    recreate: bool,
    replicas: int,
) -> None:
    def spec(revision: str, replicas: int, paused: bool = False) -> RolloutSpec:
        more, fewer = surge_and_unavailable(surge, unavailable, replicas)
        return RolloutSpec(revision, replicas, more, fewer, recreate, paused, deadline=120 * SECOND, when_lost=rule)

    world = World(spec("a", replicas))
    world.settle()
    most = replicas
    for event, value in events:
        now = world.spec
        if event == "lose" and world.nodes[str(value)]:
            world.lose(str(value))
        elif event == "back":
            world.bring_back(str(value))
        elif event == "roll":
            world.spec = spec(str(value), now.replicas, now.paused)
        elif event == "scale":
            world.spec = spec(now.revision, int(value), now.paused)
        elif event == "drain":
            world.draining.add(str(value))
        elif event == "uncordon":
            world.draining.discard(str(value))
        elif event == "pause":
            world.spec = spec(now.revision, now.replicas, bool(value))
        for _ in range(int(value) if event == "pass" else 2):
            world.step()
            most = max(most, world.spec.replicas)
            assert not (recreate and rule is STOP) or len(world.running()) <= most
    for name in world.nodes:
        world.bring_back(name)
    if len(world.draining) == len(world.nodes):
        world.draining.clear()
    world.spec = spec(world.spec.revision, world.spec.replicas)
    world.settle()
    assert len(world.members) == len(world.counted()) == world.spec.replicas
    assert not {each.node for each in world.members.values()} & world.draining
    if world.spec.replicas:
        assert {one.revision for one in world.counted()} == {world.state.target} == {world.state.good}
        assert world.state.good in ("a", "b")
        assert bool(world.state.rolled_back) or world.state.good == world.spec.revision


@pytest.mark.parametrize(
    "spec",
    [
        RolloutSpec("a", 3, max_surge=1),
        RolloutSpec("a", 3, max_surge=0, max_unavailable=1),
        RolloutSpec("a", 3, recreate=True),
    ],
)
def test_decisions_say_nothing_twice(spec: RolloutSpec) -> None:
    world = rolled_out(spec)
    assert world.step().withdraw == () and world.step().create == ()
