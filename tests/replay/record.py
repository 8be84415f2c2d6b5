"""Records histories for kinds of pods that have none of the current decisions: `python -m tests.replay.record`.

The histories in the repository must continue to replay. Once a version of the decisions is released, its histories are
never recorded again.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from temporalio.client import Client, WorkflowHandle

from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.steps import Allocation, Fault, Rejection
from syncpod.node import pod_cgroups
from syncpod.temporal.plugin import DATA_CONVERTER
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.workflows.scripted import (
    ScriptedNode,
    container,
    in_another_run,
    phase,
    query_pod,
    scripted_worker,
    start_pod,
    until,
    until_next_waits,
)

HISTORIES = Path(__file__).parent / "histories"
"""The directory of histories, with a subdirectory for each version of the decisions."""
TODAY = f"decisions-{DECISION_VERSION}"

Handle = WorkflowHandle[Any, Any]
Story = Callable[[Client, ScriptedNode], Awaitable[Handle]]


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod with this name and one container, changed by `spec`."""
    base = {"containers": [{"name": "web", "image": "busybox:1"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": base}


async def up(client: Client, node: ScriptedNode, document: dict[str, Any]) -> tuple[Handle, str]:
    """Start a pod, wait until it runs, and return its handle and UID."""
    handle = await start_pod(client, node, document)
    running = await until(handle, lambda seen: phase(seen) == "Running")
    return handle, running["metadata"]["uid"]


async def brought_up(client: Client, node: ScriptedNode) -> Handle:
    """A plain init container, a sidecar, a second init container, two containers, an ephemeral one."""
    image = "busybox:1"
    document = pod(
        "brought-up",
        initContainers=[
            {"name": "first", "image": image},
            {"name": "sidecar", "image": image, "restartPolicy": "Always"},
            {"name": "second", "image": image},
        ],
        containers=[{"name": "a", "image": image}, {"name": "b", "image": image}],
    )
    handle = await start_pod(client, node, document)
    for name in ("first", "second"):
        seen = await until(handle, lambda seen, n=name: bool(container(seen, n).get("state", {}).get("running")))  # type: ignore[misc]
        uid = seen["metadata"]["uid"]
        await node.tell(handle, await node.exits(uid, name, 0), "ContainerDied")
    await until(handle, lambda seen: phase(seen) == "Running")
    await handle.execute_update("add_ephemeral_container", {"name": "debug", "image": image})
    await until(handle, lambda seen: bool(container(seen, "debug").get("state", {}).get("running")))
    return handle


async def chained(client: Client, node: ScriptedNode) -> Handle:
    """Two init containers, the second of which is created ahead, and two containers."""
    image = "busybox:1"
    document = pod(
        "chained",
        initContainers=[{"name": "first", "image": image}, {"name": "second", "image": image}],
        containers=[{"name": "a", "image": image}, {"name": "b", "image": image}],
    )
    node.end_at_once(0, 0)
    handle = await until_next_waits(client, node, document, "start_init_container")
    await until(handle, lambda seen: phase(seen) == "Running")
    return handle


async def crash_loop(client: Client, node: ScriptedNode) -> Handle:
    """An immediate restart, a back-off ended by a signal, one ended by the timer."""
    handle, uid = await up(client, node, pod("crash-loop"))
    await node.tell(handle, await node.exits(uid, "web", 1))
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 1)
    await node.tell(handle, await node.exits(uid, "web", 2))
    await until(handle, lambda seen: "waiting" in container(seen, "web").get("state", {}))
    await handle.signal("backoff_expired", {"container": "web"})
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 2)
    await node.tell(handle, await node.exits(uid, "web", 3, ago=19.0))
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 3)
    return handle


