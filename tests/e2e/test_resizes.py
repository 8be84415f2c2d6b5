"""Running pods get more or less CPU and memory, checked in the kernel's cgroups.

Holds: Desired, allocated and applied resources are three things.
"""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from tests.e2e.engine import LivePod, Pods, conditions_of, shell, status_of
from tests.e2e.faults_support import FaultyNode, Pod
from tests.e2e.test_limits import (
    HOLD,
    MIB,
    MOST,
    by_cgroups_of_the_kernel,
    enforced,
    outside,
    path_of,
    require_cgroups,
)
from tests.runtimes import kernel_limits

pytestmark = pytest.mark.every_runtime("UpdateContainerResources is the runtime's", one_containerd=True)

SMALL = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
LARGE = {"requests": {"cpu": "200m", "memory": "32Mi"}, "limits": {"cpu": "400m", "memory": "128Mi"}}
LESS = {"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "48Mi"}}


async def resize(pod: LivePod, name: str, resources: dict[str, Any], kind: str = "containers") -> None:
    await pod.handle.execute_update("resize", {kind: [{"name": name, "resources": resources}]})


def resizing(pod: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The pod's resize conditions, by type: status, reason, message."""
    return {type_: said for type_, said in conditions_of(pod).items() if type_.startswith("PodResize")}


async def resized(pod: LivePod, name: str, resources: dict[str, Any], *, restarts: int = 0) -> dict[str, Any]:
    """Wait until a container has these resources, and no resize is in progress."""

    def seen(pod: dict[str, Any]) -> bool:
        status = status_of(pod, name)
        given = status.get("resources") == resources and "running" in status.get("state", {})
        return given and status["restartCount"] == restarts and not resizing(pod)

    return await pod.until(seen)


@by_cgroups_of_the_kernel
async def test_a_running_container_is_resized_up_and_down(pods: Pods) -> None:
    """Row 116: its cgroup, its pod's and its tier's follow, in place; used memory is not taken away."""
    require_cgroups(pods)
    sidecar = shell("helper", resources=SMALL, restartPolicy="Always")
    pod = await pods.apply("resized", shell("web", resources=SMALL), initContainers=[sidecar])
    uid = (await pod.running())["metadata"]["uid"]
    web, cgroup = await pod.instance("web"), f"burstable/pod{uid}"
    assert outside(pods, cgroup) == ("204", "40000", str(128 * MIB))
    assert outside(pods, f"{cgroup}/{web.id}") == ("102", "20000", str(64 * MIB))

    await resize(pod, "web", LARGE)
    seen = await resized(pod, "web", LARGE)
    assert outside(pods, f"{cgroup}/{web.id}") == ("204", "40000", str(128 * MIB))
    assert outside(pods, cgroup) == ("307", "60000", str(192 * MIB))
    assert outside(pods, "burstable")[0] == "307"
    assert seen["status"]["allocatedResources"] == {"cpu": "300m", "memory": "64Mi"}
    assert seen["status"]["resources"]["limits"] == {"cpu": "600m", "memory": "192Mi"}

    pod.document["spec"]["containers"][0]["resources"] = LESS
    await pod.apply(pod.document)  # an applied manifest works as well
    await resized(pod, "web", LESS)
    await resize(pod, "helper", LARGE, "initContainers")
    await resized(pod, "helper", LARGE)
    helper = await pod.instance("helper")
    assert outside(pods, f"{cgroup}/{web.id}") == ("51", "10000", str(48 * MIB))
    assert outside(pods, f"{cgroup}/{helper.id}") == ("204", "40000", str(128 * MIB))
    assert outside(pods, cgroup) == ("256", "50000", str(176 * MIB))
    assert [each.id for each in await pod.containers("web")] == [web.id]
    said = [event["reason"] for event in await pod.events() if event["reason"].startswith("Resize")]
    assert said == ["ResizeStarted", "ResizeCompleted"] * 3
    steps = [line.split(" • ")[0] for line in await pod.scheduled()]
    assert steps[-6:] == ["allocate_resources", "resize_pod"] * 3


@by_cgroups_of_the_kernel
async def test_a_memory_limit_is_not_lowered_below_current_usage(pods: Pods) -> None:
    """Row 116: the pod shows that until the resize is possible, or other resources are desired."""
    require_cgroups(pods)
    pod = await pods.apply("holding", shell("web", HOLD, resources=SMALL))
    uid = (await pod.running())["metadata"]["uid"]
    web, cgroup = await pod.instance("web"), f"burstable/pod{uid}"
    await pod.until(lambda _: _used(pods, f"{cgroup}/{web.id}") > 30 * MIB)
    little = {"requests": {"cpu": "100m", "memory": "8Mi"}, "limits": {"cpu": "200m", "memory": "16Mi"}}
    await resize(pod, "web", little)
    seen = await pod.until(lambda pod: "Error" in resizing(pod).get("PodResizeInProgress", ()))
    status, reason, message = resizing(seen)["PodResizeInProgress"]
    assert (status, reason) == ("True", "Error")
    assert message.startswith(f"cannot decrease memory limits: [attempting to set pod memory limit ({16 * MIB}) below")
    assert f'attempting to set container "web" memory limit ({16 * MIB}) below current usage' in message
    assert outside(pods, f"{cgroup}/{web.id}")[2] == outside(pods, cgroup)[2] == str(64 * MIB)
    assert status_of(seen, "web")["resources"] == SMALL
    assert (await pod.event("ResizeError"))["type"] == "Warning"
    await resize(pod, "web", LARGE)
    await resized(pod, "web", LARGE)
    assert outside(pods, f"{cgroup}/{web.id}") == ("204", "40000", str(128 * MIB))


def _used(pods: Pods, cgroup: str) -> int:
    return kernel_limits.used_memory(path_of(pods.node.runtime, cgroup))


@by_cgroups_of_the_kernel
async def test_a_resize_restarts_a_container_if_its_resize_policy_says_so(pods: Pods) -> None:
    """Row 117: it restarts for memory but not for CPU, whatever the pod's restart policy."""
    require_cgroups(pods)
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    web = shell("web", resources=SMALL, resizePolicy=policy)
    pod = await pods.apply("restarted", web, restartPolicy="OnFailure")
    uid = (await pod.running())["metadata"]["uid"]
    first, cgroup = await pod.instance("web"), f"burstable/pod{uid}"
    more_cpu = {"requests": SMALL["requests"], "limits": {"cpu": "400m", "memory": "64Mi"}}
    await resize(pod, "web", more_cpu)
    await resized(pod, "web", more_cpu)
    assert outside(pods, f"{cgroup}/{first.id}") == ("102", "40000", str(64 * MIB))
    await resize(pod, "web", LARGE)
    await resized(pod, "web", LARGE, restarts=1)
    second = await pod.instance("web")
    assert second.id != first.id
    assert outside(pods, f"{cgroup}/{second.id}") == ("204", "40000", str(128 * MIB))
    assert outside(pods, cgroup) == ("204", "40000", str(128 * MIB))
    steps = [line.split(" • ")[0] for line in await pod.scheduled()]
    assert steps[-4:] == ["allocate_resources", "kill_container", "resize_pod", "start_container"]


@by_cgroups_of_the_kernel
async def test_pod_level_resources_are_resized(pods: Pods) -> None:
    """Row 116: with the pod's limit, that of its containers without own limits changes too."""
    require_cgroups(pods)
    whole = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "96Mi"}}
    pod = await pods.apply("whole", shell("web"), resources=whole)
    uid = (await pod.running())["metadata"]["uid"]
    web, cgroup = await pod.instance("web"), f"burstable/pod{uid}"
    more = {"limits": {"cpu": "800m", "memory": "128Mi"}}
    await pod.handle.execute_update("resize", {"resources": more})
    await pod.until(lambda pod: pod["status"]["resources"]["limits"] == more["limits"] and not resizing(pod))
    assert outside(pods, cgroup) == ("102", "80000", str(128 * MIB))
    assert outside(pods, f"{cgroup}/{web.id}")[1:] == ("80000", str(128 * MIB))


