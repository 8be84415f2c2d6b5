"""A new workflow adopts a running pod without creating or restarting anything.

Holds: An adopted pod is not restarted.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.pod_card import POD_MEMO, Readoption, with_readoption
from syncpod.messages.steps import CreateSandbox, KillPod, Outcome
from syncpod.pod import admit_pod
from syncpod.translation.labels import container_annotations, container_labels, sandbox_annotations, sandbox_labels
from tests.simulator.runtime import Container, Sandbox
from tests.workflows.scripted import UNTIL_STOPPED, ScriptedNode, container, phase, start_pod, until
from workflows.pod.start import initial_state

LIFE = "life-of-before"
APPLIED = "2026-03-01T10:00:00Z"
STARTED = datetime(2026, 3, 1, 11, tzinfo=UTC)


def recorded(**spec: Any) -> dict[str, Any]:
    """A pod as it is recorded on a node."""
    name = f"web-{uuid.uuid4().hex[:8]}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": str(uuid.uuid4()),
            "creationTimestamp": APPLIED,
            "generation": 4,
        },
        "spec": {"containers": [{"name": "web", "image": "busybox:1"}], **spec},
    }


def in_runtime(node: ScriptedNode, document: dict[str, Any], *, code: int | None = None) -> None:
    """Make the runtime list the pod's sandbox 3 and the third instance of `web`, which has exited with this code."""
    uid, admitted, context = document["metadata"]["uid"], admit_pod(document), node.real.context
    pod = admitted.model_copy(update={"metadata": admitted.metadata.model_copy(update={"uid": uid})})
    web, began = pod.spec.containers[0], node.runtime.clock.now
    labels, notes = sandbox_labels(pod, context), sandbox_annotations(pod, context, LIFE)
    node.runtime.sandboxes["sandbox-3"] = Sandbox(
        id="sandbox-3", uid=uid, attempt=3, incarnation=LIFE, ready=code is None, dated=STARTED,
        name=pod.metadata.name, namespace="default", labels=labels, annotations=notes,
    )  # fmt: skip
    node.runtime.containers["web-2"] = Container(
        id="web-2", uid=uid, name="web", restart=2, sandbox="sandbox-3", image=web.image, incarnation=LIFE,
        created=began, kind="container", life=UNTIL_STOPPED, state="running", started=began,
        dated={"created": STARTED, "started": STARTED},
        labels=container_labels(pod, web, context), annotations=container_annotations(pod, web, 2, LIFE),
    )  # fmt: skip
    if code is not None:
        node.runtime.end(node.runtime.containers["web-2"], code)
        node.runtime.containers["web-2"].dated["finished"] = STARTED


async def adopt(
    client: Client, node: ScriptedNode, document: dict[str, Any], **arguments: Any
) -> WorkflowHandle[Any, Any]:
    return await start_pod(client, node, document, adopt={"incarnation": LIFE}, **arguments)


async def test_an_adopted_pod_keeps_running_with_its_identity_and_restart_counts(
    client: Client, node: ScriptedNode
) -> None:
    document = recorded()
    uid = document["metadata"]["uid"]
    in_runtime(node, document)
    handle = await adopt(client, node, document)
    pod = await until(handle, lambda pod: phase(pod) == "Running")
    assert node.steps() == ["create_sandbox"]
    (taken,) = (step for _, step in node.taken if isinstance(step, CreateSandbox))
    assert (taken.adopt, taken.ref.uid, taken.ref.incarnation) == (True, uid, LIFE)
    assert container(pod, "web")["restartCount"] == 2
    assert container(pod, "web")["containerID"] == "scripted://web-2"
    meta = pod["metadata"]
    assert (meta["uid"], meta["creationTimestamp"], meta["generation"]) == (uid, APPLIED, 4)
    assert pod["status"]["startTime"] == APPLIED, "a deadline of the pod has been running since"
    assert next(event["reason"] for event in await handle.query("events")) == "Adopted"
    await node.tell(handle, await node.exits(uid, "web", 1), "ContainerDied")
    await until(handle, lambda pod: container(pod, "web")["restartCount"] == 3)
    assert node.steps() == ["create_sandbox", "start_container web"], "in the sandbox that there is"


