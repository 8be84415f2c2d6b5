"""The stages of a resize (desired, allocated or deferred, applied), and the pod's conditions at each stage.

Holds: Desired, allocated and applied resources are three things.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from opentelemetry.metrics import CallbackOptions
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from activities.step_attempt import PodFault
from syncpod.messages.steps import AllocateResources, Allocation, Fault, ResizePod, StartContainer, StepInput
from syncpod.node import pod_cgroups
from syncpod.pod import ConfigMap, ResourceRequirements
from syncpod.temporal import resize_metrics
from tests.workflows.scripted import ScriptedNode, container, in_another_run, phase, query_pod, until
from tests.workflows.test_pod_workflow import manifest, running

MIB = 1 << 20
SMALL = {"limits": {"cpu": "200m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}
LARGE = {"limits": {"cpu": "400m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}}
DEFERRED = Allocation(pending="Deferred", message="Node didn't have enough resource: cpu")
NEVER = Allocation(pending="Infeasible", message="Node didn't have enough capacity: cpu")


def sized(*, restart_for: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    """A pod with one small container."""
    policy = [{"resourceName": name, "restartPolicy": "RestartContainer"} for name in restart_for]
    web = {"name": "web", "image": "busybox:1", "resources": SMALL, **({"resizePolicy": policy} if policy else {})}
    return manifest(containers=[web], **spec)


def resize_to(resources: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "web", "resources": resources}]}


def conditions(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The conditions about a resize, by type."""
    return {each["type"]: each for each in pod["status"]["conditions"] if each["type"].startswith("PodResize")}


def is_under_way(pod: dict[str, Any]) -> bool:
    return bool(conditions(pod))


def is_given(resources: dict[str, Any]) -> Any:
    return lambda pod: container(pod, "web").get("resources") == resources and not conditions(pod)


async def reasons(handle: Any) -> list[str]:
    return [event["reason"] for event in await handle.query("events") if event["reason"].startswith("Resize")]


async def event(handle: Any, reason: str) -> str:
    return next(str(event["message"]) for event in await handle.query("events") if event["reason"] == reason)


def refuse_resize(node: ScriptedNode, given: dict[str, Any]) -> None:
    """Let the kernel refuse the next resize once these containers have these resources."""

    def refuse(_: StepInput) -> None:
        actuated = {name: ResourceRequirements(**amounts) for name, amounts in given.items()}
        raise PodFault(Fault.RESIZE_POD_IN_PLACE_ERROR, "the kernel refuses", actuated=actuated)

    node.script["resize_pod"].append(refuse)


async def test_a_running_container_is_resized_in_place(client: Client, node: ScriptedNode) -> None:
    """Row 116: one step asks for room, one applies; the container runs on. Row 100: both conditions are gone then."""
    handle = await running(client, node, sized())
    answer = await handle.execute_update("resize", resize_to(LARGE))
    assert answer["generation"] == 2
    pod = await until(handle, is_given(LARGE))
    assert node.steps() == ["create_sandbox", "start_container web", "allocate_resources", "resize_pod"]
    assert container(pod, "web")["restartCount"] == 0
    assert container(pod, "web")["allocatedResources"] == LARGE["requests"]
    assert pod["spec"]["containers"][0]["resources"] == LARGE
    assert pod["status"]["resources"] == LARGE
    assert pod["status"]["observedGeneration"] == 2

    (step,) = [step for _, step in node.taken if isinstance(step, ResizePod)]
    (memory,), (cpu,) = step.memory, step.cpu
    assert (memory.name, memory.current.memory_limit, memory.desired.memory_limit) == ("web", 64 * MIB, 128 * MIB)
    assert (cpu.current.cpu_limit, cpu.desired.cpu_limit) == (200, 400)
    assert step.sandbox_id == node.sandboxes(step.ref.uid)[0].id
    assert await reasons(handle) == ["ResizeStarted", "ResizeCompleted"]
    assert await event(handle, "ResizeCompleted") == (
        'Pod resize completed: {"containers":[{"name":"web","resources":{"limits":{"cpu":"400m","memory":"128Mi"},'
        '"requests":{"cpu":"100m","memory":"128Mi"}}}],"generation":2}'
    )