async def test_a_resize_without_room_is_deferred_and_an_impossible_one_infeasible(pods: Pods) -> None:
    """Row 115: deferred until another pod has gone; infeasible if even the empty node is too small."""
    total = int(MOST.removesuffix("m"))
    large = await pods.apply("large", shell("a", resources={"requests": {"cpu": f"{total - 150}m"}}))
    small = await pods.apply("small", shell("a", resources={"requests": {"cpu": "100m"}}))
    await large.running()
    await small.running()
    await resize(small, "a", {"requests": {"cpu": "300m"}})
    seen = await small.until(resizing)
    assert resizing(seen) == {
        "PodResizePending": (
            "True",
            "Deferred",
            f"Node didn't have enough resource: cpu, requested: 300, used: {total - 150}, capacity: {total}",
        )
    }
    assert seen["status"]["allocatedResources"] == {"cpu": "100m"}
    await large.delete()
    await resized(small, "a", {"requests": {"cpu": "300m"}})

    await resize(small, "a", {"requests": {"cpu": "1000"}})
    seen = await small.until(resizing)
    message = f"Node didn't have enough capacity: cpu, requested: 1000000, capacity: {total}"
    assert resizing(seen) == {"PodResizePending": ("True", "Infeasible", message)}
    assert status_of(seen, "a")["resources"] == {"requests": {"cpu": "300m"}}


