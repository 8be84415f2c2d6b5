"""Records missing histories of a fleet's workflows: `python -m tests.replay.record_fleet`.

As for pods, the histories in the repository must continue to replay, and those of a released version are never recorded
again. Each story names the workflows whose histories are kept, with every run of each.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from temporalio.client import Client, WithStartWorkflowOperation, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

from activities import fleet_node
from activities.fleet_node import remote_command_answer
from activities.fleet_objects import object_steps
from activities.fleet_workload import fleet_steps
from syncpod.lifecycle.version import build_id
from syncpod.messages.fleet import FleetNodeView, fleet_node_id
from syncpod.messages.fleet_objects import FLEET_OBJECT_WORKFLOW, PutObject, object_id
from syncpod.messages.remote_command import (
    REMOTE_COMMAND_WORKFLOW,
    RemoteCommand,
    RemoteCommandPiece,
    remote_command_id,
)
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.replay.record import TODAY
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.workflows.sandbox import sandboxed_runner
from tests.workflows.scripted import DIGEST
from tests.workflows.test_fleet_objects import Marked
from tests.workflows.test_workload import (
    BAD,
    PATIENCE,
    Fleet,
    has_available,
    is_on,
    is_rolled_out,
    is_settled,
    until_told_of_room,
)
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.object import FleetObjectWorkflow
from workflows.fleet.remote_command import RemoteCommandWorkflow
from workflows.fleet.workload import WorkloadWorkflow

HISTORIES = Path(__file__).parent / "fleet_histories"

WORKFLOWS = (FleetNodeWorkflow, FleetObjectWorkflow, WorkloadWorkflow, RemoteCommandWorkflow)

Handle = WorkflowHandle[Any, Any]
Recorded = Mapping[str, Handle]
"""The workflows whose histories are kept, by the word for each in their files' names.

A handle without a run is of the newest chain of runs.
"""
Story = Callable[[Fleet], Awaitable[Recorded]]


async def renewed(handle: Handle) -> None:
    """Let a run continue as new, and wait for the next one."""
    before = (await handle.describe()).run_id
    await handle.signal("renew", {})
    deadline = time.monotonic() + PATIENCE
    while (await handle.describe()).run_id == before:
        assert time.monotonic() < deadline, handle.id
        await asyncio.sleep(0.05)


def node(fleet: Fleet, name: str) -> Handle:
    """Return the handle of a node's workflow."""
    return fleet.client.get_workflow_handle(fleet_node_id(name))


async def until_node(handle: Handle, seen: Callable[[FleetNodeView], Any]) -> FleetNodeView:
    """Wait until a node's workflow shows this."""
    deadline = time.monotonic() + PATIENCE
    while not seen(view := FleetNodeView.model_validate(await handle.query("fleet_node"))):
        assert time.monotonic() < deadline, view.model_dump_json(indent=1)
        await asyncio.sleep(0.05)
    return view


async def deployment(fleet: Fleet) -> Recorded:
    """Spread, rolled out with a surge, scaled up and down, a node lost and back, rolled back, undone and deleted."""
    for number in (1, 2):
        await fleet.join(number, grace=2)
    strategy = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    rule = {"syncpod.dev/when-lost": "replace-after=10s"}
    wanted = partial(fleet.document, strategy=strategy, annotations=rule)
    handle = await fleet.apply(wanted(replicas=2))
    first = (await fleet.until(handle, partial(has_available, 2))).good
    await fleet.apply(wanted(replicas=2, image="registry.local/web:2"))
    await fleet.until(handle, lambda view: has_available(2, view) and view.good != first and len(view.pods) == 2)
    await fleet.apply(wanted(replicas=3, image="registry.local/web:2"))
    await fleet.until(handle, partial(has_available, 3))
    await renewed(handle)
    await fleet.apply(wanted(replicas=1, image="registry.local/web:2"))
    view = await fleet.until(handle, lambda view: has_available(1, view) and len(view.pods) == 1)
    lost = view.pods[0].node
    await fleet.lose(lost)
    await fleet.until(handle, lambda view: len(view.pods) > 1 and view.available == 1)
    await fleet.bring_back(lost)
    await fleet.until(handle, lambda view: has_available(1, view) and len(view.pods) == 1)
    await renewed(handle)
    await fleet.apply(wanted(replicas=1, image=BAD))
    await fleet.until(handle, lambda view: is_rolled_out(view) and "back to" in view.says and len(view.pods) == 1)
    await handle.execute_update("undo", {"toRevision": 1})
    await fleet.until(handle, lambda view: has_available(1, view) and view.good == first and len(view.pods) == 1)
    await handle.execute_update("delete")
    await handle.result()
    return {"workload": handle}