async def test_a_status_has_a_resizes_generation_only_once_the_node_has_answered(
    client: Client, node: ScriptedNode
) -> None:
    """The new generation without a condition means that the resources are the new ones."""
    handle = await running(client, node, sized())
    steps = ("allocate_resources", "resize_pod")
    gates = {step: asyncio.Event() for step in steps}
    node.gate |= gates
    await handle.execute_update("resize", resize_to(LARGE))
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.exits(uid, "web", 1)
    await node.tell(handle, await node.list(uid), "ContainerDied web")
    pod = await until(handle, lambda pod: "running" not in container(pod, "web")["state"])
    assert (pod["metadata"]["generation"], pod["status"]["observedGeneration"]) == (2, 1)
    assert {each["observedGeneration"] for each in pod["status"]["conditions"]} == {1}
    gates[steps[0]].set()
    pod = await until(handle, is_under_way)
    assert pod["status"]["observedGeneration"] == 2
    gates[steps[1]].set()
    pod = await until(handle, is_given(LARGE))
    assert pod["status"]["observedGeneration"] == 2


async def test_a_resize_by_a_cluster_has_the_clusters_generation(client: Client, node: ScriptedNode) -> None:
    document = sized()
    marks = {"kubernetes.io/config.source": "kubernetes", "kubernetes.io/config.hash": "u1"}
    document["metadata"] |= {"uid": "u1", "generation": 4, "annotations": marks}
    node.real.objects.keep(ConfigMap.model_validate({"metadata": {"name": "all", "namespace": "default"}}), "services")
    handle = await running(client, node, document)
    changed = copy.deepcopy(document)
    changed["spec"]["containers"][0]["resources"] = LARGE
    changed["metadata"]["generation"] = 7
    await handle.execute_update("apply", changed)
    pod = await until(handle, is_given(LARGE))
    assert (pod["metadata"]["generation"], pod["status"]["observedGeneration"]) == (7, 7)
    assert {each["observedGeneration"] for each in pod["status"]["conditions"]} == {7}
    assert '"generation":7' in await event(handle, "ResizeCompleted")


async def test_an_applied_manifest_resizes_too(client: Client, node: ScriptedNode) -> None:
    document = sized()
    handle = await running(client, node, document)
    changed = copy.deepcopy(document)
    changed["spec"]["containers"][0]["resources"] = LARGE
    plan = await handle.query("plan", changed)
    assert [(step["step"], step["why"]) for step in plan["steps"]] == [
        ("allocate_resources", "the pod asks for other resources"),
        ("resize_pod", "memory limit of web 64Mi -> 128Mi, cpu limit of web 200m -> 400m"),
    ]
    assert (await handle.query("plan", args=[resize_to(LARGE), "resize"])) == plan
    await handle.execute_update("apply", changed)
    await until(handle, is_given(LARGE))
    await handle.execute_update("apply", changed)
    await handle.signal("update_pod", document)
    await until(handle, is_given(SMALL))
    assert node.steps()[2:] == ["allocate_resources", "resize_pod"] * 2


async def test_a_resize_without_room_is_deferred_until_there_is_room(client: Client, node: ScriptedNode) -> None:
    """Row 115: the pod keeps its resources; the workflow asks again when the node reports room."""
    node.no_room(DEFERRED, DEFERRED)
    handle = await running(client, node, sized())
    uid = (await query_pod(handle))["metadata"]["uid"]
    await handle.execute_update("resize", resize_to(LARGE))
    pod = await until(handle, is_under_way)
    pending = conditions(pod)["PodResizePending"]
    assert (pending["status"], pending["reason"], pending["message"]) == ("True", "Deferred", DEFERRED.message)
    assert pending["observedGeneration"] == 2
    assert (await event(handle, "ResizeDeferred")).startswith('Pod resize Deferred: {"containers":[{"name":"web"')
    assert pod["spec"]["containers"][0]["resources"] == LARGE
    assert container(pod, "web")["resources"] == SMALL
    assert pod["status"]["allocatedResources"] == SMALL["requests"]

    await node.tell(handle, await node.exits(uid, "web", 1))
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    (_, again) = [step for _, step in node.taken if isinstance(step, StartContainer)]
    assert again.pod.spec.containers[0].resources.limits == SMALL["limits"], "started with what is allocated"

    room = {"container": "allocate_resources", "appeared": "room on the node"}
    await handle.signal("backoff_expired", room)
    await until(handle, lambda _: node.steps().count("allocate_resources") == 2)
    await handle.signal("backoff_expired", room)
    pod = await until(handle, is_given(LARGE))
    assert node.steps()[-2:] == ["allocate_resources", "resize_pod"]
    assert await reasons(handle) == ["ResizeDeferred", "ResizeStarted", "ResizeCompleted"]
    assert container(pod, "web")["restartCount"] == 1


