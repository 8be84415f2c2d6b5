"""A stolen node claims pods that it never got; its own workflow and the workloads' continue to work."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from syncpod.fleet.pod_names import LARGEST_NUMBER
from syncpod.fleet.rollout import Creation, RolloutState, WorkloadDecision
from syncpod.fleet.workload_pods import number_of
from syncpod.fleet.workloads import admit_workload, kind_of
from syncpod.messages.fleet import OWNER_ANNOTATION, Intent, PlacedPod, PodReport, PodsChanged
from syncpod.messages.node import LIST_LIMIT
from syncpod.pod import admit, pod_to_wire
from tests.fleet.test_workload_documents import changed
from workflows.fleet import (
    node_changes,
    node_report,
    workload_news,
    workload_report,
    workload_rollout,
    workload_updates,
)
from workflows.fleet.claimed_pods import ClaimedPods
from workflows.fleet.node_changes import ENDING_LIMIT, LAST_GENERATION, PLACED_LIMIT
from workflows.fleet.node_state import FleetNodeState, Placed
from workflows.fleet.workload_news import ADOPTED_LIMIT
from workflows.fleet.workload_state import PODS_LIMIT, KnownPod, WorkloadState
from workflows.rejections import Rejected

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = "workload/Deployment/default/web"
LARGE = "x" * 60_000


def document(name: str = "web-1", *, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    right = {"containers": [{"name": "main", "image": "busybox:1"}]}
    meta = {"name": name, "annotations": {OWNER_ANNOTATION: OWNER}} | metadata
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": right if spec is None else spec}


def nested(depth: int) -> Any:
    found: Any = {}
    for _ in range(depth):
        found = {"a": found}
    return found


WRONG = {
    "containers that are a number": document(spec={"containers": 5}),
    "no containers": document(spec={"containers": []}),
    "a container without a name": document(spec={"containers": [{"image": "a"}]}),
    "a sidecar without a name": document(
        spec={"initContainers": [{"restartPolicy": "Always"}], "containers": [{"name": "main", "image": "a"}]}
    ),
    "a number of 5,000 digits": document("web-" + "9" * 5000),
    "a name with a line break": document("web\n1"),
    "a label that is a list": document(labels={"pod-template-hash": [1]}),
    "half a surrogate pair": document(labels={"a": "\ud800"}),
    "a deep document": document(spec=nested(900)),
    "a huge document": document(annotations={"a": "x" * 600_000}),
    "an owner that no server signals": document(annotations={OWNER_ANNOTATION: "x" * 1001}),
    "an owner that is no workload": document(annotations={OWNER_ANNOTATION: "fleet-node/n2"}),
    "an owner of no known kind": document(annotations={OWNER_ANNOTATION: "workload/Job/default/web"}),
    "an owner in another namespace": document(annotations={OWNER_ANNOTATION: "workload/Deployment/kube/web"}),
    "no pod at all": {"metadata": {"name": "web"}, "kind": "Secret"},
    "a sentence": "web-1",
}


def claimed(*documents: Any) -> ClaimedPods:
    claims = ClaimedPods()
    claims.add(documents)
    return claims


@pytest.mark.parametrize("what", WRONG)
def test_a_node_whose_list_is_wrong_is_shown_and_keeps_what_is_right(what: str) -> None:
    state = FleetNodeState(fleet="f", name="n")
    node_changes.recalled(state, Intent(generation=3), claimed(WRONG[what], document("db")), NOW, replaces=True)
    view = node_report.view(state)
    assert [pod.name for pod in view.placed] == ["db"]
    assert (view.generation, node_report.details(state).count("default/db")) == (4, 1)
    (refused,) = (event.message for event in state.events if event.reason == "RefusedClaim")
    assert refused.startswith("1 of the pods that the node claims to have are not taken over: pods[0]: ")


def test_what_a_fleet_has_placed_is_taken_over_unchanged() -> None:
    placed = pod_to_wire(admit(document(labels={"pod-template-hash": "0123456789"})).pod)
    assert claimed(placed).pods == {"default/web-1": placed}


def test_what_an_earlier_version_admitted_is_taken_over() -> None:
    """Otherwise the node would be given a list without it, and would end it."""
    older = document(spec={"containers": [{"name": "main", "image": "a", "ports": [{"containerPort": 0}]}], "old": 1})
    assert list(claimed(older).pods) == ["default/web-1"]


def test_no_more_is_taken_over_than_a_node_may_have() -> None:
    state = FleetNodeState(fleet="f", name="n")
    state.placed["default/own"] = Placed(document=document("own"), generation=1)
    many = claimed(*(document(f"web-{number}") for number in range(1, PLACED_LIMIT + 1)))
    node_changes.recalled(state, Intent(generation=1), many, NOW, replaces=False)
    assert len(state.placed) == PLACED_LIMIT and "default/own" in state.placed
    large = claimed(*(document(f"web-{number}", labels={}, annotations={"a": LARGE}) for number in range(1, 40)))
    node_changes.recalled(state, Intent(generation=1), large, NOW, replaces=True)
    assert len(state.placed) == LIST_LIMIT // (len(LARGE) + 1000)
    assert "there is no room for it" in state.events[-1].message


def test_pods_that_a_node_never_ends_leave_ever_less_room_for_those_that_it_claims() -> None:
    """Each time it claims a newer list, and its pods are withdrawn, which it never confirms."""
    state = FleetNodeState(fleet="f", name="n")
    for turn in range(4):
        many = claimed(*(document(f"web-{1 + turn * PLACED_LIMIT + number}") for number in range(PLACED_LIMIT)))
        node_changes.recalled(state, Intent(generation=1), many, NOW, replaces=True)
        ended = [{"namespace": "default", "name": key.removeprefix("default/")} for key in state.placed]
        node_changes.change(state, "withdraw", ({"pods": ended},), NOW)
    assert (len(state.placed), len(state.withdrawn)) == (0, PLACED_LIMIT + ENDING_LIMIT)
    state.presence = "Ready"
    with pytest.raises(Rejected, match="has yet to end 2000 pods before it takes new ones"):
        node_changes.change(state, "place", ({"owner": "", "pods": [document("own")]},), NOW)


@pytest.mark.parametrize("generation", [10**4299, -(10**4299)])
def test_no_generation_is_too_large_to_be_written(generation: int) -> None:
    state = FleetNodeState(fleet="f", name="n", generation=7)
    told = Intent(generation=generation, stamp=generation)
    node_changes.recalled(state, told, claimed(document()), NOW, replaces=True)
    assert state.generation in (8, LAST_GENERATION + 1)
    assert state.sent in ((0,), (LAST_GENERATION,))
    assert state.model_dump_json()


# --- a workload whose pods are claimed --------------------------------------------------------------------------------


def workload(**state: Any) -> WorkloadState:
    found = WorkloadState(is_known=True, **state)
    workload_updates.apply(found, OWNER, changed(spec__replicas=1), NOW)
    return found


def news(*names: str) -> PodsChanged:
    return PodsChanged(node="n", presence="Ready", pods=tuple(PlacedPod(name=name, owner=OWNER) for name in names))


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 300, str(LARGEST_NUMBER + 1), "0", "007", "", "-1", "１"])
def test_a_claimed_pod_with_an_impossible_number_is_not_adopted(number: str) -> None:
    state = workload(numbered=4)
    workload_news.pods_reported(state, news(f"web-{number}"), NOW)
    assert (state.pods, state.numbered) == ({}, 4)


def test_a_claimed_pod_with_the_largest_number_leaves_valid_names_for_others() -> None:
    state = workload(numbered=4)
    workload_news.pods_reported(state, news(f"web-{LARGEST_NUMBER}", "web-1"), NOW)
    asked = state.workload()
    assert asked is not None
    free = kind_of(asked).free_numbers(state.situation())
    create = (Creation(next(free), "r"), Creation(next(free), "r"))
    workload_rollout.carry_out(state, WorkloadDecision(state=RolloutState(), create=create), NOW)
    assert [*state.pods] == [f"web-{LARGEST_NUMBER}", "web-1", "web-2", "web-3"]
    assert workload_report.view(state, None).pods


def test_a_workload_has_no_more_pods_of_a_node_than_a_node_may_have_and_no_more_than_it_can_keep() -> None:
    state = workload()
    for turn in range(2):
        names = [f"web-{1 + turn * ADOPTED_LIMIT + number}" for number in range(ADOPTED_LIMIT)]
        workload_news.pods_reported(state, news(*names), NOW)
        workload_rollout.withdraw_all(state)
    assert len(state.pods) == ADOPTED_LIMIT == PLACED_LIMIT
    assert (state.events[-1].reason, "n has more" in state.events[-1].message) == ("NotAdopted", True)
    for number in range(PODS_LIMIT - ADOPTED_LIMIT):
        name = f"web-{LARGEST_NUMBER - number}"
        state.pods[name] = KnownPod(number=LARGEST_NUMBER - number, revision="r", created=NOW, node="m")
    workload_news.pods_reported(state, news("web-5000").model_copy(update={"node": "o"}), NOW)
    workload_rollout.carry_out(state, WorkloadDecision(state=RolloutState(), create=(Creation(5001, "r"),)), NOW)
    assert len(state.pods) == PODS_LIMIT


@pytest.mark.parametrize("letter", ["x", "\x01", "\U0001f600"])
def test_an_owner_keeps_little_of_what_a_node_writes_into_its_reports(letter: str) -> None:
    long = letter * 3000
    wordy = PodReport(name="web-1", uid=long, phase=long, status=long, ip=long, message=long, restarts=10**4000)
    node = FleetNodeState(fleet="f", name="n", presence="Ready", pods={"default/web-1": wordy})
    node.placed["default/web-1"] = Placed(document=document(), generation=1)
    told = node.news(OWNER, ("default/web-1",))
    assert len(json.dumps(told.model_dump(mode="json", exclude_defaults=True))) < 1000
    (said,) = told.pods
    state = workload()
    said = said.model_copy(update={"report": wordy})
    workload_news.pods_reported(state, told.model_copy(update={"pods": (said,)}), NOW)
    sizes = [len(json.dumps(state.pods["web-1"].model_dump(mode="json", exclude_defaults=True)))]
    workload_rollout.withdraw_all(state)
    sizes.append(len(json.dumps(state.pods["web-1"].model_dump(mode="json", exclude_defaults=True))))
    assert sizes[0] < 1000 and sizes[1] < 500 and state.pods["web-1"].leaving


def test_the_numbers_of_a_workload_are_those_that_it_gives() -> None:
    deployment = admit_workload(changed()).workload
    assert [number_of(deployment, f"web-{number}") for number in (1, 7, LARGEST_NUMBER)] == [1, 7, LARGEST_NUMBER]
    assert [number_of(deployment, name) for name in ("web", "db-1", "web-1-2", "web-01")] == [None] * 4
