"""Pods of one name on several nodes of a fleet: commands say which pod they chose, and none deletes all."""

from __future__ import annotations

from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet, fleet_pod_changes, fleet_workloads
from syncpod.cli.temporal.fleet_pods import NotInFleet, find_pod
from syncpod.messages.fleet import FleetNodeView, PlacedPod, PodReport
from syncpod.messages.workload import WorkloadView

CLIENT = cast(Client, None)
OF_DEPLOYMENT, OWN = "workload/Deployment/default/web", "workload/Pod/default/web-1"


def on(node: str, owner: str, *, ready: bool = True) -> FleetNodeView:
    """A node with a pod named web-1."""
    report = PodReport(phase="Running", ready=ready)
    return FleetNodeView(name=node, presence="Ready", placed=(PlacedPod(name="web-1", owner=owner, report=report),))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records deletions, in a fleet where two pods have one name."""
    nodes, found = [on("n1", OF_DEPLOYMENT, ready=False), on("n2", OWN)], list[str]()

    async def views(_client: Client, names: Any = ()) -> list[FleetNodeView]:
        return [each for each in nodes if not names or each.name in names]

    async def delete(_client: Client, kind: str, _namespace: str, name: str) -> bool:
        found.append(f"{kind} {name}")
        return True

    async def update(_client: Client, node: str, change: str, _body: Any) -> dict[str, Any]:
        found.append(f"{change} on {node}")
        return {}

    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet, "update", update)
    monkeypatch.setattr(fleet_workloads, "delete", delete)
    return found


async def test_neither_of_two_pods_is_deleted_without_its_node(done: list[str]) -> None:
    with pytest.raises(Failure, match=f"2 pods are called web-1: one of {OF_DEPLOYMENT} on n1, one of {OWN} on n2: "):
        await fleet_pod_changes.delete(CLIENT, "default", "web-1", force=False)
    assert done == []


@pytest.mark.parametrize(("node", "expected"), [("n1", ["withdraw on n1"]), ("n2", ["Pod web-1"])])
async def test_only_the_pod_of_the_named_node_is_deleted(done: list[str], node: str, expected: list[str]) -> None:
    ended = await fleet_pod_changes.delete(CLIENT, "default", "web-1", node=node, force=False)
    assert (done, [each.name for each in ended.nodes]) == (expected, [node])


@pytest.mark.usefixtures("done")
async def test_a_command_says_which_of_two_pods_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    found = await find_pod(CLIENT, ["web-1"], "default")
    assert found.node.name == "n2", "it is ready"
    assert capsys.readouterr().err == "Note: 2 pods are called web-1, on n1, n2: using that on n2 (or --node)\n"


FINE: dict[str, Any] = {"phase": "Running", "ready": True}


@pytest.mark.parametrize(
    ("worse", "presence", "report"),
    [
        ({"state": "ending"}, "Ready", FINE),
        ({}, "Unknown", FINE),
        ({}, "Ready", {"phase": "Failed", "status": "Evicted"}),
        ({}, "Ready", {"phase": "Running"}),
        ({}, "Ready", None),
        ({"revision": "old"}, "Ready", FINE),
    ],
)
async def test_of_a_workload_a_pod_is_chosen_that_stays_and_answers(
    monkeypatch: pytest.MonkeyPatch, worse: dict[str, Any], presence: Any, report: dict[str, Any] | None
) -> None:
    def node(name: str, presence: Any, change: dict[str, Any], report: dict[str, Any] | None) -> FleetNodeView:
        said = PodReport(**report) if report is not None else None
        pod = PlacedPod(**{"name": f"web-{name}", "owner": OF_DEPLOYMENT, "revision": "new", "report": said, **change})
        return FleetNodeView(name=name, presence=presence, placed=(pod,))

    async def views(_client: Client, _names: Any = ()) -> list[FleetNodeView]:
        return [node("n1", presence, worse, report), node("n2", "Ready", {}, FINE)]

    async def view(_client: Client, *owner: str) -> WorkloadView:
        assert owner == ("Deployment", "default", "web")
        return WorkloadView(revision="new")

    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet_workloads, "view", view)
    assert (await find_pod(CLIENT, ["deployment/web"], "default")).name == "web-n2"


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        (WorkloadView(), 'no pods of deployments.apps "web" found in the fleet'),
        (None, 'deployments.apps "web" not found in the fleet'),
    ],
)
async def test_a_workload_without_pods_is_told_from_one_that_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, there: WorkloadView | None, sentence: str
) -> None:
    async def views(*_: Any) -> list[FleetNodeView]:
        return []

    async def view(*_: Any) -> WorkloadView | None:
        return there

    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet_workloads, "view", view)
    with pytest.raises(NotInFleet, match=f"^{sentence}$"):
        await find_pod(CLIENT, ["deployment/web"], "default")
