"""`syncpod tree` with a real server and a scripted node, and the senders of a pod's commands.

Holds: The journal keeps who commanded a pod, and when a worker died.
"""

from __future__ import annotations

import json

from temporalio.client import Client

from syncpod.agent.senders import sender_of
from syncpod.journal.records import HistoryEntry
from syncpod.messages.identity import pod_workflow_id
from syncpod.temporal.senders import sent_to
from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode


async def test_the_pods_of_a_node_are_drawn_as_they_are(syncpod: Command, node: ScriptedNode) -> None:
    here = node.queue.removeprefix("node/")
    names = sorted(fresh_name() for _ in range(2))
    waiting = manifest(names[1], initContainers=[{"name": "setup", "image": "busybox:1"}])
    done = await syncpod("apply", "-f", "-", "--node", here, stdin=as_json(manifest(names[0]), waiting))
    assert done.code == 0, done.err
    assert (await syncpod("wait", f"pod/{names[0]}", "--for=condition=Ready", "--timeout", "30s")).code == 0
    running = "{.status.initContainerStatuses[0].state.running}"
    assert (await syncpod("wait", f"pod/{names[1]}", f"--for=jsonpath={running}", "--timeout", "30s")).code == 0
    drawn = await syncpod("tree", here)
    assert drawn.code == 0, drawn.err
    assert drawn.out.splitlines() == [
        f"node/{here} (2 pods)",
        f"├─ pod/default/{names[0]}: Running, 1/1 ready",
        "│  └─ container app: running",
        f"└─ pod/default/{names[1]}: Init:0/1, 0/1 ready",
        "   ├─ init container setup: running",
        "   └─ container app: waiting, waits for init container setup",
    ]
    (told,) = json.loads((await syncpod("tree", here, "-o", "json")).out)
    assert (told["node"], [each["name"] for each in told["pods"]]) == (here, names)
    missing = await syncpod("tree", here, "nowhere")
    way = "name nodes, as NAME or node/NAME; `syncpod explain nowhere` says what a pod waits for"
    assert (missing.code, missing.out, missing.err) == (1, "", f'syncpod: nodes "nowhere" not found: {way}\n')
    for pod in (("pod/nowhere",), ("pod", "nowhere")):
        refused = await syncpod("tree", *pod)
        assert (refused.code, refused.out, refused.err) == (2, "", f"syncpod: {pod[0]!r}: {way}\n")
    assert (await syncpod("delete", "pod", *names, "--grace-period", "1")).code == 0


async def test_the_server_says_who_sent_a_pod_its_commands(
    syncpod: Command, node: ScriptedNode, client: Client
) -> None:
    name, on = fresh_name(), ("--node", node.queue.removeprefix("node/"))
    await syncpod("apply", "-f", "-", *on, "--wait", stdin=as_json(manifest(name)))
    handle = client.get_workflow_handle(pod_workflow_id("default", name))
    run = (await handle.describe()).run_id
    assert run is not None
    await syncpod("label", "pod", name, "tier=x")
    assert (await syncpod("delete", "pod", name, "--grace-period", "1")).code == 0
    sent = await sent_to(client, handle.id, run)
    deleted, *_, labelled = [each for each in sent if each.name not in ("pleg", "probe")]
    assert (deleted.name, labelled.name) == ("delete_pod", "apply")
    assert deleted.at > labelled.at and all(each.identity.startswith("syncpod") for each in (deleted, labelled))
    for each, subject in ((deleted, "delete"), (labelled, "apply")):
        assert sender_of(HistoryEntry(each.at, "update", subject), sent) == each.identity
    assert sender_of(HistoryEntry(deleted.at, "signal", "restart"), sent) == ""
