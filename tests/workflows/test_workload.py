"""Workloads on a real server with the real workflows of nodes. The nodes' answers are scripted.

Holds: A workload's workflow asks nodes only through steps of the fleet's worker.
Holds: If a removed node comes back with a pod that was replaced, one of the two pods is ended.
"""

from __future__ import annotations

import asyncio
import copy
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Worker

from activities import fleet_node, fleet_workload
from activities.fleet_node import fleet_answers
from activities.fleet_workload import fleet_steps
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet_workloads
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.workloads import admit_workload
from syncpod.lifecycle.version import build_id
from syncpod.messages.fleet import (
    FLEET_NODE_MEMO,
    FLEET_NODE_WORKFLOW,
    Attend,
    Attended,
    FleetNodeReport,
    Intent,
    IntentTaken,
    PlacedPod,
    PodReport,
    PodsChanged,
    WhoAsks,
    fleet_node_id,
)
from syncpod.messages.fleet_commands import ROOM
from syncpod.messages.node import PodKey
from syncpod.messages.workload import (
    PLACE_PODS,
    SURVEY_NODES,
    WITHDRAW_PODS,
    WORKLOAD_WORKFLOW,
    HostedPods,
    PlacePods,
    PodsPlaced,
    PodsWithdrawn,
    Room,
    Survey,
    Surveyed,
    WithdrawPods,
    WorkloadView,
)
from tests.agent.waiting import pauses, until_asked
from tests.workflows.runs import Noting
from tests.workflows.scripted import DIGEST
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.workload import WorkloadWorkflow
from workflows.fleet.workload_placement import PLACED_AT_ONCE

PATIENCE = 60.0
BAD = "registry.local/bad:1"


@dataclass
class Machine:
    """A node that runs all pods at once and reports them as ready; a pod with a bad image is in a crash loop."""

    name: str
    taken: Intent = field(default_factory=Intent)
    number: int = 1
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    speaks: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: it sends reports; else it only carries out requests."""
    fleet_key: str = ""
    """The fleet's key that the node trusts."""

    def __post_init__(self) -> None:
        self.speaks.set()

    async def recall(self, _asked: WhoAsks) -> Intent:
        return self.taken

    async def take(self, intent: Intent) -> IntentTaken:
        self.taken = intent
        async with self.news:
            self.number += 1
            self.news.notify_all()
        return IntentTaken(generation=intent.generation)

    def farewell(self) -> Attended:
        return Attended()

    async def attend(self, asked: Attend) -> Attended:
        await self.speaks.wait()
        async with self.news:
            await self.news.wait_for(lambda: asked.version != str(self.number))
        reports = tuple(map(self._report, self.taken.pods))
        labels = {"kubernetes.io/hostname": self.name, "fleet": self.name.split("-")[0]}
        return Attended(
            version=str(self.number),
            generation=self.taken.generation,
            present=tuple(PodKey(namespace=each.namespace, name=each.name) for each in reports),
            node=FleetNodeReport(
                ready=True,
                labels=labels,
                allocatable={"cpu": "2", "memory": "1Gi", "pods": "110"},
                fleet_key=self.fleet_key,
            ),
            pods=reports,
        )

    def _report(self, document: dict[str, Any]) -> PodReport:
        meta, fails = document["metadata"], document["spec"]["containers"][0]["image"] == BAD
        status = {"status": "CrashLoopBackOff", "message": "back-off 10s"} if fails else {"status": "Running"}
        return PodReport(namespace=meta["namespace"], name=meta["name"], ready=not fails, **status)

    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.taken.pods]


