"""The pod's workflow against a real Temporal server, its steps scripted: order, back-off, deletion, poison."""

from __future__ import annotations

import asyncio
import copy
import uuid
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure
from temporalio.api.workflowservice.v1 import (
    RespondActivityTaskCompletedByIdRequest,
    RespondActivityTaskFailedByIdRequest,
)
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
)

from syncpod.cri.port import ExecResult
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import Seq
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.steps import Fault, Outcome, StepInput, StepResult
from tests.workflows.scripted import (
    ScriptedNode,
    container,
    in_another_run,
    pending_step,
    phase,
    query_pod,
    start_pod,
    until,
)

replayed = pytest.mark.replayed_at_every_task("queries, updates, timers and steps go on from a replayed state too")

READY = {"type": "Ready", "status": "True"}


def manifest(**spec: Any) -> dict[str, Any]:
    """A base pod with a unique name, changed by `spec`."""
    base: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"web-{uuid.uuid4().hex[:8]}", "namespace": "default"},
        "spec": {"containers": [{"name": "web", "image": "busybox:1"}]},
    }
    base["spec"].update(spec)
    return base


def is_ready(pod: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", []))


async def running(client: Client, node: ScriptedNode, document: dict[str, Any], **more: Any) -> Any:
    """Start a pod and wait until it is Running."""
    handle = await start_pod(client, node, document, **more)
    await until(handle, lambda pod: phase(pod) == "Running")
    return handle


@pytest.mark.parametrize(("handler", "shown"), [("", "Enabled"), ("another", "Disabled")])
async def test_the_status_shows_recursively_read_only_mounts(
    client: Client, node: ScriptedNode, handler: str, shown: str
) -> None:
    """Only the node knows the features of its runtime's handlers, and the pod runs with the default one."""
    node.recursive_read_only_handlers = (handler,)
    plain = {"name": "files", "mountPath": "/plain", "readOnly": True}
    recursive = {"name": "files", "mountPath": "/recursive", "readOnly": True, "recursiveReadOnly": "IfPossible"}
    document = manifest(
        containers=[{"name": "web", "image": "busybox:1", "volumeMounts": [plain, recursive]}],
        volumes=[{"name": "files", "emptyDir": {}}],
    )
    pod = await query_pod(await running(client, node, document))
    modes = {mount["mountPath"]: mount["recursiveReadOnly"] for mount in container(pod, "web")["volumeMounts"]}
    assert modes == {"/plain": "Disabled", "/recursive": shown}


@replayed
async def test_a_pod_comes_up_in_the_kubelets_order(client: Client, node: ScriptedNode) -> None:
    """Row 20: the order of a sync."""
    document = manifest(
        initContainers=[
            {"name": "first", "image": "busybox:1"},
            {"name": "sidecar", "image": "busybox:1", "restartPolicy": "Always"},
            {"name": "second", "image": "busybox:1"},
        ],
        containers=[{"name": "a", "image": "busybox:1"}, {"name": "b", "image": "busybox:1"}],
    )
    handle = await start_pod(client, node, document)
    pod = await until(handle, lambda pod: bool(container(pod, "first").get("state", {}).get("running")))
    uid = pod["metadata"]["uid"]
    assert phase(pod) == "Pending"
    assert container(pod, "a")["state"]["waiting"]["reason"] == "PodInitializing"

    await node.tell(handle, await node.exits(uid, "first", 0), "ContainerDied")
    await until(handle, lambda pod: bool(container(pod, "second").get("state", {}).get("running")))
    await node.tell(handle, await node.exits(uid, "second", 0), "ContainerDied")
    pod = await until(handle, is_ready)

    assert node.steps(uid) == [
        "create_sandbox",
        "start_init_container first",
        "start_init_container sidecar",
        "start_init_container second",
        "start_container a",
        "start_container b",
    ]
    assert phase(pod) == "Running"
    assert pod["status"]["podIP"]


@replayed
async def test_an_ephemeral_container_is_added_by_update(client: Client, node: ScriptedNode) -> None:
    """Row 55: started once, beside the running containers."""
    handle = await running(client, node, manifest())
    await handle.execute_update("add_ephemeral_container", {"name": "debug", "image": "busybox:1"})
    pod = await until(handle, lambda pod: bool(container(pod, "debug").get("state", {}).get("running")))
    assert node.steps(pod["metadata"]["uid"])[-1] == "start_ephemeral_container debug"
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("add_ephemeral_container", {"name": "debug2"})
    assert "image" in str(refused.value.cause)


@replayed
async def test_a_crashed_container_restarts_at_once_then_backs_off(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "web", 1), "ContainerDied")
    pod = await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    assert container(pod, "web")["lastState"]["terminated"]["exitCode"] == 1

    await node.tell(handle, await node.exits(uid, "web", 1), "ContainerDied")
    pod = await until(
        handle, lambda pod: container(pod, "web")["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
    )
    assert "back-off 10s restarting failed container=web" in container(pod, "web")["state"]["waiting"]["message"]

    await handle.signal("backoff_expired", {"container": "web"})  # an operator who will not wait
    pod = await until(handle, lambda pod: container(pod, "web").get("restartCount") == 2)
    assert node.steps(uid).count("start_container web") == 3
    assert is_ready(pod)


@replayed
async def test_a_backoff_ends_by_the_workflows_own_timer_when_nobody_signals(
    client: Client, node: ScriptedNode
) -> None:
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "web", 1))
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    await node.tell(handle, await node.exits(uid, "web", 1, ago=9.0))
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 2)


