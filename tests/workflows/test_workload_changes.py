"""A workload's handling of its nodes' reports, on values, without server and clock."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.rollout import RolloutState
from syncpod.fleet.workload_documents import RESTARTED_AT
from syncpod.messages.fleet import OWNER_ANNOTATION, Intent, PlacedPod, PodReport, PodsChanged, Presence
from syncpod.messages.node import PodKey
from syncpod.messages.workload import HostedPods, Pause, RolloutRestart, Surveyed, Undo
from syncpod.pod import pod_to_wire
from workflows.fleet import (
    node_changes,
    workload_news,
    workload_placement,
    workload_report,
    workload_rollout,
    workload_updates,
)
from workflows.fleet.claimed_pods import ClaimedPods
from workflows.fleet.node_state import FleetNodeState
from workflows.fleet.workload_state import WorkloadState
from workflows.rejections import Rejected

NOW = datetime(2026, 7, 1, tzinfo=UTC)
OWNER = "workload/{kind}/default/web"
PRESENCES: tuple[Presence, ...] = ("Joining", "Ready", "NotReady", "Unknown")


def document(kind: str = "Deployment", replicas: int = 2, image: str = "registry.local/web:1") -> dict[str, Any]:
    """Return a workload named web."""
    containers = {"containers": [{"name": "main", "image": image}]}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": containers}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": containers}
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    if kind == "Deployment":
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}


def applied(kind: str = "Deployment", replicas: int = 2) -> WorkloadState:
    """Return the state of a workload that has been applied to a fleet without nodes."""
    state = WorkloadState()
    workload_updates.apply(state, OWNER.format(kind=kind), document(kind, replicas), NOW)
    return state


def report(
    state: WorkloadState, node: str, *names: str, presence: Presence = "Ready", status: str = "Running"
) -> PodsChanged:
    """Return a node's report of pods of the newest template; those that run are ready."""
    pods = tuple(
        PlacedPod(
            namespace="default",
            name=name,
            state="taken",
            revision=state.asked_for(),
            report=PodReport(namespace="default", name=name, status=status, phase="Running", ready=status == "Running"),
        )
        for name in names
    )
    return PodsChanged(node=node, presence=presence, pods=pods)


def known(state: WorkloadState, *news: PodsChanged) -> None:
    """Let a survey return these reports."""
    revisions = [{pod.name: pod.revision for pod in each.pods} for each in news]
    own = [HostedPods(news=each, revisions=names) for each, names in zip(news, revisions, strict=True)]
    workload_news.surveyed(state, Surveyed(own=tuple(own)), NOW)


def decide(state: WorkloadState) -> None:
    """Decide, and place each new pod on n1, until nothing is left to decide."""
    for _ in range(8):
        decided = workload_rollout.decision(state, None, NOW)
        workload_rollout.carry_out(state, decided, NOW)
        for name in workload_placement.unplaced(state):
            state.pods[name].node = "n1"


def staying(state: WorkloadState) -> list[tuple[str, str]]:
    """Return the name and the node of each pod that is not leaving."""
    return sorted((state.pod_name(name), pod.node) for name, pod in state.pods.items() if not pod.leaving)


def test_of_two_pods_of_one_name_one_is_withdrawn() -> None:
    """The fleet's database was lost, and a new pod got the name of one on a node that was away."""
    state = applied()
    known(state, report(state, "n1", "web-7"))
    decide(state)
    assert staying(state) == [("web-7", "n1"), ("web-8", "n1")]
    workload_news.pods_reported(state, report(state, "n1", "web-7", "web-8"), NOW)
    workload_news.pods_reported(state, report(state, "n2", "web-8"), NOW + timedelta(seconds=60))
    decide(state)
    assert staying(state) == [("web-7", "n1"), ("web-8", "n2")], "n1 has two of them, so its copy goes"
    assert {node: [key.name for key in keys] for node, keys in workload_placement.to_withdraw(state, ()).items()} == {
        "n1": ["web-8"]
    }
    events = {each.reason: each.message for each in state.events}
    assert events["Recalled"] == "web-8 is already on n2"
    assert events["Withdrawn"] == "web-8 on n1 is removed: n2 has a pod of the same name"