@dataclass
class Fleet:
    """Nodes of a fleet, and its worker. Only pods of this test's workload select these nodes, by a label."""

    client: Client
    prefix: str
    machines: dict[str, Machine] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    started: list[str] = field(default_factory=list)

    @property
    def queue(self) -> str:
        return f"fleet-{self.prefix}"

    async def join(self, number: int, grace: float = 60) -> Machine:
        """Let a node join, and wait until the fleet sees it. A removed node comes back with its pods."""
        name = await self.begin_to_join(number, grace)
        deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
        while name not in await self.seen():
            assert time.monotonic() < deadline, name
            await asyncio.sleep(next(pause))
        return self.machines[name]

    async def begin_to_join(self, number: int, grace: float = 60) -> str:
        """Let a node request to join; return its name."""
        name = f"{self.prefix}-{number}"
        self.machines.setdefault(name, Machine(name))
        await self.client.start_workflow(
            FLEET_NODE_WORKFLOW,
            {"fleet": "f", "node": name, "graceSeconds": grace},
            id=fleet_node_id(name),
            task_queue=self.queue,
        )
        self.started.append(fleet_node_id(name))
        await self.bring_back(name)
        return name

    async def seen(self) -> set[str]:
        """Return the nodes that a survey finds ready."""
        found = self.client.list_workflows(f"WorkflowType = '{FLEET_NODE_WORKFLOW}' AND ExecutionStatus = 'Running'")
        memos = [await each.memo_value(FLEET_NODE_MEMO, {}) async for each in found]
        return {each["name"] for each in memos if each.get("presence") == "Ready"}

    async def bring_back(self, name: str) -> None:
        worker = Worker(self.client, task_queue=fleet_node_id(name), activities=fleet_answers(self.machines[name]))
        await worker.__aenter__()
        self.workers[name] = worker

    async def remove(self, name: str) -> None:
        """Remove a node; again, as the command does, if a report came just as its workflow was to end."""
        while True:
            try:
                await self.client.get_workflow_handle(fleet_node_id(name)).execute_update("remove")
            except RPCError as error:
                if error.status != RPCStatusCode.FAILED_PRECONDITION:
                    raise
                await asyncio.sleep(0.05)
            else:
                return

    async def lose(self, name: str) -> None:
        await self.workers.pop(name).__aexit__(None, None, None)

    def document(self, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
        image, annotations = spec.pop("image", "registry.local/web:1"), spec.pop("annotations", {})
        container = {"name": "main", "image": image, "resources": {"requests": spec.pop("requests", {})}}
        asked = {"fleet": self.prefix, **spec.pop("nodeSelector", {})}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], "nodeSelector": asked}}
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": self.prefix, "annotations": annotations},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
        }

    def pod(self, **spec: Any) -> dict[str, Any]:
        image, annotations = spec.pop("image", "registry.local/web:1"), spec.pop("annotations", {})
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.prefix, "annotations": annotations},
            "spec": {
                "containers": [{"name": "main", "image": image}],
                **spec,
                "nodeSelector": {"fleet": self.prefix, **spec.pop("nodeSelector", {})},
            },
        }

    async def apply(self, document: dict[str, Any], **start: Any) -> WorkflowHandle[Any, Any]:
        workload = f"workload/{document['kind']}/default/{self.prefix}"
        begin: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            WORKLOAD_WORKFLOW,
            start,
            id=workload,
            task_queue=self.queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        await self.client.execute_update_with_start_workflow("apply", document, start_workflow_operation=begin)
        self.started.append(workload)
        return self.client.get_workflow_handle(workload)

    async def until(self, handle: WorkflowHandle[Any, Any], seen: Callable[[WorkloadView], Any]) -> WorkloadView:
        deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
        while not seen(view := WorkloadView.model_validate(await handle.query("workload"))):
            assert time.monotonic() < deadline, view.model_dump_json(indent=1)
            await asyncio.sleep(next(pause))
        return view

    def running(self) -> list[str]:
        return sorted(name for machine in self.machines.values() for name in machine.names())


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(client: Client, worker_options: dict[str, Any]) -> AsyncIterator[Fleet]:
    fleet = Fleet(client, f"w{uuid.uuid4().hex[:8]}")
    worker = Worker(
        client,
        task_queue=fleet.queue,
        workflows=[FleetNodeWorkflow, WorkloadWorkflow],
        activities=fleet_steps(client),
        build_id=build_id("syncpod-test", DIGEST),
        **worker_options,
    )
    async with worker:
        yield fleet
        for name in list(fleet.workers):
            await fleet.lose(name)
        for each in dict.fromkeys(fleet.started):
            handle = client.get_workflow_handle(each)
            if (await handle.describe()).close_time is None:
                await handle.terminate()


def is_rolled_out(view: WorkloadView) -> bool:
    return bool(view.good) and view.good == view.revision and view.says.startswith(f"{view.good} is rolled out")


def has_available(replicas: int, view: WorkloadView) -> bool:
    return is_rolled_out(view) and view.available == replicas


@pytest.mark.asyncio(loop_scope="session")
async def test_a_deployment_is_spread_rolled_out_scaled_and_deleted(fleet: Fleet) -> None:
    for number in (1, 2):
        await fleet.join(number)
    handle = await fleet.apply(fleet.document(replicas=4))
    view = await fleet.until(handle, is_rolled_out)
    assert sorted(pod.node for pod in view.pods) == [f"{fleet.prefix}-{number}" for number in (1, 1, 2, 2)]
    assert [pod.name for pod in view.pods] == fleet.running() == [f"{fleet.prefix}-{number}" for number in (1, 2, 3, 4)]
    await fleet.apply(fleet.document(replicas=4, image="registry.local/web:2"))
    second = await fleet.until(handle, lambda view: is_rolled_out(view) and len(view.pods) == 4)
    assert second.good != view.good and {pod.revision for pod in second.pods} == {second.good}
    await fleet.apply(fleet.document(replicas=1, image="registry.local/web:2"))
    await fleet.until(handle, lambda view: len(view.pods) == 1)
    await handle.execute_update("delete")
    await handle.result()
    assert fleet.running() == []


