"""Pods that a fleet has accepted but their nodes have not: they are listed, with the reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.main import run
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.cli.temporal.fleet_waiting_pods import unlisted
from syncpod.cli.view.fleet_table import pod_row
from syncpod.messages.fleet import FleetNodeView, PlacedPod, PodReport
from syncpod.messages.workload import PendingPod, WorkloadPod, WorkloadView

THEN = datetime.now(UTC) - timedelta(days=10, hours=1)
"""Ages of ten days are printed in days, so the minutes until a test runs do not matter."""
OWNER = "workload/Deployment/default/web"


class Fleet:
    """The answers of the fleet's nodes and workloads."""

    def __init__(self) -> None:
        self.nodes: list[FleetNodeView] = []
        self.workloads: list[WorkloadView] = []
        self.is_stuck = False


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A fleet for commands, whose nodes cannot be reached."""
    told = Fleet()

    def connected(work: Callable[[Client], Coroutine[Any, Any, Any]], *, state_dir: str = "") -> Any:
        return asyncio.run(work(cast(Client, None)))

    async def views(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return told.nodes

    async def all_summaries(_: Client, namespace: str | None) -> list[WorkloadView]:
        return told.workloads

    async def view(_: Client, kind: str, namespace: str, name: str) -> WorkloadView | None:
        if told.is_stuck:
            raise Failure("its workflow cannot show it")
        return next((each for each in told.workloads if (each.kind, each.name) == (kind, name)), None)

    monkeypatch.setattr(fleet, "run", connected)
    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet_workloads, "all_summaries", all_summaries)
    monkeypatch.setattr(fleet_workloads, "view", view)
    return told


def web(number: int, **fields: Any) -> WorkloadPod:
    return WorkloadPod(name=f"web-{number}", **{"status": "Pending", "created": THEN, "containers": 2, **fields})


def deployment(*pods: WorkloadPod, **fields: Any) -> WorkloadView:
    return WorkloadView(kind="Deployment", name="web", **{"desired": len(pods), "pods": pods, **fields})


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[list[str]]:
    assert run(["fleet", "get", *(words or ("pods", "-o", "wide", "--no-headers"))]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_pod_on_its_way_to_a_node_keeps_its_row_and_what_is_known(
    served: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requested, placed and reported: its row stays in order, with its age, node and owner."""
    running = PlacedPod(name="web-2", owner=OWNER, state="taken", since=THEN, report=PodReport(status="Running"))
    served.workloads = [deployment(web(1, node="n1"), web(2, node="n2", status="Running"))]
    placed = PlacedPod(name="web-1", owner=OWNER, containers=2, since=THEN)
    reported = placed.model_copy(update={"state": "taken", "report": PodReport(status="ContainerCreating")})
    for pods, status in [((), "Pending"), ((placed,), "Pending"), ((reported,), "ContainerCreating")]:
        served.nodes = [FleetNodeView(name="n1", presence="Ready", placed=pods)]
        served.nodes += [FleetNodeView(name="n2", presence="Ready", placed=(running,))]
        first, second = rows(capsys)
        assert first[0] == "web-1" and first[2:] == [status, "0", "10d", "<none>", "n1", OWNER]
        assert second[0] == "web-2"


def test_a_pod_that_a_silent_node_was_given_is_pending_there(served: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    silent = FleetNodeView(name="n1", presence="Unknown", since=THEN, fleet="f")
    served.nodes = [silent.model_copy(update={"placed": (PlacedPod(name="a", containers=1, since=THEN),)})]
    assert rows(capsys) == [["a", "0/1", "Pending", "0", "10d", "<none>", "n1", "<none>"]]
    since = f"node n1 has not taken the pod yet: node n1 has been Unknown since {THEN:%Y-%m-%dT%H:%M:%SZ}, for 10d"
    for words in (["describe", "pod", "a"], ["explain", "a"]):
        assert run(["fleet", *words]) == 0
        told = capsys.readouterr().out
        assert since in told and "Pending" in told
    assert run(["fleet", "explain", "a", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["node"], told["why"]) == ("n1", [since])
    lost = PlacedPod(name="a", state="taken", report=PodReport(status="Running"))
    assert pod_row(silent, lost, THEN)[2] == "Unknown"


def test_a_pod_that_waits_for_its_silent_node_is_listed_with_it(
    served: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    served.nodes = [FleetNodeView(name="n1", presence="Unknown", since=THEN)]
    bound = PendingPod(name="web-1", node="n1", created=THEN, why="n1 is Unknown", containers=2)
    served.workloads = [deployment(web(1, bound="n1", why="n1 is Unknown"), pending=(bound,))]
    expected = ["web-1", "0/2", "Pending", "0", "10d", "<none>", "n1", OWNER]
    assert rows(capsys) == [expected]
    assert run(["fleet", "describe", "pod", "web-1"]) == 0
    told = capsys.readouterr().out
    assert "Pending" in told
    assert "on no node yet: n1 is Unknown; node n1 has been Unknown since " in told
    served.is_stuck = True
    assert rows(capsys) == [expected], "what its memo says, if its workflow does not answer"


def test_a_workload_whose_pods_are_all_listed_is_not_asked(served: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    served.is_stuck = True
    served.workloads = [deployment(web(1, node="n1"))]
    served.nodes = [FleetNodeView(name="n1", placed=(PlacedPod(name="web-1", owner=OWNER),))]
    assert run(["fleet", "get", "pods"]) == 0
    assert capsys.readouterr().err == ""


def test_what_no_node_reports_is_what_its_workload_has_and_the_lists_have_not() -> None:
    pods = (
        web(1, node="n1"),
        web(2, node="n1"),
        web(3, node="n2", status="Running"),
        web(4, node="n2", leaving=True),
        web(5),
    )
    found = unlisted(deployment(*pods), {("web-2", "n1")})
    assert [(each.name, each.node, each.containers) for each in found] == [("web-1", "n1", 2), ("web-5", "", 2)]
    new = WorkloadView(kind="Pod", name="a", document={"spec": {"containers": [{}], "nodeName": "n1"}}, since=THEN)
    assert unlisted(new, ()) == [PendingPod(name="a", node="n1", created=THEN, containers=1)]
    assert unlisted(new.model_copy(update={"deleting": True}), ()) == []