def test_what_is_left_of_a_workload_that_is_being_deleted_is_counted() -> None:
    state = applied(replicas=3)
    known(state, report(state, "n1", "web-1", "web-2"), report(state, "n2", "web-3"))
    decided = workload_rollout.decision(state, None, NOW)
    workload_updates.delete(state, NOW)
    workload_rollout.withdraw_all(state)
    gone = PodsChanged(node="n1", presence="Ready", gone=(PodKey(namespace="default", name="web-1"),))
    workload_news.pods_reported(state, gone, NOW)
    workload_news.pods_reported(state, report(state, "n2", "web-3", presence="Unknown"), NOW)
    said = workload_report.summary(state, decided)
    assert (said.replicas, said.ready, said.available) == (2, 1, 1), "web-2, and web-3 of which nothing is known"


def test_of_two_pods_of_one_name_the_one_in_trouble_is_withdrawn() -> None:
    state = applied(replicas=1)
    known(state, report(state, "n1", "web-8"))
    decide(state)
    workload_news.pods_reported(state, report(state, "n2", "web-8", status="CrashLoopBackOff"), NOW)
    decide(state)
    assert staying(state) == [("web-8", "n1")]
    assert list(workload_placement.to_withdraw(state, ())) == ["n2"]
    gone = report(state, "n2").model_copy(update={"gone": (workload_placement.to_withdraw(state, ())["n2"][0],)})
    workload_news.pods_reported(state, gone, NOW)
    assert [pod.node for pod in state.pods.values()] == ["n1"]


@pytest.mark.parametrize("name", ["web-2", "web-77"])
@pytest.mark.parametrize("honest", ["Running", "CrashLoopBackOff"])
def test_a_pod_that_a_stolen_node_claims_never_takes_the_place_of_one_that_is_ready(name: str, honest: str) -> None:
    """Both honest pods are on one node, so one of them would go, since the claimed one is alone on its node."""
    state = applied()
    known(state, report(state, "n1", "web-1", "web-2"))
    decide(state)
    workload_news.pods_reported(state, report(state, "n1", "web-2", status=honest), NOW)
    said = report(state, "thief", name)
    claimed = said.model_copy(update={"pods": tuple(pod.model_copy(update={"recalled": True}) for pod in said.pods)})
    workload_news.pods_reported(state, claimed, NOW + timedelta(days=1))
    decide(state)
    second = ("web-2", "n1") if honest == "Running" else (name, "thief")
    assert staying(state) == [("web-1", "n1"), second], "a pod that is not ready counts for less than any that is"


def test_two_pods_of_one_name_stay_while_the_node_of_one_is_away() -> None:
    state = applied(replicas=2)
    known(state, report(state, "n1", "web-8"), report(state, "n2", "web-8", presence="Joining"))
    decide(state)
    assert staying(state) == [("web-8", "n1"), ("web-8", "n2")]
    workload_news.pods_reported(state, report(state, "n2", "web-8"), NOW)
    assert len(staying(state)) == 1


def test_the_only_healthy_copy_stays_when_its_node_is_invited_again() -> None:
    """Its replacement is in a crash loop. The returning node first reports its pods, and only later their states."""
    state = applied(replicas=1)
    known(state, report(state, "n1", "web-1"))
    decide(state)
    gone = PodsChanged(node="n1", presence="Unknown", gone=(PodKey(namespace="default", name="web-1"),))
    workload_news.pods_reported(state, gone, NOW)
    workload_rollout.carry_out(state, workload_rollout.decision(state, None, NOW), NOW)
    state.pods["web-2"].node = "n2"
    workload_news.pods_reported(state, report(state, "n2", "web-2", status="CrashLoopBackOff"), NOW)
    for presence in ("Joining", "Unknown", "Ready"):
        workload_news.pods_reported(state, report(state, "n1", "web-1", presence=presence), NOW)
        decide(state)
    assert staying(state) == [("web-1", "n1")]


