"""The pods whose workflows are open are listed by the real server, each time anew."""

from __future__ import annotations

import asyncio
import uuid

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.open_pods import OpenPods, OpenPodsUnknown
from syncpod.messages.identity import pod_workflow_id
from tests.agent.waiting import until_asked
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect


@pytest_asyncio.fixture(loop_scope="session")
async def client(temporal_server: DevServer) -> Client:
    return await connect(temporal_server.address)


async def ours() -> None:
    """The check that the server belongs to the node succeeds."""


QUEUE = f"node/{uuid.uuid4()}"


async def begun(client: Client, namespace: str, name: str, queue: str = QUEUE) -> str:
    """Start a workflow that no worker serves; return its run."""
    handle = await client.start_workflow("PodWorkflow", id=pod_workflow_id(namespace, name), task_queue=queue)
    return str(handle.first_execution_run_id)


async def test_open_pods_are_listed_by_namespace_or_named(client: Client) -> None:
    space, pods = f"n-{uuid.uuid4()}", OpenPods(client, ours, QUEUE)
    web, db = await begun(client, space, "web"), await begun(client, space, "db")
    await begun(client, f"{space}-2", "web")
    both = {f"pod/{space}/web": web, f"pod/{space}/db": db}

    async def are_listed() -> bool:
        runs = {each: listed.run_id for each, listed in (await pods.listed(space)).items()}
        return runs == both and len(await pods.listed(None)) > 2

    await until_asked(are_listed)
    listed = (await pods.listed(space)).values()
    assert pods.are_ours(listed) and not OpenPods(client, ours, "node/another").are_ours(listed)
    assert await pods.named(space, ["web", "db", "nobody"]) == both
    await client.get_workflow_handle(f"pod/{space}/db").terminate()
    assert await pods.named(space, ["db"]) == {}
    assert await pods.still_open([f"pod/{space}/web", f"pod/{space}/db", f"pod/{space}/nobody"]) == {
        f"pod/{space}/web": web
    }
    await begun(client, space, "elsewhere", "node/another")
    with pytest.raises(OpenPodsUnknown):
        await pods.still_open([f"pod/{space}/web", f"pod/{space}/elsewhere"])


async def test_nothing_is_told_of_another_cluster(client: Client) -> None:
    async def another() -> None:
        raise RPCError("another Temporal server answers", RPCStatusCode.UNAVAILABLE, b"")

    pods = OpenPods(client, another, QUEUE)
    for asked in (pods.listed(None), pods.named("default", ["web"])):
        with pytest.raises(OpenPodsUnknown):
            await asked


async def test_nothing_is_told_while_the_server_is_away() -> None:
    with await asyncio.to_thread(DevServer.launch) as server:
        client = await connect(server.address)
    pods = OpenPods(client, ours, QUEUE)
    for asked in (pods.listed(None), pods.named("default", ["web"])):
        with pytest.raises(OpenPodsUnknown):
            await asked
