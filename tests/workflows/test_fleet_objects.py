"""ConfigMaps and Secrets of a fleet on a real server: nodes get only those that their pods refer to.

Holds: No history of a fleet has an object's content in the clear.
"""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.fleet_objects import object_steps
from activities.fleet_workload import fleet_steps
from syncpod.cli.input.deletion_request import Thing
from syncpod.cli.temporal.fleet_deletion import FleetThings
from syncpod.lifecycle.version import build_id
from syncpod.messages.fleet import FleetNodeView, fleet_node_id
from syncpod.messages.fleet_objects import (
    ANNOUNCE_OBJECT,
    FLEET_OBJECT_WORKFLOW,
    FleetObjectRef,
    PutObject,
    object_id,
)
from tests.agent.waiting import pauses
from tests.workflows.scripted import DIGEST
from tests.workflows.test_workload import PATIENCE, Fleet, Machine
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.object import FleetObjectWorkflow
from workflows.fleet.workload import WorkloadWorkflow


class Marked:
    """Seals by writing the recipient's name."""

    current = "k1"

    def seal_key(self, node: str) -> tuple[dict[str, str], bytes]:
        return {}, f"{self.current} for {node}".encode()

    def give(self, key: str, node: str, metadata: Mapping[str, str], kept: bytes) -> tuple[dict[str, str], bytes]:
        return {**metadata, "for": node}, b"for " + node.encode() + b": " + kept


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(client: Client, worker_options: dict[str, Any]) -> AsyncIterator[Fleet]:
    fleet = Fleet(client, f"o{uuid.uuid4().hex[:8]}")
    worker = Worker(
        client,
        task_queue=fleet.queue,
        workflows=[FleetNodeWorkflow, FleetObjectWorkflow, WorkloadWorkflow],
        activities=[*fleet_steps(client), *object_steps(client, Marked())],
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


async def put(fleet: Fleet, name: str, content: str) -> str:
    """Let the fleet store a Secret; return the result."""
    given = PutObject(kind="Secret", name=name, version=content, sealed=base64.b64encode(content.encode()).decode())
    starting: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
        FLEET_OBJECT_WORKFLOW,
        {},
        id=object_id("Secret", "default", name),
        task_queue=fleet.queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    body = given.model_dump(mode="json", by_alias=True)
    answer = await fleet.client.execute_update_with_start_workflow("put", body, start_workflow_operation=starting)
    fleet.started.append(object_id("Secret", "default", name))
    return str(answer["change"])


def pod(name: str, secret: str) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.local/web:1", "envFrom": [{"secretRef": {"name": secret}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


async def until(machine: Machine, objects: dict[str, str | None]) -> None:
    """Wait until a node's list has these objects, by name; None: the node keeps its own."""

    def given() -> dict[str, str | None]:
        return {
            each.name: base64.b64decode(each.sealed).decode() if each.sealed else None for each in machine.taken.objects
        }

    deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
    while given() != objects:
        assert time.monotonic() < deadline, given()
        await asyncio.sleep(next(pause))


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_is_given_what_its_pods_refer_to_and_told_of_each_change(fleet: Fleet) -> None:
    one, other = await fleet.join(1), await fleet.join(2)
    keys, unused = f"{fleet.prefix}-keys", f"{fleet.prefix}-unused"
    assert await put(fleet, keys, "a") == "created"
    await put(fleet, unused, "x")
    for machine, secret in ((one, keys), (other, "nowhere")):
        node = fleet.client.get_workflow_handle(fleet_node_id(machine.name))
        await node.execute_update("place", {"pods": [pod(f"p-{machine.name}", secret)]})
    await until(one, {keys: f"for {one.name}: a"})
    assert (await put(fleet, keys, "a"), await put(fleet, keys, "b")) == ("unchanged", "configured")
    await until(one, {keys: f"for {one.name}: b"})
    assert not other.taken.objects, "it refers to another"
    await fleet.client.get_workflow_handle(object_id("Secret", "default", keys)).execute_update("delete")
    await until(one, {})
    await put(fleet, keys, "c")
    await until(one, {keys: f"for {one.name}: c"})
    node = fleet.client.get_workflow_handle(fleet_node_id(one.name))
    await node.execute_update("withdraw", {"pods": [{"name": f"p-{one.name}"}]})
    await until(one, {})


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_learns_no_secret_by_claiming_a_pod(fleet: Fleet) -> None:
    keys = f"{fleet.prefix}-keys"
    await put(fleet, keys, "a")
    machine = Machine(f"{fleet.prefix}-1")
    claimed = pod(f"{fleet.prefix}-pod", keys)
    claimed["metadata"]["namespace"] = "default"
    fleet.machines[machine.name] = machine
    machine.taken = machine.taken.model_copy(update={"fleet": "f", "node": machine.name, "pods": (claimed,)})
    await fleet.client.start_workflow(
        "FleetNode", {"fleet": "f", "node": machine.name}, id=fleet_node_id(machine.name), task_queue=fleet.queue
    )
    fleet.started.append(fleet_node_id(machine.name))
    await fleet.bring_back(machine.name)
    await until(machine, {keys: None})
    node = fleet.client.get_workflow_handle(fleet_node_id(machine.name))
    await node.execute_update("place", {"pods": [claimed]})
    await until(machine, {keys: f"for {machine.name}: a"})


@pytest.mark.asyncio(loop_scope="session")
async def test_nodes_hear_of_an_object_that_is_applied_again_while_they_hear_that_it_is_gone(
    client: Client, worker_options: dict[str, Any]
) -> None:
    fleet, told, may_end = Fleet(client, f"o{uuid.uuid4().hex[:8]}"), [0], asyncio.Event()
    may_end.set()

    @activity.defn(name=ANNOUNCE_OBJECT)
    async def announce(_changed: FleetObjectRef) -> None:
        told[0] += 1
        await may_end.wait()

    async def until_told(times: int) -> None:
        deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
        while told[0] < times:
            assert time.monotonic() < deadline, told
            await asyncio.sleep(next(pause))

    keys = f"{fleet.prefix}-keys"
    handle = client.get_workflow_handle(object_id("Secret", "default", keys))
    worker = Worker(
        client,
        task_queue=fleet.queue,
        workflows=[FleetObjectWorkflow],
        activities=[announce],
        build_id=build_id("syncpod-test", DIGEST),
        **worker_options,
    )
    async with worker:
        assert await put(fleet, keys, "a") == "created"
        await until_told(1)
        may_end.clear()
        await handle.execute_update("delete")
        await until_told(2)
        things, secret = FleetThings(client), Thing("Secret", "default", keys)
        assert await things.object_left(secret) == "its deletion is being sent to its nodes"
        assert await put(fleet, keys, "a") == "created"
        assert await things.object_left(secret) == "", "it is another one"
        may_end.set()
        await until_told(3)
        await handle.execute_update("delete")
        await handle.result()
        assert await things.object_left(secret) == ""


@pytest.mark.asyncio(loop_scope="session")
async def test_the_same_content_under_another_key_changes_nothing_but_the_seal(fleet: Fleet) -> None:
    """An object that was applied meanwhile is kept, and nodes get no message."""
    keys, machine = f"{fleet.prefix}-keys", await fleet.join(1)
    await put(fleet, keys, "a")
    node = fleet.client.get_workflow_handle(fleet_node_id(machine.name))
    await node.execute_update("place", {"pods": [pod(f"p-{machine.name}", keys)]})
    await until(machine, {keys: f"for {machine.name}: a"})
    handle, generation = (
        fleet.client.get_workflow_handle(object_id("Secret", "default", keys)),
        machine.taken.generation,
    )
    anew = PutObject(kind="Secret", name=keys, version="a2", metadata={"by": "k2"}, sealed="YQ==", replaces="a")
    body = anew.model_dump(mode="json", by_alias=True)
    for _ in range(2):
        assert (await handle.execute_update("put", body))["change"] == "unchanged"
    kept = await handle.query("sealed")
    assert (kept["version"], kept["metadata"], kept["sealed"]) == ("a2", {"by": "k2"}, "YQ==")
    assert await put(fleet, keys, "b") == "configured"
    assert (await handle.execute_update("put", body | {"replaces": "a2"}))["change"] == "unchanged"
    assert (await handle.query("sealed"))["version"] == "b"
    await until(machine, {keys: f"for {machine.name}: b"})
    assert machine.taken.generation == generation + 1


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_is_told_which_key_the_fleet_uses_until_it_trusts_that(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its workflow continues as new: nothing that begins with it needs the earlier key."""
    machine = Machine(f"{fleet.prefix}-1", fleet_key="k1")
    fleet.machines[machine.name] = machine
    await fleet.client.start_workflow(
        "FleetNode", {"fleet": "f", "node": machine.name}, id=fleet_node_id(machine.name), task_queue=fleet.queue
    )
    fleet.started.append(fleet_node_id(machine.name))
    await fleet.bring_back(machine.name)
    handle = fleet.client.get_workflow_handle(fleet_node_id(machine.name))

    async def seen(is_so: Callable[[FleetNodeView], bool]) -> FleetNodeView:
        deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
        while not is_so(view := FleetNodeView.model_validate(await handle.query("fleet_node"))):
            assert time.monotonic() < deadline, view
            await asyncio.sleep(next(pause))
        return view

    await seen(lambda view: view.fleet_key == "k1" and view.taken == view.generation > 0)
    assert machine.taken.key is None, "it trusts the key in use"
    first_run = (await handle.describe()).run_id
    monkeypatch.setattr(Marked, "current", "k2")
    await handle.signal("key_changed")
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
    while machine.taken.key is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(next(pause))
    assert base64.b64decode(machine.taken.key.sealed).decode() == f"k2 for {machine.name}"
    async with machine.news:
        machine.fleet_key, machine.number = "k2", machine.number + 1
        machine.news.notify_all()
    view = await seen(lambda view: view.fleet_key == "k2" and view.taken == view.generation)
    assert view.fleet_key_since is not None
    deadline = time.monotonic() + PATIENCE
    while (await handle.describe()).run_id == first_run:
        assert time.monotonic() < deadline
        await asyncio.sleep(next(pause))


@pytest.mark.asyncio(loop_scope="session")
async def test_a_wrong_object_is_refused_in_one_sentence(fleet: Fleet) -> None:
    keys = f"{fleet.prefix}-keys"
    await put(fleet, keys, "a")
    handle = fleet.client.get_workflow_handle(object_id("Secret", "default", keys))
    for args, why in (
        ([{"keys": "many"}], "keys: "),
        (["words"], ""),
        ([{"kind": "Secret", "name": "other"}], f"must be object/Secret/default/{keys}, is Secret/default/other"),
        ([{}, {}], "takes one payload, got 2"),
    ):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("put", args=args)
        assert isinstance(refused.value.cause, ApplicationError)
        said = refused.value.cause.message
        assert said.startswith(why) and "\n" not in said and "pydantic" not in said, said


@pytest.mark.asyncio(loop_scope="session")
async def test_adopted_pods_of_a_deployment_keep_their_secrets(fleet: Fleet) -> None:
    """The fleet's database was lost, and its manifests are applied anew."""
    keys = f"{fleet.prefix}-keys"
    await put(fleet, keys, "a")
    machine = await fleet.join(1)
    document = fleet.document(replicas=1)
    document["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": keys}}]
    handle = await fleet.apply(document)
    await until(machine, {keys: f"for {machine.name}: a"})
    before = machine.taken.pods
    await handle.terminate()
    await fleet.client.get_workflow_handle(fleet_node_id(machine.name)).terminate()
    await fleet.lose(machine.name)
    await fleet.join(1)
    await until(machine, {keys: None})
    handle = await fleet.apply(document)
    await until(machine, {keys: f"for {machine.name}: a"})
    await put(fleet, keys, "b")
    await until(machine, {keys: f"for {machine.name}: b"})
    assert machine.taken.pods == before, "nothing that would restart it"


@pytest.mark.asyncio(loop_scope="session")
async def test_the_page_of_each_workflow_says_why_a_cancellation_was_not_obeyed(fleet: Fleet) -> None:
    """A person who pressed Cancel looks at that page."""
    machine = await fleet.join(1)
    workload = await fleet.apply(fleet.document(replicas=1))
    keys = f"{fleet.prefix}-keys"
    await put(fleet, keys, "a")
    ways = {
        workload.id: "to end the workload, send the update `delete`",
        fleet_node_id(machine.name): "to remove the node from its fleet, use `syncpod fleet remove`",
        object_id("Secret", "default", keys): "to end the object, send the update `delete`",
    }
    for workflow_id, way in ways.items():
        handle = fleet.client.get_workflow_handle(workflow_id)
        await handle.cancel()
        deadline, pause, page = time.monotonic() + PATIENCE, pauses(0.02), ""
        while f"Last rejected: cancel: {way}" not in page:
            assert time.monotonic() < deadline, page
            await asyncio.sleep(next(pause))
            page = (await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)).current_details
