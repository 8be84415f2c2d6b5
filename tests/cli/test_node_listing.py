"""`get nodes` if workflows of nodes do not answer."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.cli.temporal.liveness import lives
from syncpod.messages.node import NODE_MEMO, NODE_WORKFLOW
from tests.agent.waiting import until_asked
from tests.cli.conftest import Command, silent_node
from tests.cli.manifests import fresh_name


@workflow.defn(name="Nothing")
class Nothing:
    """A workflow that lets a worker poll a task queue."""

    @workflow.run
    async def run(self) -> None:
        """Do nothing."""


async def test_watching_nodes_prints_a_line_for_each_change(client: Client) -> None:
    name = f"n-{fresh_name()}"
    command = (sys.executable, "-m", "syncpod.cli.main", "get", "node", name, "-w")
    environ = {**os.environ, "TEMPORAL_ADDRESS": client.service_client.config.target_host}
    watching: asyncio.subprocess.Process | None = None
    try:
        async with asyncio.timeout(60):
            async with silent_node(client, name, cordoned=True):
                watching = await asyncio.create_subprocess_exec(*command, env=environ, stdout=asyncio.subprocess.PIPE)
                assert watching.stdout is not None
                assert (await watching.stdout.readline()).split()[:2] == [b"NAME", b"STATUS"]
                assert (await watching.stdout.readline()).split()[:2] == [name.encode(), b"NotReady,SchedulingDisabled"]
            async with silent_node(client, name, cordoned=False):
                assert (await watching.stdout.readline()).split()[:2] == [name.encode(), b"NotReady"]
            watching.send_signal(signal.SIGINT)
            assert await watching.wait() == 130
    finally:
        if watching is not None and watching.returncode is None:
            watching.kill()


async def test_the_labels_of_a_node_are_columns(syncpod: Command, client: Client) -> None:
    name = f"n-{fresh_name()}"
    labels = {"kubernetes.io/hostname": name, "disk": "ssd"}
    async with silent_node(client, name, cordoned=False, labels=labels):
        shown = await syncpod("get", "node", name, "-L", "kubernetes.io/hostname", "--show-labels")
        described = await syncpod("describe", "node", name)
        document = json.loads((await syncpod("get", "node", name, "-o", "json")).out)
        chosen = await syncpod("get", "nodes", "-l", f"kubernetes.io/hostname={name}", "-o", "name")
        fields = await syncpod("get", "nodes", "--field-selector", f"metadata.name={name}", "-o", "name")
        others = await syncpod("get", "nodes", "-l", "kubernetes.io/hostname=none", "--sort-by", ".metadata.name")
    assert chosen.out == fields.out == f"node/{name}\n"
    assert (others.out, others.err) == ("", "No resources found\n")
    head, line = shown.out.splitlines()
    assert (head.split()[-2:], line.split()[-2]) == (["HOSTNAME", "LABELS"], name)
    assert line.split()[-1] == f"disk=ssd,kubernetes.io/hostname={name}"
    assert re.search(rf"^Labels: +disk=ssd\n +kubernetes.io/hostname={name}$", described.out, re.MULTILINE)
    assert document["metadata"]["labels"] == labels


async def test_a_workflow_that_is_not_a_nodes_is_named_in_its_place(syncpod: Command, client: Client) -> None:
    name = f"n-{fresh_name()}"
    squatter = await client.start_workflow("Squatter", id=f"node/{name}", task_queue="elsewhere")
    try:
        shown = [await syncpod(*verb, name) for verb in (("get", "node"), ("describe", "node"), ("cordon",))]
    finally:
        await squatter.terminate()
    for each in shown:
        assert (each.code, "is not the node's, but a Squatter on task queue elsewhere" in each.err) == (1, True), each
    gone = await syncpod("get", "node", name)
    assert (gone.code, "Squatter" in gone.err) == (1, False)


@pytest.mark.parametrize(
    "memo", [{"unschedulable": 5, "labels": 7}, RawValue(Payload(metadata={"encoding": b"no/such"}))]
)
async def test_a_memo_that_no_node_has_written_counts_as_none(syncpod: Command, client: Client, memo: object) -> None:
    name = f"n-{fresh_name()}"
    written = await client.start_workflow(
        NODE_WORKFLOW, id=f"node/{name}", task_queue=f"nobody/{name}", memo={NODE_MEMO: memo}
    )
    try:
        listed = await syncpod("get", "nodes")
    finally:
        await written.terminate()
    assert (listed.code, "Traceback" in listed.err) == (0, False)
    assert f"{name} NotReady" in " ".join(listed.out.split())


async def test_a_node_whose_workflow_was_terminated_is_not_said_to_have_never_been(
    syncpod: Command, client: Client
) -> None:
    """A node that refuses its cancellation names that command; the workflow begins again half a minute later."""
    name = f"n-{fresh_name()}"
    queue = f"node/{name}"
    workflow_id = f"node/{name}"
    await client.start_workflow(NODE_WORKFLOW, id=workflow_id, task_queue=queue)
    await client.get_workflow_handle(workflow_id).terminate(reason="no use")
    away = await syncpod("describe", "node", name)
    assert f'nodes "{name}" not found (its workflow was terminated at ' in away.err, away
    assert ": no use; no worker serves the node: `syncpod up` there starts both again)" in away.err, away
    async with Worker(client, task_queue=queue, workflows=[Nothing], workflow_runner=UnsandboxedWorkflowRunner()):
        await until_asked(lambda: lives(client, name))
        shown = [await syncpod(*verb, name) for verb in (("get", "node"), ("describe", "node"), ("cordon",))]
        shown += [await syncpod("get", "nodes"), await syncpod("describe", "nodes")]
    for each in shown:
        assert ": no use; its worker starts it again within half a minute" in each.err, each
        assert "No resources found" not in each.err, each
    assert [each.code for each in shown] == [1, 1, 1, 0, 0]