class Counted:
    """The counts of resizes in telemetry since the start of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requested: list[dict[str, str]] = []
        monkeypatch.setattr(resize_metrics, "_requested", self)
        monkeypatch.setattr(resize_metrics, "_pending", {})
        monkeypatch.setattr(resize_metrics, "_in_progress", set())

    def add(self, amount: int, labels: dict[str, str]) -> None:
        self.requested += [labels] * amount

    def stand(self) -> tuple[dict[Any, Any], Any]:
        """The numbers of pending resizes by reason, and of those in progress."""
        pending = resize_metrics.observe_pending(CallbackOptions())
        (in_progress,) = resize_metrics.observe_in_progress(CallbackOptions())
        return {(each.attributes or {})["reason"]: each.value for each in pending}, in_progress.value


async def test_resizes_are_counted_once_however_often_the_run_is_replayed(
    client: Client, node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    node.no_room(DEFERRED)
    gate = node.gate["resize_pod"] = asyncio.Event()
    handle = await running(client, node, sized())
    assert (counted.requested, counted.stand()) == ([], ({}, 0))
    await handle.execute_update("resize", resize_to(LARGE))
    await until(handle, is_under_way)
    await until(handle, lambda _: counted.stand() == ({"deferred": 1}, 0))
    await handle.signal("backoff_expired", {"container": "allocate_resources", "appeared": "room on the node"})
    await until(handle, lambda _: counted.stand() == ({}, 1))
    gate.set()
    await until(handle, is_given(LARGE))
    await until(handle, lambda _: counted.stand() == ({}, 0))
    assert counted.requested == [
        {"resource": resource, "requirement": requirement, "operation": "increase"}
        for resource, requirement in (("memory", "requests"), ("memory", "limits"), ("cpu", "limits"))
    ]

    node.no_room(NEVER)
    await handle.execute_update("resize", resize_to(SMALL))
    await until(handle, lambda _: counted.stand() == ({"infeasible": 1}, 0))
    assert [each["operation"] for each in counted.requested[3:]] == ["decrease"] * 3
    await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
    await handle.result()
    assert counted.stand() == ({}, 0), "what has gone waits for nothing"


async def test_a_notice_of_room_before_the_answer_is_not_lost(client: Client, node: ScriptedNode) -> None:
    node.no_room(DEFERRED)
    handle = await running(client, node, sized())
    node.gate["allocate_resources"] = asyncio.Event()
    await handle.execute_update("resize", resize_to(LARGE))
    await until(handle, lambda _: "allocate_resources" in node.steps())
    await handle.signal("backoff_expired", {"container": "allocate_resources", "appeared": "room on the node"})
    node.gate["allocate_resources"].set()
    await until(handle, is_given(LARGE))
    assert node.steps().count("allocate_resources") == 2


@pytest.mark.parametrize("answer", [DEFERRED, NEVER], ids=["deferred", "infeasible"])
async def test_a_late_refusal_of_an_earlier_resize_does_not_affect_the_current_one(
    client: Client, node: ScriptedNode, answer: Allocation
) -> None:
    node.no_room(answer, answer)
    handle = await running(client, node, sized())
    taken_back, followed = (LARGE, SMALL), ({"limits": {"cpu": "300m"}}, LARGE)
    for asked, (first, second) in enumerate((taken_back, followed), 1):
        gate = node.gate["allocate_resources"] = asyncio.Event()
        await handle.execute_update("resize", resize_to(first))
        await until(handle, lambda _, n=asked: node.steps().count("allocate_resources") == n)  # type: ignore[misc]
        await handle.execute_update("resize", resize_to(second))
        gate.set()
    pod = await until(handle, is_given(LARGE))
    assert node.steps().count("allocate_resources") == 3
    assert await reasons(handle) == ["ResizeStarted", "ResizeCompleted"]
    assert phase(pod) == "Running"


async def test_a_withdrawn_deferred_resize_leaves_nothing_pending(client: Client, node: ScriptedNode) -> None:
    node.no_room(DEFERRED)
    handle = await running(client, node, sized())
    await handle.execute_update("resize", resize_to(LARGE))
    await until(handle, is_under_way)
    await handle.execute_update("resize", resize_to(SMALL))
    await until(handle, is_given(SMALL))
    assert node.steps().count("allocate_resources") == 1


async def test_an_infeasible_resize_is_not_requested_again(client: Client, node: ScriptedNode) -> None:
    """Row 115: until something else is desired, or the node's worker has restarted."""
    node.no_room(NEVER, NEVER)
    handle = await running(client, node, sized())
    uid = (await query_pod(handle))["metadata"]["uid"]
    await handle.execute_update("resize", resize_to(LARGE))
    pod = await until(handle, is_under_way)
    assert conditions(pod)["PodResizePending"]["reason"] == "Infeasible"
    await node.tell(handle, await node.list(uid))
    await handle.signal("backoff_expired", {"container": "allocate_resources", "appeared": "room on the node"})
    pod = await until(handle, is_under_way)
    assert node.steps().count("allocate_resources") == 1
    await node.tell(handle, await node.list(uid), "Boot")
    await until(handle, lambda _: node.steps().count("allocate_resources") == 2)
    await handle.execute_update("resize", resize_to({"limits": {"cpu": "300m"}}))
    await until(handle, lambda pod: not conditions(pod))
    assert node.steps().count("allocate_resources") == 3
    assert await reasons(handle) == ["ResizeInfeasible", "ResizeStarted", "ResizeCompleted"]