@pytest.mark.parametrize(
    ("policy", "code", "last"),
    [
        ("Never", 0, "Succeeded"),
        ("Never", 3, "Failed"),
        ("OnFailure", 0, "Succeeded"),
    ],
)
@replayed
async def test_a_finished_pod_is_stopped_and_its_workflow_stays_queryable(
    client: Client, node: ScriptedNode, policy: str, code: int, last: str
) -> None:
    handle = await running(client, node, manifest(restartPolicy=policy))
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "web", code))
    pod = await until(handle, lambda pod: phase(pod) == last)
    assert container(pod, "web")["state"]["terminated"]["exitCode"] == code
    assert node.steps(uid)[-1] == "kill_pod"

    await handle.execute_update("delete", {})
    final = await handle.result()
    assert final["status"]["phase"] == last
    assert node.steps(uid)[-2:] == ["kill_pod", "kill_pod"]


@replayed
async def test_a_changed_image_restarts_only_its_container(client: Client, node: ScriptedNode) -> None:
    two = [{"name": "a", "image": "busybox:1"}, {"name": "b", "image": "busybox:1"}]
    document = manifest(containers=two)
    handle = await running(client, node, document)
    uid = (await query_pod(handle))["metadata"]["uid"]
    changed = copy.deepcopy(document)
    changed["spec"]["containers"][1]["image"] = "busybox:2"
    answer = await handle.execute_update("apply", changed)
    assert answer == {"uid": uid, "generation": 2, "change": "configured", "node": node.queue.removeprefix("node/")}
    pod = await until(handle, lambda pod: container(pod, "b").get("image") == "busybox:2")
    assert node.steps(uid)[-2:] == ["kill_container b", "start_container b"]
    assert container(pod, "a")["restartCount"] == 0
    assert container(pod, "b")["restartCount"] == 1


async def test_a_dead_sandbox_is_replaced_with_the_next_attempt(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.loses_sandbox(uid))
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    assert node.steps(uid)[2:] == ["kill_pod", "create_sandbox", "start_container web"]
    assert [s.attempt for s in node.sandboxes(uid)] == [1, 0]
    events = await handle.query("events")
    assert "SandboxChanged" in [event["reason"] for event in events]


@replayed
async def test_a_missing_image_is_pulled_and_a_failed_pull_backs_off(client: Client, node: ScriptedNode) -> None:
    """Holds: Every back-off is visible."""
    node.absent.add("gone:1")
    node.fault("pull_image", Fault.ERR_IMAGE_PULL, "no such image")
    document = manifest(containers=[{"name": "web", "image": "gone:1"}])
    handle = await start_pod(client, node, document)
    pod = await until(
        handle,
        lambda pod: container(pod, "web").get("state", {}).get("waiting", {}).get("reason") == "ImagePullBackOff",
    )
    waiting = container(pod, "web")["state"]["waiting"]
    assert waiting["message"] == 'Back-off pulling image "gone:1": ErrImagePull: no such image'
    await handle.signal("backoff_expired", {"container": "web"})
    await until(handle, is_ready)
    assert node.steps(pod["metadata"]["uid"]) == [
        "create_sandbox",
        "pull_image web",
        "pull_image web",
        "start_container web",
    ]


