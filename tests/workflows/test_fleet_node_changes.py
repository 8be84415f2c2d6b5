"""A node's answers change its fleet's state consistently, however wrong they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from syncpod.agent.fleet.member import why_stale
from syncpod.messages.fleet import OWNER_ANNOTATION, Attended, FleetNodeReport, Intent, IntentTaken, PodReport
from syncpod.messages.node import PodKey
from workflows.fleet import node_changes
from workflows.fleet.claimed_pods import ClaimedPods
from workflows.fleet.node_changes import FORGIVEN_AFTER, SENT
from workflows.fleet.node_report import view
from workflows.fleet.node_state import FleetNodeState, Placed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [f"p{number:02}" for number in range(20)]
OWNERS = [f"owner-{name}" for name in NAMES]


def document(name: str, owner: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {OWNER_ANNOTATION: owner}},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
    }


def node() -> FleetNodeState:
    """A node with twenty pods of different owners, which have all been notified."""
    state = FleetNodeState(fleet="f", name="n", joined=NOW, presence="Ready", report=FleetNodeReport(ready=True))
    for name, owner in zip(NAMES, OWNERS, strict=True):
        state.placed[f"default/{name}"] = Placed(document=document(name, owner), generation=1)
        state.pods[f"default/{name}"] = PodReport(name=name)
    return state


def test_a_pod_that_a_person_places_belongs_to_no_workload_whatever_its_document_says() -> None:
    """A person applies the output of `get -o yaml` for a workload's pod."""
    state = node()
    node_changes.change(state, "place", ({"pods": [document("copy", OWNERS[0])]},), NOW)
    node_changes.change(state, "place", ({"pods": [document("own", OWNERS[0])], "owner": OWNERS[1]},), NOW)
    assert [state.owner_of(key) for key in ("default/copy", "default/own")] == ["", OWNERS[1]]
    assert "annotations" not in state.placed["default/copy"].document["metadata"]


def test_a_pod_is_as_old_as_its_first_placement_whatever_is_changed_of_it_since() -> None:
    state, changed = node(), document("own", OWNERS[0])
    changed["spec"]["terminationGracePeriodSeconds"] = 5
    for at, wanted in ((NOW, document("own", OWNERS[0])), (NOW + timedelta(hours=1), changed)):
        node_changes.change(state, "place", ({"pods": [wanted], "owner": OWNERS[0]},), at)
        assert state.pod("default/own").since == NOW
        assert state.pod("default/own").is_untaken
    assert state.pod("default/own").brief().since is None, "its owner knows better"


def test_a_pod_has_been_ending_since_it_was_withdrawn() -> None:
    state, later = node(), NOW + timedelta(minutes=5)
    node_changes.change(state, "withdraw", ({"pods": [{"name": NAMES[0]}]},), later)
    node_changes.change(state, "withdraw", ({"pods": [{"name": NAMES[0]}]},), later + timedelta(hours=1))
    ending, other = (state.pod(f"default/{name}") for name in NAMES[:2])
    assert (ending.state, ending.ending, other.ending) == ("ending", later, None)
    assert ending.brief().ending is None


def test_owners_are_told_of_a_cordon_by_the_fleet_and_by_the_node_itself() -> None:
    """A DaemonSet must not end a pod on a node that would not take another one."""
    state, by_itself = node(), FleetNodeReport(ready=True, unschedulable=True)
    for said in ("cordon", "uncordon", by_itself, FleetNodeReport(ready=True)):
        was_cordoned, state.untold = state.is_cordoned, {}
        if isinstance(said, str):
            node_changes.change(state, said, (), NOW)
        else:
            node_changes.attended(state, Attended(node=said), NOW)
        assert sorted(state.untold) == OWNERS
        assert state.news(OWNERS[0], state.untold[OWNERS[0]]).unschedulable is state.is_cordoned is not was_cordoned


def test_an_owner_learns_that_its_pod_is_gone_although_another_owner_has_placed_one_of_that_name_since() -> None:
    """Otherwise it waits for the end of its pod forever."""
    state, key = node(), PodKey(namespace="default", name=NAMES[0])
    node_changes.change(state, "withdraw", ({"pods": [{"name": NAMES[0]}]},), NOW)
    node_changes.attended(state, Attended(generation=state.generation, gone=(key,)), NOW)
    place = {"pods": [document(NAMES[0], OWNERS[1])], "owner": OWNERS[1]}
    node_changes.change(state, "place", (place,), NOW)
    first, second = (state.news(owner, state.untold[owner]) for owner in OWNERS[:2])
    assert (first.pods, first.gone) == ((), (key,))
    assert [(pod.name, pod.state) for pod in second.pods] == [(NAMES[0], "placed")]


def test_owners_are_told_of_pods_that_are_gone_in_an_order_that_no_process_changes() -> None:
    """A set's order differs from process to process, and a replay in another one must signal in the same order."""
    listed, unlisted = node(), node()
    gone = tuple(PodKey(namespace="default", name=name) for name in reversed(NAMES))
    node_changes.attended(listed, Attended(node=listed.report, gone=gone), NOW)
    node_changes.attended(unlisted, Attended(node=unlisted.report, present=()), NOW)
    assert list(listed.untold) == list(unlisted.untold) == OWNERS