async def image_absent(client: Client, node: ScriptedNode) -> Handle:
    """A pull that fails, backs off, and succeeds."""
    node.absent.add("gone:1")
    node.fault("pull_image", Fault.ERR_IMAGE_PULL, "no such image")
    handle = await start_pod(client, node, pod("image-absent", containers=[{"name": "web", "image": "gone:1"}]))
    await until(handle, lambda seen: bool(container(seen, "web").get("state", {}).get("waiting", {}).get("message")))
    await handle.signal("backoff_expired", {"container": "web"})
    await until(handle, lambda seen: phase(seen) == "Running")
    return handle


async def sandbox_changed(client: Client, node: ScriptedNode) -> Handle:
    """The sandbox dies and is replaced."""
    handle, uid = await up(client, node, pod("sandbox-changed"))
    await node.tell(handle, await node.loses_sandbox(uid))
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 1)
    return handle


async def image_changed(client: Client, node: ScriptedNode) -> Handle:
    """An update changes an image; an invalid signal arrives in between."""
    document = pod("image-changed")
    handle, _ = await up(client, node, document)
    changed = copy.deepcopy(document)
    changed["spec"]["containers"][0]["image"] = "busybox:2"
    await handle.signal("pleg", args=[1, 2, 3])
    await handle.execute_update("apply", changed)
    await until(handle, lambda seen: container(seen, "web").get("image") == "busybox:2")
    return handle