async def test_a_failed_start_waits_ten_seconds_and_shows_why(client: Client, node: ScriptedNode) -> None:
    """Holds: Every back-off is visible."""
    node.fault("start_container", Fault.CREATE_CONTAINER_ERROR, "no such device")
    handle = await start_pod(client, node, manifest())
    pod = await until(
        handle, lambda pod: bool(container(pod, "web").get("state", {}).get("waiting", {}).get("message"))
    )
    assert container(pod, "web")["state"]["waiting"] == {"reason": "CreateContainerError", "message": "no such device"}
    await handle.signal("backoff_expired", {"container": "web"})
    pod = await until(handle, is_ready)
    assert container(pod, "web")["restartCount"] == 0


async def test_a_pod_waits_for_the_network_without_using_a_sandbox_attempt(client: Client, node: ScriptedNode) -> None:
    """Row 15: NetworkNotReady."""
    node.fault("create_sandbox", Fault.NETWORK_NOT_READY, "cni plugin not initialized")
    handle = await start_pod(client, node, manifest())
    deadline = asyncio.get_running_loop().time() + 60
    while "NetworkNotReady" not in [event["reason"] for event in await handle.query("events")]:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.list(uid), "RuntimeReady")
    await until(handle, is_ready)
    assert [s.attempt for s in node.sandboxes(uid)] == [0]


async def test_a_failed_sandbox_creation_is_the_waiting_reason_of_each_container(
    client: Client, node: ScriptedNode
) -> None:
    message = 'MountVolume.SetUp failed for volume "v" : configmap "c" not found'
    node.fault("create_sandbox", Fault.FAILED_MOUNT, message)
    handle = await start_pod(client, node, manifest())
    pod = await until(
        handle, lambda pod: bool(container(pod, "web").get("state", {}).get("waiting", {}).get("message"))
    )
    waiting = container(pod, "web")["state"]["waiting"]
    assert waiting == {"reason": "ContainerCreating", "message": f"FailedMount: {message}"}
    await handle.signal("backoff_expired", {"container": "create_sandbox"})
    await until(handle, is_ready)


async def test_a_used_sandbox_attempt_is_followed_by_the_next_number(client: Client, node: ScriptedNode) -> None:
    node.script["create_sandbox"].append(lambda _: Outcome.SPENT)
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    assert [s.attempt for s in node.sandboxes(uid)] == [1]


@pytest.mark.parametrize("step", ["create_sandbox", "pull_image", "start_container"])
async def test_deletion_does_not_wait_for_a_step_that_hangs(client: Client, node: ScriptedNode, step: str) -> None:
    """Row 16: the sync of an ending pod is cancelled."""
    node.gate[step] = asyncio.Event()
    node.absent.add("busybox:1")
    handle = await start_pod(client, node, manifest())
    deadline = asyncio.get_running_loop().time() + 60
    while not any(name.startswith(step) for name in node.steps()):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
    await handle.signal("delete_pod", {"gracePeriodSeconds": 1})
    async with asyncio.timeout(60):
        final = await handle.result()
    assert final["metadata"]["deletionTimestamp"]


@replayed
async def test_cancelling_the_workflow_deletes_the_pod(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    await handle.cancel()
    async with asyncio.timeout(60):
        final = await handle.result()
    assert final["status"]["phase"] in ("Failed", "Succeeded")
    assert node.steps(final["metadata"]["uid"])[-1] == "kill_pod"


async def test_a_container_that_appears_after_the_kill_is_killed_before_the_run_ends(
    client: Client, node: ScriptedNode
) -> None:
    """Row 21: nothing runs once a pod has been terminated."""
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]

    def find_it_alive(_: StepInput) -> Outcome:
        web = node.newest(uid, "web")
        node.runtime.end(web, 137)
        node.runtime.containers["late"] = replace(web, id="late", state="running", restart=1)
        return Outcome.STOPPING

    node.script["kill_pod"].append(find_it_alive)
    await handle.execute_update("delete", {})
    async with asyncio.timeout(60):
        await handle.result()
    assert node.steps(uid)[-2:] == ["kill_pod", "kill_pod"]


