"""Evidence from a real server that a pod is an orphan: its workflow has ended or belongs to another pod.

Holds: A pod without a workflow is killed only if the server's own records prove it an orphan.
"""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.pod_workflows import PodWorkflowSteps
from syncpod.agent.pod_workflows import PodWorkflows
from syncpod.agent.takeover.search_attributes import register_search_attributes
from syncpod.cli.failure import Failure
from syncpod.cli.machine import dev_server
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.messages.identity import NodeFacts, PodRef, node_task_queue, pod_workflow_id
from syncpod.messages.node import ApplyPodWorkflow, PodWorkflowResult
from syncpod.temporal.pod_orders import PodOrders
from syncpod.temporal.run_history import pod_uid_of_run
from tests.agent.waiting import until_asked
from tests.runtimes.temporal import DevServer, temporal_program
from tests.runtimes.temporal_client import connect

UID: SearchAttributeKey[str] = SearchAttributeKey.for_keyword("PodUID")


@workflow.defn(name="PodWorkflow")
class Succession:
    """Two pods with the same name, one after the other, as the pod's own workflow runs them.

    Of the second only its first step says which it is: that one starts nowhere.
    """

    @workflow.init
    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.told: set[str] = set()

    @workflow.run
    async def run(self, uid: str) -> None:
        if uid == "elder":
            workflow.upsert_search_attributes([UID.value_set(uid)])
        elif uid != "nameless":
            ref = {"namespace": "default", "uid": uid}
            workflow.start_activity("s", {"ref": ref}, task_queue="nobody", start_to_close_timeout=timedelta(hours=1))
        await workflow.wait_condition(lambda: bool(self.told))
        if uid == "elder" and self.told == {"delete"}:
            workflow.continue_as_new("heir")
        if uid == "elder" and self.told == {"rename"}:
            workflow.continue_as_new("nameless")

    @workflow.signal
    def tell(self, what: str) -> None:
        self.told.add(what)

    @workflow.update
    def apply(self, pod: Any) -> dict[str, Any]:
        return {"uid": self.uid}

    @workflow.query
    def pod(self) -> dict[str, Any]:
        return {"metadata": {"uid": self.uid}}


class Name:
    """A pod name on a node of its own, its workflow, and the node's findings about that."""

    def __init__(self, client: Client) -> None:
        self.client, self.name, self.node = client, f"p-{uuid.uuid4()}", f"n-{uuid.uuid4()}"
        self.queue = node_task_queue(self.node)
        self.id = pod_workflow_id("default", self.name)
        self.workflows = PodWorkflows(client, self.queue)
        self.handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(self.id)

    def served(self) -> Worker:
        return Worker(
            self.client, task_queue=self.queue, workflows=[Succession], workflow_runner=UnsandboxedWorkflowRunner()
        )

    async def begin(self) -> None:
        """Run the first pod's workflow, and let it report its state."""
        await self.client.start_workflow("PodWorkflow", "elder", id=self.id, task_queue=self.queue)

        async def says_which() -> bool:
            return (await self.handle.describe()).typed_search_attributes.get(UID) == "elder"

        await until_asked(says_which)

    async def standings(self, *uids: str) -> list[str]:
        return [await self.workflows.standing(PodRef(namespace="default", name=self.name, uid=uid)) for uid in uids]


@pytest_asyncio.fixture(loop_scope="session")
async def name(temporal_server: DevServer) -> Name:
    client = await connect(temporal_server.address)
    assert await register_search_attributes(client)
    return Name(client)


async def test_a_successor_is_not_mistaken_for_the_previous_pod_by_its_search_attributes(name: Name) -> None:
    """Row 11: search attributes outlive the run that wrote them; only its history knows which pod it is of."""
    async with name.served():
        await name.begin()
        assert await name.standings("elder", "heir") == ["open", "another"]
        elder = (await name.handle.describe()).run_id
        await name.handle.signal("tell", "delete")

        async def has_followed() -> bool:
            described = await name.handle.describe()
            # Until it takes its first step, it may be anybody's.
            says_which = await name.standings("third") == ["another"]
            stale = described.typed_search_attributes.get(UID) == "elder"
            return says_which and described.run_id != elder and stale

        await until_asked(has_followed)
        assert await name.standings("heir", "third") == ["open", "another"]
    assert await name.standings("heir", "third") == ["open", "another"], "its history says so though nobody serves it"
    await name.handle.terminate()
    assert await name.standings("heir", "third") == ["closed", "unknown"]