def test_only_a_claimed_pod_that_is_as_its_owner_would_make_it_is_proven() -> None:
    state, owner = applied(), OWNER.format(kind="Deployment")
    node = FleetNodeState(fleet="f", name="n1", presence="Ready")
    known(state, report(state, "n1", "web-1", "web-2"))
    honest, forged = (pod_to_wire(workload_placement.pod_to_run(state, name)) for name in ("web-1", "web-2"))
    for document in (honest, forged):
        document["metadata"]["annotations"] = {OWNER_ANNOTATION: owner}
    told = copy.deepcopy(forged)
    told["spec"]["containers"][0]["image"] = "registry.local/thief:1"
    claims = ClaimedPods()
    claims.add([honest, told])
    node_changes.recalled(node, Intent(generation=7), claims, NOW, replaces=False)
    workload_news.pods_reported(state, node.news(owner, ("default/web-1", "default/web-2")), NOW)
    assert workload_placement.to_prove(state) == {"n1": ["web-1", "web-2"]}
    generation = node.generation
    for _ in range(2):
        asked = {"owner": owner, "pods": [honest, forged], "adopted": True}
        node_changes.change(node, "place", (asked,), NOW)
        assert {key: placed.recalled for key, placed in node.placed.items()} == {
            "default/web-1": False,
            "default/web-2": True,
        }
        assert node.placed["default/web-2"].document == told
        assert node.generation == generation + 1, "its list is sent anew, once"
    workload_placement.proof_sent(state, ["web-1", "web-2"])
    for _ in range(2):
        workload_news.pods_reported(state, node.news(owner, ("default/web-1", "default/web-2")), NOW)
        assert (state.pods["web-1"].recalled, state.pods["web-2"].recalled) == (False, True)
        assert not workload_placement.to_prove(state), "it would not help to ask again"
    claims.add([honest])
    node_changes.recalled(node, Intent(generation=9), claims, NOW, replaces=True)
    workload_news.pods_reported(state, node.news(owner, ("default/web-1",)), NOW)
    assert workload_placement.to_prove(state) == {"n1": ["web-1"]}, "the fleet's database was restored since"


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_a_template_that_is_wanted_again_after_a_rollback_is_rolled_out_at_once(kind: str) -> None:
    state, owner = applied(kind, replicas=1), OWNER.format(kind=kind)
    nodes = (NodeOffer(name="n1"),)
    state.is_known = True

    def run() -> None:
        for _ in range(8):
            workload_rollout.carry_out(state, workload_rollout.decision(state, nodes, NOW), NOW)
            for name in [name for name, pod in state.pods.items() if pod.leaving]:
                del state.pods[name]
            for name, pod in state.pods.items():
                pod.node = "n1"
                is_bad = pod.revision == bad
                told = report(state, "n1", name, status="CrashLoopBackOff" if is_bad else "Running")
                workload_news.pods_reported(state, told, NOW)

    bad, good = "", state.asked_for()
    run()
    assert [each.good_since for each in state.history] == [NOW]
    workload_updates.apply(state, owner, document(kind, 1, "registry.local/bad:1"), NOW)
    bad = state.asked_for()
    run()
    assert state.rollout.target == good and "CrashLoopBackOff" in (given_up := state.history[-1]).given_up
    assert (given_up.failed_on, given_up.given_up.partition(" ")[0]) == ("n1", given_up.failed_pod)
    workload_updates.undo(state, owner, Undo(), NOW)
    assert f"{kind}Rollback" in {each.reason for each in state.events}
    run()
    workload_updates.apply(state, owner, document(kind, 1, "registry.local/web:3"), NOW)
    assert [(each.number, each.template, each.good_since) for each in state.history[:2]] == [
        (2, bad, None),
        (3, good, NOW),
    ]


def test_a_workload_that_is_applied_again_is_no_longer_taken_for_gone() -> None:
    state, owner = applied(replicas=1), OWNER.format(kind="Deployment")
    known(state, report(state, "n1", "web-1"))
    node = FleetNodeState(fleet="f", name="n1", presence="Ready")
    document = pod_to_wire(workload_placement.pod_to_run(state, "web-1"))
    node_changes.change(node, "place", ({"owner": owner, "pods": [document]},), NOW)
    node.note_owner("workload/Deployment/default/other", is_there=False)
    node.note_owner(owner, is_there=False)
    assert node.absent == (owner,), "the other has no pod here"
    workload_news.pods_reported(state, node.news(owner, ("default/web-1",)), NOW)
    assert workload_placement.to_prove(state) == {"n1": ["web-1"]}
    node.untold = {}
    node_changes.change(node, "place", ({"owner": owner, "pods": [document], "adopted": True},), NOW)
    workload_news.pods_reported(state, node.news(owner, node.untold[owner]), NOW)
    assert not node.absent and not workload_placement.to_prove(state)


def test_a_survey_is_outdated_by_news_from_a_node_that_it_missed() -> None:
    state = applied("DaemonSet")
    nodes = (NodeOffer("n1"), NodeOffer("n2", presence="Unknown"))
    outdated = {
        (node, presence): workload_news.is_outdated(nodes, report(state, node, presence=presence))
        for node in ("n1", "n2", "n3")
        for presence in PRESENCES
    }
    assert {told for told, is_outdated in outdated.items() if not is_outdated} == {
        ("n1", "Ready"),
        ("n2", "Unknown"),
        ("n3", "Joining"),  # no survey finds it yet
    }