@replayed
async def test_a_shorter_grace_interrupts_a_kill_and_a_longer_one_does_not(client: Client, node: ScriptedNode) -> None:
    """Row 17: the grace only shrinks."""
    handle = await running(client, node, manifest(terminationGracePeriodSeconds=600))
    uid = (await query_pod(handle))["metadata"]["uid"]
    node.gate["kill_pod"] = asyncio.Event()
    await handle.signal("delete_pod", {})
    deadline = asyncio.get_running_loop().time() + 60
    while node.steps(uid)[-1] != "kill_pod":
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
    await handle.signal("delete_pod", {"gracePeriodSeconds": 900})
    await handle.signal("delete_pod", {"gracePeriodSeconds": 2})
    while node.steps(uid).count("kill_pod") < 2:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
    node.gate["kill_pod"].set()
    async with asyncio.timeout(60):
        await handle.result()
    graces = [step.grace_seconds for name, step in node.taken if name == "kill_pod" and step.ref.uid == uid]  # type: ignore[attr-defined]
    assert 595 <= graces[0] <= 600
    assert graces[1] <= 2


@replayed
async def test_a_pod_applied_during_deletion_starts_in_a_new_run(client: Client, node: ScriptedNode) -> None:
    document = manifest()
    handle = await running(client, node, document)
    first = await query_pod(handle)
    node.gate["kill_pod"] = asyncio.Event()
    await handle.execute_update("delete", {})
    await handle.execute_update("apply", document)
    node.gate["kill_pod"].set()
    again = client.get_workflow_handle(handle.id)
    second = await until(
        again, lambda pod: phase(pod) == "Running" and pod["metadata"]["uid"] != first["metadata"]["uid"]
    )
    assert container(second, "web")["restartCount"] == 0
    assert "deletionTimestamp" not in second["metadata"]


def _has_restarted(count: int, pod: dict[str, Any]) -> bool:
    return phase(pod) == "Running" and bool(container(pod, "web").get("restartCount") == count)


async def test_the_same_pod_applied_during_its_deletion_counts_its_restarts_on(
    client: Client, node: ScriptedNode
) -> None:
    document = manifest()
    document["metadata"]["uid"] = "static"
    handle = await running(client, node, document)
    for count in (1, 2):
        node.gate["kill_pod"] = asyncio.Event()
        handle = client.get_workflow_handle(handle.id)
        await handle.execute_update("delete", {})
        await handle.execute_update("apply", document)
        node.gate["kill_pod"].set()
        pod = await until(handle, partial(_has_restarted, count))
        assert pod["metadata"]["uid"] == "static"


async def test_deleting_after_applying_during_deletion_ends_both(client: Client, node: ScriptedNode) -> None:
    document = manifest()
    handle = await running(client, node, document)
    node.gate["kill_pod"] = asyncio.Event()
    await handle.execute_update("delete", {})
    await handle.execute_update("apply", document)
    await handle.execute_update("delete", {})
    node.gate["kill_pod"].set()
    await handle.result(follow_runs=False)
    assert (await client.get_workflow_handle(handle.id).describe()).status == WorkflowExecutionStatus.COMPLETED


async def test_a_deletion_by_uid_of_the_current_pod_does_not_delete_its_successor(
    client: Client, node: ScriptedNode
) -> None:
    document = manifest()
    handle = await running(client, node, document)
    first = (await query_pod(handle))["metadata"]["uid"]
    node.gate["kill_pod"] = asyncio.Event()
    await handle.execute_update("delete", {})
    await handle.execute_update("apply", document)
    await handle.execute_update("delete", {"uid": first, "gracePeriodSeconds": 1})
    node.gate["kill_pod"].set()
    again = client.get_workflow_handle(handle.id)
    await until(again, lambda pod: phase(pod) == "Running" and pod["metadata"]["uid"] != first)


async def test_a_deletion_by_uid_of_the_successor_does_not_shorten_the_current_pods_grace(
    client: Client, node: ScriptedNode
) -> None:
    document = manifest()
    handle = await running(client, node, document)
    node.gate["kill_pod"] = asyncio.Event()
    await handle.execute_update("delete", {"gracePeriodSeconds": 300})
    document["metadata"]["uid"] = "of-the-successor"
    await handle.execute_update("apply", document)
    await handle.execute_update("delete", {"uid": "of-the-successor"})
    pod = await query_pod(handle)
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 300
    node.gate["kill_pod"].set()
    await handle.result(follow_runs=False)
    assert node.steps().count("kill_pod") == 1
    assert (await client.get_workflow_handle(handle.id).describe()).status == WorkflowExecutionStatus.COMPLETED