async def restart_all(client: Client, node: ScriptedNode) -> Handle:
    """A restart rule restarts all containers in place."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    web = {"name": "web", "image": "busybox:1", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    document = pod("restart-all", restartPolicy="Never", containers=[web, {"name": "other", "image": "busybox:1"}])
    handle, uid = await up(client, node, document)
    await node.tell(handle, await node.exits(uid, "web", 42))
    await until(handle, lambda seen: container(seen, "other").get("restartCount") == 1 and phase(seen) == "Running")
    return handle


async def finished_and_deleted(client: Client, node: ScriptedNode) -> Handle:
    """A pod runs to its end, stays, and is deleted."""
    handle, uid = await up(client, node, pod("finished-and-deleted", restartPolicy="Never"))
    await node.tell(handle, await node.exits(uid, "web", 0))
    await until(handle, lambda seen: phase(seen) == "Succeeded")
    await handle.execute_update("delete", {"gracePeriodSeconds": 1})
    await handle.result()
    return handle


async def deleted_while_starting(client: Client, node: ScriptedNode) -> Handle:
    """A deletion cancels a start that hangs."""
    node.gate["start_container"] = asyncio.Event()
    handle = await start_pod(client, node, pod("deleted-while-starting"))
    while "start_container web" not in node.steps():  # noqa: ASYNC110  # the node has no event for it
        await asyncio.sleep(0.05)
    await handle.signal("delete_pod", {})
    await handle.result()
    return handle


async def continued(client: Client, node: ScriptedNode) -> Handle:
    """The second run of a pod, which begins with a snapshot."""
    document = pod("continued")
    first = await start_pod(client, node, document, maxEvents=16)
    latest: Handle = client.get_workflow_handle(first.id)
    running = await until(latest, lambda seen: phase(seen) == "Running")
    uid = running["metadata"]["uid"]
    await node.tell(latest, await node.exits(uid, "web", 1))
    await until(latest, lambda seen: container(seen, "web").get("restartCount") == 1)
    await in_another_run(latest, first.result_run_id)
    await node.tell(latest, await node.exits(uid, "web", 1))
    await until(latest, lambda seen: bool(container(seen, "web").get("state", {}).get("waiting")))
    return latest


async def pulled_beside(client: Client, node: ScriptedNode) -> Handle:
    """An image is pulled while another container starts, exits and restarts."""
    node.absent.add("gone:1")
    node.gate["pull_image"] = asyncio.Event()
    containers = [{"name": "slow", "image": "gone:1"}, {"name": "quick", "image": "busybox:1"}]
    handle = await start_pod(client, node, pod("pulled-beside", containers=containers))
    seen = await until(handle, lambda seen: bool(container(seen, "quick").get("state", {}).get("running")))
    await node.tell(handle, await node.exits(seen["metadata"]["uid"], "quick", 1))
    await until(handle, lambda seen: container(seen, "quick").get("restartCount") == 1)
    node.gate["pull_image"].set()
    await until(handle, lambda seen: phase(seen) == "Running")
    return handle


async def probed(client: Client, node: ScriptedNode) -> Handle:
    """A readiness probe succeeds, then the liveness probe fails, and the container is restarted."""
    probe = {"tcpSocket": {"port": 80}}
    web = {"name": "web", "image": "busybox:1", "readinessProbe": probe, "livenessProbe": probe}
    handle, uid = await up(client, node, pod("probed", containers=[web]))
    instance = node.newest(uid, "web")
    for type_, result in (("readiness", "success"), ("liveness", "failure")):
        change = {"container": "web", "containerID": instance.id, "probe": type_, "result": result}
        await handle.signal("probe", change)
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 1)
    return handle


async def turned_away(client: Client, node: ScriptedNode) -> Handle:
    """A node rejects a pod that does not fit; the failed pod is deleted."""

    node.turn_away(Rejection(reason="OutOfcpu", message="no room"))
    handle = await start_pod(client, node, pod("turned-away"))
    await until(handle, lambda seen: phase(seen) == "Failed")
    await handle.signal("delete_pod", {})
    await handle.result()
    return handle


async def evicted(client: Client, node: ScriptedNode) -> Handle:
    """A node evicts a pod."""
    handle, uid = await up(client, node, pod("evicted"))
    await handle.signal("evict", {"uid": uid, "message": "too much"})
    await until(handle, lambda seen: phase(seen) == "Failed")
    return handle


async def expired(client: Client, node: ScriptedNode) -> Handle:
    """A pod passes its active deadline."""
    handle, _ = await up(client, node, pod("expired", activeDeadlineSeconds=5))
    await until(handle, lambda seen: phase(seen) == "Failed")
    return handle


async def relabelled(client: Client, node: ScriptedNode) -> Handle:
    """Labels that are in a volume change."""
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    document = pod("relabelled", volumes=[{"name": "info", "downwardAPI": {"items": items}}])
    handle, _ = await up(client, node, document)
    changed = copy.deepcopy(document)
    changed["metadata"]["labels"] = {"tier": "front"}
    await handle.execute_update("apply", changed)
    await until(handle, lambda _: "sync_volumes" in node.steps())
    await until(handle, lambda seen: phase(seen) == "Running")
    return handle


SMALL = {"limits": {"cpu": "200m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}
LARGE = {"limits": {"cpu": "400m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}}


def _given(resources: dict[str, Any], restarts: int = 0) -> Callable[[dict[str, Any]], bool]:
    """Whether the container has these resources, and no resize is pending."""

    def seen(pod: dict[str, Any]) -> bool:
        web, conditions = container(pod, "web"), [each["type"] for each in pod["status"]["conditions"]]
        done = not any(type_.startswith("PodResize") for type_ in conditions)
        return done and web.get("resources") == resources and web.get("restartCount") == restarts

    return seen


async def resized(client: Client, node: ScriptedNode) -> Handle:
    """Resizes: deferred, allocated, failed and applied; one by a signal; and a container restarted for its memory."""
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    web = {"name": "web", "image": "busybox:1", "resources": SMALL, "resizePolicy": policy}
    document = pod("resized", containers=[web])
    handle, _ = await up(client, node, document)
    node.no_room(Allocation(pending="Deferred", message="no room"))
    node.fault("resize_pod", Fault.RESIZE_POD_IN_PLACE_ERROR, "the kernel refuses")
    more_cpu = {**SMALL, "limits": LARGE["limits"] | {"memory": "64Mi"}}
    await handle.execute_update("resize", {"containers": [{"name": "web", "resources": {"limits": {"cpu": "400m"}}}]})
    await until(handle, lambda seen: "PodResizePending" in str(seen["status"]["conditions"]))
    await handle.signal("backoff_expired", {"container": "allocate_resources", "appeared": "room on the node"})
    await until(handle, lambda seen: "the kernel refuses" in str(seen["status"]["conditions"]))
    await handle.signal("backoff_expired", {"container": "resize_pod"})
    await until(handle, _given(more_cpu))
    changed = copy.deepcopy(document)
    changed["spec"]["containers"][0]["resources"] = LARGE
    await handle.signal("update_pod", changed)
    await until(handle, _given(LARGE, restarts=1))
    return handle


async def resize_refused(client: Client, node: ScriptedNode) -> Handle:
    """A signal asks for a resize that would change the pod's QoS class: it is refused. Then the container restarts."""
    document = pod("resize-refused")
    handle, uid = await up(client, node, document)
    changed = copy.deepcopy(document)
    changed["spec"]["containers"][0]["resources"] = SMALL
    await handle.signal("update_pod", changed)
    await node.tell(handle, await node.exits(uid, "web", 1))
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 1)
    return handle


