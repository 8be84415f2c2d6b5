"""A node's own pod is never taken for the fleet's pod of that name, which the node has refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.actions import fleet_describe, fleet_exec, fleet_explain, fleet_logs, fleet_top
from syncpod.cli.main import run
from syncpod.cli.temporal import fleet, fleet_pods, fleet_workloads
from syncpod.messages.fleet import FleetNodeView, PlacedPod, PodReport

WHY = "Refused: metadata.uid: is another pod's: own has c5be"
REPORTED = PlacedPod(
    name="own", state="taken", containers=1, report=PodReport(name="own", status="Pending", message=WHY)
)
TOLD = f"node n1 has not taken pod own: {WHY}"


@pytest.fixture(params=[REPORTED, PlacedPod(name="own", state="refused", containers=1, why=WHY)])
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the commands that the node ran; all of them would find the node's own pod."""
    node, ran = FleetNodeView(name="n1", presence="Ready", placed=(request.param,)), list[str]()

    async def views(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return [node]

    async def view(_: Client, name: str) -> FleetNodeView:
        return node

    async def no_workloads(*_: Any) -> list[Any]:
        return []

    async def wanted(*_: Any) -> dict[tuple[str, str, str], dict[str, Any]]:
        return {("n1", "default", "own"): {"metadata": {"name": "own", "labels": {"app": "own"}}}}

    async def run_there(_: Client, _node: FleetNodeView, words: Sequence[str], **_how: Any) -> int:
        ran.append(words[0])
        return 0

    async def output_on(_: Client, _node: FleetNodeView, words: Sequence[str]) -> tuple[int, str, str]:
        ran.append(words[0])
        return 0, "of the node\n", ""

    async def print_there(_: Client, _node: FleetNodeView, words: Sequence[str]) -> None:
        ran.append(words[0])

    async def output_on_all(_: Client, nodes: Any, _words: Any) -> list[Any]:
        return [(node, (0, "default own 1m 1Mi\n", ""))]

    monkeypatch.setattr(fleet, "run", lambda work, **_: asyncio.run(work(cast(Client, None))))
    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet, "view", view)
    monkeypatch.setattr(fleet_workloads, "all_summaries", no_workloads)
    monkeypatch.setattr(fleet_pods, "wanted_pods", wanted)
    for module in (fleet_exec, fleet_logs):
        monkeypatch.setattr(module, "run_there", run_there)
    monkeypatch.setattr(fleet_describe, "output_on", output_on)
    monkeypatch.setattr(fleet_explain, "print_there", print_there)
    monkeypatch.setattr(fleet_top, "output_on_all", output_on_all)
    return ran


@pytest.mark.parametrize(
    "words",
    [
        ["exec", "own", "--", "true"],
        ["attach", "own"],
        ["logs", "own"],
        ["logs", "-l", "app=own"],
        ["cp", "own:/etc/hosts", "hosts"],
        ["port-forward", "own", "8080:80"],
        ["top", "pod", "own"],
    ],
)
def test_a_command_for_a_refused_pod_fails_with_the_refusal(
    asked: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", *words]) == 1
    told = capsys.readouterr()
    assert TOLD in told.err and "1Mi" not in told.out
    assert asked == []


@pytest.mark.parametrize(
    "words", [["describe", "pod", "own"], ["describe", "pods"], ["explain", "own"], ["explain", "own", "-o", "json"]]
)
def test_a_refused_pod_is_described_with_its_refusal(
    asked: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", *words]) == 0
    told = capsys.readouterr().out
    assert f"node n1 has not taken the pod: {WHY}" in told and "Pending" in told
    assert asked == []


@pytest.mark.parametrize("words", [["describe", "pod", "own"], ["explain", "own"], ["logs", "own"]])
def test_with_its_node_the_nodes_own_pod_is_reached(asked: list[str], words: list[str]) -> None:
    assert run(["fleet", *words, "--node", "n1"]) == 0
    assert asked == [words[0]]


@pytest.mark.usefixtures("asked")
def test_a_refused_pod_has_as_many_containers_as_its_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "get", "pods", "--no-headers"]) == 0
    assert capsys.readouterr().out.split()[1] == "0/1"
