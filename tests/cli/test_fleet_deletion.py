"""`fleet delete` waits until what it deletes is gone, and says what that waits for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet, fleet_deletion, fleet_workloads
from syncpod.cli.temporal.fleet_deletion import Going
from syncpod.messages.fleet import FleetNodeView, PlacedPod, PodReport
from syncpod.messages.workload import WorkloadPod, WorkloadView

CLIENT = cast(Client, None)
PODS = tuple(WorkloadPod(name=f"web-{number}", node=f"n{number}", status="Running") for number in range(1, 6))


def shown(monkeypatch: pytest.MonkeyPatch, *views: WorkloadView | FleetNodeView | Exception | None) -> None:
    """Have each look find the next of these."""
    coming = iter(views)

    async def look(*_: Any) -> Any:
        found = next(coming)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(fleet_workloads, "view", look)
    monkeypatch.setattr(fleet, "view", look)
    monkeypatch.setattr(fleet_deletion, "_LOOK_SECONDS", 0)


def workload() -> Going:
    return fleet_deletion.workload(CLIENT, "Deployment", "default", "web")


async def test_a_deployment_is_waited_for_and_what_for_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fleet_deletion, "SAID_AFTER", 0)
    away = PODS[0].model_copy(update={"status": "Unknown"})
    shown(
        monkeypatch,
        WorkloadView(deleting=True, pods=PODS),
        WorkloadView(deleting=True, pods=PODS),
        WorkloadView(deleting=True, pods=(away,)),
        WorkloadView(deleting=True),
        None,
    )
    await fleet_deletion.until_gone([workload()], None)
    assert capsys.readouterr().err.splitlines() == [
        "deployment.apps/web: 5 pods are left: web-1 on n1, web-2 on n2, web-3 on n3 and 2 more",
        "deployment.apps/web: 1 pod is left: web-1 on n1, which cannot be reached",
        "deployment.apps/web: its workflow is ending",
    ]


async def test_one_that_is_applied_anew_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shown(monkeypatch, WorkloadView(deleting=False, pods=PODS))
    await fleet_deletion.until_gone([workload()], None)


ENDING = PlacedPod(name="web", state="ending", report=PodReport(name="web", status="Terminating"))


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (FleetNodeView(placed=(ENDING,)), "the node is ending it; it is Terminating"),
        (FleetNodeView(placed=(ENDING.model_copy(update={"report": None}),)), "the node is ending it"),
        (
            FleetNodeView(presence="Unknown", placed=(ENDING,)),
            "the node cannot be reached, and ends it when it is back",
        ),
        (FleetNodeView(placed=(ENDING.model_copy(update={"state": "taken"}),)), ""),
        (FleetNodeView(placed=(ENDING.model_copy(update={"namespace": "other"}),)), ""),
        (fleet.NoNode("it was removed"), ""),
    ],
)
async def test_what_a_pod_on_a_node_waits_for(
    view: FleetNodeView | Exception, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown(monkeypatch, view)
    assert await fleet_deletion.pod(CLIENT, "default", "web", "n1").left() == why


async def test_a_timeout_says_what_is_left_and_that_the_deletion_goes_on() -> None:
    def going(what: str, *whys: str) -> Going:
        coming = iter(whys)

        async def left() -> str:
            return next(coming)

        return Going(what, left)

    with pytest.raises(Failure) as failed:
        await fleet_deletion.until_gone([going("pod/a on n1", ""), going("pod/b on n2", "it is busy")], timedelta(0))
    assert str(failed.value) == (
        "timed out waiting for pod/b on n2 to end; the deletion continues\npod/b on n2: it is busy"
    )
