"""`fleet remove` first stops placement on the node, then judges it; the command can be repeated after any failure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.actions import fleet_remove
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet
from syncpod.gate.authority import Fleet
from syncpod.messages.fleet import FleetNodeView, PlacedPod

LATE = PlacedPod(name="late", owner="workload/Deployment/default/late")


class Node:
    """A node that gets pods until it is cordoned, and ends its pods at once if it can be reached."""

    def __init__(self, view: FleetNodeView, *, comes: tuple[PlacedPod, ...] = ()) -> None:
        self.view, self.comes = view, comes
        self.done: list[str] = []

    async def look(self, _client: Client, _name: str) -> FleetNodeView:
        return self.view

    async def change(self, _client: Client, _name: str, change: str, body: Any = None) -> dict[str, Any]:
        if self.view.removed and change != "remove":
            raise Failure("node n1 has been removed from the fleet")
        if change == "cordon":
            self.view = self.view.model_copy(update={"placed": (*self.view.placed, *self.comes)})
        if change == "withdraw" and self.view.presence == "Ready":
            self.view = self.view.model_copy(update={"placed": ()})
        named = ",".join(each["name"] for each in body["pods"]) if body else ""
        self.done.append(f"{change} {named}".strip())
        return {}

    def revoke(self, _name: str, _now: datetime) -> list[str]:
        self.done.append("revoke")
        return []

    def dismiss(self, _name: str) -> list[str]:
        self.done.append("dismiss")
        return []


async def remove(node: Node, monkeypatch: pytest.MonkeyPatch, *, force: bool = False) -> list[str]:
    """Remove a node; return the changes that were requested of it."""
    monkeypatch.setattr(fleet, "view", node.look)
    monkeypatch.setattr(fleet, "update", node.change)
    await fleet_remove.remove_node(cast(Client, None), cast(Fleet, node), "n1", force=force)
    return node.done


async def test_a_pod_that_came_before_the_cordon_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(FleetNodeView(name="n1", presence="Unknown"), comes=(LATE,))
    with pytest.raises(Failure, match=r"it has pods .*: default/late"):
        await remove(node, monkeypatch)
    assert node.done == ["cordon", "uncordon"], "it is left as it was"


async def test_a_node_that_was_cordoned_before_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(FleetNodeView(name="n1", presence="Unknown", unschedulable=True, cordons=("fleet",)), comes=(LATE,))
    with pytest.raises(Failure, match="it has pods"):
        await remove(node, monkeypatch)
    assert node.done == ["cordon"]


async def test_pods_of_daemon_sets_keep_no_node_that_has_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = PlacedPod(name="agent-1", owner="workload/DaemonSet/default/agent")
    node = Node(FleetNodeView(name="n1", presence="Unknown", placed=(agent,)))
    assert await remove(node, monkeypatch) == ["cordon", "withdraw agent-1", "dismiss", "remove"]
    said = capsys.readouterr()
    assert "ending with the node, as pods of DaemonSets: default/agent-1" in said.out and "replaced" not in said.out
    assert "its pods run there until it is back and ends them" in said.err and "replacements" not in said.err


async def test_pods_of_daemon_sets_are_not_named_among_those_that_a_drain_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = PlacedPod(name="agent-1", owner="workload/DaemonSet/default/agent")
    node = Node(FleetNodeView(name="n1", presence="Unknown", placed=(agent, LATE)))
    with pytest.raises(Failure, match=r"moves them elsewhere\): default/late$"):
        await remove(node, monkeypatch)


async def test_a_pod_that_came_before_the_cordon_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(FleetNodeView(name="n1", presence="Unknown"), comes=(LATE,))
    assert await remove(node, monkeypatch, force=True) == ["cordon", "withdraw late", "dismiss", "remove"]


async def test_a_node_that_has_ended_its_pods_has_nothing_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(FleetNodeView(name="n1", presence="Ready"))
    assert await remove(node, monkeypatch, force=True) == ["cordon", "revoke", "remove"]


async def test_a_removal_is_repeated_while_the_nodes_workflow_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(FleetNodeView(name="n1", presence="Unknown", removed=True))
    assert await remove(node, monkeypatch) == ["dismiss"], "it may have yet to be told"


async def test_a_node_that_has_ended_its_pods_is_not_called_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(FleetNodeView(name="n1", presence="Ready", placed=(LATE,)))
    assert await remove(node, monkeypatch, force=True) == ["cordon", "withdraw late", "revoke", "remove"]
    said = capsys.readouterr()
    assert "replaced elsewhere by their workloads: default/late" in said.out and "cannot be reached" not in said.err