def test_a_node_that_says_nothing_stops_no_other_and_no_copy_of_its_pods_is_made() -> None:
    state = applied(replicas=2)
    silent = report(state, "n2", "web-2").model_copy(update={"presence": "Unknown"})
    revisions = {"web-1": state.asked_for(), "web-2": state.asked_for()}

    def survey(*news: PodsChanged, missed: tuple[str, ...] = ()) -> None:
        own = tuple(HostedPods(news=each, revisions=revisions) for each in news)
        workload_news.surveyed(state, Surveyed(own=own, missed=missed), NOW)
        decide(state)

    survey(report(state, "n1", "web-1"), silent, missed=("n2", "n3"))
    assert staying(state) == [("web-1", "n1"), ("web-2", "n2")]
    assert set(state.missed) == {"n2", "n3"}
    assert {name: pod.presence for name, pod in state.pods.items()} == {"web-1": "Ready", "web-2": "Unknown"}
    survey(report(state, "n2", "web-2"), report(state, "n4", "web-9"), missed=("n3", "n5"))
    assert state.pods["web-2"].presence == "Ready" and set(state.missed) == {"n3"}, "only who was missed is asked again"
    survey(report(state, "n3", "web-7"))
    assert not state.missed and len(staying(state)) == 2
    assert next(each.message for each in state.events if each.reason == "MissedNodes").startswith(
        "without an answer from n2, n3"
    )


@pytest.mark.parametrize("missed", [(), ("n1", "n2")])
def test_what_a_node_reports_during_a_survey_counts_after_it(missed: tuple[str, ...]) -> None:
    """A pod that ends while a slow survey is under way would otherwise count as running for good."""
    state = applied(replicas=2)
    if missed:
        workload_news.surveyed(state, Surveyed(missed=missed), NOW)
    gone = PodsChanged(node="n1", presence="Ready", gone=(PodKey(namespace="default", name="web-1"),))
    heard = [gone, report(state, "n2", "web-2", status="CrashLoopBackOff")]
    for news in heard:
        workload_news.pods_reported(state, news, NOW)
    revisions = {name: state.asked_for() for name in ("web-1", "web-2")}
    own = tuple(
        HostedPods(news=news, revisions=revisions)
        for news in (report(state, "n1", "web-1"), report(state, "n2", "web-2"))
    )
    workload_news.surveyed(state, Surveyed(own=own), NOW, heard)
    (pod,) = state.pods.items()
    assert (pod[0], pod[1].report and pod[1].report.status) == ("web-2", "CrashLoopBackOff")


def test_a_restart_is_a_revision_and_repeated_it_changes_nothing() -> None:
    state, owner = applied(), OWNER.format(kind="Deployment")
    before = state.asked_for()
    for _ in range(2):
        workload_updates.restart(state, owner, RolloutRestart(at="2026-07-01T12:00:00Z"), NOW)
        assert [each.template for each in state.history] == [before, state.asked_for()]
    assert (state.document or {})["spec"]["template"]["metadata"]["annotations"] == {
        RESTARTED_AT: "2026-07-01T12:00:00Z"
    }
    workload_updates.undo(state, owner, Undo(), NOW)
    assert state.asked_for() == before
    with pytest.raises(Rejected, match="at: must be an RFC 3339 time such as 2026-01-31T12:00:00Z, is 'soon'"):
        workload_updates.restart(state, owner, RolloutRestart(at="soon"), NOW)
    with pytest.raises(Rejected, match="it has no template"):
        workload_updates.restart(applied("Pod"), OWNER.format(kind="Pod"), RolloutRestart(at=NOW.isoformat()), NOW)


def test_a_paused_deployment_rolls_out_what_is_applied_meanwhile_once_it_is_resumed() -> None:
    state, owner = applied(replicas=1), OWNER.format(kind="Deployment")
    known(state, report(state, "n1", "web-1"))
    decide(state)
    first = state.rollout.target
    workload_updates.pause(state, Pause(), NOW)
    workload_updates.apply(state, owner, document(image="registry.local/web:2"), NOW)
    decide(state)
    assert (state.rollout.target, workload_report.summary(state, None).paused) == (first, True)
    for refused in (
        lambda: workload_updates.restart(state, owner, RolloutRestart(at=NOW.isoformat()), NOW),
        lambda: workload_updates.undo(state, owner, Undo(), NOW),
    ):
        with pytest.raises(Rejected, match="it is paused, so nothing would be rolled out: resume it first"):
            refused()
    for _ in range(2):
        workload_updates.pause(state, Pause(paused=False), NOW)
        decide(state)
        assert state.rollout.target == state.asked_for() != first
    assert [each.reason for each in state.events if each.reason.startswith("Deployment")] == [
        "DeploymentPaused",
        "DeploymentResumed",
    ]


