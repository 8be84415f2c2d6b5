"""Messages about a fleet's workflow that cannot be replayed, because a sealing key is missing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryReverseRequest,
    GetWorkflowExecutionHistoryReverseResponse,
)
from temporalio.client import Client
from temporalio.converter import ActivitySerializationContext

from syncpod.cli.temporal.stuck_fleet import taken_by_another, without_a_key, without_the_key_of
from syncpod.fleet_client import FleetAccess
from syncpod.gate.authority import Fleet, now, open_fleet
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet import FLEET_NODE_WORKFLOW, FLEET_QUEUE, FleetNodeSummary, fleet_node_id
from syncpod.messages.workload import WORKLOAD_WORKFLOW
from syncpod.signing.keys import EncryptingKeys, make_signing_keys
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.sealing import FleetKey, node_codec

PLACE = ActivitySerializationContext(
    namespace="default",
    workflow_id=fleet_node_id("n1"),
    workflow_type="FleetNode",
    activity_id="1",
    activity_type="attend",
    activity_task_queue="fleet-node/n1",
    is_local=False,
)


class Stuck:
    """A fleet's client with the workflow of its node, whose task was attempted `tries` times.

    Its server sends at most `page` events at once.
    """

    namespace = "default"

    def __init__(self, fleet: Fleet, events: list[HistoryEvent], tries: int = 5, page: int = 100) -> None:
        access = FleetAccess(EncryptingKeys(make_signing_keys(fleet.directory)), FleetSealingKeys(fleet, now))
        self.data_converter = access.converter(verifies=False)
        self._events, self._tries, self._page = events, tries, page
        self.pages = 0
        self.workflow_service = self

    def get_workflow_handle(self, workflow_id: str) -> Stuck:
        assert workflow_id == fleet_node_id("n1")
        return self

    async def describe(self, **_: Any) -> Any:
        pending = SimpleNamespace(attempt=self._tries)
        return SimpleNamespace(raw_description=SimpleNamespace(pending_workflow_task=pending))

    async def get_workflow_execution_history_reverse(
        self, asked: GetWorkflowExecutionHistoryReverseRequest, **_: Any
    ) -> GetWorkflowExecutionHistoryReverseResponse:
        assert (asked.execution.workflow_id, asked.namespace) == (fleet_node_id("n1"), "default")
        self.pages += 1
        begin = int(asked.next_page_token or b"0")
        end = begin + min(self._page, asked.maximum_page_size)
        answer = GetWorkflowExecutionHistoryReverseResponse()
        answer.history.events.extend(self._events[::-1][begin:end])
        answer.next_page_token = b"%d" % end if end < len(self._events) else b""
        return answer

    async def says(self) -> str:
        return await without_a_key(cast(Client, self), fleet_node_id("n1"))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return open_fleet(tmp_path / "fleet", now())


async def sealed_by_node(fleet: Fleet) -> Payload:
    """A sealed answer of node n1."""
    trusted = FleetKey(FleetSealingKeys(fleet, now).public_pem())
    codec = node_codec(fleet.issue("n1", timedelta(hours=1), now()).key, trusted)
    plain = DATA_CONVERTER.payload_converter.to_payloads(["here"])
    return (await codec.with_context(PLACE).encode(plain))[0]


def event(*, result: Payload | None = None, failure: Payload | None = None) -> HistoryEvent:
    found = HistoryEvent()
    if result is not None:
        found.activity_task_completed_event_attributes.result.payloads.append(result)
    if failure is not None:
        found.activity_task_failed_event_attributes.failure.encoded_attributes.CopyFrom(failure)
    return found


async def test_the_keys_that_a_stuck_workflow_lacks_are_named_with_what_to_do(fleet: Fleet) -> None:
    keys = FleetSealingKeys(fleet, now)
    first = keys.current
    events = [HistoryEvent(), event(result=await sealed_by_node(fleet))]
    second = keys.files.create()
    keys.files.use(second)
    events.append(event(failure=await sealed_by_node(fleet)))
    keys.files.use(keys.files.create())
    assert await Stuck(fleet, events).says() == "", "all keys are there"

    keys.files.remove(first)
    keys.files.remove(second)
    assert await Stuck(fleet, events, tries=1).says() == "", "it is not stuck"
    assert await Stuck(fleet, events).says() == (
        f"the workflow of node n1 cannot go on, as what the node answered is sealed for key {first}, {second}, which "
        f"the fleet does not have here: put sealing/{first}.key, sealing/{second}.key back from the backup of the "
        "fleet's directory; or, if it is lost, end the workflow with `temporal workflow terminate --workflow-id "
        "fleet-node/n1`, and within six minutes the fleet asks the node what it runs"
    )


async def test_a_node_is_stuck_by_the_key_that_its_summary_names_and_no_history_is_read(fleet: Fleet) -> None:
    keys = FleetSealingKeys(fleet, now)
    first = keys.current
    node = FleetNodeSummary(name="n1", presence="Ready", fleet_key=first)

    async def says(node: FleetNodeSummary, tries: int = 5) -> str:
        stuck = Stuck(fleet, [], tries)
        try:
            return await without_the_key_of(cast(Client, stuck), node)
        finally:
            assert stuck.pages == 0

    assert await says(node) == "", "the key is there"
    keys.files.use(keys.files.create())
    keys.files.remove(first)
    assert await says(node) == f"its answers are sealed for key {first}, which the fleet does not have here"
    assert await says(node, tries=1) == "", "another machine has the key, and its worker goes on"
    for key in ("", "\x1b[31mput your trust in me"):
        assert await says(node.model_copy(update={"fleet_key": key})) == ""


async def test_a_key_that_a_node_has_invented_is_not_repeated(fleet: Fleet) -> None:
    answer = await sealed_by_node(fleet)
    answer.metadata["syncpod-sealed-for"] = b"\x1b[31mput your trust in me"
    assert await Stuck(fleet, [event(result=answer)]).says() == ""


async def test_of_a_long_history_no_more_is_read_than_up_to_the_last_answer_that_cannot_be_opened(fleet: Fleet) -> None:
    keys = FleetSealingKeys(fleet, now)
    first = keys.current
    sealed_for_first = event(result=await sealed_by_node(fleet))
    keys.files.use(keys.files.create())
    sealed_for_second = event(result=await sealed_by_node(fleet))
    keys.files.remove(first)
    stuck = Stuck(fleet, [*[sealed_for_first] * 40, HistoryEvent(), sealed_for_second, HistoryEvent()], page=2)
    assert f"is sealed for key {first}, which" in await stuck.says()
    assert stuck.pages == 2


@pytest.mark.parametrize("workflow_id", [fleet_node_id("n1"), "workload/Deployment/default/web"])
async def test_a_stranger_under_an_id_of_the_fleets_is_named_with_the_way_on(client: Client, workflow_id: str) -> None:
    own = FLEET_NODE_WORKFLOW if workflow_id.startswith("fleet-node/") else WORKLOAD_WORKFLOW
    for kind, queue, is_the_fleets in ((own, FLEET_QUEUE, True), ("Nobody", FLEET_QUEUE, False), (own, "other", False)):
        handle = await client.start_workflow(kind, id=workflow_id, task_queue=queue)
        sentence = await taken_by_another(client, workflow_id)
        assert (sentence == "") is is_the_fleets
        assert is_the_fleets or f", but a {kind} on task queue {queue}" in sentence
        assert is_the_fleets or f"`temporal workflow terminate -w {workflow_id}`" in sentence
        await handle.terminate()
        assert await taken_by_another(client, workflow_id) == ""
