"""A fleet whose worker accepts only signed commands: what a stranger sends to its server has no effect.

Holds: Only users who can read the keys in a fleet's directory can command the fleet.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import (
    ActivityFailureError,
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue
from temporalio.envconfig import ClientConnectConfig
from temporalio.worker import Replayer, Worker

from activities.fleet_node import fleet_answers
from activities.fleet_objects import object_steps
from activities.fleet_workload import fleet_steps
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet_answers as fleet_answers_of_commands
from syncpod.fleet_client import FleetAccess, access_to, connect_to_fleet, verifying_client
from syncpod.gate.authority import Fleet as Authority
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.lifecycle.version import build_id
from syncpod.messages.encryption import UNKNOWN_KEY, Undecipherable
from syncpod.messages.fleet import FLEET_NODE_WORKFLOW, fleet_node_id
from syncpod.messages.remote_command import REMOTE_COMMAND_WORKFLOW, RemoteCommand, remote_command_id
from syncpod.messages.signature import SIGNATURE
from syncpod.messages.workload import PLACE_PODS, WORKLOAD_WORKFLOW, WorkloadView
from syncpod.temporal.queries import AskAgain
from syncpod.temporal.sealing import FleetKey, fleet_converter, node_codec
from syncpod.temporal.signed_steps import FleetSigningWorker
from syncpod.temporal.signing import SigningClient
from tests.agent.waiting import pauses
from tests.workflows.raw_signals import signal_raw
from tests.workflows.sandbox import Sandbox
from tests.workflows.scripted import DIGEST
from tests.workflows.test_fleet_objects import Marked
from tests.workflows.test_workload import PATIENCE, Fleet, Machine
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.object import FleetObjectWorkflow
from workflows.fleet.remote_command import RemoteCommandWorkflow
from workflows.fleet.workload import WorkloadWorkflow
from workflows.runner import workflow_runner

WORKFLOWS = [FleetNodeWorkflow, FleetObjectWorkflow, WorkloadWorkflow, RemoteCommandWorkflow]
UNSIGNED = "is refused, since it is not signed: a fleet's commands must be signed with the keys in its directory"


@dataclass
class SignedFleet(Fleet):
    """A fleet with signed commands, and nodes with certificates. `client` has the keys, `stranger` has none."""

    stranger: Client = field(kw_only=True)
    access: FleetAccess = field(kw_only=True)
    authority: Authority = field(kw_only=True)

    def worker(self, queue: str = "") -> Worker:
        """Run a worker of the fleet as in production; a worker for another queue gets only the tasks there."""
        return Worker(
            verifying_client(self.client, self.access),
            task_queue=queue or self.queue,
            workflows=WORKFLOWS,
            activities=[*fleet_steps(self.client), *object_steps(self.client, Marked())],
            interceptors=[FleetSigningWorker()],
            build_id=build_id("syncpod-test", DIGEST),
            workflow_runner=Sandbox(),
        )

    async def join(self, number: int, grace: float = 60) -> Machine:
        """Let a node join, and wait until its workflow has got a report. Lists include nodes of other tests' fleets."""
        name = await self.begin_to_join(number, grace)
        handle, deadline, pause = self.client.get_workflow_handle(fleet_node_id(name)), time.monotonic(), pauses(0.02)
        while (view := await handle.query("fleet_node"))["presence"] != "Ready":
            assert time.monotonic() < deadline + PATIENCE, view
            await asyncio.sleep(next(pause))
        return self.machines[name]

    async def bring_back(self, name: str) -> None:
        assert isinstance(self.access.sealing, FleetSealingKeys)
        pair = self.authority.issue(name, timedelta(hours=1), now())
        config = self.stranger.config()
        config["data_converter"] = fleet_converter(node_codec(pair.key, FleetKey(self.access.sealing.public_pem())))
        node = Client(**config)
        worker = Worker(node, task_queue=fleet_node_id(name), activities=fleet_answers(self.machines[name]))
        await worker.__aenter__()
        self.workers[name] = worker

    async def replays(self, handle: WorkflowHandle[Any, Any]) -> None:
        """Assert that a run's history replays."""
        await Replayer(
            workflows=WORKFLOWS,
            data_converter=self.access.converter(verifies=True),
            interceptors=[FleetSigningWorker()],
            workflow_runner=workflow_runner(),
            namespace=self.client.namespace,
        ).replay_workflow(await handle.fetch_history())


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(client: Client, tmp_path: Path) -> AsyncIterator[SignedFleet]:
    access = access_to(tmp_path)
    settings = ClientConnectConfig(target_host=client.service_client.config.target_host, namespace=client.namespace)
    owner = await connect_to_fleet(settings, access)
    authority = open_fleet(fleet_directory(tmp_path), now())
    fleet = SignedFleet(owner, f"s{uuid.uuid4().hex[:8]}", stranger=client, access=access, authority=authority)
    async with fleet.worker():
        yield fleet
        for name in list(fleet.workers):
            await fleet.lose(name)
        for each in dict.fromkeys(fleet.started):
            handle = owner.get_workflow_handle(each)
            if (await handle.describe()).close_time is None:
                await handle.terminate()