async def test_an_image_that_changed_during_its_pull_is_pulled_too(client: Client, node: ScriptedNode) -> None:
    def with_image(image: str) -> dict[str, Any]:
        return {"containers": [{"name": "web", "image": image, "imagePullPolicy": "Always"}]}

    document = manifest(**with_image("busybox:1"))
    node.gate["pull_image"] = asyncio.Event()
    handle = await start_pod(client, node, document)
    await until(handle, lambda _: "pull_image web" in node.steps())
    document["spec"].update(with_image("busybox:2"))
    await handle.execute_update("apply", document)
    node.gate["pull_image"].set()
    await until(handle, is_ready)
    assert node.steps() == ["create_sandbox", "pull_image web", "pull_image web", "start_container web"]


POISON: list[tuple[str, list[Any]]] = [
    ("pleg", []),
    ("pleg", ["not a snapshot"]),
    ("pleg", [{"status": 3}, {"status": 4}]),
    ("pleg", [{"status": {"containers": [{"state": "dancing"}]}}]),
    ("pleg", [{"node": {"runtime": "containerd", "hostIps": ["here"]}}]),
    ("pleg", [{"node": {"runtime": "containerd", "name": "n" * 2100, "searchAttributes": True}}]),
    ("pleg", [{"status": {"containers": [{"id": "c", "name": "web", "restartCount": -1}]}}]),
    ("pleg", [{"status": {"containers": [{"id": "c", "name": "web", "exitCode": 2**40}]}}]),
    ("pleg", [{"status": {"observedAt": "9999-12-31T23:59:59-10:00"}}]),
    ("update_pod", []),
    ("update_pod", [{"kind": "Service"}]),
    ("update_pod", [[1, 2, 3]]),
    ("delete_pod", [{"gracePeriodSeconds": "soon"}]),
    ("delete_pod", [{"gracePeriodSeconds": -1}]),
    ("delete_pod", [{"uid": "not-mine"}]),
    ("delete_pod", [{"gracePeriod": 0}]),
    ("restart", [{"contaner": "web"}]),
    ("set_condition", [{"type": "example.com/ready", "state": "True"}]),
    ("backoff_expired", [{"container": "nobody"}]),
    ("backoff_expired", [7]),
    ("probe", [{"container": "web"}]),
    ("who_knows", [{"a": 1}]),
    ("who_knows", []),
]


@replayed
async def test_poison_signals_leave_the_pod_working_and_are_seen(client: Client, node: ScriptedNode) -> None:
    """Holds: No signal fails a pod.
    Holds: No limit of the server is exceeded.
    """
    handle = await running(client, node, manifest())
    for name, args in POISON:
        await handle.signal(name, args=args)
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "web", 1))
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    rejected = [event for event in await handle.query("events") if event["reason"] == "Rejected"]
    assert sum(event["count"] for event in rejected) == len(POISON)


async def test_signals_about_an_earlier_pod_of_the_name_change_nothing_and_are_not_told_of(
    client: Client, node: ScriptedNode
) -> None:
    handle = await running(client, node, manifest())
    earlier = str(uuid.uuid4())
    await handle.signal("pleg", {"status": {"uid": earlier}})
    await handle.signal("probe", {"uid": earlier, "container": "web", "probe": "liveness", "result": "failure"})
    assert not [line for line in await handle.query("history") if line["kind"] in ("rejected", "signal")]
    assert not [event for event in await handle.query("events") if event["reason"] == "Rejected"]


async def test_a_step_result_with_unknown_containers_does_not_break_the_pod(client: Client, node: ScriptedNode) -> None:
    """A person completed the step by hand."""
    uid = str(uuid.uuid4())

    def nonsense(_: StepInput) -> StepResult:
        return StepResult(missing_images=("nobody", "web"))

    node.absent.add("gone:1")
    node.script["pull_image"].append(nonsense)
    document = manifest(containers=[{"name": "web", "image": "gone:1"}])
    document["metadata"]["uid"] = uid
    handle = await start_pod(client, node, document)
    await until(handle, is_ready)
    assert node.steps() == [
        "create_sandbox",
        "pull_image web",
        "start_container web",
        "pull_image web",  # fails, since the image was missed: the next one waits
        "pull_image web",
        "start_container web",
    ]


