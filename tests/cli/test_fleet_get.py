"""``syncpod fleet get`` of several kinds at once, as kubectl has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.failure import BadInput
from syncpod.cli.input.fleet_names import NODES, PODS, names_of_kinds
from syncpod.cli.main import run
from syncpod.cli.temporal import fleet, fleet_objects, fleet_workloads
from syncpod.messages.fleet import FleetNodeSummary, FleetNodeView, PlacedPod
from syncpod.messages.fleet_objects import FleetObjectView
from syncpod.messages.workload import WorkloadView

NOW = datetime.now(UTC)
WORKLOADS = {"Deployment": ["web"], "DaemonSet": ["logs"]}


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet of one node with a pod, a Deployment, a DaemonSet and a ConfigMap."""

    def connected(work: Callable[[Client], Coroutine[Any, Any, Any]], *, state_dir: str = "") -> Any:
        return asyncio.run(work(cast(Client, None)))

    async def views(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return [FleetNodeView(name="n1", placed=(PlacedPod(name="web-1", owner="workload/Deployment/default/web"),))]

    async def nodes(_: Client) -> list[FleetNodeSummary]:
        return [FleetNodeSummary(name="n1")]

    async def summaries(_: Client, kind: str, namespace: str | None) -> list[WorkloadView]:
        return [WorkloadView(kind=kind, namespace="default", name=name, since=NOW) for name in WORKLOADS[kind]]

    async def view(_: Client, kind: str, namespace: str, name: str) -> WorkloadView | None:
        return WorkloadView(kind=kind, name=name, since=NOW) if name in WORKLOADS.get(kind, ()) else None

    async def all_summaries(_: Client, namespace: str | None) -> list[WorkloadView]:
        return []

    async def objects(_: Client, kind: str, namespace: str | None) -> list[FleetObjectView]:
        return [FleetObjectView(kind=kind, name="settings", created=NOW)] if kind == "ConfigMap" else []

    monkeypatch.setattr(fleet, "run", connected)
    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet, "summaries", nodes)
    monkeypatch.setattr(fleet_workloads, "summaries", summaries)
    monkeypatch.setattr(fleet_workloads, "view", view)
    monkeypatch.setattr(fleet_workloads, "all_summaries", all_summaries)
    monkeypatch.setattr(fleet_objects, "views", objects)


@pytest.mark.parametrize(
    ("words", "first_words"),
    [
        ("all", ["NAME", "pod/web-1", "", "NAME", "daemonset.apps/logs", "", "NAME", "deployment.apps/web"]),
        ("deployments,daemonsets", ["NAME", "deployment.apps/web", "", "NAME", "daemonset.apps/logs"]),
        ("ds,deploy --no-headers", ["daemonset.apps/logs", "", "deployment.apps/web"]),
        ("deploy,cm,secrets", ["NAME", "deployment.apps/web", "", "NAME", "configmap/settings"]),
        ("no,po -o name", ["node/n1", "pod/web-1"]),
        ("pod/web-1 deploy/web -o name", ["pod/web-1", "deployment.apps/web"]),
        ("pods", ["NAME", "web-1"]),
        ("all -A --no-headers", ["default", "", "default", "", "default"]),
    ],
)
def test_a_table_for_each_kind_whose_names_say_it(
    words: str, first_words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", "get", *words.split()]) == 0
    assert [line.partition(" ")[0] for line in capsys.readouterr().out.splitlines()] == first_words


def test_names_are_of_each_kind_and_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "get", "deploy,ds", "web", "-o", "name"]) == 1
    assert capsys.readouterr() == ("deployment.apps/web\n", 'syncpod: daemonsets.apps "web" not found in the fleet\n')


def test_all_kinds_are_one_list_of_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "get", "deploy,ds", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "List"
    assert run(["fleet", "get", "deploy,secrets", "-o", "yaml"]) == 2
    assert "for a Secret: its content is sealed" in capsys.readouterr().err


def test_no_kind_is_taken_for_another() -> None:
    kinds = {**NODES, **PODS}
    assert names_of_kinds(["no,all,pods"], kinds, "those", ["Pod"]) == {"Node": [], "Pod": []}
    for word in ("pods,", "pods,web", "alles"):
        with pytest.raises(BadInput, match=r"^KIND: must be those, not "):
            names_of_kinds([word], kinds, "those", ["Pod"])
