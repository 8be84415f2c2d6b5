"""Lists of a fleet's nodes if the workflow of one of them does not answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.messages.fleet import FleetNodeSummary, FleetNodeView, fleet_node_id
from syncpod.messages.workload import PendingPod, WorkloadPod, WorkloadView
from syncpod.signing.keys import make_signing_keys

FAULTS: dict[str, Exception] = {
    "stuck": WorkflowQueryFailedError("object of type 'int' has no len()"),
    "gone": RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b""),
    "refused": RPCError("no", RPCStatusCode.PERMISSION_DENIED, b""),
}


class Nodes:
    """A fleet's server with these nodes; a node with the name of a fault has that fault."""

    service_client = SimpleNamespace(config=SimpleNamespace(target_host="127.0.0.1:7233"))

    def __init__(self, *names: str) -> None:
        self.names = names

    def get_workflow_handle(self, workflow_id: str) -> Node:
        return Node(workflow_id.partition("/")[2])


class Node:
    """The workflow of one node."""

    def __init__(self, name: str) -> None:
        self.name, self.id = name, fleet_node_id(name)

    async def query(self, _name: str, **_: Any) -> Any:
        if self.name in FAULTS:
            raise FAULTS[self.name]
        return FleetNodeView(name=self.name).model_dump(mode="json", by_alias=True)


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def summaries(client: Any) -> list[FleetNodeSummary]:
        return [FleetNodeSummary(name=name) for name in client.names]

    monkeypatch.setattr(fleet, "summaries", summaries)


def of(*names: str) -> Client:
    return cast(Client, Nodes(*names))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_node_that_does_not_answer_is_named_and_the_others_are_listed(
    fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = await fleet.views(of("n1", fault, "n2"))
    assert [each.name for each in found] == ["n1", "n2"]
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"Note: without node {fault}: ")


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_node_that_is_asked_for_by_name_must_answer(fault: str) -> None:
    with pytest.raises(Failure, match=fault if fault != "refused" else None):
        await fleet.views(of("n1", fault), ["n1", fault])


async def test_a_list_that_a_node_cannot_show_is_one_sentence() -> None:
    with pytest.raises(Failure, match=r"^the workflow of node stuck cannot show it: object of type 'int' has no len"):
        await fleet.intent(of("stuck"), "stuck")


async def test_if_no_node_answers_that_is_a_failure() -> None:
    with pytest.raises(Failure, match="the workflow of node stuck cannot show it"):
        await fleet.views(of("stuck", "gone"))


def test_a_command_makes_no_fleet_where_there_is_none(tmp_path: Path) -> None:
    async def work(_: Client) -> None:
        raise AssertionError("there is no fleet")

    with pytest.raises(BadInput, match=r"^no fleet is commanded from here, since there is no .*/fleet: run this on"):
        fleet.run(work, state_dir=str(tmp_path))
    with pytest.raises(BadInput, match=r"^no fleet is commanded from here"):
        fleet.object_sealing(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_without_its_server_a_fleet_names_the_command_that_begins_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(_: Client) -> None:
        raise AssertionError("there is no server")

    make_signing_keys(open_fleet(fleet_directory(tmp_path), now()).directory)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(Failure, match=r"^no Temporal server at 127\.0\.0\.1:1 \(.*\): start one with `syncpod server`"):
        fleet.run(work, state_dir=str(tmp_path))


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ((), ""),
        ((WorkloadPod(name="web", node="n1"),), "node n1 has not answered yet"),
        ((WorkloadPod(name="web", node="n1", leaving=True),), ""),
    ],
)
async def test_a_pod_that_no_list_shows_yet_is_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, pods: tuple[WorkloadPod, ...], why: str
) -> None:
    found = WorkloadView(kind="Pod", document={"spec": {"containers": [{}, {}]}}, pods=pods)

    async def view(_: Client, kind: str, namespace: str, name: str) -> WorkloadView | None:
        return found if (kind, namespace, name) == ("Pod", "default", "web") else None

    monkeypatch.setattr(fleet_workloads, "view", view)
    client = cast("Client", None)
    expected = PendingPod(name="web", why=why, containers=2, node="n1" if why else "")
    assert await fleet_workloads.just_applied(client, "default", "web") == expected
    assert await fleet_workloads.just_applied(client, "default", "other") is None
    found = found.model_copy(update={"deleting": True})
    assert await fleet_workloads.just_applied(client, "default", "web") is None
