"""docs/temporal.md lists each signal, update and query, and each field of their payloads, as the workflows say it.

`python -m tests.deploy.test_clients_page` prints the table of a fleet's workflows.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow

from syncpod.messages.identity import Message
from syncpod.messages.node import Cordon, DeleteFromNode, NodeStatus, RecallPods, SyncPods
from syncpod.messages.queries import SEARCH_ATTRIBUTES, EventRecord, HistoryRecord
from syncpod.messages.signals import BackoffExpired, DeletePod, Evict, Pleg, ProbeChanged, Restart, SetCondition
from syncpod.pod.resources import PodResize
from workflows.fleet.errand import FleetErrandWorkflow
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.object import FleetObjectWorkflow
from workflows.fleet.workload import WorkloadWorkflow
from workflows.node.workflow import NodeWorkflow
from workflows.pod.workflow import PodWorkflow

PAGE = (Path(__file__).parents[2] / "docs/temporal.md").read_text()
OF_A_POD, _, REST = PAGE.partition("\n## A node\n")
OF_A_NODE, _, OF_A_FLEET = REST.partition("\n## A fleet\n")
FLEETS = (FleetNodeWorkflow, WorkloadWorkflow, FleetObjectWorkflow, FleetErrandWorkflow)
MODELS: list[tuple[str, str, type[BaseModel]]] = [
    *(
        (OF_A_POD, name, model)
        for name, model in (
            ("delete_pod", DeletePod),
            ("backoff_expired", BackoffExpired),
            ("backoff_queue", BackoffExpired),
            ("restart", Restart),
            ("set_condition", SetCondition),
            ("evict", Evict),
            ("pleg", Pleg),
            ("probe", ProbeChanged),
            ("delete", DeletePod),
            ("resize", PodResize),
        )
    ),
    *(
        (OF_A_NODE, name, model)
        for name, model in (
            ("sync_pods", SyncPods),
            ("delete", DeleteFromNode),
            ("recall_pods", RecallPods),
            ("node_status", NodeStatus),
        )
    ),
]


def names(defined: Mapping[str | None, Any]) -> set[str]:
    return {name for name in defined if name is not None}


def wire_names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def test_the_page_lists_each_signal_update_and_query_of_a_pod() -> None:
    row = re.search(r"^\| signals \| updates \| queries \|\n.*\n\|(.*)\|(.*)\|(.*)\|$", OF_A_POD, re.MULTILINE)
    assert row is not None
    listed = [set(re.findall(r"`(\w+)`", cell)) for cell in row.groups()]
    defined = workflow._Definition.must_from_class(PodWorkflow)
    assert listed == [names(defined.signals), names(defined.updates), names(defined.queries)]
    rows = {name for name in re.findall(r"^\| `(\w+)` \|", OF_A_POD, re.MULTILINE)}
    assert rows == set().union(*listed)


def test_the_page_lists_each_signal_update_and_query_of_a_node() -> None:
    defined = workflow._Definition.must_from_class(NodeWorkflow)
    assert set(re.findall(r"^\| `(\w+)` \|", OF_A_NODE, re.MULTILINE)) == names(defined.signals)
    assert {name for name in names(defined.updates) | names(defined.queries) if f"`{name}`" not in OF_A_NODE} == set()
    assert json.loads(re.findall(r"take `(\{.*?\})`", OF_A_NODE)[0]).keys() == set(wire_names(Cordon))


@pytest.mark.parametrize(
    ("page", "name", "model"), MODELS, ids=lambda value: value if str(value).isidentifier() else ""
)
def test_a_payload_has_every_field_in_order_with_its_default(page: str, name: str, model: type[BaseModel]) -> None:
    (written,) = re.findall(rf"^\| `{name}` \| `(.+?)`[ ,]", page, re.MULTILINE)
    payload = json.loads(written)
    assert list(payload) == wire_names(model)
    model.model_validate(payload, extra="forbid")
    if issubclass(model, Message) and name != "sync_pods":
        assert model.model_validate(payload) == model()


def described(kind: type[Any]) -> dict[tuple[str, str], str]:
    """What a workflow says of its handlers: by kind and name, "" being that of any other name."""
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


@pytest.mark.parametrize(("page", "kind"), [(OF_A_POD, PodWorkflow), (OF_A_NODE, NodeWorkflow)])
def test_the_page_says_the_same_of_signals_and_updates_as_the_workflow(page: str, kind: type[Any]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (`.+?`|[^|`]+?)(?:, [^|]*)? \| (.+) \|$", page, re.MULTILINE)
    payloads = {name: (payload.strip("`"), told) for name, payload, told in rows}
    for (sort, name), says in described(kind).items():
        if sort == "query" or not name or (sort == "update" and kind is NodeWorkflow and name not in payloads):
            continue
        meaning, _, payload = says.partition(". Payload: ")
        shown, told = payloads[name]
        assert shown.replace('"team"', '""') == payload, name
        if sort == "signal":
            assert told.replace("`", "").lower().startswith(meaning.lower()), name


def fleet_table() -> list[str]:
    """The rows of the table of a fleet's workflows."""
    rows = []
    for kind in FLEETS:
        of = workflow._Definition.must_from_class(kind).name
        for (sort, name), says in described(kind).items():
            if name:
                meaning, _, payload = says.partition(". Payload: ")
                rows.append(f"| `{of}` | {sort} | `{name}` | {meaning}{f': `{payload}`' if payload else ''} |")
    return rows


def test_the_page_lists_what_a_fleets_workflows_take() -> None:
    assert [line for line in OF_A_FLEET.splitlines() if line.startswith("| `")] == fleet_table()


@pytest.mark.parametrize(("query", "model"), [("history", HistoryRecord), ("events", EventRecord)])
def test_an_answer_lists_each_field_of_its_records(query: str, model: type[BaseModel]) -> None:
    (answer,) = re.findall(rf"^\| `{query}` \| none \|.*?: (.*) \|$", OF_A_POD, re.MULTILINE)
    assert re.findall(r"`(\w+)`", answer) == wire_names(model)


def test_the_page_names_each_search_attribute() -> None:
    assert {name for name in SEARCH_ATTRIBUTES if f"`{name}`" not in OF_A_POD} == set()


if __name__ == "__main__":
    sys.stdout.write("\n".join([*fleet_table(), ""]))
