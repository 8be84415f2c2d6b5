"""A workload's query of several nodes, some of which do not answer. The fleet's server is scripted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from activities.fleet_workload import fleet_steps
from syncpod.messages.fleet import OWNER_ANNOTATION, FleetNodeSummary, FleetNodeView, Intent, PlacedPod, fleet_node_id
from syncpod.messages.workload import Survey, Surveyed

OWNER = "workload/Deployment/default/web"


@dataclass
class Server:
    """Nodes that each have one pod of the workload, and the queries that their workflows do not answer."""

    silent: dict[tuple[str, str], Exception]
    """The errors of queries, by node and query."""
    nodes: tuple[str, ...] = ("n1", "n2", "n3", "n4")
    asked: list[str] = field(default_factory=list)

    async def list_workflows(self, _query: str) -> AsyncIterator[Run]:
        for name in self.nodes:
            yield Run(name)

    def get_workflow_handle(self, workflow_id: str, run_id: str = "") -> Handle:
        return Handle(self, workflow_id.rpartition("/")[2])


FORGED = "forged"
"""The name of a node whose memo has an unknown encoding."""


@dataclass
class Run:
    """A node's workflow as an entry of a list."""

    name: str
    run_id: str = "r"

    @property
    def id(self) -> str:
        return fleet_node_id(self.name)

    async def memo_value(self, _key: str, _default: Any) -> Any:
        if self.name == FORGED:
            raise KeyError("Unknown payload encoding nonsense")
        return FleetNodeSummary(name=self.name, presence="Ready").model_dump(mode="json", by_alias=True)


@dataclass
class Handle:
    """A node's workflow, which may be silent."""

    server: Server
    name: str

    async def query(self, name: str, *, rpc_timeout: Any, reject_condition: QueryRejectCondition | None = None) -> Any:
        assert rpc_timeout is not None, "a workflow that is stuck would hold up the survey"
        assert name != "intent" or reject_condition == QueryRejectCondition.NOT_OPEN, "a node that left has an offer"
        self.server.asked.append(self.name)
        if wrong := self.server.silent.get((self.name, name)):
            raise wrong
        pod = f"web-{self.name[1:]}"
        if name == "fleet_node":
            placed = (PlacedPod(name=pod, owner=OWNER, state="taken"), PlacedPod(name="other"))
            return FleetNodeView(name=self.name, presence="Ready", placed=placed).model_dump(mode="json", by_alias=True)
        metadata = {"name": pod, "namespace": "default", "annotations": {OWNER_ANNOTATION: OWNER}}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        }
        return Intent(pods=(document,)).model_dump(mode="json", by_alias=True)


async def survey(server: Server, **asked: Any) -> Surveyed:
    step = fleet_steps(cast(Client, server))[0]
    found: Surveyed = await step(Survey(owner=OWNER, **asked))
    return found


@pytest.mark.asyncio
async def test_a_node_that_does_not_answer_is_named_and_the_others_are_surveyed() -> None:
    late = RPCError("Timeout expired", RPCStatusCode.DEADLINE_EXCEEDED, b"")
    gone = RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
    stuck = WorkflowQueryFailedError("the workflow task has failed")
    left = WorkflowQueryRejectedError(WorkflowExecutionStatus.COMPLETED)
    silent: dict[tuple[str, str], Exception] = {
        ("n1", "intent"): late,
        ("n2", "fleet_node"): stuck,
        ("n4", "fleet_node"): gone,
        ("n5", "intent"): left,
    }
    found = await survey(Server(silent, nodes=("n1", "n2", "n3", "n4", "n5")))
    assert found.missed == ("n1", "n2") and found.unseen == found.unread == ("n1",)
    assert [node.name for node in found.nodes] == ["n2", "n3", "n4"]
    assert [(each.news.node, each.news.presence, [pod.name for pod in each.news.pods]) for each in found.own] == [
        ("n2", "Unknown", ["web-2"]),
        ("n3", "Ready", ["web-3"]),
    ]


@pytest.mark.asyncio
async def test_a_workflow_that_somebody_has_forged_stops_no_survey() -> None:
    server = Server({})
    server.nodes = (FORGED, "n3")
    assert [node.name for node in (await survey(server)).nodes] == ["n3"]


@pytest.mark.asyncio
async def test_only_the_nodes_that_are_asked_for_are_queried() -> None:
    server = Server({})
    found = await survey(server, nodes=("n3",))
    assert set(server.asked) == {"n3"} and [node.name for node in found.nodes] == ["n3"]