async def test_an_undecodable_result_fails_only_its_step(client: Client, node: ScriptedNode) -> None:
    node.gate["start_container"] = asyncio.Event()
    handle = await start_pod(client, node, manifest())
    await until(handle, lambda _: "start_container web" in node.steps())
    pending = await pending_step(handle, "start_container")
    undecodable = Payload(metadata={"encoding": b"binary/unheard-of"}, data=b"?")
    await client.workflow_service.respond_activity_task_completed_by_id(
        RespondActivityTaskCompletedByIdRequest(
            namespace=client.namespace,
            workflow_id=handle.id,
            activity_id=pending.activity_id,
            result=Payloads(payloads=[undecodable]),
        )
    )
    node.gate["start_container"].set()
    await until(
        handle, lambda pod: container(pod, "web")["state"].get("waiting", {}).get("reason") == "UnreadableResult"
    )
    await handle.signal("backoff_expired", {"container": "web"})
    await until(handle, is_ready)


async def test_an_undecodable_failure_fails_only_its_step(client: Client, node: ScriptedNode) -> None:
    node.gate["start_container"] = asyncio.Event()
    handle = await start_pod(client, node, manifest())
    await until(handle, lambda _: "start_container web" in node.steps())
    pending = await pending_step(handle, "start_container")
    undecodable = Payload(metadata={"encoding": b"binary/unheard-of"}, data=b"?")
    failure = Failure(
        message="by hand", application_failure_info=ApplicationFailureInfo(non_retryable=True, type="ByHand")
    )
    failure.application_failure_info.details.payloads.append(undecodable)
    await client.workflow_service.respond_activity_task_failed_by_id(
        RespondActivityTaskFailedByIdRequest(
            namespace=client.namespace, workflow_id=handle.id, activity_id=pending.activity_id, failure=failure
        )
    )
    node.gate["start_container"].set()
    await until(handle, lambda pod: container(pod, "web")["state"].get("waiting", {}).get("reason") == "ByHand")
    await handle.signal("backoff_expired", {"container": "web"})
    await until(handle, is_ready)


async def test_an_invalid_snapshot_fails_a_plain_workflow_start(client: Client, node: ScriptedNode) -> None:
    given = {"snapshot": {}, "decisions": DECISION_VERSION}
    handle = await client.start_workflow(
        "PodWorkflow", given, id=f"pod/default/{uuid.uuid4().hex}", task_queue=node.queue
    )
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    assert "snapshot: does not belong to pod/default/" in str(failure.value.cause)


async def test_an_invalid_pod_fails_a_plain_workflow_start_with_the_reason(client: Client, node: ScriptedNode) -> None:
    document = manifest()
    del document["spec"]["containers"][0]["image"]
    handle = await start_pod(client, node, document)
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    assert "spec.containers[0].image: required" in str(failure.value.cause)


@replayed
async def test_an_invalid_update_is_refused_by_path_and_changes_nothing(client: Client, node: ScriptedNode) -> None:
    document = manifest()
    handle = await running(client, node, document)
    wrong = copy.deepcopy(document)
    wrong["spec"]["hostNetwork"] = True
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("apply", wrong)
    assert "spec.hostNetwork" in str(refused.value.cause)
    assert (await handle.execute_update("apply", document))["generation"] == 1


