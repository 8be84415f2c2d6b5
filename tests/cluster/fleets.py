"""Commands to a fleet on a cluster while parts of the cluster are down, and checks of the containers on its nodes."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter

from temporalio.service import RPCError

from syncpod.cri.client import CriClient
from syncpod.messages.fleet import FleetNodeView, fleet_node_id
from syncpod.settings.membership import keep_membership
from syncpod.translation.names import POD_NAME_LABEL
from tests.agent.waiting import pauses
from tests.e2e.test_fleet import FleetOfOne, Node, pod, words

PATIENCE = 240.0
"""The longest wait in seconds, including the takeover of a dead server's work."""
GRACE = 300.0
"""The seconds that a node may be silent here: its polls fail with the server that holds them, though the node lives."""


async def join(fleet: FleetOfOne, nodes: list[Node], grace: float = GRACE) -> None:
    """Let nodes without pods join the fleet."""
    for node in nodes:
        invitation = fleet.invitation(node.name)  # must come first: without a certificate no message can be opened
        await fleet.expect(node.name, grace=grace)
        keep_membership(node.state_dir, invitation)
    await asyncio.gather(*(seen(fleet, node.name, {}) for node in nodes))


async def answered(fleet: FleetOfOne, *words: str, stdin: str = "") -> int:
    """Repeat a command to the fleet until it is answered; return the number of attempts.

    A deletion whose answer was lost may find nothing to delete the next time.
    """
    deadline, pause, tries = time.monotonic() + PATIENCE, pauses(0.5, 2), 0
    while True:
        tries += 1
        try:
            await fleet.say(*words, stdin=stdin)
        except AssertionError as refused:
            if tries > 1 and words[0] == "delete" and "not found in the fleet" in str(refused):
                return tries
            assert time.monotonic() < deadline, refused
            await asyncio.sleep(next(pause))
        else:
            return tries


async def seen(fleet: FleetOfOne, node: str, statuses: dict[str, str]) -> FleetNodeView:
    """Wait until the fleet lists exactly these states of a node's pods, and the node has confirmed its newest list."""
    handle, deadline, pause = fleet.client.get_workflow_handle(fleet_node_id(node)), time.monotonic(), pauses(0.2, 1)
    said = "nothing"
    while time.monotonic() < deadline + PATIENCE:
        try:
            view = FleetNodeView.model_validate(await handle.query("fleet_node"))
        except RPCError as away:
            said = str(away)
        else:
            if words(view) == statuses and view.taken == view.generation and view.presence == "Ready":
                return view
            said = view.model_dump_json(indent=1)
        await asyncio.sleep(next(pause))
    raise AssertionError(said)


async def runs(node: Node) -> dict[str, list[tuple[str, int]]]:
    """The containers of each pod in a node's runtime, including dead ones, with state and attempt."""
    cri = CriClient(node.runtime.endpoint)
    try:
        found: dict[str, list[tuple[str, int]]] = {}
        for each in await cri.list_containers():
            status = (await cri.container_status(each.id)).container
            found.setdefault(each.labels[POD_NAME_LABEL], []).append((status.state, status.restart_count))
        sandboxes = Counter(each.labels[POD_NAME_LABEL] for each in await cri.list_pod_sandboxes())
    finally:
        await cri.close()
    assert sandboxes == Counter(found.keys())
    return found


async def running(fleet: FleetOfOne, nodes: list[Node], *names: str) -> None:
    """Wait until the fleet lists exactly these pods as running; assert that each runs once in the nodes' runtimes."""
    wanted, deadline, pause = dict.fromkeys(names, "Running"), time.monotonic() + PATIENCE, pauses(0.5, 2)
    while True:
        said = await fleet.tries("get", "pods", "-o", "json")  # it may fail while a server is changed
        if said.code == 0:
            pods = json.loads(said.out)["items"]
            if {each["metadata"]["name"]: each["status"].get("phase") for each in pods} == wanted:
                break
        assert time.monotonic() < deadline, said
        await asyncio.sleep(next(pause))
    found = [await runs(node) for node in nodes]
    containers = {name: each for one in found for name, each in one.items()}
    assert sum(map(len, found)) == len(containers), "a pod runs on both nodes"
    assert containers == {name: [("running", 0)] for name in names}


def manifests(names: list[str], node: str) -> str:
    """Manifests of pods with the name of a node."""
    return "\n---\n".join(pod(name, node) for name in names)