async def restarted_by_an_operator(client: Client, node: ScriptedNode) -> Handle:
    """An operator restarts a finished container that its policy would not restart; so does a new image."""
    document = pod("restarted-by-an-operator", restartPolicy="OnFailure")
    handle, _ = await up(client, node, document)
    await handle.signal("restart", {"container": "web"})
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 1)
    changed = copy.deepcopy(document)
    changed["spec"]["containers"][0]["image"] = "busybox:2"
    await handle.execute_update("apply", changed)
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 2)
    return handle


async def gated(client: Client, node: ScriptedNode) -> Handle:
    """A readiness gate opens and shuts again."""
    gate = "example.com/gate"
    handle, _ = await up(client, node, pod("gated", readinessGates=[{"conditionType": gate}]))
    for status in ("True", "False"):
        await handle.signal("set_condition", {"type": gate, "status": status})
        ready = {"type": "Ready", "status": status}
        await until(handle, lambda seen, r=ready: any(r.items() <= c.items() for c in seen["status"]["conditions"]))  # type: ignore[misc]
    return handle


async def restart_all_again(client: Client, node: ScriptedNode) -> Handle:
    """All containers are restarted twice, the second time after a back-off, which an operator ends."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    web = {"name": "web", "image": "busybox:1", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    handle, uid = await up(client, node, pod("restart-all-again", containers=[web]))
    for count in (1, 2):
        await node.tell(handle, await node.exits(uid, "web", 42))
        if count == 2:
            await until(handle, lambda seen: "CrashLoopBackOff" in str(container(seen, "web")["state"]))
            await handle.signal("backoff_expired", {"container": "restart_all_containers"})
        await until(
            handle,
            lambda seen, n=count: (  # type: ignore[misc]
                container(seen, "web").get("restartCount") == n and "running" in container(seen, "web")["state"]
            ),
        )
    return handle


async def kill_overdue(client: Client, node: ScriptedNode) -> Handle:
    """A kill takes too long, and is repeated after a back-off, which an operator ends."""
    handle, _ = await up(client, node, pod("kill-overdue"))
    node.fault("kill_pod", Fault.EXCEEDED_GRACE_PERIOD, "web did not end within 15 s")
    await handle.signal("delete_pod", {})
    await until(handle, lambda seen: "KillOverdue" in str(seen["status"]["conditions"]))
    await handle.signal("backoff_expired", {"container": "kill_pod"})
    await handle.result()
    return handle


async def expired_before_its_sandbox(client: Client, node: ScriptedNode) -> Handle:
    """A pod without a sandbox passes its deadline, and its node counts its resources as free."""
    node.fault("create_sandbox", Fault.FAILED_CREATE_SANDBOX, "no network")
    handle = await start_pod(client, node, pod("expired-before-its-sandbox", activeDeadlineSeconds=1))
    await until(handle, lambda seen: phase(seen) == "Failed" and "kill_pod" in node.steps())
    return handle


async def resized_past_answers(client: Client, node: ScriptedNode) -> Handle:
    """A refusal comes after another resize, to the container's actual resources, has replaced the refused one."""
    whole = {"limits": {"memory": "1Gi"}, "requests": {"memory": "64Mi"}}
    web = {"name": "web", "image": "busybox:1", "resources": {"requests": {"memory": "64Mi"}}}
    with patch.object(pod_cgroups, "_refused_as_a_whole", lambda *_: ()):  # a scripted node makes no cgroups
        handle, _ = await up(client, node, pod("resized-past-answers", containers=[web], resources=whole))
        node.no_room(Allocation(pending="Infeasible", message="never"))
        node.gate["allocate_resources"] = asyncio.Event()
        for limit in ("512Mi", "1Gi"):
            asked = {"containers": [{"name": "web", "resources": {"limits": {"memory": limit}}}]}
            await handle.execute_update("resize", asked)
            await until(handle, lambda _: "allocate_resources" in node.steps())
        node.gate["allocate_resources"].set()
        await until(handle, lambda seen: "resize_pod" in node.steps() and "PodResize" not in str(seen["status"]))
    return handle


