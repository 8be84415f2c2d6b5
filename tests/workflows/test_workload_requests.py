"""When a workload queries its nodes, on values, without a server and with a fixed clock."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow

from syncpod.fleet.offers import NodeOffer
from syncpod.messages.fleet import PodsChanged
from syncpod.messages.workload import Surveyed
from tests.workflows.test_workload_changes import NOW, OWNER, applied, known
from workflows.fleet import workload_report, workload_rollout
from workflows.fleet.open_requests import OpenRequests
from workflows.fleet.workload_requests import WorkloadRequests
from workflows.fleet.workload_state import KnownPod, WorkloadState


def questions(kind: str, monkeypatch: pytest.MonkeyPatch) -> WorkloadRequests:
    """Return the requests of a workload that surveyed its nodes ten seconds ago."""
    state = applied(kind)
    known(state)
    asked = WorkloadRequests(state, OWNER.format(kind=kind), OpenRequests(lambda: None))
    asked.surveyed_at = NOW - timedelta(seconds=10)
    monkeypatch.setattr(workflow, "now", lambda: NOW)
    return asked


def test_a_daemon_set_surveys_at_once_for_a_node_that_takes_pods_now(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions("DaemonSet", monkeypatch)
    assert asked.next_due() == NOW + timedelta(seconds=50)
    asked.room()
    assert asked.next_due() == NOW + timedelta(seconds=1)


def test_nodes_that_come_back_one_by_one_are_surveyed_no_more_than_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = questions("DaemonSet", monkeypatch)
    asked.surveyed_at = NOW - timedelta(seconds=1)
    for _ in range(100):
        asked.room()
    assert asked.next_due() == NOW + timedelta(seconds=4)


def test_a_node_that_joins_while_the_first_survey_is_under_way_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions("DaemonSet", monkeypatch)
    asked.surveyed_at = None
    asked.room()
    asked.surveyed_at = NOW
    assert asked.next_due() == NOW + timedelta(seconds=1)


def test_a_workload_that_surveys_no_nodes_does_not_begin_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions("Deployment", monkeypatch)
    asked.room()
    assert asked.next_due() is None


class Asked(WorkloadRequests):
    """The requests of a workload of nodes n1 and n2, one of which reports while a survey is in progress."""

    news = PodsChanged()

    async def call(self, *_args: Any, **_kwargs: Any) -> Any:
        self.take_report(self.news)
        return Surveyed(nodes=(NodeOffer("n1"), NodeOffer("n2")), unseen=())


def surveying(kind: str, news: PodsChanged, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Return the requests of a workload with pods web-1 and web-2 on no node, which are bound in a DaemonSet."""
    asked = questions(kind, monkeypatch)
    is_bound = kind == "DaemonSet"
    for number in (1, 2):
        pod = KnownPod(number=number, revision=asked.state.asked_for(), created=NOW, bound=f"n{number}" * is_bound)
        asked.state.pods[f"web-{number}"] = pod
    surveying = Asked(asked.state, asked.owner, asked.busy)
    surveying.news = news
    return surveying


REMOVED = PodsChanged(node="n2", presence="Unknown", removed=True)
LOST = PodsChanged(node="n2", presence="Unknown")


async def test_a_node_that_is_removed_during_a_survey_gets_no_pod_of_a_daemon_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = surveying("DaemonSet", REMOVED, monkeypatch)
    await asked.survey()
    assert asked.nodes == (NodeOffer("n1"),) and asked.surveyed_at == NOW, "no other survey is needed"
    decided = workload_rollout.decision(asked.state, asked.nodes, NOW)
    workload_rollout.carry_out(asked.state, decided, NOW)
    assert list(asked.state.pods) == ["web-1"] and not decided.create
    assert asked.state.events[-1].message == "web-2 is removed: node n2 is not in the fleet any more"


async def test_a_node_that_is_lost_during_a_survey_is_surveyed_again_and_gets_no_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = surveying("DaemonSet", LOST, monkeypatch)
    await asked.survey()
    assert asked.nodes == (NodeOffer("n1"), NodeOffer("n2", presence="Unknown")) and asked.next_survey() is None
    assert not any(pod.leaving for pod in asked.state.pods.values()), "it is in the fleet"