@pytest.mark.asyncio(loop_scope="session")
async def test_a_bad_image_goes_back_by_itself_and_the_history_says_why(fleet: Fleet) -> None:
    await fleet.join(1)
    handle = await fleet.apply(fleet.document(replicas=3))
    good = (await fleet.until(handle, is_rolled_out)).good
    await fleet.apply(fleet.document(replicas=3, image=BAD))
    view = await fleet.until(
        handle, lambda view: is_rolled_out(view) and "back to" in view.says and len(view.pods) == 3
    )
    assert view.good == good and {pod.revision for pod in view.pods} == {good}
    back = next(each.message for each in view.events if each.reason == "RolledBack")
    assert back.endswith(f"fails with CrashLoopBackOff: back-off 10s; rolling back to {good}")


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_that_fits_nowhere_waits_and_says_why(fleet: Fleet) -> None:
    await fleet.join(1)
    handle = await fleet.apply(fleet.document(replicas=3, requests={"cpu": "900m"}))
    view = await fleet.until(handle, lambda view: any(pod.why for pod in view.pods))
    assert next(pod.why for pod in view.pods if not pod.node).startswith("0/")
    assert "1 Insufficient cpu" in next(each.message for each in view.events if each.reason == "FailedScheduling")
    assert f"{fleet.prefix}-1: Insufficient cpu (cpu: requested 900, taken 1800, allocatable 2000)" in view.refusals
    second = fleet.client.get_workflow_handle(fleet_node_id(await fleet.begin_to_join(2)))
    await until_told_of_room(handle, 1)
    await fleet.until(handle, is_rolled_out)
    await second.execute_update("cordon")
    await fleet.apply(fleet.document(replicas=5, requests={"cpu": "900m"}))
    await fleet.until(handle, lambda view: any(pod.why for pod in view.pods))
    await second.execute_update("uncordon")
    await until_told_of_room(handle, 2)


@pytest.mark.asyncio(loop_scope="session")
async def test_pods_that_fit_nowhere_hold_up_no_other_template(fleet: Fleet) -> None:
    """There are more of them than are tried together, and none of them may go before a new pod is available."""
    await fleet.join(1)
    replicas = PLACED_AT_ONCE + 1
    strategy = {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}
    handle = await fleet.apply(fleet.document(replicas=replicas, requests={"cpu": "3"}, strategy=strategy))
    await fleet.until(handle, lambda view: any(pod.why for pod in view.pods))
    await fleet.apply(fleet.document(replicas=replicas, requests={"cpu": "10m"}, strategy=strategy))
    await fleet.until(handle, partial(has_available, replicas))


@pytest.mark.asyncio(loop_scope="session")
async def test_pods_of_two_workloads_of_one_name_are_on_one_node(fleet: Fleet) -> None:
    await fleet.join(1)
    daemons = await fleet.apply(fleet.document("DaemonSet"))
    await fleet.until(daemons, is_rolled_out)
    handle = await fleet.apply(fleet.document(replicas=2))
    view = await fleet.until(handle, is_rolled_out)
    assert sorted(pod.name for pod in view.pods) == [f"{fleet.prefix}-{number}" for number in (2, 3)]
    renamed = f"{fleet.prefix}-1 is called {fleet.prefix}-3 from now on: another pod has its name"
    assert renamed in {each.message for each in view.events if each.reason == "Renamed"}
    assert fleet.running() == [f"{fleet.prefix}-{number}" for number in (1, 2, 3)]


async def until_told_of_room(handle: WorkflowHandle[Any, Any], times: int) -> None:
    """Wait until a workload was notified this many times that a node takes pods."""
    deadline, pause, told = time.monotonic() + PATIENCE, pauses(0.05), 0
    while told < times:
        assert time.monotonic() < deadline, told
        await asyncio.sleep(next(pause))
        told = await times_told_of_room(handle)