def test_owners_are_told_of_refused_pods_in_an_order_that_no_process_changes() -> None:
    state = node()
    refused = {f"default/{name}": "no" for name in NAMES}
    node_changes.taken(state, IntentTaken(generation=1, refused=refused), NOW)
    assert list(state.untold) == OWNERS
    assert [event.message for event in state.events] == [f"{key}: no" for key in refused]
    state.untold = {}
    node_changes.taken(state, IntentTaken(generation=1), NOW)
    assert list(state.untold) == OWNERS


def test_a_node_with_another_key_is_sent_its_list_again_if_objects_were_sealed_for_the_earlier_one() -> None:
    state, generations = node(), []
    state.referred = ("Secret/default/s",)
    for key in ("", "a", "a", "b", "b", ""):
        node_changes.attended(state, Attended(node=FleetNodeReport(ready=True, key=key)), NOW)
        generations.append(state.generation)
    assert generations == [0, 0, 0, 1, 1, 1]
    state.referred, state.report = (), FleetNodeReport(key="a")
    node_changes.attended(state, Attended(node=FleetNodeReport(ready=True, key="c")), NOW)
    assert state.generation == 1


def test_a_report_from_before_a_list_was_taken_is_not_that_of_a_restored_node() -> None:
    state = node()
    state.generation, state.taken, state.stamp = 5, 5, 50
    late = Attended(generation=3, lacks=4)  # requested after list 4, and made before list 5 was taken
    for report in (late, Attended(node=FleetNodeReport(ready=True)), Attended(generation=5, lacks=5)):
        node_changes.attended(state, report, NOW)
        assert (state.taken, state.events) == (5, ()), report
    assert state.settled_generation == 5
    node_changes.attended(state, Attended(generation=3, lacks=5), NOW)
    assert (state.taken, state.generation, state.settled_generation) == (3, 5, 0)
    assert [(event.reason, event.message.partition(":")[0]) for event in state.events] == [
        ("LostIntent", "the node has list 3, although it had taken list 5")
    ]
    again = node_changes.sending(state, NOW)
    other = Intent(generation=5, stamp=50)
    assert why_stale(other, again) == "", "a second machine of the node, which was not restored, takes it too"
    node_changes.attended(state, Attended(generation=3, lacks=5), NOW)
    assert len(state.events) == 1, "the list is on its way already"


def test_each_list_names_those_that_the_node_may_have_since_the_last_that_it_is_known_to_have() -> None:
    state = node()
    state.generation = 5
    lists = [node_changes.sending(state, now) for now in (NOW, NOW, NOW - timedelta(seconds=1))]
    one, other, third = (each.stamp for each in lists)
    assert one < other < third, "no clock that is set back makes two lists one"
    assert [each.after for each in lists] == [(), (one,), (one, other)]
    node_changes.taken(state, IntentTaken(generation=5), NOW)
    node_changes.recalled(state, Intent(generation=9, stamp=77), ClaimedPods(), NOW, replaces=False)
    latest = node_changes.sending(state, NOW)
    assert (latest.generation, latest.taken, latest.after) == (10, 5, (77,))
    for _ in range(3 * SENT):
        latest = node_changes.sending(state, NOW)
    assert len(latest.after) == 2 * SENT
    assert latest.after[0] == 77 and latest.after[-1] == latest.stamp - 1, "the first and the last ones are known"


def test_a_node_that_lies_every_second_time_is_asked_ever_more_slowly_too() -> None:
    state, now, times = node(), datetime(2026, 7, 1, tzinfo=UTC), []
    for pause in (timedelta(), timedelta(minutes=5), FORGIVEN_AFTER - timedelta(seconds=1), FORGIVEN_AFTER):
        now += pause
        times.append(node_changes.stale(state, now))
        node_changes.taken(state, IntentTaken(generation=state.generation), now)
    assert times == [1, 2, 3, 1], "an honest node, after a fleet's database was restored, has a newer list once"


def test_a_pod_that_its_node_reports_as_gone_is_pending_until_it_is_back() -> None:
    """Another client has ended it on the node, whose list still has it."""
    state, key = node(), PodKey(namespace="default", name=NAMES[0])
    everything = tuple(PodKey(namespace="default", name=name) for name in NAMES)
    node_changes.attended(state, Attended(present=everything, gone=(key,)), NOW)
    assert state.pod(f"default/{NAMES[0]}").report is None
    assert state.pod(f"default/{NAMES[0]}").containers == 1
    waiting = PodReport(name=NAMES[0], status="Pending", message="Refused: it is another pod's")
    node_changes.attended(state, Attended(present=everything, pods=(waiting,)), NOW)
    assert (state.pod(f"default/{NAMES[0]}").is_untaken, state.pod(f"default/{NAMES[0]}").containers) == (True, 1)


def test_a_node_shows_who_has_cordoned_it() -> None:
    state, by_itself = node(), Attended(node=FleetNodeReport(ready=True, unschedulable=True))
    assert view(state).cordons == ()
    node_changes.attended(state, by_itself, NOW)
    assert view(state).cordons == ("node",)
    node_changes.change(state, "cordon", (), NOW)
    assert view(state).cordons == ("fleet", "node")