@pytest.mark.parametrize("news", [REMOVED, LOST])
async def test_a_node_that_is_removed_or_lost_during_a_survey_gets_no_pod_of_a_deployment(
    news: PodsChanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, chosen = surveying("Deployment", news, monkeypatch), list[str]()

    def begin(name: str, asking: Coroutine[Any, Any, None]) -> None:
        chosen.append(name)
        asking.close()

    monkeypatch.setattr(asked.busy, "begin", begin)
    await asked.place(["web-1", "web-2"], is_retry=True)
    assert chosen == ["place n1"]


async def test_a_pod_that_waits_for_a_node_is_given_up_once_a_survey_finds_no_such_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = surveying("DaemonSet", PodsChanged(), monkeypatch)
    for node in ("n3", "n4", "n5"):
        asked.state.pods[node] = KnownPod(number=int(node[1]), revision="r", created=NOW, bound=node)
    asked.state.pods["n5"].node = "n5"

    async def call(*_args: Any, **_kwargs: Any) -> Surveyed:
        return Surveyed(nodes=(NodeOffer("n1"), NodeOffer("n2")), unseen=("n4",))

    monkeypatch.setattr(asked, "call", call)
    await asked.place([], is_retry=True)
    assert [name for name, pod in asked.state.pods.items() if pod.leaving] == ["n3"]


async def test_a_survey_that_began_earlier_than_another_does_not_replace_its_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, later = surveying("DaemonSet", PodsChanged(), monkeypatch), list[Any]([(NodeOffer("n3"),)])

    async def call(*_args: Any, **_kwargs: Any) -> Surveyed:
        if not later:
            return Surveyed(nodes=(NodeOffer("n1"),), unseen=())
        nodes = later.pop()
        await asked.survey()
        return Surveyed(nodes=nodes, unseen=())

    monkeypatch.setattr(asked, "call", call)
    await asked.survey()
    assert asked.nodes == (NodeOffer("n1"),)


async def test_a_survey_of_an_earlier_version_alone_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run must replay: reports do not change what it found, and no pod that waits for a node is given up."""
    asked, nodes = surveying("DaemonSet", LOST, monkeypatch), (NodeOffer("n2"),)

    async def call(*_args: Any, **_kwargs: Any) -> Surveyed:
        asked.take_report(LOST)
        return Surveyed(nodes=nodes)

    monkeypatch.setattr(asked, "call", call)
    await asked.survey()
    assert asked.surveyed_at == NOW
    asked.take_report(LOST)
    assert asked.nodes == nodes and not any(pod.leaving for pod in asked.state.pods.values())


async def test_a_node_that_a_survey_could_not_read_is_not_forgotten_and_the_next_survey_comes_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, a DaemonSet counted the other nodes alone for a minute, and called its template rolled out."""
    asked, n1, n2 = surveying("DaemonSet", PodsChanged(), monkeypatch), NodeOffer("n1"), NodeOffer("n2")
    found = [Surveyed(nodes=(n1, n2), unseen=(), unread=())]

    async def call(*_args: Any, **_kwargs: Any) -> Surveyed:
        return found[-1]

    monkeypatch.setattr(asked, "call", call)
    await asked.survey()
    assert (asked.unread(), asked.next_survey()) == (frozenset(), NOW + timedelta(seconds=60))
    found.append(Surveyed(nodes=(n1,), unseen=("n2",), unread=("n2",)))
    pauses = []
    for _ in range(6):
        await asked.survey()
        assert (asked.nodes, asked.unread()) == ((n1, n2), frozenset({"n2"}))
        pauses.append(((asked.next_survey() or NOW) - NOW).total_seconds())
    assert pauses == [5, 10, 20, 40, 60, 60]
    asked.take_report(PodsChanged(node="n2", removed=True))
    assert (asked.nodes, asked.unread()) == ((n1,), frozenset())
    found.append(Surveyed(nodes=(n1,), unseen=(), unread=()))
    await asked.survey()
    assert asked.next_survey() == NOW + timedelta(seconds=60)


@pytest.mark.parametrize("unseen", [(), ("n2",)])
async def test_a_node_with_a_pod_that_a_survey_does_not_find_is_not_gone(
    unseen: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workflow was beginning a new run, or has begun anew. The first survey of the workload's run finds it so."""
    asked = surveying("DaemonSet", PodsChanged(), monkeypatch)
    asked.state.pods["web-2"].node = "n2"

    async def call(*_args: Any, **_kwargs: Any) -> Surveyed:
        return Surveyed(nodes=(NodeOffer("n1"),), unseen=unseen, unread=())

    monkeypatch.setattr(asked, "call", call)
    await asked.survey()
    assert (asked.unread(), asked.next_survey()) == (frozenset({"n2"}), NOW + timedelta(seconds=5))
    decided = workload_rollout.decision(asked.state, asked.nodes, NOW, asked.unread())
    assert decided.counts.desired == 2 and "no answer from n2" in decided.says


@pytest.mark.parametrize(("unread", "seconds"), [((), 5), (None, 60)])
async def test_a_deployment_whose_pods_a_node_may_have_asks_that_node_again_soon(
    unread: tuple[str, ...] | None, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: the survey of an earlier version, whose run must replay."""
    asked = surveying("Deployment", PodsChanged(), monkeypatch)
    asked.state.is_known = False

    async def call(*_args: Any, **_kwargs: Any) -> Surveyed:
        return Surveyed(missed=("n9",), unseen=("n9",), unread=unread)

    monkeypatch.setattr(asked, "call", call)
    await asked.survey()
    assert asked.state.missed == ("n9",) and asked.next_survey() == NOW + timedelta(seconds=seconds)


def test_a_new_run_of_a_daemon_set_keeps_its_numbers_until_its_first_survey(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, lists showed ``0 0 0 0 0`` for that long."""
    state = questions("DaemonSet", monkeypatch).state
    first = workload_rollout.decision(state, (NodeOffer("n1"), NodeOffer("n2")), NOW)
    workload_rollout.carry_out(state, first, NOW)
    second = workload_rollout.decision(state, (NodeOffer("n1"), NodeOffer("n2")), NOW)
    workload_rollout.carry_out(state, second, NOW)
    later = WorkloadState.model_validate(state.model_dump(mode="json"))
    kept = workload_rollout.decision(later, None, NOW)
    before, shown = workload_report.summary(state, second), workload_report.summary(later, kept)
    assert (before.desired, before.replicas, before.updated) == (2, 2, 2)
    assert shown == before.model_copy(update={"says": "the nodes are being surveyed again"})
    assert not workload_report.noted(later, kept).observed, "the survey is a reason to write the memo, as before"
