"""A node evaluates only changed pods without missing any, and its run continues as new in time.

Holds: A run with a large snapshot still does its work.
"""

from __future__ import annotations

import random  # noqa: TID251  # seeded, and of nobody else's
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio import workflow

from syncpod.messages.node import PodWorkflowResult
from syncpod.messages.signed import Commands
from workflows import entity
from workflows.entity import LONGEST_BYTES, LONGEST_EVENTS, Entity
from workflows.node import absorb, decide, report
from workflows.node.inbox import NodeInbox
from workflows.node.state import NodeState

START = datetime(2026, 1, 1, tzinfo=UTC)


def document(name: str, image: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": image}]}}


def something_comes_in(state: NodeState, chance: random.Random, now: datetime) -> None:
    names, image = [f"p{number}" for number in range(8)], chance.choice(["one", "two"])
    some = chance.sample(names, chance.randint(0, 6))
    comes = ["sync_pods", "sync_pods", "static_pods", "recall_pods", "apply", "delete", "cordon", "uncordon", "status"]
    match chance.choice(comes):
        case "sync_pods":
            signal = {"source": chance.choice(["crew", "http"]), "pods": [document(name, image) for name in some]}
            absorb.absorb(state, "sync_pods", (signal,), now)
        case "static_pods":
            words = ("pending", "applied", "ending")
            pods = [{"name": name, "uid": f"u-{image}", "state": chance.choice(words)} for name in some]
            absorb.absorb(state, "static_pods", ({"boot": 1, "pods": pods},), now)
        case "recall_pods":
            made = [{"namespace": "default", "name": name, "uid": f"u-{name}", "source": "crew"} for name in some]
            absorb.absorb(state, "recall_pods", ({"pods": made},), now)
        case "apply":
            absorb.absorb(state, "apply", ({"pod": document(chance.choice(names), image)},), now)
        case "delete":
            absorb.absorb(state, "delete", ({"name": chance.choice(names)},), now)
        case "status":
            absorb.absorb(state, "node_status", ({"boot": 1},), now)
        case cordon:
            absorb.absorb(state, cordon, (), now)


def some_step_ends(state: NodeState, busy: dict[str, decide.Action], chance: random.Random, now: datetime) -> None:
    action = busy.pop(chance.choice(sorted(busy)))
    if chance.random() < 0.2:
        decide.failed(state, action, "Unavailable", "nobody answers", now)
    else:
        refused = chance.choice(["", "", "", "it is another pod"])
        result = PodWorkflowResult(uid=action.uid or "u", refused=refused, absent=chance.random() < 0.2)
        decide.finished(state, action, result, now)


@pytest.mark.parametrize("seed", range(60))
def test_evaluating_changed_pods_gives_the_same_result_as_evaluating_all(seed: int) -> None:
    chance, state, busy = random.Random(seed), NodeState(name="n1", since=START), dict[str, decide.Action]()
    for minute in range(120):
        now = START + timedelta(minutes=minute)
        if busy and chance.random() < 0.5:
            some_step_ends(state, busy, chance, now)
        else:
            something_comes_in(state, chance, now)
        decide.tidy(state, now)
        whole = NodeState.model_validate(state.model_dump())
        assert decide.plan(state, now, busy, room=2) == decide.plan(whole, now, busy, room=2)
        assert report.details(state, now) == report.details(whole, now)
        for action in decide.plan(state, now, busy, room=2).actions:
            decide.record_step(state, action)
            busy[action.key] = action


def test_a_node_says_once_for_each_start_of_its_worker_that_there_is_no_cluster_dns() -> None:
    """Row 122: the node's pods do not show it."""
    state = NodeState(name="n1", since=START)
    for boot in (1, 1, 2):
        absorb.absorb(state, "node_status", ({"boot": boot},), START)
    said = [(each.type, each.count, each.message) for each in state.events if each.reason == "MissingClusterDNS"]
    assert said == [("Warning", 2, absorb.NO_CLUSTER_DNS)]
    absorb.absorb(state, "node_status", ({"boot": 3, "hasClusterDns": True},), START)
    assert [each.count for each in state.events if each.reason == "MissingClusterDNS"] == [2]


def test_each_outage_of_the_server_is_an_event_once_at_its_own_times() -> None:
    """A status names earlier outages too, and is sent again after each start of the workflow."""
    state = NodeState(name="n1", since=START)
    minutes = [START + timedelta(minutes=number) for number in range(5)]
    first, second = ({"begun": minutes[at].isoformat(), "ended": minutes[at + 1].isoformat()} for at in (0, 2))
    for outages in ([first], [first], [first, second], [first, second], []):
        absorb.absorb(state, "node_status", ({"outages": outages},), minutes[4])
    said = [(each.type, each.reason, each.count, each.first, each.last) for each in report.view(state, START).events]
    assert said == [
        ("Warning", "ServerUnreachable", 2, minutes[0], minutes[2]),
        ("Normal", "ServerReachable", 2, minutes[1], minutes[3]),
    ]
    absorb.absorb(state, "node_status", ({"outages": [{"begun": "2026-11-01T00:00:00"}]},), START)
    assert [each.reason for each in state.events if each.count == 1] == ["Rejected"], "a time has a zone"


def test_an_unchanged_pod_is_not_evaluated() -> None:
    state = NodeState(name="n1", since=START)
    pods = [document(f"p{number}", "one") for number in range(20)]
    absorb.absorb(state, "sync_pods", ({"source": "crew", "pods": pods},), START)
    for action in decide.plan(state, START, (), room=20).actions:
        decide.record_step(state, action)
        decide.finished(state, action, PodWorkflowResult(uid=action.uid), START)
    assert decide.plan(state, START, ()).actions == ()
    absorb.absorb(state, "node_status", ({"boot": 2},), START)
    assert state.open_keys() == []
    absorb.absorb(state, "apply", ({"pod": document("single", "one")},), START)
    assert state.open_keys() == ["default/single"]


@pytest.mark.parametrize(
    ("events", "begun", "added", "limit", "due"),
    [
        (LONGEST_EVENTS - 1, 9, LONGEST_BYTES - 1, 0, False),
        (LONGEST_EVENTS, 0, 0, 0, True),
        (3, 9, LONGEST_BYTES, 0, True),
        (3, 2 * LONGEST_BYTES, 0, 0, False),
        (3, 2 * LONGEST_BYTES, 4 * LONGEST_BYTES - 1, 0, False),
        (3, 2 * LONGEST_BYTES, 4 * LONGEST_BYTES, 0, True),
        (20, 0, 0, 20, True),
        (19, 0, 0, 20, False),
    ],
    ids=[
        "short",
        "many events",
        "many bytes",
        "a large snapshot",
        "a list as large as its snapshot",
        "many bytes beside a large snapshot",
        "its own limit",
        "below its own limit",
    ],
)
def test_a_run_continues_as_new_before_its_replay_takes_long(
    events: int, begun: int, added: int, limit: int, *, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter((begun, begun + added))
    info = SimpleNamespace(
        is_continue_as_new_suggested=lambda: False,
        get_current_history_length=lambda: events,
        get_current_history_size=lambda: next(sizes),
        get_current_build_id=lambda: "",
    )
    monkeypatch.setattr(workflow, "info", lambda: info)
    monkeypatch.setattr(entity, "decisions_of", lambda build_id: 0)
    state = NodeState(name="n1", max_events=limit)
    owner: Any = None
    assert Entity(owner, state, NodeInbox(), Commands({}), part=1).is_due() is due


def test_a_pod_of_a_manifest_that_has_ended_is_told_of_without_a_guess_at_who_ended_it() -> None:
    """Somebody may have, or the node itself, for a pod that was deleted and that a restored database brought back."""
    state = NodeState(since=START)
    absorb.absorb(state, "static_pods", ({"boot": 1, "pods": [], "gone": [{"name": "web"}]},), START)
    (told,) = (each.message for each in state.events if each.reason == "PodGone")
    assert told == "pod default/web has ended although its manifest is there, and is made anew"
    why = "pod default/web ends and begins anew, since its changed manifest cannot be applied to it: spec"
    absorb.absorb(state, "static_pods", ({"boot": 1, "pods": [], "begunAnew": [why]},), START)
    assert [each.message for each in state.events if each.reason == "PodGone"] == [told, why]