async def namesakes(fleet: Fleet) -> Recorded:
    """A Deployment whose pods get other numbers than it chose: pods of a DaemonSet have their names."""
    await fleet.join(1)
    daemons = await fleet.apply(fleet.document("DaemonSet"))
    await fleet.until(daemons, partial(has_available, 1))
    handle = await fleet.apply(fleet.document(replicas=2))
    await fleet.until(handle, lambda view: has_available(2, view) and "Renamed" in {one.reason for one in view.events})
    return {"workload": handle}


async def forgotten(fleet: Fleet) -> Recorded:
    """A Deployment that the fleet forgot takes over its pods when it is applied again, and gets one more."""
    await fleet.join(1)
    handle = await fleet.apply(fleet.document(replicas=2))
    await fleet.until(handle, partial(has_available, 2))
    await handle.terminate()
    await fleet.apply(fleet.document(replicas=3))
    await fleet.until(handle, lambda view: has_available(3, view) and len(view.pods) == 3)
    return {"workload": handle}


async def daemon_set(fleet: Fleet) -> Recorded:
    """Nodes join, are cordoned, leave and join again; one rollout removes pods first, and another makes new ones."""
    kept = (await fleet.join(1, grace=2)).name
    handle = await fleet.apply(fleet.document("DaemonSet"))
    first = (await fleet.until(handle, partial(has_available, 1))).good
    left = await fleet.begin_to_join(2, grace=2)
    await fleet.until(handle, partial(has_available, 2))
    await fleet.apply(fleet.document("DaemonSet", image="registry.local/web:2"))
    second = await fleet.until(handle, lambda view: has_available(2, view) and view.good != first)
    told = await times_told(handle)
    await node(fleet, kept).execute_update("cordon")
    await asyncio.sleep(3)  # so that a survey finds it cordoned
    await node(fleet, kept).execute_update("uncordon")
    await until_told_of_room(handle, told + 1)
    await renewed(handle)
    await fleet.lose(left)
    await node(fleet, left).execute_update("remove")
    await node(fleet, left).result()
    await fleet.until(handle, lambda view: {each.node for each in view.pods}.isdisjoint({left}))
    surge = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await fleet.apply(fleet.document("DaemonSet", image="registry.local/web:3", updateStrategy=surge))
    await fleet.until(handle, lambda view: has_available(1, view) and view.good != second.good)
    await fleet.join(2, grace=2)
    await fleet.until(handle, partial(has_available, 2))
    await handle.execute_update("delete")
    await handle.result()
    return {"workload": handle}


async def times_told(handle: Handle) -> int:
    """Return how often a workload's run was notified that a node takes pods."""
    events = (await handle.fetch_history()).events
    return sum(each.workflow_execution_signaled_event_attributes.signal_name == "room" for each in events)


