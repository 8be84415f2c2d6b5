"""Messages about a rejected pod: whether it is tried again, and what an operator can do."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from syncpod.messages.steps import Rejection
from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode, query_pod, start_pod, until
from tests.workflows.test_rejections import WHY, listed

SAYS = f"NodePorts: Pod was rejected: {WHY}"


def has_failed(pod: dict[str, Any]) -> bool:
    return bool(pod["status"]["phase"] == "Failed")


@pytest.mark.parametrize("command", ["retry", "restart"])
async def test_of_a_pod_that_was_applied_by_itself(
    syncpod: Command, client: Client, node: ScriptedNode, command: str
) -> None:
    name = fresh_name()
    node.turn_away(Rejection(reason="NodePorts", message=WHY))
    await syncpod("apply", "-f", "-", "--node", node.queue.removeprefix("node/"), stdin=as_json(manifest(name)))
    await until(client.get_workflow_handle(f"pod/default/{name}"), has_failed)
    said = await syncpod(command, name)
    assert (said.code, said.err) == (
        1,
        f'syncpod: pod "{name}" has not run: {SAYS}. Its node is not asked again: `syncpod delete pod {name}`, '
        "and then apply it anew\n",
    )


async def test_of_a_pod_of_the_nodes_manifests(syncpod: Command, client: Client, node: ScriptedNode) -> None:
    node.turn_away(Rejection(reason="NodePorts", message=WHY))
    handle = await start_pod(client, node, listed())
    await until(handle, has_failed)
    name = (await query_pod(handle))["metadata"]["name"]
    said = await syncpod("restart", name)
    assert (said.code, said.err) == (
        1,
        f'syncpod: pod "{name}" has not run: {SAYS}. Its node is asked again by itself, and now with `syncpod retry '
        f"{name}`\n",
    )
    retried = await syncpod("retry", name, "--wait", "--timeout", "60s")
    assert retried.out == f"pod/{name} retrying (create_sandbox)\npod/{name} ready\n", retried.err