async def times_told_of_room(handle: WorkflowHandle[Any, Any]) -> int:
    events = (await handle.fetch_history()).events
    return sum(event.workflow_execution_signaled_event_attributes.signal_name == "room" for event in events)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_fleet_that_forgot_a_workload_takes_over_its_pods(fleet: Fleet) -> None:
    for number in (1, 2):
        await fleet.join(number)
    handle = await fleet.apply(fleet.document(replicas=2))
    await fleet.until(handle, is_rolled_out)
    before = {name: machine.names() for name, machine in fleet.machines.items()}
    await handle.terminate()
    await fleet.apply(fleet.document(replicas=2))
    view = await fleet.until(handle, is_rolled_out)
    assert {name: machine.names() for name, machine in fleet.machines.items()} == before
    assert [each.reason for each in view.events].count("Recalled") == 2
    await fleet.apply(fleet.document(replicas=3))
    view = await fleet.until(handle, partial(has_available, 3))
    assert [pod.name for pod in view.pods] == [f"{fleet.prefix}-{number}" for number in (1, 2, 3)]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_that_somebody_ends_on_its_node_is_replaced(fleet: Fleet) -> None:
    machine = await fleet.join(1)
    handle = await fleet.apply(fleet.document(replicas=1))
    await fleet.until(handle, is_rolled_out)
    node = fleet.client.get_workflow_handle(fleet_node_id(machine.name))
    await node.execute_update("withdraw", {"pods": [{"name": f"{fleet.prefix}-1"}], "reason": "drained"})
    expected = [(f"{fleet.prefix}-2", machine.name)]
    await fleet.until(handle, lambda view: [(pod.name, pod.node) for pod in view.pods] == expected)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_lost_pod_is_replaced_and_of_the_two_one_goes_when_its_node_is_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_node, "HEARTBEAT_SECONDS", 0.5)
    for number in (1, 2):
        await fleet.join(number, grace=2)
    handle = await fleet.apply(fleet.document(replicas=2, annotations={"syncpod.dev/when-lost": "replace-after=10s"}))
    view = await fleet.until(handle, is_rolled_out)
    lost = next(pod for pod in view.pods if pod.node == f"{fleet.prefix}-2")
    await fleet.lose(lost.node)
    view = await fleet.until(handle, lambda view: any(pod.status == "Unknown" for pod in view.pods))
    assert [pod.name for pod in view.pods if pod.replaced_at is not None] == [lost.name]
    view = await fleet.until(handle, lambda view: len(view.pods) == 3 and view.available == 2)
    assert {pod.node for pod in view.pods if pod.name != lost.name} == {f"{fleet.prefix}-1"}
    assert [pod.replaced_by for pod in view.pods if pod.name == lost.name] == [f"{fleet.prefix}-3 on {fleet.prefix}-1"]
    await fleet.bring_back(lost.node)
    view = await fleet.until(handle, lambda view: len(view.pods) == 2)
    assert not any(pod.replaced_at or pod.replaced_by for pod in view.pods)
    said = [each.message for each in view.events if each.reason == "Withdrawn"]
    replacement = f"{fleet.prefix}-3 on {fleet.prefix}-1"
    assert said[0].startswith(f"{lost.name} on {lost.node} is removed: its replacement {replacement}")
    assert fleet.running() == sorted(pod.name for pod in view.pods)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_daemon_set_has_a_pod_on_each_node(fleet: Fleet) -> None:
    for number in (1, 2):
        await fleet.join(number)
    handle = await fleet.apply(fleet.document("DaemonSet"))
    view = await fleet.until(handle, is_rolled_out)
    assert sorted(pod.node for pod in view.pods) == sorted(fleet.machines)
    await fleet.apply(fleet.document("DaemonSet", image="registry.local/web:2"))
    second = await fleet.until(handle, lambda now: is_rolled_out(now) and now.good != view.good and len(now.pods) == 2)
    cordoned = fleet.client.get_workflow_handle(fleet_node_id(second.pods[0].node))
    before = await surveys(handle)
    await cordoned.execute_update("cordon")
    await handle.signal(ROOM.name, Room())  # else the next survey is up to a minute away
    await until_surveyed(handle, before + 1)
    assert (await fleet.until(handle, is_rolled_out)).desired == 2, "as in Kubernetes, whose DaemonSets tolerate it"
    await fleet.apply(fleet.document("DaemonSet", image="registry.local/web:3"))
    third = await fleet.until(handle, lambda now: is_rolled_out(now) and now.good != second.good)
    assert second.pods[0].name in {pod.name for pod in third.pods}, "a cordoned node would take no other"
    await cordoned.execute_update("uncordon")
    await fleet.until(handle, lambda now: now.updated == 2 and has_available(2, now))
    told = await times_told_of_room(handle)
    await fleet.begin_to_join(3)
    await until_told_of_room(handle, told + 1)
    await fleet.until(handle, partial(has_available, 3))
    await handle.execute_update("delete")
    await handle.result()


async def surveys(handle: WorkflowHandle[Any, Any]) -> int:
    """Return the number of surveys of nodes that a workload's run has requested."""
    history = await handle.fetch_history()
    asked = [event.activity_task_scheduled_event_attributes.activity_type.name for event in history.events]
    return asked.count(SURVEY_NODES)


async def until_surveyed(handle: WorkflowHandle[Any, Any], times: int) -> None:
    """Wait until a workload's run has the answers of so many surveys of nodes."""
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
    while True:
        events = (await handle.fetch_history()).events
        asked = {
            event.event_id
            for event in events
            if event.activity_task_scheduled_event_attributes.activity_type.name == SURVEY_NODES
        }
        answers = (event.activity_task_completed_event_attributes.scheduled_event_id for event in events)
        if sum(each in asked for each in answers) >= times:
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(next(pause))


@pytest.mark.asyncio(loop_scope="session")
async def test_a_daemon_set_keeps_its_pod_on_a_node_that_joins_the_fleet_again(fleet: Fleet) -> None:
    """The fleet has forgotten the node. Until the node has reported itself, no survey finds it."""
    second = [await fleet.join(number) for number in (1, 2)][1]
    handle = await fleet.apply(fleet.document("DaemonSet"))
    await fleet.until(handle, partial(has_available, 2))
    await fleet.lose(second.name)
    await fleet.client.get_workflow_handle(fleet_node_id(second.name)).terminate()
    second.speaks.clear()
    before = await surveys(handle)
    await fleet.begin_to_join(2)
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
    while await surveys(handle) < before + 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(next(pause))
    second.speaks.set()
    view = await fleet.until(handle, partial(has_available, 2))
    assert "Withdrawn" not in {each.reason for each in view.events}
    assert len(second.names()) == 1


