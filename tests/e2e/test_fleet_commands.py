"""Commands to a whole fleet, with its own server, worker and gate: only users with the fleet's keys can send them.

Holds: Only users who can read the keys in a fleet's directory can command the fleet.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.common import RawValue

from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.messages.fleet import FLEET_QUEUE, fleet_node_id
from syncpod.messages.remote_command import REMOTE_COMMAND_WORKFLOW, RemoteCommand, remote_command_id
from syncpod.messages.workload import WORKLOAD_WORKFLOW
from syncpod.settings.directories import STATE_DIR
from syncpod.settings.membership import keep_membership
from syncpod.signing.keys import make_signing_keys
from syncpod.temporal.plugin import DATA_CONVERTER
from tests.e2e.test_fleet import FleetOfOne, Node, pod, words
from tests.e2e.test_fleet import fleet as _fleet
from tests.e2e.test_fleet import node as _node
from tests.e2e.test_fleet_placement import deployment, joined, until

fleet, node = _fleet, _node
"""The same fixtures, for this module."""


def _sockets(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(directory) / name).is_socket()]


async def _start_of(client: Client, workflow_id: str) -> Payload:
    """The input of a workflow's run, as anybody with access to the server can read it."""
    history = await client.get_workflow_handle(workflow_id).fetch_history()
    return history.events[0].workflow_execution_started_event_attributes.input.payloads[0]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_stranger_at_the_servers_port_commands_nothing(node: Node, fleet: FleetOfOne, tmp_path: Path) -> None:
    name, web = node.name, f"web-{node.name}"
    keep_membership(node.state_dir, fleet.invitation(name))
    await joined(fleet, name)  # the gate has introduced it
    await fleet.say("apply", "-f", "-", stdin=pod(web, name))
    shop = f"shop-{name}"
    await fleet.say("apply", "-f", "-", stdin=deployment(shop, 1, {}))
    await until(fleet, ("get", "pods"), lambda out: out.count("Running") == 2)

    stranger = await Client.connect(fleet.server.address, data_converter=DATA_CONVERTER)
    handle, workload = stranger.get_workflow_handle(fleet_node_id(name)), f"workload/Deployment/default/{shop}"
    withdraw = {"pods": [{"namespace": "default", "name": web}], "reason": "mine"}
    for change, given in (("withdraw", withdraw), ("cordon", {}), ("remove", {})):
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(change, given)
    await handle.signal("renew", {})
    asked = RemoteCommand(
        fleet=fleet.authority.id, node=name, session="mine", begin=True, words=("exec", web, "--", "id")
    )
    starts: tuple[tuple[str, Any, str], ...] = (
        (REMOTE_COMMAND_WORKFLOW, asked, remote_command_id(name, "mine", "1")),
        (WORKLOAD_WORKFLOW, {}, f"{workload}-mine"),
        (WORKLOAD_WORKFLOW, RawValue(await _start_of(stranger, workload)), f"{workload}-mine"),
    )
    for kind, given, id_ in starts:
        await stranger.start_workflow(kind, given, id=id_, task_queue=FLEET_QUEUE)
        with pytest.raises(WorkflowFailureError) as failed:
            await fleet.client.get_workflow_handle(id_).result()
        assert "the start is refused, since it " in str(failed.value.cause)

    # Nor does another fleet, whose worker or commands were pointed at the same server.
    elsewhere = tmp_path / "elsewhere"
    authority = await asyncio.to_thread(open_fleet, fleet_directory(elsewhere), now())
    other = replace(fleet, environ={**fleet.environ, STATE_DIR: str(elsewhere)})
    holds = f"holds fleet {fleet.authority.id}, and the keys here are of fleet {authority.id}: "
    secret = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}})
    gate = ("gate", "--listen", "127.0.0.1:0")
    for words_ in (("serve",), gate, ("apply", "-f", "-"), ("cordon", name), ("get", "nodes")):
        assert holds in (await other.say(*words_, code=2, stdin=secret)).err

    # Nor does who has the fleet's directory without its key: no command is sent that its workflows could not read.
    copy = tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, fleet.authority.directory, copy / "fleet", ignore=_sockets)
    (had,) = (copy / "fleet" / "keys").glob("*.key")
    had.unlink()
    make_signing_keys(copy / "fleet")
    other = replace(fleet, environ={**fleet.environ, STATE_DIR: str(copy)})
    lacks = f"{copy}/fleet/keys: lacks the key {had.stem!r} that the fleet's server is encrypted with: "
    for words_ in (("cordon", name), ("delete", f"deployment/{shop}"), ("describe", "node", name)):
        assert lacks in (await other.say(*words_, code=2)).err

    described = (await fleet.say("describe", "node", name)).out
    assert (
        "signal renew is refused, since it is not signed: a fleet's commands must be signed with the keys in its"
        in described
    )
    for words_ in (("cordon", name), ("uncordon", name), ("rollout", "restart", f"deployment/{shop}")):
        await fleet.say(*words_)
    assert words(await fleet.until(name, lambda view: view.presence == "Ready"))[web] == "Running"
    await fleet.say("delete", web)
    await fleet.say("delete", f"deployment/{shop}")