@pytest.mark.parametrize(("ends", "subject"), [(False, "adopt"), (True, "prune")])
async def test_an_adopted_pod_tells_how_its_workflow_before_has_ended(
    client: Client, node: ScriptedNode, *, ends: bool, subject: str
) -> None:
    document = recorded()
    in_runtime(node, document)
    said = Readoption("its workflow was terminated at noon, by somebody\x1b[2J", ends=ends)
    memo = {POD_MEMO: with_readoption({"node": "n"}, said)}
    handle = await adopt(client, node, document, memo=memo)
    before, made = (await handle.query("history"))[:2]
    assert (before["kind"], before["subject"]) == ("update", "workflow")
    assert before["reason"] == "was terminated at noon, by somebody\\x1b[2J"
    assert (made["kind"], made["subject"], made.get("reason", "")) == (
        "update",
        subject,
        "" if ends else "generation 4",
    )
    (event,) = (each for each in await handle.query("events") if each["reason"] == "Adopted")
    assert event["message"].endswith("to end its running containers" if ends else "for its running containers")


async def test_an_adopted_finished_pod_is_not_run_again(client: Client, node: ScriptedNode) -> None:
    document = recorded(restartPolicy="Never")
    in_runtime(node, document, code=0)
    handle = await adopt(client, node, document)
    await until(handle, lambda pod: phase(pod) == "Succeeded")
    assert "start_container web" not in node.steps()


async def test_nothing_is_created_before_the_adoption_step_has_completed(client: Client, node: ScriptedNode) -> None:
    """A listing does not replace the adoption step: before that, the node's record still names another cluster."""
    document = recorded()
    in_runtime(node, document)
    node.script["create_sandbox"].append(lambda step: Outcome.CANCELLED)
    handle = await adopt(client, node, document)
    await node.tell(handle, await node.list(document["metadata"]["uid"]))
    await until(handle, lambda pod: phase(pod) == "Running" and bool(node.steps()))
    assert all(step.adopt for _, step in node.taken if isinstance(step, CreateSandbox))
    assert set(node.steps()) == {"create_sandbox"}


async def test_a_pruned_pod_is_killed_with_its_grace_and_removed_without_creating_anything(
    client: Client, node: ScriptedNode
) -> None:
    """The workflow starts with a deletion: its first kill finds something alive and stops nothing, and another does."""
    document = recorded(terminationGracePeriodSeconds=7)
    in_runtime(node, document)
    node.script["kill_pod"].append(lambda step: Outcome.STOPPING)
    meta = document["metadata"]
    handle = await client.start_workflow(
        "PodWorkflow",
        {"pod": document, "adopt": {"incarnation": LIFE}},
        id=f"pod/default/{meta['name']}",
        task_queue=node.queue,
        start_signal="delete_pod",
        start_signal_args=[{}],
    )
    await handle.result()
    assert node.steps() == ["kill_pod", "kill_pod"]
    _, kill = (step for _, step in node.taken if isinstance(step, KillPod))
    assert [(target.id, target.grace_seconds) for target in kill.targets] == [("web-2", 7)]


@pytest.mark.parametrize(
    ("adoption", "says"),
    [
        ({}, "adopt.incarnation: required"),
        ({"incarnation": ""}, "adopt.incarnation: must not be empty"),
        ({"incarnation": 7}, "adopt.incarnation: must be a string; put it in quotes"),
        ({"incarnation": LIFE, "force": True}, "adopt.force: unknown field"),
        (True, "adopt: must be an object"),
    ],
)
def test_an_invalid_adoption_is_refused_by_path(adoption: Any, says: str) -> None:
    document = recorded()
    given = {"pod": document, "adopt": adoption}
    _, refusal = initial_state(
        given, f"pod/default/{document['metadata']['name']}", STARTED, uuid.uuid4, "node/n", decisions=DECISION_VERSION
    )
    assert refusal == says


def test_a_pod_without_a_uid_cannot_be_adopted() -> None:
    document = recorded()
    del document["metadata"]["uid"]
    given = {"pod": document, "adopt": {"incarnation": LIFE}}
    _, refusal = initial_state(
        given, f"pod/default/{document['metadata']['name']}", STARTED, uuid.uuid4, "node/n", decisions=DECISION_VERSION
    )
    assert refusal == "pod.metadata.uid: required with adopt: that of the pod that runs"
