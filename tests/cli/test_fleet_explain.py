"""``syncpod fleet explain deployment/web`` of a workload without pods."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli import fleet_remote_commands
from syncpod.cli.actions import fleet_explain
from syncpod.cli.actions.fleet_explain import explain_pod
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet, fleet_placement, fleet_pods, fleet_workloads
from syncpod.cli.view.without_pods import lines
from syncpod.fleet.revisions import Revision
from syncpod.fleet.workloads import admit_workload
from syncpod.messages.fleet import FleetNodeView, Intent, PlacedPod, PodReport
from syncpod.messages.workload import WorkloadPod, WorkloadView
from syncpod.pod.wire import to_wire

HOMELESS = WorkloadPod(name="web-1", why="0/1 nodes are available: 1 Insufficient cpu.")


@pytest.mark.parametrize(
    ("changes", "why", "then"),
    [
        ({}, "spec.replicas is 0", "nothing, until it is applied"),
        ({"kind": "DaemonSet"}, "no node that the fleet reaches is one", "a node gets a pod as soon"),
        ({"observed": False}, "the fleet has not decided yet", "the fleet decides"),
        ({"paused": True, "desired": 2}, "its rollouts are paused", "nothing, until `syncpod fleet rollout resume"),
        ({"desired": 1, "pods": (HOMELESS,)}, "web-1 is on no node: 0/1 nodes are available", "each node is tried"),
        ({"desired": 1, "pods": (WorkloadPod(name="web-1", node="n1"),)}, "web-1 starts on n1", "their nodes report"),
        ({"deleting": True, "missed": ("n2",)}, "it is being deleted", "it is gone once"),
        ({"desired": 3, "says": "it waits"}, "it waits", "the fleet makes"),
    ],
)
def test_the_reason_is_said(changes: dict[str, Any], why: str, then: str) -> None:
    told = lines(WorkloadView(**{"kind": "Deployment", "name": "web", "observed": True, **changes}))
    assert told[0].split() == [f"{changes.get('kind', 'Deployment')}:", "default/web"]
    assert told[2].startswith(f"Why:         {why}")
    assert told[-1].startswith(f"Next:        {then}")


async def test_a_workload_without_pods_is_explained_and_an_unknown_one_is_not_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def nodes(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return []

    async def view(_: Client, kind: str, namespace: str, name: str) -> WorkloadView | None:
        return WorkloadView(kind=kind, name=name, observed=True) if name == "web" else None

    monkeypatch.setattr(fleet, "views", nodes)
    monkeypatch.setattr(fleet_workloads, "view", view)
    client = cast(Client, None)
    await explain_pod(client, ["deployment", "web"], "default", "", [])
    assert "spec.replicas is 0" in capsys.readouterr().out
    await explain_pod(client, ["deployment", "web"], "default", "", ["--output=json"])
    assert '"spec.replicas is 0"' in capsys.readouterr().out
    with pytest.raises(Failure, match=r'^no pods of deployments.apps "web" found in the fleet$'):
        await explain_pod(client, ["deployment", "web"], "default", "", ["--since=1h"])
    with pytest.raises(Failure, match=r'deployments.apps "other" not found in the fleet'):
        await explain_pod(client, ["deployment", "other"], "default", "", [])


async def test_a_pod_whose_node_has_not_answered_is_not_said_to_be_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = WorkloadPod(name="web-1", node="n1", why="node n1 has not answered yet")
    deployment = WorkloadView(kind="Deployment", name="web", pods=(pod,))
    asked: list[tuple[str, str]] = []

    async def nodes(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return []

    async def all_summaries(_: Client, namespace: str | None) -> list[WorkloadView]:
        return [deployment]

    async def view(_: Client, kind: str, namespace: str, name: str) -> WorkloadView | None:
        asked.append((kind, name))
        return deployment if kind == "Deployment" else None

    monkeypatch.setattr(fleet, "views", nodes)
    monkeypatch.setattr(fleet_workloads, "all_summaries", all_summaries)
    monkeypatch.setattr(fleet_workloads, "view", view)
    await explain_pod(cast(Client, None), ["web-1"], "default", "", [])
    told = capsys.readouterr().out.splitlines()
    assert told[:3] == [
        "Pod:         default/web-1",
        "Now:         Pending, on no node yet",
        "Why:         node n1 has not answered yet",
    ]
    await explain_pod(cast(Client, None), ["web-1"], "default", "", ["--output=json"])
    said = json.loads(capsys.readouterr().out)
    assert (said["node"], said["status"], said["why"]) == ("n1", "Pending", ["node n1 has not answered yet"])
    with pytest.raises(Failure, match=r"^pod web-1 is on no node yet: node n1 has not answered yet"):
        await explain_pod(cast(Client, None), ["web-1"], "default", "", ["--namespace=default", "--at=14:02"])
    asked.clear()
    with pytest.raises(fleet_pods.NotInFleet):
        await fleet_pods.find_pod(cast(Client, None), ["web-db"], "default")
    assert asked == [("Pod", "web-db")], "the Deployment can have no pod of this name"


@pytest.mark.parametrize(
    ("served", "chosen", "fits"),
    [
        (("n1", "n2"), "", {"n1": ("it has its pod",), "n2": ("it has its pod",)}),
        (("n1",), "n2", {"n1": ("it has its pod",), "n2": ()}),
    ],
)
async def test_a_daemonset_is_not_said_to_get_a_second_pod_on_a_node(
    served: tuple[str, ...], chosen: str, fits: dict[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "busybox:1"}]}}
    document = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "logs", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    admitted = to_wire(admit_workload(document)[0])

    async def nodes(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        pod = PlacedPod(name="logs-1", owner="workload/DaemonSet/default/logs")
        return [
            FleetNodeView(
                name=name,
                presence="Ready",
                allocatable={"cpu": "2", "memory": "1Gi", "pods": "9"},
                placed=(pod,) if name in served else (),
            )
            for name in ("n1", "n2")
        ]

    async def intent(_: Client, name: str) -> Intent:
        return Intent(fleet="f", generation=1)

    async def view(_: Client, kind: str, namespace: str, name: str) -> WorkloadView | None:
        return WorkloadView(kind=kind, name=name, document=admitted)

    monkeypatch.setattr(fleet, "views", nodes)
    monkeypatch.setattr(fleet, "intent", intent)
    monkeypatch.setattr(fleet_workloads, "view", view)
    told = (await fleet_placement.explain_workload(cast(Client, None), "DaemonSet", "default", "logs")).placement
    assert told.node == chosen
    assert {each.node: each.reasons for each in told.nodes} == fits
    assert chosen or told.summary == "each node has its pod"


async def test_the_placement_of_a_pod_that_is_ending_is_not_said_to_be_of_an_unknown_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = FleetNodeView(name="n1", presence="Unknown", placed=(PlacedPod(name="web", state="ending"),))

    async def nodes(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return [node]

    async def intent(_: Client, name: str) -> Intent:
        return Intent(fleet="f", generation=1)

    async def all_summaries(_: Client, namespace: str | None) -> list[WorkloadView]:
        return []

    monkeypatch.setattr(fleet, "views", nodes)
    monkeypatch.setattr(fleet, "intent", intent)
    monkeypatch.setattr(fleet_workloads, "all_summaries", all_summaries)
    with pytest.raises(Failure, match='pod "web" is ending on n1, so no node is looked for'):
        await fleet_placement.explain_pod(cast(Client, None), "default", "web")
    with pytest.raises(Failure, match='pods "other" not found in the fleet'):
        await fleet_placement.explain_pod(cast(Client, None), "default", "other")


BACK = "web-4 on n2 of b04e fails with CrashLoopBackOff; rolling back to 7c1a"


@pytest.mark.parametrize(
    ("node", "given_up", "answer", "asked", "notes"),
    [
        (
            "",
            BACK,
            (0, "why it failed\n", ""),
            ["n2: explain web-4"],
            [f"Note: deployment web was rolled back: {BACK}"],
        ),
        ("n1", BACK, (0, "", ""), ["n1: explain web-1"], [f"Note: deployment web was rolled back: {BACK}"]),
        ("", "", (0, "", ""), ["n1: explain web-1"], []),
        (
            "",
            BACK,
            (1, "", "syncpod: the journal of this node has no pod web-4\n"),
            ["n2: explain web-4", "n1: explain web-1"],
            [
                f"Note: deployment web was rolled back: {BACK}",
                "Note: pod web-4 cannot be explained: the journal of this node has no pod web-4",
            ],
        ),
    ],
    ids=["the pod that failed", "a node is named", "not rolled back", "no journal has it"],
)
async def test_of_a_workload_that_was_rolled_back_the_pod_is_explained_that_failed(
    node: str,
    given_up: str,
    answer: tuple[int, str, str],
    asked: list[str],
    notes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said: list[str] = []
    good = PlacedPod(
        name="web-1", owner="workload/Deployment/default/web", report=PodReport(phase="Running", ready=True)
    )

    async def one(_: Client, name: str) -> FleetNodeView:
        return FleetNodeView(name=name, presence="Ready", placed=(good,) if name == "n1" else ())

    async def nodes(client: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return [await one(client, name) for name in names or ("n1", "n2")]

    async def view(*_: Any) -> WorkloadView:
        pod, where = ("web-4", "n2") if given_up else ("", "")
        applied = datetime(2026, 1, 1, tzinfo=UTC)
        bad = Revision(2, "b04e", applied, given_up=given_up, failed_pod=pod, failed_on=where)
        return WorkloadView(kind="Deployment", name="web", history=(bad,))

    async def output_on(_: Client, node: FleetNodeView, words: Sequence[str]) -> tuple[int, str, str]:
        said.append(f"{node.name}: {' '.join(words)}")
        return answer if "web-4" in words else (0, "", "")

    monkeypatch.setattr(fleet, "view", one)
    monkeypatch.setattr(fleet, "views", nodes)
    monkeypatch.setattr(fleet_workloads, "view", view)
    for module in (fleet_remote_commands, fleet_explain):
        monkeypatch.setattr(module, "output_on", output_on)
    await explain_pod(cast(Client, None), ["deployment", "web"], "default", node, [])
    told = capsys.readouterr()
    assert (said, told.err.splitlines()) == (asked, notes)
    assert told.out == (answer[1] if len(asked) == 1 and not node else "")