@pytest.mark.asyncio(loop_scope="session")
async def test_what_cannot_be_kept_is_refused_in_one_sentence(fleet: Fleet) -> None:
    handle = await fleet.apply(fleet.document(replicas=0))
    other = fleet.document(replicas=0)
    other["metadata"]["name"] = "other"
    moved = fleet.document(replicas=0)
    moved["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    for document, said in (
        (fleet.document(replicas=-1), "spec.replicas: must not be negative"),
        (other, f"must be {handle.id}, is workload/Deployment/default/other"),
        (moved, "spec.selector: must not be changed"),
    ):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("apply", copy.deepcopy(document))
        assert said in str(refused.value.cause)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_run_continues_as_new_and_loses_nothing_also_when_retention_ends(
    fleet: Fleet, worker_options: dict[str, Any]
) -> None:
    await fleet.join(1)
    handle = await fleet.apply(fleet.document(replicas=1), maxEvents=30)
    first = (await handle.describe()).run_id
    for replicas in (2, 3, 4, 5, 6):
        await fleet.apply(fleet.document(replicas=replicas))
        await fleet.until(handle, partial(has_available, replicas))
    assert (await handle.describe()).run_id != first
    assert len(fleet.running()) == 6

    # What the server does when the retention of a closed run is over.
    if isinstance(runner := worker_options["workflow_runner"], Noting):
        await runner.replay_before_removal(fleet.client, handle.id, first)
    await remove_run(fleet.client, handle.id, first)
    await fleet.apply(fleet.document(replicas=6, image="registry.local/web:2"))
    view = await fleet.until(handle, lambda view: is_rolled_out(view) and len(view.history) == 2)
    assert [each.number for each in view.history if each.good_since] == [1, 2]
    await handle.execute_update("undo", {"toRevision": 1})
    await fleet.until(handle, lambda new: is_rolled_out(new) and new.good == view.history[0].template)


async def remove_run(client: Client, workflow_id: str, run_id: str) -> None:
    """Delete a closed run, and wait until the server no longer has it."""
    closed = WorkflowExecution(workflow_id=workflow_id, run_id=run_id)
    request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=closed)
    await client.workflow_service.delete_workflow_execution(request)

    async def is_gone() -> bool:
        try:
            await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
        except RPCError as error:
            return error.status == RPCStatusCode.NOT_FOUND
        return False

    await until_asked(is_gone)


# --- a Pod by itself --------------------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_is_placed_changed_where_it_is_and_deleted(fleet: Fleet) -> None:
    first = await fleet.join(1)
    second = await fleet.join(2)
    handle = await fleet.apply(fleet.pod(nodeSelector={"kubernetes.io/hostname": second.name}))
    view = await fleet.until(handle, partial(is_on, second))
    assert ([each.name for each in view.pods], view.says) == ([fleet.prefix], f"it is on {second.name}")
    assert (first.names(), second.names()) == ([], [fleet.prefix])
    await fleet.apply(fleet.pod(image="registry.local/web:2", nodeSelector={"kubernetes.io/hostname": second.name}))
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
    while second.taken.pods[0]["spec"]["containers"][0]["image"] != "registry.local/web:2":
        assert time.monotonic() < deadline, second.taken
        await asyncio.sleep(next(pause))
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("apply", fleet.pod())
    assert "spec.nodeSelector: must not be changed once a node is chosen" in str(refused.value.cause)
    await handle.execute_update("delete")
    await handle.result()
    assert second.names() == []


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_that_has_no_node_waits_and_may_still_change(fleet: Fleet) -> None:
    machine = await fleet.join(1)
    handle = await fleet.apply(fleet.pod(nodeSelector={"disk": "ssd"}))
    view = await fleet.until(handle, lambda view: view.pending and view.pending[0].why)
    assert view.pending[0].name == fleet.prefix and "didn't match Pod's node affinity/selector" in view.pending[0].why
    assert view.says == f"it is on no node: {view.pending[0].why}"
    await fleet.apply(fleet.pod())
    await fleet.until(handle, partial(is_on, machine))


@pytest.mark.asyncio(loop_scope="session")
async def test_a_fleet_that_forgot_a_pod_takes_it_over(fleet: Fleet) -> None:
    machines = [await fleet.join(number) for number in (1, 2)]
    handle = await fleet.apply(fleet.pod())
    view = await fleet.until(handle, is_settled)
    before = [machine.names() for machine in machines]
    await handle.terminate()
    await fleet.apply(fleet.pod())
    assert (await fleet.until(handle, is_settled)).pods[0].node == view.pods[0].node
    assert [machine.names() for machine in machines] == before


@pytest.mark.asyncio(loop_scope="session")
async def test_a_lost_pod_is_replaced_under_its_name_and_one_copy_goes(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_node, "HEARTBEAT_SECONDS", 0.5)
    for number in (1, 2):
        await fleet.join(number, grace=2)
    handle = await fleet.apply(fleet.pod(annotations={"syncpod.dev/when-lost": "replace-after=10s"}))
    lost = (await fleet.until(handle, is_settled)).pods[0].node
    (other,) = set(fleet.machines) - {lost}
    await fleet.lose(lost)
    view = await fleet.until(handle, lambda view: len(view.pods) == 2 and view.available == 1)
    assert [each.name for each in view.pods] == [fleet.prefix] * 2
    assert [each.replaced_by for each in view.pods if each.node == lost] == [f"{fleet.prefix} on {other}"]
    assert fleet.machines[other].names() == [fleet.prefix]
    await fleet.bring_back(lost)
    view = await fleet.until(handle, lambda view: [each.node for each in view.pods] == [other])
    (said,) = [each.message for each in view.events if each.reason == "Withdrawn"]
    replacement = f"{fleet.prefix} on {other} has been ready since"
    assert said.startswith(f"{fleet.prefix} on {lost} is removed: its replacement {replacement}")
    assert fleet.running() == [fleet.prefix]


