"""Continuing as new between any two steps of every kind: nothing is lost, done twice or left out.

Holds: Nothing is lost across continue-as-new.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client

from syncpod.lifecycle.actions import StepName
from syncpod.messages.pod_card import POD_MEMO
from syncpod.pod.admission import LARGEST_POD
from tests.workflows.scripted import ScriptedNode, container, in_another_run, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import is_ready, manifest
from tests.workflows.test_resizes import LARGE, SMALL, is_given

RESTART_ALL = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}


def with_everything() -> dict[str, Any]:
    """A pod whose life has every kind of step: an image to pull, a file of labels, a rule that restarts all."""
    labels = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    web = {"name": "web", "image": "busybox:1", "restartPolicy": "Never", "restartPolicyRules": [RESTART_ALL]}
    return manifest(
        restartPolicy="Always",
        initContainers=[
            {"name": "first", "image": "busybox:1"},
            {"name": "helper", "image": "busybox:1", "restartPolicy": "Always"},
        ],
        containers=[{**web, "resources": SMALL}, {"name": "api", "image": "busybox:absent"}],
        volumes=[{"name": "info", "downwardAPI": {"items": labels}}],
    )


def runs_with(**restarts: int) -> Any:
    """Return whether each of these containers runs after this many restarts."""
    return lambda pod: all(
        container(pod, name).get("restartCount") == count and "running" in container(pod, name)["state"]
        for name, count in restarts.items()
    )


async def test_every_kind_of_step_survives_continuing_as_new_around_it(client: Client, node: ScriptedNode) -> None:
    node.absent.add("busybox:absent")
    document = with_everything()
    handle = await start_pod(client, node, document, maxEvents=1)
    latest = client.get_workflow_handle(handle.id)
    uid = (await until(latest, runs_with(first=0), 40))["metadata"]["uid"]
    run = await in_another_run(latest, handle.result_run_id)
    await node.tell(latest, await node.exits(uid, "first", 0))
    await until(latest, is_ready, 40)
    run = await in_another_run(latest, run)
    await latest.execute_update("add_ephemeral_container", {"name": "debug", "image": "busybox:1"})
    await until(latest, runs_with(debug=0), 40)
    run = await in_another_run(latest, run)

    changed = copy.deepcopy(document)
    changed["metadata"]["labels"] = {"tier": "front"}
    web, api = changed["spec"]["containers"]
    web["resources"], api["image"] = LARGE, "busybox:2"
    await latest.signal("update_pod", changed)
    await until(latest, is_given(LARGE), 40)
    run = await in_another_run(latest, run)
    await until(latest, runs_with(web=0, api=1), 40)
    await until(latest, lambda _: "sync_volumes" in node.steps(), 40)
    run = await in_another_run(latest, run)

    await node.tell(latest, await node.exits(uid, "web", 42))
    await until(latest, runs_with(first=1), 40)
    run = await in_another_run(latest, run)
    await node.tell(latest, await node.exits(uid, "first", 0))
    await until(latest, runs_with(helper=1, web=1, api=2), 40)
    await in_another_run(latest, run)
    exits = [line["outcome"] for line in await latest.query("history") if line["kind"] == "exit"]
    assert exits.count("exited 42 (Error)") == 1
    assert exits.count("exited 0 (Completed)") == 2
    assert (await query_pod(latest))["metadata"]["labels"] == {"tier": "front"}

    await latest.signal("delete_pod", {"gracePeriodSeconds": 0})
    final = await latest.result()
    assert final["metadata"]["uid"] == uid
    assert node.steps(uid)[:7] == [
        "create_sandbox", "start_init_container first", "start_init_container helper", "start_container web",
        "pull_image api", "start_container api", "start_ephemeral_container debug",
    ]  # fmt: skip
    assert {name.split()[0] for name in node.steps(uid)} == {name.value for name in StepName}


@pytest.mark.parametrize("encoding", [b"json/plain", b"of/another/client"])
async def test_each_runs_page_says_who_sent_the_pod(client: Client, node: ScriptedNode, encoding: bytes) -> None:
    """A server gives the memo to each run, and summary and details of a start to the first one alone."""
    memo = Payload(metadata={"encoding": encoding}, data=b'{"sender": "17@laptop"}')
    handle = await start_pod(client, node, manifest(), memo={POD_MEMO: memo})
    latest = client.get_workflow_handle(handle.id)
    await until(latest, is_ready)
    await latest.signal("renew")
    await in_another_run(latest, handle.result_run_id)
    page = await latest.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    assert ("\n- sent by 17@laptop\n" in page.current_details) is (encoding == b"json/plain")
    assert "\n**Node, sender, images**\n" in page.current_details


async def test_a_pod_as_large_as_a_usual_history_rests_in_its_run(client: Client, node: ScriptedNode) -> None:
    # Five variables, since Linux takes none of that size.
    env = [{"name": f"TEXT{n}", "value": "x" * (LARGEST_POD // 5 - 500)} for n in range(5)]
    handle = await start_pod(client, node, manifest(containers=[{"name": "web", "image": "busybox:1", "env": env}]))
    latest = client.get_workflow_handle(handle.id)
    await until(latest, is_ready)
    await latest.signal("renew")
    run = await in_another_run(latest, handle.result_run_id)
    assert is_ready(await query_pod(latest))  # the run has executed its first task already
    history = await client.get_workflow_handle(handle.id, run_id=run).fetch_history()
    assert not [event for event in history.events if event.HasField("timer_started_event_attributes")]