async def test_a_run_whose_history_does_not_say_which_pod_it_is_of_may_be_anybodys(name: Name) -> None:
    async with name.served():
        await name.begin()
        elder = (await name.handle.describe()).run_id
        await name.handle.signal("tell", "rename")

        async def has_followed() -> bool:
            return (await name.handle.describe()).run_id != elder

        await until_asked(has_followed)
        assert await name.standings("elder", "heir") == ["open", "open"]
    await name.handle.terminate()


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({"snapshot": {"pod": {"metadata": {"uid": "a"}}}, "decisions": 1}, "a"),
        ({"pod": {"metadata": {"uid": "b"}}, "adopt": {"incarnation": "life"}}, "b"),
        ({"pod": {"metadata": {"uid": "of another cluster"}}}, ""),
        ("nonsense", ""),
    ],
)
async def test_a_run_without_a_worker_belongs_to_the_pod_in_its_input(name: Name, start: Any, said: str) -> None:
    handle = await name.client.start_workflow("PodWorkflow", start, id=name.id, task_queue=name.queue)
    run_id = (await handle.describe()).run_id
    assert await pod_uid_of_run(name.client, name.id, run_id, timeout=timedelta(seconds=5)) == said
    await handle.terminate()


async def test_a_pod_is_known_to_have_ended_even_if_a_later_pod_of_its_name_ended_too(name: Name) -> None:
    async with name.served():
        await name.begin()
        await name.handle.terminate()
        await name.client.start_workflow("PodWorkflow", "heir", id=name.id, task_queue=name.queue)
        await name.handle.signal("tell", "end")
        await name.handle.result()

        async def is_closed() -> bool:
            return await name.standings("elder") == ["closed"]

        await until_asked(is_closed)
        assert await name.standings("heir", "third") == ["closed", "unknown"]


async def test_a_pod_whose_run_was_terminated_before_it_wrote_anything_is_known_to_have_ended(name: Name) -> None:
    """Its containers would be left for ever: the last run of the name was another pod's."""
    start = {"pod": {"metadata": {"uid": "early"}}, "adopt": {"incarnation": "life"}}
    handle = await name.client.start_workflow("PodWorkflow", start, id=name.id, task_queue=name.queue)
    await handle.terminate()
    async with name.served():
        await name.client.start_workflow("PodWorkflow", "heir", id=name.id, task_queue=name.queue)
        await name.handle.signal("tell", "end")
        await name.handle.result()

        async def is_closed() -> bool:
            return await name.standings("early") == ["closed"]

        await until_asked(is_closed)
        assert await name.standings("third") == ["unknown"]


async def temporal(server: DevServer, verb: str, workflow_id: str) -> None:
    """Run a command of the `temporal` CLI on a workflow, as an operator does."""
    command = [str(temporal_program()), "workflow", verb, "--workflow-id", workflow_id, "--address", server.address]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)


async def test_a_paused_workflow_counts_as_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 11: a status that the SDK does not know is no evidence that a workflow has ended."""
    command = dev_server.command
    may_pause = ("--dynamic-config-value", "frontend.WorkflowPauseEnabled=true")
    monkeypatch.setattr(dev_server, "command", lambda **how: [*command(**how), *may_pause])
    with await asyncio.to_thread(DevServer.launch) as server:
        client = await connect(server.address)
        assert await register_search_attributes(client)
        name = Name(client)
        async with name.served():
            await name.begin()
            await temporal(server, "pause", name.id)
            described = await client.workflow_service.describe_workflow_execution(
                DescribeWorkflowExecutionRequest(
                    namespace=client.namespace, execution=WorkflowExecution(workflow_id=name.id)
                )
            )
            paused = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_PAUSED
            assert described.workflow_execution_info.status == paused
            assert await name.standings("elder", "heir") == ["open", "another"]
            pod = {"metadata": {"name": name.name}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
            request = ApplyPodWorkflow(node=name.node, pod=pod, existing_only=True, unless_there=True)
            steps = PodWorkflowSteps(PodOrders(client, NodeFacts))
            with pytest.raises(RPCError, match="paused"):
                await steps.apply_pod(request)
            with pytest.raises(Failure, match="does not answer: it is paused"):
                await TemporalPods(client).read("default", name.name)
            await temporal(server, "unpause", name.id)
            assert await steps.apply_pod(request) == PodWorkflowResult(uid="elder"), (
                "the node takes no new pod, but this"
            )
            await name.handle.terminate()
            assert await name.standings("elder") == ["closed"]
            assert await TemporalPods(client).read("default", name.name) is None