def test_a_deployment_whose_manifest_pauses_it_is_resumed_too() -> None:
    paused = document()
    paused["spec"]["paused"] = True
    state = WorkloadState()
    workload_updates.apply(state, OWNER.format(kind="Deployment"), paused, NOW)
    workload_updates.pause(state, Pause(paused=False), NOW)
    assert not state.is_paused
    with pytest.raises(Rejected, match="only the rollouts of a Deployment"):
        workload_updates.pause(applied("DaemonSet"), Pause(), NOW)


def test_a_deleted_workload_ends_once_each_node_has_said_what_it_has() -> None:
    state = applied(replicas=1)
    workload_news.surveyed(state, Surveyed(missed=("n9",)), NOW)
    workload_updates.delete(state, NOW)
    assert not workload_rollout.is_over(state)
    assert workload_report.view(state, None).missed == ("n9",)
    workload_news.surveyed(state, Surveyed(), NOW)
    assert workload_rollout.is_over(state)
    with pytest.raises(Rejected, match="it is being deleted"):
        workload_updates.pause(state, Pause(), NOW)


def test_a_pod_whose_node_does_not_answer_the_fleet_says_so() -> None:
    """The request is repeated without an end: a second node might run the pod a second time."""
    state = applied(replicas=1)
    workload_news.surveyed(state, Surveyed(), NOW)
    workload_rollout.carry_out(state, workload_rollout.decision(state, None, NOW), NOW)
    (name,) = state.pods
    state.pods[name].node = "n1"
    (pod,) = workload_report.view(state, None, {name}).pods
    assert pod.why == "node n1 has not answered yet"
    assert workload_report.view(state, None).pods[0].why == ""


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_what_is_being_deleted_is_neither_restarted_nor_undone_whatever_became_of_its_template(kind: str) -> None:
    state = applied(kind)
    state.rollout = RolloutState(asked=state.asked_for(), rolled_back="web-1 of it fails")
    workload_updates.delete(state, NOW)
    owner = OWNER.format(kind=kind)
    with pytest.raises(Rejected, match="it is being deleted"):
        workload_updates.restart(state, owner, RolloutRestart(at="2026-07-02T00:00:00Z"), NOW)
    with pytest.raises(Rejected, match="it is being deleted"):
        workload_updates.undo(state, owner, Undo(), NOW)


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_a_template_that_was_rolled_back_is_not_restarted(kind: str) -> None:
    state, owner = applied(kind), OWNER.format(kind=kind)
    state.rollout = RolloutState(asked=state.asked_for(), rolled_back="web-1 of it fails")
    with pytest.raises(Rejected, match="its newest template was rolled back"):
        workload_updates.restart(state, owner, RolloutRestart(at=NOW.isoformat()), NOW)
    workload_updates.apply(state, owner, document(kind, image="registry.local/web:2"), NOW)
    workload_updates.restart(state, owner, RolloutRestart(at=NOW.isoformat()), NOW)


@pytest.mark.parametrize("at", ["soon", "2026-W27", "2026-07-01", "20260701T000000Z", "2026-07-01T00:00:00"])
def test_a_restart_has_a_time_in_rfc_3339(at: str) -> None:
    state = applied()
    with pytest.raises(Rejected, match="at: must be an RFC 3339 time such as 2026-01-31T12:00:00Z, is '"):
        workload_updates.restart(state, OWNER.format(kind="Deployment"), RolloutRestart(at=at), NOW)


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_numbers_count_once_something_is_decided_and_a_rollout_without_progress_is_said(kind: str) -> None:
    state = applied(kind, replicas=1)
    shown = workload_report.summary(state, workload_rollout.decision(state, None, NOW))
    assert not shown.observed
    state.is_known = True
    nodes = (NodeOffer(name="n1"),)
    decided = workload_rollout.decision(state, nodes, NOW)
    workload_rollout.carry_out(state, decided, NOW)
    shown = workload_report.summary(state, decided)
    assert (shown.observed, shown.desired, shown.stalled) == (True, 1, "")
    if kind == "Deployment":
        workload_rollout.carry_out(state, workload_rollout.decision(state, nodes, NOW), NOW)
        late = workload_rollout.decision(state, nodes, NOW + timedelta(seconds=601))
        assert "made no progress in 10m" in workload_report.summary(state, late).stalled
