"""A fleet's sealing key is changed while the fleet serves a complete node, whose pod has a Secret.

Holds: The fleet's sealing key can be changed at any time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from syncpod.messages.fleet import FleetNodeView, fleet_node_id
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.pod import Secret
from syncpod.settings.membership import keep_membership
from tests.agent.waiting import pauses
from tests.cluster.fleets import runs, seen
from tests.e2e.engine import PATIENCE
from tests.e2e.test_fleet import FleetOfOne, Node, fleet, node, words
from tests.e2e.test_fleet_restored import copied
from tests.runtimes.images import BUSYBOX
from tests.runtimes.temporal import DevServer

__all__ = ["fleet", "node"]
AWAY = "Temporal is away: the workflows are dropped from memory"


def is_back(view: FleetNodeView) -> bool:
    """Return whether fleet and node accept each other's messages, and the node has its newest list."""
    return view.presence == "Ready" and view.taken == view.generation and not view.trouble


def secret(word: str) -> str:
    """A Secret's manifest."""
    data = {"password": base64.b64encode(word.encode()).decode()}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": data})


def pod(name: str, node: str) -> str:
    """A pod that refers to it."""
    container = {"name": "main", "image": BUSYBOX, "envFrom": [{"secretRef": {"name": "keys"}}]}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


async def until(seen: Callable[[], Any]) -> None:
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.2)
    while not seen():
        assert time.monotonic() < deadline
        await asyncio.sleep(next(pause))


def held(node: Node) -> str:
    """The value in the Secret that the node has in memory."""
    found = ObjectStore(node.state_dir, node.directory / "memory").get(ObjectRef("Secret", "default", "keys"))
    return base64.b64decode(found.data["password"]).decode() if isinstance(found, Secret) else ""


async def sealing_keys(fleet: FleetOfOne) -> list[tuple[str, str]]:
    """The fleet's sealing keys, the oldest first, with their uses."""
    lines = (await fleet.say("key", "list")).out.splitlines()
    rows = [line.split(maxsplit=2) for line in lines if line.endswith("opens")]
    return [(named, use) for named, _, use in rows]


async def rotated(fleet: FleetOfOne) -> tuple[str, str]:
    """Change the key; return the ids of the earlier key and the new one."""
    before = (await sealing_keys(fleet))[-1][0]
    done = await fleet.say("key", "rotate", "--sealing")
    after = done.out.removeprefix("key/").removesuffix(" seals from now on\n")
    assert await sealing_keys(fleet) == [(before, "opens"), (after, "seals and opens")]
    return before, after


async def removed(fleet: FleetOfOne, key: str) -> None:
    """Remove a key as soon as only closed runs need it."""
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.5)
    while "closed runs cannot be read" not in (refused := (await fleet.say("key", "remove", key, code=1)).err):
        assert time.monotonic() < deadline, refused
        await asyncio.sleep(next(pause))
    assert (await fleet.say("key", "remove", key, "--force")).out == f"key/{key} removed\n"


async def removed_from_nodes(fleet: FleetOfOne, key: str) -> None:
    """Remove a key that nodes which are away still trust, as soon as no open workflow needs it.

    A workflow continues as new when it is quiet, which may be after the change of the key has been answered.
    """
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.5)
    while (done := await fleet.tries("key", "remove", key, "--force")).code:
        assert "could no longer be replayed" in done.err, done
        assert time.monotonic() < deadline, done
        await asyncio.sleep(next(pause))


@pytest.mark.asyncio(loop_scope="session")
async def test_the_sealing_key_is_changed_while_a_node_serves_a_pod_with_a_secret(
    node: Node, fleet: FleetOfOne
) -> None:
    name = node.name
    invitation = fleet.invitation(name)
    await fleet.expect(name, grace=5)
    keep_membership(node.state_dir, invitation)
    await fleet.until(name, lambda view: view.presence == "Ready")
    await fleet.say("apply", "-f", "-", stdin=secret("one"))
    await fleet.say("apply", "-f", "-", stdin=pod("web", name))
    await fleet.until(name, lambda view: words(view) == {"web": "Running"})
    assert held(node) == "one"

    first, second = await rotated(fleet)
    await fleet.until(name, lambda view: view.fleet_key == second)
    await removed(fleet, first)
    assert (await fleet.say("apply", "-f", "-", stdin=secret("one"))).out == "secret/keys unchanged\n"
    await fleet.say("apply", "-f", "-", stdin=secret("two"))
    await until(lambda: held(node) == "two")

    await fleet.cut()
    node.kill()
    shutil.rmtree(node.directory / "memory")  # it is rebooted, and its fleet is away
    await node.serve()
    await until(lambda: held(node) == "two")

    node.kill()
    _, third = await rotated(fleet)  # the node is away all the time
    refused = await fleet.say("key", "remove", second, code=1)
    assert f"{name} would refuse the fleet's requests without it" in refused.err
    await fleet.open()
    await node.serve()
    await fleet.until(name, lambda view: view.fleet_key == third)
    await removed(fleet, second)
    await fleet.say("apply", "-f", "-", stdin=secret("three"))
    await until(lambda: held(node) == "three")

    keep_membership(node.state_dir, fleet.invitation(name))
    view = await fleet.until(name, lambda view: view.taken == view.generation and not view.trouble)
    assert view.fleet_key == third
    await fleet.say("apply", "-f", "-", stdin=secret("four"))
    await until(lambda: held(node) == "four")