async def evicted_while_stuck(client: Client, node: ScriptedNode) -> Handle:
    """The kill before a new sandbox takes too long. The pod is evicted meanwhile, and its own kill does not wait."""
    handle, uid = await up(client, node, pod("evicted-while-stuck"))
    node.fault("kill_pod", Fault.EXCEEDED_GRACE_PERIOD, "web did not end within 15 s")
    await node.tell(handle, await node.loses_sandbox(uid))
    await until(handle, lambda seen: "KillOverdue" in str(seen["status"]["conditions"]))
    await handle.signal("evict", {"uid": uid, "reason": "Evicted", "message": "no room", "gracePeriodSeconds": 1})
    await until(handle, lambda seen: "running" not in container(seen, "web")["state"])
    return handle


async def debugged_between_rounds(client: Client, node: ScriptedNode) -> Handle:
    """An ephemeral container starts while all others wait to be restarted; then an operator restarts one of these."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    web = {"name": "web", "image": "busybox:1", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    handle, uid = await up(client, node, pod("debugged-between-rounds", containers=[web]))
    await node.tell(handle, await node.exits(uid, "web", 42))
    await until(handle, lambda seen: _runs(seen, "web", 1))
    await node.tell(handle, await node.exits(uid, "web", 42))
    await until(handle, lambda seen: "CrashLoopBackOff" in str(container(seen, "web")["state"]))
    await handle.execute_update("add_ephemeral_container", {"name": "debug", "image": "busybox:1"})
    await until(handle, lambda seen: _runs(seen, "debug", 0))
    await handle.signal("restart", {"container": "web"})
    await until(handle, lambda seen: _runs(seen, "web", 2))
    return handle


def _runs(seen: dict[str, Any], name: str, restarts: int) -> bool:
    status = container(seen, name)
    return status.get("restartCount") == restarts and "running" in status["state"]


async def lost_and_pruned(client: Client, node: ScriptedNode) -> Handle:
    """The runtime loses a running and a finished container, then the sandbox as well.

    Nobody knows how the lost container ended, so its restart has a back-off; the finished job is not run again.
    """
    containers = [{"name": each, "image": "busybox:1"} for each in ("web", "job")]
    handle, uid = await up(client, node, pod("lost-and-pruned", restartPolicy="OnFailure", containers=containers))
    await node.tell(handle, await node.exits(uid, "job", 0))
    await until(handle, lambda seen: bool(container(seen, "job").get("state", {}).get("terminated")))
    await node.tell(handle, await node.loses(uid))
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 1)
    await node.tell(handle, await node.loses(uid, sandboxes=True))
    await until(handle, lambda seen: bool(seen["status"]["containerStatuses"]) and len(node.sandboxes(uid)) == 1)
    await handle.signal("backoff_expired", {"container": "web"})
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 2 and phase(seen) == "Running")
    return handle


async def restart_limited(client: Client, node: ScriptedNode) -> Handle:
    """Exempt exits; a restart limit that holds a container until an operator retries, and later fails the pod."""
    document = pod("restart-limited")
    document["metadata"]["annotations"] = {
        "syncpod.dev/backoff-exempt-exit-codes": "0",
        "syncpod.dev/restart-limit": "1",
    }
    handle, uid = await up(client, node, document)
    for restart, code in ((1, 0), (2, 0), (3, 1)):
        await node.tell(handle, await node.exits(uid, "web", code, ago=400.0))
        await until(handle, lambda seen, n=restart: container(seen, "web").get("restartCount") == n)  # type: ignore[misc]
    await node.tell(handle, await node.exits(uid, "web", 1, ago=400.0))
    await until(handle, lambda seen: "RestartLimitReached" in str(container(seen, "web")["state"]))
    await handle.signal("backoff_expired", {"container": "web"})
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 4)
    changed = copy.deepcopy(document)
    changed["metadata"]["annotations"]["syncpod.dev/restart-limit-action"] = "fail"
    await handle.execute_update("apply", changed)
    await node.tell(handle, await node.exits(uid, "web", 1, ago=400.0))
    await until(handle, lambda seen: container(seen, "web").get("restartCount") == 5)
    await node.tell(handle, await node.exits(uid, "web", 1, ago=400.0))
    await until(handle, lambda seen: phase(seen) == "Failed")
    return handle


async def back_after_its_sidecar(client: Client, node: ScriptedNode) -> Handle:
    """A sidecar waits in its back-off when the main container exits.

    The kubelet 1.36 has the main container wait for it; for 1.37 the pod stays initialized in its sandbox.
    """
    sidecar = {"name": "sidecar", "image": "busybox:1", "restartPolicy": "Always"}
    handle, uid = await up(client, node, pod("back-after-its-sidecar", initContainers=[sidecar]))
    await node.tell(handle, await node.exits(uid, "sidecar", 1))
    await until(handle, lambda seen: _runs(seen, "sidecar", 1))
    await node.tell(handle, await node.exits(uid, "sidecar", 1))
    await until(handle, lambda seen: "CrashLoopBackOff" in str(container(seen, "sidecar")["state"]))
    await node.tell(handle, await node.exits(uid, "web", 1))
    await until(handle, lambda seen: not container(seen, "web")["state"].get("running") or _runs(seen, "web", 1))
    await handle.signal("backoff_expired", {"container": "sidecar"})
    await until(handle, lambda seen: _runs(seen, "sidecar", 2) and _runs(seen, "web", 1))
    return handle


STORIES: tuple[Story, ...] = (
    chained,
    brought_up,
    crash_loop,
    image_absent,
    sandbox_changed,
    image_changed,
    restart_all,
    finished_and_deleted,
    deleted_while_starting,
    continued,
    pulled_beside,
    probed,
    turned_away,
    evicted,
    expired,
    relabelled,
    resized,
    resize_refused,
    restarted_by_an_operator,
    gated,
    restart_all_again,
    kill_overdue,
    expired_before_its_sandbox,
    resized_past_answers,
    evicted_while_stuck,
    debugged_between_rounds,
    lost_and_pruned,
    restart_limited,
    back_after_its_sidecar,
)


async def record() -> None:
    """Run each story that has no history of the current decisions on a dev server, and write its history."""
    directory = HISTORIES / TODAY
    directory.mkdir(exist_ok=True)
    with DevServer.launch() as server:
        client = await connect(server.address, data_converter=DATA_CONVERTER)
        for story in STORIES:
            written = directory / f"{story.__name__}.json"
            if written.exists():
                continue
            node = ScriptedNode()
            async with scripted_worker(client, node):
                handle = await story(client, node)
                await query_pod(handle)
                history = await handle.fetch_history()
            written.write_text(history.to_json() + "\n")
            print(f"{story.__name__}: {len(history.events)} events")  # noqa: T201  # a tool for people


if __name__ == "__main__":
    asyncio.run(record())