# --- drained nodes ----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="session")
async def test_a_drained_node_keeps_a_pod_until_another_is_available_elsewhere(fleet: Fleet) -> None:
    machine = await fleet.join(1)
    handle = await fleet.apply(
        fleet.document(replicas=1, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    )
    good = (await fleet.until(handle, is_rolled_out)).good
    node = fleet.client.get_workflow_handle(fleet_node_id(machine.name))
    await node.execute_update("drain")
    view = await fleet.until(handle, lambda view: view.pending and view.pending[0].why)
    assert "node(s) were unschedulable" in view.pending[0].why
    assert machine.names() == [f"{fleet.prefix}-1"] and view.available == 1
    other = await fleet.join(2)
    view = await fleet.until(handle, lambda view: is_rolled_out(view) and len(view.pods) == 1)
    assert (view.good, machine.names(), other.names()) == (good, [], [f"{fleet.prefix}-2"])
    (said,) = [each.message for each in view.events if each.reason == "Withdrawn"]
    assert said == f"{fleet.prefix}-1 on {machine.name} is removed: {machine.name} is being drained"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_moves_from_a_drained_node_and_a_node_that_is_uncordoned_keeps_its_own(fleet: Fleet) -> None:
    machines = {(each := await fleet.join(number)).name: each for number in (1, 2)}
    handle = await fleet.apply(fleet.pod())
    at = (await fleet.until(handle, is_settled)).pods[0].node
    (other,) = machines.keys() - {at}
    for name, change in ((other, "cordon"), (at, "drain"), (other, "uncordon")):
        await fleet.client.get_workflow_handle(fleet_node_id(name)).execute_update(change)
    await fleet.until(handle, partial(is_on, machines[other]))
    assert (machines[at].names(), machines[other].names()) == ([], [fleet.prefix])
    node = fleet.client.get_workflow_handle(fleet_node_id(at))
    await node.execute_update("uncordon")
    view = await node.query("fleet_node")
    assert (view["draining"], view["unschedulable"]) == (False, False)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_that_is_deleted_by_force_is_replaced_without_its_nodes_word(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_node, "HEARTBEAT_SECONDS", 0.5)
    for number in (1, 2):
        await fleet.join(number, grace=2)
    handle = await fleet.apply(fleet.pod())
    lost = (await fleet.until(handle, is_settled)).pods[0].node
    (other,) = set(fleet.machines) - {lost}
    await fleet.lose(lost)
    await fleet.until(handle, lambda view: view.pods[0].status == "Unknown")
    node = fleet.client.get_workflow_handle(fleet_node_id(lost))
    await node.execute_update("withdraw", {"pods": [{"name": fleet.prefix}], "force": True})
    await fleet.until(handle, partial(is_on, fleet.machines[other]))
    assert fleet.running() == [fleet.prefix] * 2, "the lost node runs what it had"
    await fleet.bring_back(lost)
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
    while fleet.machines[lost].names():
        assert time.monotonic() < deadline
        await asyncio.sleep(next(pause))
    reasons = [each["reason"] for each in (await node.query("fleet_node"))["events"]]
    assert "ForcedDeletion" in reasons


# --- a node that leaves the fleet -------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="session")
async def test_a_survey_names_the_nodes_without_an_offer_but_none_that_has_left(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the server still lists a node that has left: its lists lag behind."""
    first, second = [await fleet.join(number) for number in (1, 2)]
    name = f"{fleet.prefix}-3"
    fleet.machines[name] = Machine(name)
    fleet.machines[name].speaks.clear()
    await fleet.begin_to_join(3)
    deadline, pause, runs = time.monotonic() + PATIENCE, pauses(0.02), list[Any]()
    while len(runs) < 3:
        assert time.monotonic() < deadline
        await asyncio.sleep(next(pause))
        listed = [run async for run in fleet.client.list_workflows(f"WorkflowType = '{FLEET_NODE_WORKFLOW}'")]
        runs = [run for run in listed if run.id.startswith(fleet_node_id(fleet.prefix))]
    gone = fleet.client.get_workflow_handle(fleet_node_id(second.name))
    await fleet.remove(second.name)
    await gone.result()

    async def list_workflows(_query: str) -> AsyncIterator[Any]:
        for run in runs:
            yield run

    monkeypatch.setattr(fleet.client, "list_workflows", list_workflows)
    monkeypatch.setattr(fleet_workload, "_QUERY", timedelta(seconds=PATIENCE))
    found = await ActivityEnvironment().run(fleet_steps(fleet.client)[0], Survey(owner="o"))
    assert [each.name for each in found.nodes] == [first.name] and found.unseen == (name,) and not found.missed


@pytest.mark.asyncio(loop_scope="session")
async def test_a_removed_node_gets_no_pod_of_a_daemon_set(fleet: Fleet) -> None:
    first, second = [await fleet.join(number) for number in (1, 2)]
    handle = await fleet.apply(fleet.document("DaemonSet"))
    await fleet.until(handle, partial(has_available, 2))
    await fleet.lose(second.name)
    await fleet.remove(second.name)
    await fleet.until(handle, lambda view: has_available(1, view) and len(view.pods) == view.desired == 1)
    await fleet.apply(fleet.document("DaemonSet", image="registry.local/web:2"))
    view = await fleet.until(handle, lambda view: has_available(1, view) and view.updated == len(view.pods) == 1)
    assert [(pod.name, pod.node) for pod in view.pods] == [(f"{fleet.prefix}-3", first.name)]


@pytest.mark.asyncio(loop_scope="session")
async def test_pods_of_a_removed_node_run_elsewhere_and_of_two_copies_one_goes_when_it_is_back(fleet: Fleet) -> None:
    first, second = [await fleet.join(number) for number in (1, 2)]
    deployment = await fleet.apply(fleet.document(replicas=2))
    await fleet.until(deployment, is_rolled_out)
    node = fleet.client.get_workflow_handle(fleet_node_id(second.name))
    await fleet.client.get_workflow_handle(fleet_node_id(first.name)).execute_update("cordon")
    pod = await fleet.apply(fleet.pod())
    await fleet.until(pod, partial(is_on, second))
    await fleet.client.get_workflow_handle(fleet_node_id(first.name)).execute_update("uncordon")
    left = second.names()
    await fleet.lose(second.name)
    await fleet.remove(second.name)
    await node.result()
    await fleet.until(pod, partial(is_on, first))
    view = await fleet.until(deployment, lambda view: has_available(2, view) and len(view.pods) == 2)
    assert {each.node for each in view.pods} == {first.name}
    assert second.names() == left, "it was not told"
    generation = second.taken.generation
    await fleet.join(2)
    for handle, number in ((deployment, 2), (pod, 1)):
        back = f" is already on {second.name}"
        await fleet.until(
            handle,
            lambda view, number=number, back=back: (  # type: ignore[misc]
                len(view.pods) == number and any(each.message.endswith(back) for each in view.events)
            ),
        )
    assert len(fleet.running()) == 3 and second.taken.generation > generation


@pytest.mark.asyncio(loop_scope="session")
async def test_a_workload_that_is_being_deleted_is_not_said_to_be_unchanged(fleet: Fleet) -> None:
    machine = await fleet.join(1)
    handle = await fleet.apply(fleet.document(replicas=1))
    await fleet.until(handle, is_rolled_out)
    await fleet.lose(machine.name)
    await handle.execute_update("delete")
    workload, _ = admit_workload(fleet.document(replicas=1))
    with pytest.raises(Failure, match=r"^deployment \S+: it is being deleted; apply it again when it is gone"):
        await fleet_workloads.apply(fleet.client, workload)


# --- revisions --------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="session")
async def test_revisions_are_listed_and_undone(fleet: Fleet) -> None:
    await fleet.join(1)
    handle = await fleet.apply(fleet.document(replicas=1, annotations={"kubernetes.io/change-cause": "the first"}))
    first = (await fleet.until(handle, is_rolled_out)).good
    await fleet.apply(fleet.document(replicas=1, image="registry.local/web:2"))
    second = (await fleet.until(handle, lambda view: is_rolled_out(view) and view.good != first)).good
    await fleet.apply(fleet.document(replicas=1, image=BAD))
    view = await fleet.until(handle, lambda view: is_rolled_out(view) and view.says != f"{second} is rolled out")
    one, two, three = view.history
    assert [each.number for each in view.history] == [1, 2, 3]
    assert (one.template, one.cause, two.template, two.cause) == (first, "the first", second, "")
    assert one.good_since and two.good_since and not three.good_since and BAD not in three.given_up
    assert "fails with CrashLoopBackOff" in three.given_up
    assert (await handle.query("template", three.template))["spec"]["containers"][0]["image"] == BAD

    assert (await handle.execute_update("undo", {}))["template"] == second
    view = await fleet.until(handle, is_rolled_out)
    assert [each.number for each in view.history] == [1, 3, 4]
    assert (await handle.execute_update("undo", {"toRevision": 1}))["template"] == first
    view = await fleet.until(handle, lambda view: is_rolled_out(view) and view.good == first)
    assert [(each.number, each.cause) for each in view.history] == [(3, ""), (4, ""), (5, "the first")]
    assert (await handle.execute_update("undo", {"toRevision": 5}))["skipped"]
    for asked, said in (({"toRevision": 1}, "revision 1 not found; known: 3, 4, 5"), ({"to": 1}, "to: ")):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("undo", asked)
        assert said in str(refused.value.cause)


def is_settled(view: WorkloadView) -> bool:
    return view.available == 1 and len(view.pods) == 1


def is_on(machine: Machine, view: WorkloadView) -> bool:
    return is_settled(view) and view.pods[0].node == machine.name


def numbers(view: WorkloadView) -> tuple[int, ...]:
    """Return what ``get daemonsets`` prints."""
    return (view.desired, view.replicas, view.ready, view.updated, view.available)


@dataclass
class Steps:
    """The steps of a workload, without any node behind them."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    """The requests: the node and the pod of each."""
    silent: str = ""
    """The name of a node that does not answer until `heard` is set."""
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    missed: tuple[str, ...] = ()
    """Nodes that do not report their pods."""
    unread: tuple[str, ...] | None = None
    """Nodes whose lists cannot be read."""
    own: tuple[HostedPods, ...] = ()
    slow: asyncio.Event | None = None
    """Surveys do not return until this is set."""
    surveys: int = 0

    def activities(self) -> list[Callable[..., Any]]:
        @activity.defn(name=SURVEY_NODES)
        async def survey(_asked: Survey) -> Surveyed:
            self.surveys += 1
            if self.slow is not None:
                await self.slow.wait()
            offers = tuple(NodeOffer(name) for name in ("n1", "n2") if name not in (self.unread or ()))
            return Surveyed(nodes=offers, own=self.own, missed=self.missed, unseen=self.unread, unread=self.unread)

        @activity.defn(name=PLACE_PODS)
        async def place(asked: PlacePods) -> PodsPlaced:
            self.asked += [(asked.node, document["metadata"]["name"].rpartition("-")[2]) for document in asked.pods]
            if asked.node == self.silent:
                await self.heard.wait()
            return PodsPlaced()

        @activity.defn(name=WITHDRAW_PODS)
        async def withdraw(_asked: WithdrawPods) -> PodsWithdrawn:
            return PodsWithdrawn()

        return [survey, place, withdraw]

    def worker(self, fleet: Fleet, options: dict[str, Any]) -> Worker:
        """Return a worker of the fleet with these steps."""
        return Worker(
            fleet.client,
            task_queue=fleet.queue,
            workflows=[WorkloadWorkflow],
            activities=self.activities(),
            build_id=build_id("syncpod-test", DIGEST),
            **options,
        )


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_that_does_not_answer_stops_no_other(client: Client, worker_options: dict[str, Any]) -> None:
    fleet, steps = Fleet(client, f"w{uuid.uuid4().hex[:8]}"), Steps(silent="n1", missed=("n9",))
    document = fleet.document(replicas=2)
    del document["spec"]["template"]["spec"]["nodeSelector"]
    async with steps.worker(fleet, worker_options):
        handle = await fleet.apply(document)
        await fleet.until(handle, lambda view: len(steps.asked) == 2)
        (lost,) = [number for node, number in steps.asked if node == "n2"]
        gone = (PodKey(namespace="default", name=f"{fleet.prefix}-{lost}"),)
        await handle.signal("pods_changed", PodsChanged(node="n2", presence="Ready", gone=gone))
        view = await fleet.until(handle, lambda view: len(steps.asked) == 3)
        assert steps.asked[-1] == ("n2", "3")
        assert sorted(pod.node for pod in view.pods) == ["n1", "n2"]
        steps.heard.set()
        steps.missed, surveys = (), steps.surveys
        await handle.execute_update("delete")
        await handle.result()
        assert steps.surveys == surveys + 1, "n9 was asked again before the workload ended"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_new_run_whose_survey_cannot_read_every_node_keeps_the_numbers_and_surveys_again_soon(
    client: Client, worker_options: dict[str, Any]
) -> None:
    fleet, steps = Fleet(client, f"w{uuid.uuid4().hex[:8]}"), Steps(unread=())
    document = fleet.document("DaemonSet")
    del document["spec"]["template"]["spec"]["nodeSelector"]
    async with steps.worker(fleet, worker_options):
        handle = await fleet.apply(document)
        await fleet.until(handle, lambda _view: len(steps.asked) == 2)
        for node, number in steps.asked:
            named = f"{fleet.prefix}-{number}"
            there = PlacedPod(name=named, state="taken", report=PodReport(name=named, status="Running", ready=True))
            await handle.signal("pods_changed", PodsChanged(node=node, presence="Ready", pods=(there,)))
        before = await fleet.until(handle, is_rolled_out)
        first, steps.slow = (await handle.describe()).run_id, asyncio.Event()
        await handle.signal("renew", {})
        view = await fleet.until(handle, lambda view: "surveyed again" in view.says)
        assert (await handle.describe()).run_id != first
        assert numbers(view) == numbers(before) == (2, 2, 2, 2, 2)
        steps.unread = ("n2",)
        steps.slow.set()
        view = await fleet.until(handle, lambda view: "no answer from n2" in view.says)
        assert numbers(view) == numbers(before) and not view.complete
        steps.unread = ()
        await fleet.until(handle, is_rolled_out)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_that_ends_during_the_first_survey_is_not_taken_for_running(
    client: Client, worker_options: dict[str, Any]
) -> None:
    fleet, steps = Fleet(client, f"w{uuid.uuid4().hex[:8]}"), Steps(slow=asyncio.Event())
    named = f"{fleet.prefix}-1"
    there = PlacedPod(name=named, state="taken", report=PodReport(name=named, status="Running", ready=True))
    steps.own = (HostedPods(news=PodsChanged(node="n1", presence="Ready", pods=(there,)), revisions={named: "older"}),)
    document = fleet.document(replicas=1)
    del document["spec"]["template"]["spec"]["nodeSelector"]
    async with steps.worker(fleet, worker_options):
        handle = await fleet.apply(document)
        await fleet.until(handle, lambda view: steps.surveys == 1)
        gone = (PodKey(namespace="default", name=named),)
        await handle.signal("pods_changed", PodsChanged(node="n1", presence="Ready", gone=gone))
        await handle.query("workload")  # answered only after the signal was handled
        assert steps.slow is not None
        steps.slow.set()
        view = await fleet.until(handle, lambda view: len(steps.asked) == 1)
        assert [pod.name for pod in view.pods] == [f"{fleet.prefix}-2"]
        await handle.execute_update("delete")
        await handle.result()
