"""docs/temporal.md lists each signal, update and query, and each field of their payloads."""

from __future__ import annotations

import json
import re
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
from workflows.node.workflow import NodeWorkflow
from workflows.pod.workflow import PodWorkflow

PAGE = (Path(__file__).parents[2] / "docs/temporal.md").read_text()
OF_A_POD, _, OF_A_NODE = PAGE.partition("\n## A node\n")
MODELS: list[tuple[str, str, type[BaseModel]]] = [
    *(
        (OF_A_POD, name, model)
        for name, model in (
            ("delete_pod", DeletePod),
            ("backoff_expired", BackoffExpired),
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


@pytest.mark.parametrize(("query", "model"), [("history", HistoryRecord), ("events", EventRecord)])
def test_an_answer_lists_each_field_of_its_records(query: str, model: type[BaseModel]) -> None:
    (answer,) = re.findall(rf"^\| `{query}` \| none \|.*?: (.*) \|$", OF_A_POD, re.MULTILINE)
    assert re.findall(r"`(\w+)`", answer) == wire_names(model)


def test_the_page_names_each_search_attribute() -> None:
    assert {name for name in SEARCH_ATTRIBUTES if f"`{name}`" not in OF_A_POD} == set()
