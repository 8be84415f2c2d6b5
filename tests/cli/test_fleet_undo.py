"""`fleet rollout undo` goes back one revision, even if the workload receives the request twice."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet_answers, fleet_workloads
from syncpod.messages.workload import Undo, WorkloadView
from workflows.fleet import workload_report, workload_updates
from workflows.fleet.workload_state import WorkloadState

NOW = datetime(2026, 7, 1, tzinfo=UTC)
OWNER = "workload/Deployment/default/web"


class Workload:
    """A workload that carries out each update twice, since a new run began before the first answer was sent."""

    def __init__(self, *images: str) -> None:
        self.state = WorkloadState()
        for image in images:
            template = {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": f"registry.local/{image}"}]},
            }
            document = {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
            }
            workload_updates.apply(self.state, OWNER, document, NOW)

    async def look(self, *_: Any) -> WorkloadView | None:
        return workload_report.view(self.state, None) if self.state.document else None

    async def update(self, _client: Client, _handle: Any, name: str, body: dict[str, Any]) -> Any:
        assert name == "undo"
        for _ in range(2):
            done = workload_updates.undo(self.state, OWNER, Undo.model_validate(body, extra="forbid"), NOW)
        return done.model_dump(mode="json", by_alias=True)

    def get_workflow_handle(self, _id: str) -> None:
        """Return nothing; tests replace `update`."""

    @property
    def image(self) -> str:
        return str(
            self.state.document["spec"]["template"]["spec"]["containers"][0]["image"] if self.state.document else ""
        )


async def undo(workload: Workload, monkeypatch: pytest.MonkeyPatch, revision: int = 0) -> None:
    monkeypatch.setattr(fleet_workloads, "view", workload.look)
    monkeypatch.setattr(fleet_answers, "update", workload.update)
    await fleet_workloads.undo(cast(Client, workload), "Deployment", "default", "web", revision)


@pytest.mark.parametrize(("revision", "image"), [(0, "web:2"), (1, "web:1"), (3, "web:3")])
async def test_an_undo_that_is_carried_out_twice_goes_back_once(
    revision: int, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = Workload("web:1", "web:2", "web:3")
    await undo(workload, monkeypatch, revision)
    assert workload.image == f"registry.local/{image}"


async def test_a_revision_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failure, match="revision 7 not found; known: 1, 2"):
        await undo(Workload("web:1", "web:2"), monkeypatch, 7)
    with pytest.raises(Failure, match="there is no earlier revision; known: 1"):
        await undo(Workload("web:1"), monkeypatch)
    with pytest.raises(Failure, match=r'deployments\.apps "web" not found in the fleet'):
        await undo(Workload(), monkeypatch)