def runs(count: int, view: WorkloadView) -> bool:
    """Return whether a workload has this many pods, all of them ready."""
    return len(view.pods) == count == view.ready


async def payloads(handle: WorkflowHandle[Any, Any], kind: str, name: str = "") -> list[Payload]:
    """The first payload of each such event in a history, as anybody with access to the server can read it."""
    found = []
    async for event in handle.fetch_history_events():
        signal, update = (
            event.workflow_execution_signaled_event_attributes,
            event.workflow_execution_update_accepted_event_attributes,
        )
        if kind == "start" and event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            found.append(event.workflow_execution_started_event_attributes.input.payloads[0])
        elif kind == "signal" and signal.signal_name == name != "":
            found.append(signal.input.payloads[0])
        elif kind == "update" and update.accepted_request.input.name == name != "":
            found.append(update.accepted_request.input.args.payloads[0])
    return found


async def said_of(fleet: SignedFleet, handle: WorkflowHandle[Any, Any], query: str, text: str) -> None:
    """Wait until an event of a workflow has this text."""
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
    owned = fleet.client.get_workflow_handle(handle.id)
    while text not in (said := "\n".join(each["message"] for each in (await owned.query(query))["events"])):
        assert time.monotonic() < deadline, said
        await asyncio.sleep(next(pause))