async def bare_pod(fleet: Fleet) -> Recorded:
    """A pod is placed, changed, drained from its node, deleted by force from a lost one, taken over, and deleted."""
    for number in (1, 2):
        await fleet.join(number, grace=2)
    handle = await fleet.apply(fleet.pod())
    at = (await fleet.until(handle, is_settled)).pods[0].node
    (other,) = set(fleet.machines) - {at}
    await fleet.apply(fleet.pod(image="registry.local/web:2"))
    await node(fleet, at).execute_update("drain")
    await fleet.until(handle, partial(is_on, fleet.machines[other]))
    await node(fleet, at).execute_update("uncordon")
    await renewed(handle)
    await fleet.lose(other)
    await fleet.until(handle, lambda view: view.pods[0].status == "Unknown")
    forced = {"pods": [{"name": fleet.prefix}], "force": True}
    await node(fleet, other).execute_update("withdraw", forced)
    await fleet.until(handle, partial(is_on, fleet.machines[at]))
    await fleet.bring_back(other)
    await until_node(node(fleet, other), lambda view: not view.placed and view.taken == view.generation)
    await handle.execute_update("delete")
    await handle.result()
    return {"workload": handle, "node": node(fleet, other)}


async def bare_pod_twice(fleet: Fleet) -> Recorded:
    """A lost pod is replaced under its name, and the fleet forgets it: both copies are taken over, and one goes."""
    for number in (1, 2):
        await fleet.join(number, grace=2)
    document = fleet.pod(annotations={"syncpod.dev/when-lost": "replace-after=10s"})
    handle = await fleet.apply(document)
    lost = (await fleet.until(handle, is_settled)).pods[0].node
    await fleet.lose(lost)
    await fleet.until(handle, lambda view: len(view.pods) == 2 and view.available == 1)
    before = fleet.client.get_workflow_handle(handle.id, run_id=(await handle.describe()).run_id)
    await handle.terminate()
    await fleet.apply(document)
    await fleet.until(handle, lambda view: len(view.pods) == 2 and view.available == 1)
    await fleet.bring_back(lost)
    await fleet.until(handle, is_settled)
    return {"before": before, "after": handle}


async def fleet_node_kept(fleet: Fleet) -> Recorded:
    """Lists of a node, pods of no owner, silence, another run, an unknown signal, a drain, and the node's removal."""
    machine = await fleet.join(1, grace=2)
    handle = node(fleet, machine.name)
    pods = [{**fleet.pod(), "metadata": {"name": each}} for each in ("web", "job", "other")]

    async def settled(*names: str) -> None:
        await until_node(handle, lambda view: view.taken == view.generation and view.presence == "Ready")
        assert sorted(machine.names()) == sorted(names)

    await handle.execute_update("place", {"pods": pods})
    await settled("job", "other", "web")
    await handle.execute_update("withdraw", {"pods": [{"name": "job"}], "reason": "not wanted"})
    await until_node(handle, lambda view: [each.name for each in view.placed] == ["other", "web"])
    await fleet.lose(machine.name)
    await until_node(handle, lambda view: view.presence == "Unknown")
    await handle.execute_update("withdraw", {"pods": [{"name": "other"}]})
    await renewed(handle)
    await handle.signal("nothing_known", {})
    await fleet.bring_back(machine.name)
    await settled("web")
    await handle.execute_update("drain")
    await handle.execute_update("withdraw", {"pods": [{"name": "web"}]})
    await until_node(handle, lambda view: not view.placed)
    await handle.execute_update("uncordon")
    await handle.execute_update("place", {"pods": pods[1:2]})
    await settled("job")
    await fleet.lose(machine.name)
    await handle.execute_update("remove")
    await handle.result()
    return {"node": handle}


async def secret(fleet: Fleet) -> Recorded:
    """A Secret is put, changed, renewed and deleted, and its node is notified each time."""
    machine = await fleet.join(1)
    keys = f"{fleet.prefix}-keys"

    async def put(version: str) -> None:
        given = PutObject(kind="Secret", name=keys, version=version, sealed="YQ==")
        begin: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            FLEET_OBJECT_WORKFLOW,
            {},
            id=object_id("Secret", "default", keys),
            task_queue=fleet.queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        body = given.model_dump(mode="json", by_alias=True)
        await fleet.client.execute_update_with_start_workflow("put", body, start_workflow_operation=begin)

    async def given(*versions: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while [each.version for each in machine.taken.objects] != list(versions):
            assert time.monotonic() < deadline, machine.taken
            await asyncio.sleep(0.05)

    await put("a")
    document = fleet.pod()
    document["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": keys}}]
    await node(fleet, machine.name).execute_update("place", {"pods": [document]})
    await given("a")
    await put("b")
    await given("b")
    stored = fleet.client.get_workflow_handle(object_id("Secret", "default", keys))
    await renewed(stored)
    await put("c")
    await given("c")
    await stored.execute_update("delete")
    await stored.result()
    await given()
    return {"object": stored}