async def test_a_resize_restarts_the_container_if_its_resize_policy_says_so(client: Client, node: ScriptedNode) -> None:
    """Row 117: killed, pod cgroup adjusted, started; a resource without this policy is changed in place."""
    handle = await running(client, node, sized(restart_for=("memory",), restartPolicy="OnFailure"))
    await handle.execute_update("resize", resize_to({"limits": {"cpu": "400m"}}))
    await until(handle, lambda pod: not conditions(pod) and len(node.steps()) == 4)
    await handle.execute_update("resize", resize_to(LARGE))
    pod = await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1 and is_given(LARGE)(pod))
    assert node.steps()[2:] == [
        "allocate_resources", "resize_pod",
        "allocate_resources", "kill_container web", "resize_pod", "start_container web",
    ]  # fmt: skip
    assert phase(pod) == "Running"
    kill = next(step for name, step in node.taken if name == "kill_container")
    assert getattr(kill, "message", "") == "Container web resize requires restart"
    assert await reasons(handle) == ["ResizeStarted", "ResizeCompleted"] * 2


async def test_a_failed_resize_is_reported_and_retried(client: Client, node: ScriptedNode) -> None:
    """Row 116: resources that were applied before the failure are remembered."""

    half = {"limits": {"cpu": "200m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}}
    refuse_resize(node, {"web": half})
    handle = await running(client, node, sized())
    await handle.execute_update("resize", resize_to(LARGE))
    pod = await until(handle, lambda pod: conditions(pod).get("PodResizeInProgress", {}).get("reason") == "Error")
    assert conditions(pod)["PodResizeInProgress"]["message"] == "the kernel refuses"
    assert container(pod, "web")["resources"]["limits"] == {"cpu": "200m", "memory": "128Mi"}
    assert (await event(handle, "ResizeError")).endswith('"generation":2,"error":"the kernel refuses"}')
    await handle.signal("backoff_expired", {"container": "resize_pod"})
    await until(handle, is_given(LARGE))
    last = [step for _, step in node.taken if isinstance(step, ResizePod)][-1]
    assert (last.memory, [update.name for update in last.cpu]) == ((), ["web"])
    assert await reasons(handle) == ["ResizeStarted", "ResizeError", "ResizeCompleted"]


async def test_resources_that_cannot_be_resized_do_not_keep_a_resize_pending(
    client: Client, node: ScriptedNode
) -> None:
    """One container is done when another fails; its storage, which no runtime gets, delays nothing."""

    storage = {kind: {**amounts, "ephemeral-storage": "1Gi"} for kind, amounts in SMALL.items()}
    names = ("web", "db")
    document = manifest(containers=[{"name": name, "image": "busybox:1", "resources": storage} for name in names])
    refuse_resize(node, {"web": LARGE})
    handle = await running(client, node, document)
    await handle.execute_update("resize", {"containers": [{"name": name, "resources": LARGE} for name in names]})
    await until(handle, lambda pod: conditions(pod).get("PodResizeInProgress", {}).get("reason") == "Error")
    await handle.signal("backoff_expired", {"container": "resize_pod"})
    await until(handle, lambda pod: not conditions(pod))
    first, last = [step for _, step in node.taken if isinstance(step, ResizePod)]
    assert {update.name for update in first.memory} == {"web", "db"}
    assert [update.name for update in last.memory] == ["db"]
    assert await reasons(handle) == ["ResizeStarted", "ResizeError", "ResizeCompleted"]


async def test_a_container_limit_equal_to_the_former_pod_limit_needs_no_resize(
    client: Client, node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container without a limit is bounded by the pod's; if that becomes its own limit, it already has it."""
    monkeypatch.setattr(pod_cgroups, "_refused_as_a_whole", lambda *_: ())
    whole = {"limits": {"memory": "1Gi"}, "requests": {"memory": "64Mi"}}
    web = {"name": "web", "image": "busybox:1", "resources": {"requests": {"memory": "64Mi"}}}
    handle = await running(client, node, manifest(containers=[web], resources=whole))
    await handle.execute_update("resize", resize_to({"limits": {"memory": "1Gi"}}))
    await until(handle, lambda pod: not conditions(pod) and "resize_pod" in node.steps())
    (step,) = [step for _, step in node.taken if isinstance(step, ResizePod)]
    assert (step.memory, step.cpu) == ((), ())
    await handle.execute_update("resize", {"resources": {"limits": {"memory": "2Gi"}}})
    await until(handle, lambda pod: not conditions(pod) and node.steps().count("resize_pod") == 2)
    assert await reasons(handle) == ["ResizeStarted", "ResizeCompleted"] * 2
    assert node.steps()[2:] == ["allocate_resources", "resize_pod"] * 2


REFUSED: list[tuple[dict[str, Any], str]] = [
    (resize_to({"limits": {"cpu": "100m"}, "requests": {"cpu": "100m", "memory": "1Gi"}}), "requests[memory]: must be"),
    (resize_to({"limits": {"memory": "1Gi", "nvidia.com/gpu": "1"}}), "limits[nvidia.com/gpu]: must be cpu or memory"),
    ({"containers": [{"name": "other", "resources": SMALL}]}, "containers[0].name: 'other' is not in the pod"),
    ({"containers": [{"name": "web", "image": "busybox:2"}]}, "containers[0].image: unknown field"),
    (resize_to({"requests": {"cpu": "200m"}}), "spec: a resize may not change the pod's QoS class from Burstable"),
    ({}, "names no limit and no request"),
]


@pytest.mark.parametrize(("wanted", "why"), REFUSED, ids=[why[:40] for _, why in REFUSED])
async def test_an_invalid_resize_is_refused_by_its_path(
    client: Client, node: ScriptedNode, wanted: dict[str, Any], why: str
) -> None:
    handle = await running(client, node, sized())
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("resize", wanted)
    assert isinstance(refused.value.cause, ApplicationError)
    assert why in refused.value.cause.message
    assert node.steps() == ["create_sandbox", "start_container web"]


async def test_a_pod_that_ends_is_not_resized(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, sized(restartPolicy="Never"))
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "web", 0))
    await until(handle, lambda pod: phase(pod) == "Succeeded")
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("resize", resize_to(LARGE))
    assert isinstance(refused.value.cause, ApplicationError)
    assert "has finished" in refused.value.cause.message
    plan = await handle.query("plan", args=[resize_to(LARGE), "resize"])
    assert plan == {"error": refused.value.cause.message, "steps": [], "holds": []}


async def test_a_resize_continues_in_the_next_run(client: Client, node: ScriptedNode) -> None:
    """Row 115: what is allocated, and what was last applied, is carried from run to run."""
    node.no_room(DEFERRED)
    handle = await running(client, node, sized(), maxEvents=12)
    latest = client.get_workflow_handle(handle.id)
    await latest.execute_update("resize", resize_to(LARGE))
    await until(latest, is_under_way)
    first = (await latest.describe()).run_id
    await latest.execute_update("apply", {**await _manifest(latest), "metadata": await _labelled(latest)})
    await until(latest, lambda pod: pod["metadata"].get("labels") == {"a": "b"} and bool(conditions(pod)))
    await latest.signal("backoff_expired", {"container": "allocate_resources"})
    await until(latest, is_given(LARGE))
    await in_another_run(latest, first)
    (step,) = [step for _, step in node.taken if isinstance(step, ResizePod)]
    assert step.memory[0].current.memory_limit == 64 * MIB
    asked = [step for _, step in node.taken if isinstance(step, AllocateResources)]
    assert [step.pod.spec.containers[0].resources.limits for step in asked] == [LARGE["limits"]] * 2


async def _manifest(handle: Any) -> dict[str, Any]:
    pod = await query_pod(handle)
    return {"apiVersion": "v1", "kind": "Pod", "spec": pod["spec"]}


async def _labelled(handle: Any) -> dict[str, Any]:
    pod = await query_pod(handle)
    return {"name": pod["metadata"]["name"], "labels": {"a": "b"}}