async def refused_update(handle: WorkflowHandle[Any, Any], name: str, given: Any) -> str:
    """The reason why an update is refused, read by the fleet's client, since the stranger cannot read it."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update(name, given)
    return str(refused.value.cause)


async def reads(fleet: SignedFleet) -> Client:
    """A client that sends payloads unchanged, and decrypts what the fleet encrypts."""
    config = fleet.client.config()
    config["interceptors"] = [AskAgain()]
    return Client(**config)


async def why_it_ended(fleet: SignedFleet, workflow_id: str) -> str:
    with pytest.raises(WorkflowFailureError) as failed:
        await fleet.client.get_workflow_handle(workflow_id).result()
    return str(failed.value.cause)


async def test_the_fleet_works_and_a_stranger_commands_nothing(fleet: SignedFleet) -> None:
    machine = await fleet.join(1)
    workload = await fleet.apply(fleet.document(replicas=2))
    await fleet.until(workload, partial(runs, 2))
    names, node = machine.names(), fleet.client.get_workflow_handle(fleet_node_id(machine.name))
    unsigned = await reads(fleet)  # encrypted, even: with a key, but not signed
    for client in (fleet.stranger, unsigned):
        for name, given in (("cordon", {}), ("withdraw", {"pods": [{"name": names[0]}]}), ("remove", {})):
            if client is unsigned:
                assert UNSIGNED in await refused_update(client.get_workflow_handle(node.id), name, given)
            else:
                with pytest.raises(WorkflowUpdateFailedError):
                    await client.get_workflow_handle(node.id).execute_update(name, given)
        for name in ("renew", "object_changed", "key_changed"):
            await client.get_workflow_handle(node.id).signal(name, {"kind": "Secret", "name": "x"})
            await said_of(fleet, node, "fleet_node", f"signal {name} {UNSIGNED}")
        gone = {"node": machine.name, "presence": "Ready", "gone": [{"namespace": "default", "name": names[0]}]}
        await client.get_workflow_handle(workload.id).signal("pods_changed", gone)
        await said_of(fleet, workload, "workload", f"signal pods_changed {UNSIGNED}")
        for kind, id_ in (
            (WORKLOAD_WORKFLOW, f"workload/Pod/default/{fleet.prefix}"),
            (FLEET_NODE_WORKFLOW, "fleet-node/x"),
        ):
            id_ += f"-{uuid.uuid4().hex[:6]}"
            await client.start_workflow(kind, {}, id=id_, task_queue=fleet.queue)
            assert f"the start {UNSIGNED}" in await why_it_ended(fleet, id_)
    asked = RemoteCommand(fleet="f", node=machine.name, session="x", begin=True, words=("exec", "web", "--", "reboot"))
    id_ = remote_command_id(machine.name, uuid.uuid4().hex, "1")
    await fleet.stranger.start_workflow(REMOTE_COMMAND_WORKFLOW, asked, id=id_, task_queue=fleet.queue)
    assert f"the start {UNSIGNED}" in await why_it_ended(fleet, id_)
    assert machine.names() == names
    assert not (await node.query("fleet_node"))["unschedulable"]
    [start] = await payloads(workload, "start")
    assert start.metadata["encoding"] == b"binary/encrypted" and SIGNATURE not in start.metadata
    for handle in (node, workload):
        await fleet.replays(handle)
    # What people do works, also after the runs have continued as new.
    for handle in (node, workload):
        first = (await handle.describe()).run_id
        await handle.signal("renew", {})
        await _until_another_run(handle, first)
    await fleet.apply(fleet.document(replicas=1))
    await fleet.until(workload, lambda view: len(view.pods) == 1)
    await workload.execute_update("delete")
    await workload.result()
    assert machine.names() == []
    for handle in (node, workload):
        await fleet.replays(handle)


async def _until_another_run(handle: WorkflowHandle[Any, Any], first: str) -> None:
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
    while (await handle.describe()).run_id == first:
        assert time.monotonic() < deadline
        await asyncio.sleep(next(pause))


async def test_copies_of_what_the_fleet_was_told_do_nothing(fleet: SignedFleet) -> None:
    machine, other = await fleet.join(1), await fleet.join(2)
    workload = await fleet.apply(fleet.document(replicas=1, nodeSelector={"kubernetes.io/hostname": machine.name}))
    await fleet.until(workload, partial(runs, 1))
    node = fleet.client.get_workflow_handle(fleet_node_id(machine.name))
    [placed] = await payloads(node, "update", "place")
    [start] = await payloads(node, "start")
    told = await payloads(workload, "signal", "pods_changed")
    copies = await reads(fleet)
    generation = (await node.query("intent"))["generation"]
    for target, name, given, why in (
        (machine, "place", placed, "it is a copy of a command that was carried out before"),
        (machine, "withdraw", placed, "it was signed as update/place"),
        (machine, "cordon", start, "it was signed as start"),
        (other, "place", placed, "it was encrypted for another workflow, or altered"),
    ):
        handle = copies.get_workflow_handle(fleet_node_id(target.name))
        assert f"update {name} is refused, since {why}" in await refused_update(handle, name, RawValue(given))
    [step] = [
        event.activity_task_scheduled_event_attributes.input.payloads[0]
        async for event in workload.fetch_history_events()
        if event.activity_task_scheduled_event_attributes.activity_type.name == PLACE_PODS
    ]
    for asked in (RawValue(step), {"node": machine.name}):
        with pytest.raises(ActivityFailureError) as failed:
            await copies.execute_activity(
                PLACE_PODS,
                asked,
                id=f"stranger-{uuid.uuid4().hex}",
                task_queue=fleet.queue,
                start_to_close_timeout=timedelta(seconds=30),
            )
        assert f"step {PLACE_PODS} is refused, since its input is not accepted" in str(failed.value.cause)
    for each in told:
        await signal_raw(fleet.stranger, workload.id, "pods_changed", each)
    why = "signal pods_changed is refused, since it is a copy of an earlier message of the node"
    await said_of(fleet, workload, "workload", why)
    assert (await node.query("intent"))["generation"] == generation
    assert other.names() == []
    for handle in (node, workload):
        await fleet.replays(handle)


async def test_a_start_that_was_signed_long_before_or_for_another_workflow_begins_nothing(fleet: SignedFleet) -> None:
    config = fleet.client.config()
    asked = RemoteCommand(fleet="f", node="n", session="x", begin=True, words=("exec", "web", "--", "reboot"))
    for late, when in ((600, "600 s before"), (-600, "s after")):
        number = time.time_ns() // 1000 - late * 1_000_000
        config["interceptors"] = [SigningClient(partial(int, number))]
        id_ = remote_command_id("n", uuid.uuid4().hex, "1")
        await Client(**config).start_workflow(REMOTE_COMMAND_WORKFLOW, asked, id=id_, task_queue=fleet.queue)
        why = await why_it_ended(fleet, id_)
        assert "the start is refused, since it was signed " in why
        assert when.removeprefix("600 ") in why
        assert "no more than 300 s are accepted" in why
        assert "the clock of the machine that commands the fleet is not that of the fleet's server" in why
        [copied] = await payloads(fleet.client.get_workflow_handle(id_), "start")
        again = remote_command_id("n", uuid.uuid4().hex, "1")
        await fleet.stranger.start_workflow(REMOTE_COMMAND_WORKFLOW, RawValue(copied), id=again, task_queue=fleet.queue)
        assert "it was encrypted for another workflow, or altered" in await why_it_ended(fleet, again)


async def test_a_copy_of_a_start_begins_no_second_run(fleet: SignedFleet) -> None:
    """Even at once: an object that was deleted does not come back, nor does the state of an earlier run."""
    machine = await fleet.join(1)
    workload = await fleet.apply(fleet.document(replicas=1))
    await fleet.until(workload, partial(runs, 1))
    first = (await workload.describe()).run_id
    [start] = await payloads(workload, "start")
    await workload.signal("renew", {})
    await _until_another_run(workload, first)
    [continued] = await payloads(workload, "start")
    await workload.execute_update("delete")
    await workload.result()
    for copied, why in ((start, "it is a copy of the start of"), (continued, f"it was signed as start/{first}")):
        await fleet.stranger.start_workflow(WORKLOAD_WORKFLOW, RawValue(copied), id=workload.id, task_queue=fleet.queue)
        assert f"the start is refused, since {why}" in await why_it_ended(fleet, workload.id)
    assert machine.names() == []


async def test_another_worker_begins_nothing_with_a_copy_of_what_a_run_went_on_with(fleet: SignedFleet) -> None:
    """It has not seen the starts. Only with a copy of the very first one a deleted workload is back.

    So docs/threat-model.md says that of the first five minutes of a workload.
    """
    machine = await fleet.join(1)
    workload = await fleet.apply(fleet.document(replicas=1))
    await fleet.until(workload, partial(runs, 1))
    first = (await workload.describe()).run_id
    [start], [applied] = await payloads(workload, "start"), await payloads(workload, "update", "apply")
    await workload.signal("renew", {})
    await _until_another_run(workload, first)
    [continued] = await payloads(workload, "start")
    await fleet.apply(fleet.document(replicas=2))
    await fleet.until(workload, partial(runs, 2))
    [later] = await payloads(workload, "update", "apply")
    await workload.execute_update("delete")
    await workload.result()

    copies, other = await reads(fleet), f"{fleet.queue}-other"
    handle = copies.get_workflow_handle(workload.id)
    async with fleet.worker(other):
        await copies.start_workflow(WORKLOAD_WORKFLOW, RawValue(continued), id=workload.id, task_queue=other)
        assert f"the start is refused, since it was signed as start/{first}" in await why_it_ended(fleet, workload.id)
        # This one nothing can tell from a first start: the server alone chose the run's id, and keeps nothing that
        # who reaches it could not delete.
        await copies.start_workflow(WORKLOAD_WORKFLOW, RawValue(start), id=workload.id, task_queue=other)
        assert not (await fleet.until(workload, lambda _: True)).pods, "a start alone has nothing to run"
        await handle.execute_update("apply", RawValue(later))
        why = "it is a copy of a command that was carried out before"
        assert why in await refused_update(handle, "apply", RawValue(later))
        await handle.execute_update("apply", RawValue(applied))
        await fleet.until(workload, partial(runs, 1))
        await workload.execute_update("delete")
        await workload.result()
    assert machine.names() == []


async def test_a_run_that_was_reset_goes_on_failing_and_says_why(fleet: SignedFleet) -> None:
    """A stranger can reset a closed run, too: that would bring a deleted workload back."""
    machine = await fleet.join(1)
    workload = await fleet.apply(fleet.document(replicas=1))
    await fleet.until(workload, partial(runs, 1))
    run_id = (await workload.describe()).run_id
    await workload.execute_update("delete")
    await workload.result()
    assert machine.names() == []
    completed = [
        event.event_id
        async for event in workload.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    await fleet.stranger.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=fleet.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workload.id, run_id=run_id),
            reason="by a stranger",
            workflow_task_finish_event_id=completed[len(completed) // 2],
            request_id="reset",
        )
    )
    await _until_a_task_fails(workload, "was reset, and a fleet does not go on with such a run")
    assert machine.names() == []


async def test_what_another_fleet_says_is_refused_and_what_it_begins_does_not_end(
    fleet: SignedFleet, tmp_path: Path
) -> None:
    """Two fleets on one server: the worker that meets the other fleet's workflows may itself be the wrong one."""
    machine = await fleet.join(1)
    node = fleet.client.get_workflow_handle(fleet_node_id(machine.name))
    access = await asyncio.to_thread(access_to, tmp_path / "other")
    target = fleet.client.service_client.config.target_host
    other = await connect_to_fleet(ClientConnectConfig(target_host=target, namespace=fleet.client.namespace), access)
    await other.get_workflow_handle(node.id).signal("renew", {})
    await said_of(fleet, node, "fleet_node", f"signal renew is refused, since {UNKNOWN_KEY}")
    with pytest.raises(Undecipherable):  # what it is answered
        await other.get_workflow_handle(node.id).execute_update("cordon", {})
    assert not (await node.query("fleet_node"))["unschedulable"]
    await fleet.replays(node)
    begun = f"workload/Pod/default/{fleet.prefix}-other"
    fleet.started.append(begun)
    await other.start_workflow(WORKLOAD_WORKFLOW, {}, id=begun, task_queue=fleet.queue)
    why = "was begun by another fleet than the one whose keys this worker has"
    await _until_a_task_fails(fleet.client.get_workflow_handle(begun), why)


