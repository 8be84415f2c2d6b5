"""Notification of workloads that a node takes pods again; a forged memo of one does not keep it from the others."""

from __future__ import annotations

from typing import Any, cast

import pytest
from temporalio.client import Client

from activities.fleet_workload import fleet_steps
from syncpod.messages.workload import WORKLOAD_WORKFLOW, PendingPod, Room, WorkloadSummary
from tests.cli.test_fleet_memos import FORGED, Run, Server


class Workloads(Server):
    """A server that records which workflows are signalled."""

    def __init__(self, *runs: Run) -> None:
        super().__init__(WORKLOAD_WORKFLOW, *runs)
        self.told: list[str] = []

    def get_workflow_handle(self, workflow_id: str) -> Handle:
        return Handle(self, workflow_id)


class Handle:
    """A handle of a workflow, which records its signals."""

    def __init__(self, server: Workloads, workflow_id: str) -> None:
        self.server, self.id = server, workflow_id

    async def signal(self, name: str, _body: Any) -> None:
        assert name == "room"
        self.server.told.append(self.id)


@pytest.mark.parametrize("memo", [*FORGED.values(), None], ids=[*FORGED, "none"])
async def test_the_others_are_told(memo: Any) -> None:
    waiting, none, daemons = (
        WorkloadSummary(kind=kind, name="web", pending=pending).model_dump(mode="json", by_alias=True)
        for kind, pending in (("Deployment", (PendingPod(name="web-1"),)), ("Deployment", ()), ("DaemonSet", ()))
    )
    runs = (Run("forged", memo), Run("waiting", waiting), Run("none", none), Run("daemons", daemons))
    server = Workloads(*runs)
    await fleet_steps(cast(Client, server))[3](Room(node="n1"))
    assert server.told == ["waiting", "daemons"]