async def remote_command(fleet: Fleet) -> Recorded:
    """A piece that a node answers; one that it does not run; and one that nobody takes."""
    name, carriers = f"{fleet.prefix}-1", dict[str, Handle]()

    async def answer(_asked: RemoteCommand) -> RemoteCommandPiece:
        return RemoteCommandPiece(code=0)

    async def carried(part: str, words: tuple[str, ...]) -> RemoteCommandPiece:
        asked = RemoteCommand(fleet="f", node=name, session="s", begin=True, words=words)
        carriers[part] = await fleet.client.start_workflow(
            REMOTE_COMMAND_WORKFLOW,
            asked,
            id=remote_command_id(name, "s", part),
            task_queue=fleet.queue,
            result_type=RemoteCommandPiece,
        )
        piece: RemoteCommandPiece = await carriers[part].result()
        return piece

    async with Worker(fleet.client, task_queue=fleet_node_id(name), activities=[remote_command_answer(answer)]):
        assert (await carried("answered", ("logs", "web"))).code == 0
    assert "not ps" in (await carried("refused", ("ps",))).refused
    assert (await carried("silent", ("exec", "web"))).silent
    return carriers


STORIES: tuple[Story, ...] = (
    deployment,
    namesakes,
    forgotten,
    daemon_set,
    bare_pod,
    bare_pod_twice,
    fleet_node_kept,
    secret,
    remote_command,
)


async def keep(client: Client, handle: Handle, path: Path) -> None:
    """Write the history of each run of a workflow, from the first run of its chain on."""
    run, number = (await handle.describe()).raw_description.workflow_execution_info.first_run_id, 1
    while run:
        history = await client.get_workflow_handle(handle.id, run_id=run).fetch_history()
        events = ",\n".join(json.dumps(each, separators=(",", ":")) for each in history.to_json_dict()["events"])
        (path.parent / f"{path.name}-{number}.json").write_text(f'{{"events":[\n{events}\n]}}\n')
        print(f"{path.name}-{number}: {len(history.events)} events")  # noqa: T201  # a tool for people
        run = history.events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        number += 1


async def lived(client: Client, story: Story, directory: Path) -> None:
    """Live through a story, and write its histories; its nodes leave the server afterwards."""
    fleet = Fleet(client, story.__name__.replace("_", ""))
    async with Worker(
        client,
        task_queue=fleet.queue,
        workflows=WORKFLOWS,
        activities=[*fleet_steps(client), *object_steps(client, Marked())],
        workflow_runner=sandboxed_runner(),
        build_id=build_id("syncpod-test", DIGEST),
    ):
        try:
            for word, handle in (await story(fleet)).items():
                await keep(client, handle, directory / f"{story.__name__}-{word}")
        finally:
            for name in list(fleet.workers):
                await fleet.lose(name)
            for each in dict.fromkeys(fleet.started):
                if (await client.get_workflow_handle(each).describe()).close_time is None:
                    await client.get_workflow_handle(each).terminate()


async def main() -> None:
    """Record the missing histories in `fleet_histories`."""
    directory = HISTORIES / TODAY
    directory.mkdir(parents=True, exist_ok=True)
    with DevServer.launch() as server, patch.object(fleet_node, "HEARTBEAT_SECONDS", 0.5):
        client = await connect(
            server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()], identity="recorder"
        )
        for story in STORIES:
            if not any(directory.glob(f"{story.__name__}-*.json")):
                await lived(client, story, directory)


if __name__ == "__main__":
    asyncio.run(main())