async def test_a_run_from_before_its_fleet_signed_fails_with_a_sentence(fleet: SignedFleet, client: Client) -> None:
    name = f"{fleet.prefix}-old"
    left = unawaited_runs()
    former = Worker(
        client,
        task_queue=f"{fleet.queue}-old",
        workflows=WORKFLOWS,
        activities=fleet_steps(client),
        build_id=build_id("syncpod-test", DIGEST),
        workflow_runner=workflow_runner(),
    )
    async with former:
        handle = await client.start_workflow(
            FLEET_NODE_WORKFLOW, {"fleet": "f", "node": name}, id=fleet_node_id(name), task_queue=f"{fleet.queue}-old"
        )
        assert (await handle.query("fleet_node"))["name"] == name
    fleet.started.append(handle.id)
    today = Worker(
        verifying_client(fleet.client, fleet.access),
        task_queue=f"{fleet.queue}-old",
        workflows=WORKFLOWS,
        interceptors=[FleetSigningWorker()],
        build_id=build_id("syncpod-test", DIGEST),
        workflow_runner=workflow_runner(),
    )
    async with today:
        owned = fleet.client.get_workflow_handle(handle.id)
        with pytest.raises(Failure, match=f"^the workflow of node {name} cannot show it: .*terminate it; then apply"):
            await fleet_answers_of_commands.query(fleet.client, owned, "fleet_node")
        await handle.signal("renew", {})
        await _until_a_task_fails(owned, "If it was begun before the fleet's")
    assert unawaited_runs() <= left, "the SDK warns of each in the end"


def unawaited_runs() -> set[int]:
    """The SDK's coroutines of workflow runs that nobody has awaited."""
    found = [each for each in gc.get_objects() if inspect.iscoroutine(each) and each.__name__ == "run_workflow"]
    return {id(each) for each in found if inspect.getcoroutinestate(each) == inspect.CORO_CREATED}


async def _until_a_task_fails(handle: WorkflowHandle[Any, Any], text: str) -> None:
    newest = handle._client.get_workflow_handle(handle.id)  # of whichever run is open
    deadline, pause, said = time.monotonic() + PATIENCE, pauses(0.05), ""
    converter = handle._client.data_converter
    while text not in said:
        assert time.monotonic() < deadline, said
        await asyncio.sleep(next(pause))
        async for event in newest.fetch_history_events():
            failed = event.workflow_task_failed_event_attributes
            if failed.HasField("failure"):
                said += str(await converter.decode_failure(failed.failure)) + "\n"