async def restored(fleet: FleetOfOne, backup: Path) -> None:
    """Replace a fleet's database by an earlier copy, while its worker, gate and nodes run."""
    server, away = fleet.server, fleet.log.read_text().count(AWAY)
    assert isinstance(server, DevServer)
    server.kill()
    await until(lambda: fleet.log.read_text().count(AWAY) > away)
    for each in server.directory.glob("temporal.db*"):
        each.unlink()
    shutil.copy(backup, server.db)
    await asyncio.to_thread(server.start)


async def complaint(fleet: FleetOfOne, *command: str) -> str:
    """Return the error of a command that gets no answer, after the worker has polled the server again."""
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.5)
    while "no worker of the fleet" in (said := await fleet.say(*command, code=1)).err:
        assert time.monotonic() < deadline, said
        await asyncio.sleep(next(pause))
    return said.err


@pytest.mark.asyncio(loop_scope="session")
async def test_an_older_database_is_restored_after_the_sealing_key_and_the_nodes_certificate_were_changed(
    node: Node, fleet: FleetOfOne, tmp_path: Path
) -> None:
    name = node.name
    keep_membership(node.state_dir, fleet.invitation(name))
    await fleet.expect(name, grace=8)
    await fleet.until(name, is_back)
    await fleet.say("apply", "-f", "-", stdin=secret("one"))
    await fleet.say("apply", "-f", "-", stdin=pod("web", name))
    await fleet.until(name, lambda view: words(view) == {"web": "Running"})
    assert isinstance(fleet.server, DevServer)
    backup = tmp_path / "backup.db"
    await asyncio.to_thread(copied, fleet.server.db, backup)

    first, second = await rotated(fleet)
    file = fleet.authority.directory / "sealing" / f"{first}.key"
    kept = file.read_bytes()
    await fleet.until(name, lambda view: view.fleet_key == second)
    keep_membership(node.state_dir, fleet.invitation(name))
    await fleet.say("apply", "-f", "-", stdin=secret("two"))
    await fleet.say("apply", "-f", "-", stdin=pod("later", name))
    everything = {"web": "Running", "later": "Running"}
    await fleet.until(name, lambda view: words(view) == everything and is_back(view))
    await until(lambda: held(node) == "two")
    await removed(fleet, first)

    async def goes_on() -> None:
        """Assert that the node's pods continue unchanged."""
        assert await runs(node) == {each: [("running", 0)] for each in everything}
        assert held(node) == "two"

    # The key of that time is put back.
    await restored(fleet, backup)
    lacking = f"the workflow of node {name} cannot go on, as what the node answered is sealed for key {first}, "
    for command in (("get", "pods"), ("cordon", name)):
        assert lacking in await complaint(fleet, *command)
    assert f"an answer of node {name} is sealed for key {first}, " in fleet.log.read_text()
    listed = await fleet.say("get", "nodes")
    assert listed.out.splitlines()[-1].split()[:2] == [name, "Unknown"]
    assert f"its answers are sealed for key {first}, " in listed.err
    await goes_on()
    file.write_bytes(kept)
    file.chmod(0o600)
    await seen(fleet, name, everything)
    await goes_on()
    await fleet.say("key", "use", second)
    await removed(fleet, first)
    for each in everything:  # the node alone has said that it was given them: that must not bring it new Secrets
        await fleet.say("apply", "-f", "-", stdin=pod(each, name))
    for word in ("three", "two"):
        await fleet.say("apply", "-f", "-", stdin=secret(word))
        await until(lambda word=word: held(node) == word)  # type: ignore[misc]

    # It is lost: the node is queried again for its pods.
    await restored(fleet, backup)
    assert lacking in await complaint(fleet, "get", "pods")
    await fleet.client.get_workflow_handle(fleet_node_id(name)).terminate()
    await fleet.cut()
    await fleet.open()  # or the gate looks for the workflow again within five minutes
    await seen(fleet, name, everything)
    await goes_on()