@replayed
async def test_continuing_as_new_between_any_two_steps_loses_nothing(client: Client, node: ScriptedNode) -> None:
    """Holds: Nothing is lost across continue-as-new."""
    document = manifest(
        initContainers=[{"name": "first", "image": "busybox:1"}],
        containers=[{"name": "a", "image": "busybox:1"}, {"name": "b", "image": "busybox:1"}],
    )
    handle = await start_pod(client, node, document, maxEvents=1)
    latest = client.get_workflow_handle(handle.id)
    pod = await until(latest, lambda pod: bool(container(pod, "first").get("state", {}).get("running")))
    uid = pod["metadata"]["uid"]
    run = await in_another_run(latest, handle.result_run_id)
    await node.tell(latest, await node.exits(uid, "first", 0))
    await until(latest, is_ready, 40)
    for code in (1, 2):
        run = await in_another_run(latest, run)
        restarts = container(await query_pod(latest), "a")["restartCount"]
        await node.tell(latest, await node.exits(uid, "a", code))
        await latest.signal("backoff_expired", {"container": "a"})
        await until(latest, lambda pod, n=restarts: container(pod, "a").get("restartCount") == n + 1, 40)  # type: ignore[misc]
    starts = [name for name in node.steps(uid) if name.startswith(("start", "create"))]
    assert starts == [
        "create_sandbox", "start_init_container first", "start_container a", "start_container b",
        "start_container a", "start_container a",
    ]  # fmt: skip
    history = await latest.query("history")
    assert [line["outcome"] for line in history if line["kind"] == "exit"] == [
        "exited 0 (Completed)", "exited 1 (Error)", "exited 2 (Error)",
    ]  # fmt: skip


@replayed
async def test_a_plan_lists_the_steps_without_taking_them(client: Client, node: ScriptedNode) -> None:
    document = manifest()
    handle = await running(client, node, document)
    uid = (await query_pod(handle))["metadata"]["uid"]
    before = node.steps(uid)
    changed = copy.deepcopy(document)
    changed["spec"]["containers"][0]["image"] = "busybox:2"
    plan = await handle.query("plan", changed)
    assert [(step["step"], step["container"]) for step in plan["steps"]] == [
        ("kill_container", "web"), ("start_container", "web"),
    ]  # fmt: skip
    changed["spec"]["containers"][0]["name"] = "other"
    assert "spec.containers" in (await handle.query("plan", changed))["error"]
    assert (await handle.query("plan", None))["steps"] == []
    assert node.steps(uid) == before


def test_every_step_of_the_table_has_a_step_name() -> None:
    from syncpod.messages.step_table import STEPS

    assert set(STEPS) == set(StepName)


async def test_listings_with_lower_sequence_numbers_are_accepted_after_a_state_loss(
    client: Client, node: ScriptedNode
) -> None:
    """A node's state was lost while its clock was behind, or somebody signalled a listing by hand.

    Holds: Nothing observed is dropped, and no state goes back.
    """
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    listing = await node.list(uid)
    await node.tell(handle, listing.model_copy(update={"seq": Seq(boot=2_000_000_000, counter=1)}))
    await handle.signal("restart", {"container": "web"})
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1 and is_ready(pod))
    await node.tell(handle, await node.exits(uid, "web", 3))
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 2)
    assert "ListingsRenumbered" in [event["reason"] for event in await handle.query("events")]
    assert node.steps()[2:] == ["kill_container web", "start_container web", "start_container web"]


async def test_a_container_with_a_failed_post_start_hook_restarts_like_a_crashed_one(
    client: Client, node: ScriptedNode
) -> None:
    """Row 53: PostStartHookError with the hook's words at first, then CrashLoopBackOff; no event has the words."""

    def fails() -> ExecResult:
        return ExecResult(b"what the hook said", b"", 1)

    def fails_later() -> ExecResult:
        node.gate["start_container"] = asyncio.Event()
        return fails()

    node.cri.outcomes += [fails_later, fails]
    hook = {"postStart": {"exec": {"command": ["hook"]}}}
    handle = await start_pod(
        client, node, manifest(containers=[{"name": "web", "image": "busybox:1", "lifecycle": hook}])
    )

    def waiting(pod: dict[str, Any]) -> Any:
        return container(pod, "web").get("state", {}).get("waiting", {})

    pod = await until(handle, lambda pod: waiting(pod).get("reason") == "PostStartHookError")
    said = waiting(pod)["message"]
    assert said.startswith("Exec lifecycle hook ([hook]) for Container") and "what the hook said" in said
    node.gate["start_container"].set()
    pod = await until(handle, lambda pod: waiting(pod).get("reason") == "CrashLoopBackOff")
    assert waiting(pod)["message"].startswith("back-off 10s restarting failed container=web")
    assert waiting(pod)["message"].endswith(f"): PostStartHookError: {said}")
    told = str(await handle.query("events")) + str(await handle.query("history"))
    assert "what the hook said" not in told
    await handle.signal("backoff_expired", {"container": "web"})
    pod = await until(handle, is_ready)
    assert container(pod, "web")["restartCount"] == 2