@by_cgroups_of_the_kernel
async def test_a_resize_completes_after_a_worker_kill(node: FaultyNode) -> None:
    """Row 115: desired, allocated and applied resources are equal in the end, and nothing was restarted.

    It is killed when the runtime has changed one of two containers and nobody knows, then before the second change.
    """
    if not node.runtime.cgroup_parent:
        pytest.skip("cgroups are closed to this user")
    pod = await node.apply(shell("a", resources=SMALL), shell("b", resources=SMALL))
    await pod.running()
    with node.proxy.stop("UpdateContainerResources", "after", calls=1) as answered:
        await resize_both(pod, LARGE)
        await answered.reached()
        await node.kill()
    await node.serve()
    await assert_both(pod, LARGE, ("204", "40000", str(128 * MIB)), whole=("409", "80000", str(256 * MIB)))

    with node.proxy.stop("UpdateContainerResources", "after", calls=1) as answered:
        await resize_both(pod, LESS)
        await answered.reached()
        with node.proxy.stop("UpdateContainerResources", "before", calls=1) as second:
            answered.open()
            await second.reached()
            await node.kill()
    await node.serve()
    await assert_both(pod, LESS, ("51", "10000", str(48 * MIB)), whole=("102", "20000", str(96 * MIB)))
    events = [each["reason"] for each in await pod.handle.query("events") if each["reason"].startswith("Resize")]
    assert events == ["ResizeStarted", "ResizeCompleted"] * 2
    await pod.delete()


async def resize_both(pod: Pod, resources: dict[str, Any]) -> None:
    containers = [{"name": name, "resources": resources} for name in ("a", "b")]
    await pod.handle.execute_update("resize", {"containers": containers})


async def assert_both(pod: Pod, resources: dict[str, Any], each: tuple[str, ...], *, whole: tuple[str, ...]) -> None:
    """Wait until the pod reports the resize; then assert it in the kernel, for the same containers as before."""
    seen = await pod.until(
        lambda pod: all(status_of(pod, name).get("resources") == resources for name in ("a", "b")) and not resizing(pod)
    )
    assert [each["resources"] for each in seen["spec"]["containers"]] == [resources] * 2
    assert [status_of(seen, name)["allocatedResources"] for name in ("a", "b")] == [resources["requests"]] * 2
    await pod.assert_whole()  # one instance of each, and no restart
    cgroup = f"burstable/pod{seen['metadata']['uid']}"
    assert enforced(pod.node.runtime, cgroup) == whole
    for name in ("a", "b"):
        assert enforced(pod.node.runtime, f"{cgroup}/{(await pod.live(name)).id}") == each


async def test_limits_whose_sum_exceeds_64_bits_are_accepted(pods: Pods) -> None:
    """Each amount fits into 64 bits, as CRI and the kernel require; the sum does not, so there is no limit."""
    huge = {"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"cpu": "92233720368547", "memory": "8Ei"}}
    pod = await pods.apply("huge", shell("web", resources=SMALL), shell("other", resources=huge))
    await pod.running()
    more = {"requests": SMALL["requests"], "limits": {"cpu": "200m", "memory": str(2**63 - 1)}}
    await resize(pod, "web", more)
    await resized(pod, "web", more)
    await resize(pod, "web", LESS)
    await resized(pod, "web", LESS)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await resize(pod, "web", {"limits": {"memory": "99E"}})
    wrong = "spec.containers[0].resources.limits[memory]: must be no more than 9223372036854775807"
    assert wrong in str(refused.value.cause)
    assert not [event for event in await pod.events() if event["reason"] in ("InternalError", "ResizeError", "Failed")]
