"""Lists of a fleet that has a workflow with a forged, unreadable memo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.main import run
from syncpod.cli.temporal import fleet, fleet_objects, fleet_workloads
from syncpod.messages.encryption import Undecipherable
from syncpod.messages.fleet import FLEET_NODE_WORKFLOW, FleetNodeSummary
from syncpod.messages.fleet_objects import FLEET_OBJECT_WORKFLOW
from syncpod.messages.workload import WORKLOAD_WORKFLOW

NODE = FleetNodeSummary(name="n1", presence="Ready").model_dump(mode="json", by_alias=True)
FORGED: dict[str, Any] = {
    "not encrypted": Undecipherable("it is not encrypted, so no worker of the fleet has written it"),
    "unknown encoding": KeyError("Unknown payload encoding nonsense"),
    "no JSON": RuntimeError("Payload at index 0 could not be converted"),
    "of another form": {"name": ["n9"]},
    "no object": 7,
}


@dataclass
class Run:
    """A workflow as an entry of a list."""

    id: str
    memo: Any

    async def memo_value(self, _key: str, _default: Any) -> Any:
        if isinstance(self.memo, Exception):
            raise self.memo
        return self.memo


class Server:
    """A server with workflows of one type."""

    def __init__(self, workflow: str, *runs: Run) -> None:
        self.workflow, self.runs = workflow, runs

    async def list_workflows(self, query: str, **_: Any) -> AsyncIterator[Run]:
        for each in self.runs if f"'{self.workflow}'" in query else ():
            yield each


def served(monkeypatch: pytest.MonkeyPatch, *runs: Run) -> None:
    """Let commands use a fleet with these nodes."""
    client = cast(Client, Server(FLEET_NODE_WORKFLOW, *runs))

    def connected(work: Callable[[Client], Coroutine[Any, Any, Any]], *, state_dir: str = "") -> Any:
        return asyncio.run(work(client))

    monkeypatch.setattr(fleet, "run", connected)


@pytest.mark.parametrize("memo", FORGED.values(), ids=FORGED)
def test_a_node_that_cannot_be_read_is_unknown_and_the_others_are_listed(
    memo: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served(monkeypatch, Run("fleet-node/n2", memo), Run("fleet-node/n1", NODE))
    assert run(["fleet", "get", "nodes", "--no-headers"]) == 0
    said = capsys.readouterr()
    assert [line.split()[:2] for line in said.out.splitlines()] == [["n1", "Ready"], ["n2", "Unknown"]]
    (note,) = said.err.splitlines()
    assert note.startswith("Note: node n2 is Unknown: its workflow's answer cannot be read: it is not ")
    assert run(["fleet", "get", "nodes", "n2"]) == 1, "one that is asked for by name must be read"
    assert "syncpod: node n2 is Unknown: " in capsys.readouterr().err
    assert run(["fleet", "get", "nodes", "n1"]) == 0


def test_a_node_whose_workflow_lacks_a_key_is_unknown_whatever_its_memo_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def without_the_key_of(_: Client, node: FleetNodeSummary) -> str:
        return "the key is away" if node.name == "n2" else ""

    monkeypatch.setattr(fleet, "without_the_key_of", without_the_key_of)
    served(monkeypatch, Run("fleet-node/n1", NODE), Run("fleet-node/n2", NODE | {"name": "n2"}))
    for names, rows in (((), [["n1", "Ready"], ["n2", "Unknown"]]), (("n2",), [["n2", "Unknown"]])):
        assert run(["fleet", "get", "nodes", *names, "--no-headers"]) == 0
        said = capsys.readouterr()
        assert [line.split()[:2] for line in said.out.splitlines()] == rows
        assert said.err == "Note: node n2 is Unknown: its workflow cannot go on, since the key is away\n"


@pytest.mark.parametrize(
    ("workflow", "workflow_id"),
    [(WORKLOAD_WORKFLOW, "workload/Deployment/default/web"), (FLEET_OBJECT_WORKFLOW, "object/Secret/default/a")],
)
async def test_a_workload_or_an_object_that_cannot_be_read_is_left_out_with_a_note(
    workflow: str, workflow_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"kind": "Deployment" if workflow == WORKLOAD_WORKFLOW else "Secret", "name": "good"}
    client = cast(Client, Server(workflow, Run(workflow_id, FORGED["not encrypted"]), Run("other", good)))
    if workflow == WORKLOAD_WORKFLOW:
        found = [each.name for each in await fleet_workloads.all_summaries(client, None)]
    else:
        found = [each.name for each in await fleet_objects.views(client, "Secret", None)]
    assert found == ["good"]
    assert capsys.readouterr().err.startswith(f"Note: without {workflow_id}, whose memo cannot be read: it is not enc")


async def test_if_nothing_can_be_decrypted_the_keys_are_to_blame() -> None:
    client = cast(Client, Server(FLEET_NODE_WORKFLOW, Run("fleet-node/n2", FORGED["not encrypted"])))
    with pytest.raises(Undecipherable):
        await fleet.summaries(client)
    with pytest.raises(Undecipherable):
        await fleet.views(client)
