"""docs/temporal.md lists each signal, update and query, and each field of their payloads, as the tables of commands do.

`python -m tests.deploy.test_clients_page` writes these tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter
from temporalio import workflow

from syncpod.journal.records import EventRecord, HistoryEntry
from syncpod.messages.command_table import CommandSpec, CommandTable
from syncpod.messages.fleet_commands import FLEET_NODE_COMMANDS, FLEET_OBJECT_COMMANDS, WORKLOAD_COMMANDS
from syncpod.messages.identity import Message
from syncpod.messages.node_commands import NODE_COMMANDS, SYNC_PODS, SYNC_PODS_NOW
from syncpod.messages.pod_commands import POD_COMMANDS
from syncpod.messages.queries import SEARCH_ATTRIBUTES
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.object import FleetObjectWorkflow
from workflows.fleet.remote_command import RemoteCommandWorkflow
from workflows.fleet.workload import WorkloadWorkflow
from workflows.node.workflow import NodeWorkflow
from workflows.pod.workflow import PodWorkflow

PATH = Path(__file__).parents[2] / "docs/temporal.md"
PAGE = PATH.read_text()
OF_A_POD, _, REST = PAGE.partition("\n## A node\n")
FLEETS = (FleetNodeWorkflow, WorkloadWorkflow, FleetObjectWorkflow, RemoteCommandWorkflow)
FLEET_TABLES = {"FleetNode": FLEET_NODE_COMMANDS, "Workload": WORKLOAD_COMMANDS, "FleetObject": FLEET_OBJECT_COMMANDS}


def payload_of(command: CommandSpec[Any]) -> str:
    """A payload, as it is written in a table."""
    shape = f"`{command.shape}`" if command.shape.startswith("{") else command.shape
    optional = getattr(command, "is_optional", False)
    return f"{shape}, or no payload where commands are not signed" if optional else shape


def tables_of(table: CommandTable) -> Iterable[list[str]]:
    """The tables of the signals, updates and queries of a pod's or a node's workflow."""
    yield [
        "| signal | payload | meaning |",
        "|---|---|---|",
        *(f"| `{name}` | {payload_of(each)} | {each.text} |" for name, each in table.signals.items()),
    ]
    yield [
        "| update | payload | meaning | answer |",
        "|---|---|---|---|",
        *(f"| `{name}` | {payload_of(each)} | {each.text} | {each.answer} |" for name, each in table.updates.items()),
    ]
    yield [
        "| query | arguments | answer |",
        "|---|---|---|",
        *(f"| `{name}` | {each.arguments} | {each.answer or each.meaning} |" for name, each in table.queries.items()),
    ]


def fleet_table() -> list[str]:
    """The table of a fleet's workflows."""
    lines = ["| workflow | | name | meaning, and payload |", "|---|---|---|---|"]
    for kind, table in FLEET_TABLES.items():
        for sort, rows in (("signal", table.signals), ("update", table.updates)):
            lines += [f"| `{kind}` | {sort} | `{name}` | {row.text}: `{row.shape}` |" for name, row in rows.items()]
        lines += [f"| `{kind}` | query | `{name}` | {row.meaning} |" for name, row in table.queries.items()]
    return lines


def expected() -> list[list[str]]:
    """All generated tables of the page, in the page's order."""
    return [*tables_of(POD_COMMANDS), *tables_of(NODE_COMMANDS), fleet_table()]


MADE = re.compile(
    r"^\| (?:signal|update|query|workflow) \|.* (?:meaning|answer|and payload) \|\n(?:\|.*\n)+", re.MULTILINE
)
"""A generated table of the page."""


def written() -> str:
    """The page with current tables."""
    tables = iter(expected())
    return MADE.sub(lambda _: "\n".join([*next(tables), ""]), PAGE)


def test_the_page_has_the_tables_of_commands() -> None:
    assert [each.splitlines() for each in MADE.findall(PAGE)] == expected()


@pytest.mark.parametrize("table", [POD_COMMANDS, NODE_COMMANDS, *FLEET_TABLES.values()], ids=lambda _: "")
def test_a_payload_has_every_field_in_order_with_its_default(table: CommandTable) -> None:
    for command in (*table.signals.values(), *table.updates.values()):
        if command.form or not issubclass(command.payload, BaseModel):
            continue
        payload = json.loads(command.shape)
        assert list(payload) == wire_names(command.payload)
        command.payload.model_validate(payload, extra="forbid")
        if issubclass(command.payload, Message) and command not in (SYNC_PODS, SYNC_PODS_NOW):
            assert command.payload.model_validate(payload) == command.payload()


def wire_names(model: type[Any]) -> list[str]:
    return list(TypeAdapter(model).json_schema()["properties"])


def described(kind: type[Any]) -> dict[tuple[str, str], str]:
    """The descriptions of a workflow's handlers, by kind and name; the name "" stands for the dynamic handler."""
    defined = workflow._Definition.must_from_class(kind)
    handlers: dict[str, Mapping[str | None, Any]] = {
        "signal": defined.signals,
        "update": defined.updates,
        "query": defined.queries,
    }
    return {(sort, name or ""): each.description or "" for sort, of in handlers.items() for name, each in of.items()}


@pytest.mark.parametrize("kind", [PodWorkflow, NodeWorkflow, *FLEETS])
def test_each_signal_update_and_query_of_each_workflow_is_described_with_its_payload(kind: type[Any]) -> None:
    for (sort, name), says in described(kind).items():
        assert says, (sort, name)
        assert len(says) <= 400 and "\n" not in says
        assert (". Payload: " in says) == (sort != "query" and name != ""), (sort, name)


@pytest.mark.parametrize(("query", "model"), [("history", HistoryEntry), ("events", EventRecord)])
def test_an_answer_lists_each_field_of_its_records(query: str, model: type[Any]) -> None:
    assert re.findall(r"`(\w+)`", POD_COMMANDS.queries[query].answer) == wire_names(model)


def test_the_page_names_each_search_attribute() -> None:
    assert {name for name in SEARCH_ATTRIBUTES if f"`{name}`" not in OF_A_POD} == set()


if __name__ == "__main__":
    PATH.write_text(written())
