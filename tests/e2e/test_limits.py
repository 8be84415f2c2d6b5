"""The limits of containers, pods, QoS classes and all pods together."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.e2e.engine import RUNS, LivePod, Pods, engine_node, shell, status_of
from tests.e2e.words import says, waits_for
from tests.runtimes import kernel_limits
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

pytestmark = pytest.mark.every_runtime("cgroups of containers are made by the runtime", one_containerd=True)

MIB = 1 << 20
MOST = f"{os.cpu_count() or 1}000m"
"""The whole CPU of the machine."""

by_cgroups_of_the_kernel = pytest.mark.skipif(
    not kernel_limits.IS_THERE, reason="the CPU controller is not mounted here"
)


def require_cgroups(pods: Pods) -> None:
    """Skip if the runtime may make no cgroups, because then the worker, as the same user, may make none."""
    if not pods.node.runtime.cgroup_parent:
        pytest.skip("cgroups are closed to this user")


def outside(pods: Pods, cgroup: str) -> tuple[str, str, str]:
    """The kernel's weight, quota and memory limit of a cgroup below the node's."""
    return enforced(pods.node.runtime, cgroup)


def enforced(runtime: Runtime, cgroup: str) -> tuple[str, str, str]:
    """The weight, quota and memory limit of a cgroup, for any runtime."""
    return kernel_limits.enforced(path_of(runtime, cgroup))


def path_of(runtime: Runtime, cgroup: str) -> str:
    """The path of a cgroup below the node's. A container's is named by its id; CRI-O adds a prefix of its own."""
    path = PurePosixPath("/", runtime.cgroup_parent.strip("/"), cgroup.strip("/"))
    exists = kernel_limits.directory("cpu", str(path)).exists()
    return str(path if exists else path.with_name(f"crio-{path.name}"))


def is_used(pods: Pods, cgroup: str) -> bool:
    """Whether a container's processes are in its cgroups of CPU and memory."""
    path = path_of(pods.node.runtime, cgroup)
    return all((kernel_limits.directory(each, path) / "cgroup.procs").read_text() for each in ("cpu", "memory"))


def is_empty(pods: Pods, tier: str) -> bool:
    """Whether a tier's cgroup exists for CPU and has no pod."""
    directory = kernel_limits.directory("cpu", path_of(pods.node.runtime, tier))
    return directory.exists() and not any(directory.glob("pod*"))


@by_cgroups_of_the_kernel
async def test_cgroups_of_containers_pod_and_tier_have_the_requested_resources(pods: Pods) -> None:
    require_cgroups(pods)
    half = {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "32Mi"}}
    pod = await pods.apply(
        "burstable",
        shell("limited", resources=half),
        shell("bounded"),  # limited only by its pod
        resources={"limits": {"cpu": "500m", "memory": "96Mi"}},
        overhead={"memory": "4Mi"},
    )
    seen = await pod.running()
    uid, status = seen["metadata"]["uid"], seen["status"]
    assert status["qosClass"] == "Burstable"
    assert status["allocatedResources"] == {"cpu": "100m", "memory": "20Mi"}
    assert status["resources"]["limits"] == {"cpu": "500m", "memory": "100Mi"}

    limited, bounded = [await pod.instance(name) for name in ("limited", "bounded")]
    cgroup = f"burstable/pod{uid}"
    assert outside(pods, cgroup) == ("102", "50000", str(100 * MIB))
    assert outside(pods, f"{cgroup}/{limited.id}") == ("102", "20000", str(32 * MIB))
    assert outside(pods, f"{cgroup}/{bounded.id}") == ("512", "50000", str(96 * MIB))
    assert outside(pods, "burstable")[0] == "102"

    assert is_used(pods, f"{cgroup}/{limited.id}")
    guaranteed = {"limits": {"cpu": "200m", "memory": "32Mi"}}
    others = [await pods.apply("guaranteed", shell("a", resources=guaranteed)), await pods.apply("nothing", shell("a"))]
    for other, tier, own in zip(others, ("", "/besteffort"), (("204", "20000", str(32 * MIB)), None), strict=True):
        seen = await other.running()
        cgroup = f"{tier}/pod{seen['metadata']['uid']}"
        assert is_used(pods, f"{cgroup}/{(await other.instance('a')).id}")
        assert own is None or outside(pods, cgroup) == own
    await pods.delete()
    assert not is_empty(pods, "burstable")


HOLD = "mkfifo /tmp/full; sleep 1000 < /tmp/full & exec dd if=/dev/zero of=/tmp/full bs=30M count=1"
"""A script that holds 30 MiB of memory; it is one process, whose end is the container's."""


async def test_containers_are_oom_killed_at_the_memory_limit_of_their_pod(pods: Pods) -> None:
    require_cgroups(pods)
    pod = await pods.apply(
        "together",
        shell("one", HOLD),
        shell("two", HOLD),
        resources={"limits": {"memory": "48Mi"}},
        restartPolicy="Never",
    )

    def ended(pod: dict[str, Any]) -> list[tuple[str, int]]:
        states = [status_of(pod, name).get("state", {}).get("terminated") for name in ("one", "two")]
        return [(state["reason"], state["exitCode"]) for state in states if state]

    seen = await pod.until(ended)
    assert ("OOMKilled", 137) in ended(seen)


GROWS = "dd if=/dev/zero of=/dev/null bs=96M count=1; echo ended $?; sleep 1000"
"""A script whose child runs out of memory, and which then continues if it is not killed."""
SMALL = {"limits": {"memory": "48Mi"}}


async def goes_on(pod: LivePod) -> None:
    """Wait until the script has reported its child's end by SIGKILL; the script still runs."""
    await pod.running()
    assert await pod.logged("grows") == ["ended 137"]
    assert "running" in status_of(await pod.get(), "grows")["state"]


async def test_running_out_of_memory_ends_the_whole_container_where_the_kernel_can_do_that(pods: Pods) -> None:
    require_cgroups(pods)
    pod = await pods.apply("grows", shell("grows", GROWS, resources=SMALL), restartPolicy="Never")
    if not kernel_limits.IS_UNIFIED:
        await goes_on(pod)
        return
    state = status_of(await pod.phase("Failed"), "grows")["state"]["terminated"]
    assert (state["reason"], state["exitCode"]) == ("OOMKilled", 137)
    assert await pod.log("grows") == []


@pytest.mark.skipif(not kernel_limits.IS_UNIFIED, reason="cgroups of version 1 know nothing else")
async def test_a_node_can_have_the_kernel_end_single_processes(
    runtime: Runtime, temporal_server: DevServer, tmp_path: Path
) -> None:
    async with (
        engine_node(runtime, temporal_server, tmp_path, SYNCPOD_SINGLE_PROCESS_OOM_KILL="true") as node,
        node.pods() as pods,
    ):
        require_cgroups(pods)
        await goes_on(await pods.apply("grows", shell("grows", GROWS, resources=SMALL), restartPolicy="Never"))


async def test_an_unenforceable_pod_level_limit_is_refused_by_name(pods: Pods) -> None:
    if pods.node.runtime.cgroup_parent:
        pytest.skip("here it is enforced")
    pod = await pods.apply("refused", shell("a"), resources={"limits": {"memory": "64Mi"}})
    seen = await pod.until(lambda pod: pod["status"].get("reason") == "LimitsUnenforced")
    assert "spec.resources.limits[memory]: cannot be enforced" in seen["status"]["message"]


def rejected(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["status"]["reason"], pod["status"]["message"]


async def test_a_pod_without_room_has_failed_until_applied_again(pods: Pods) -> None:
    """One pod has all of the node's CPU until it has run to its end."""
    all_of_it = {"requests": {"cpu": MOST}}
    until_told = waits_for("/work/go")
    mounts = [{"name": "work", "mountPath": "/work"}]
    first = await pods.apply(
        "first",
        shell("a", until_told, resources=all_of_it, volumeMounts=mounts),
        volumes=[{"name": "work", "emptyDir": {}}],
        restartPolicy="Never",
    )
    await first.running()
    second = await pods.apply("second", shell("a", resources=all_of_it))
    seen = await second.phase("Failed")
    cores = MOST.removesuffix("m")
    why = f"Node didn't have enough resource: cpu, requested: {cores}, used: {cores}, capacity: {cores}"
    assert rejected(seen) == ("OutOfcpu", f"Pod was rejected: {why}")
    assert (seen["status"]["qosClass"], "containerStatuses" in seen["status"]) == ("Burstable", False)
    assert (await second.event("OutOfcpu"))["message"] == why
    assert await second.sandboxes() == []
    await second.delete()

    await first.exec("a", says("/work/go"))
    await first.phase("Succeeded")
    third = await pods.apply("third", shell("a", resources=all_of_it))
    await third.running()


async def test_a_host_port_can_be_used_by_one_pod_only(pods: Pods) -> None:
    ports = [{"containerPort": 18091}]
    first = await pods.apply("port", shell("a", ports=ports), hostNetwork=True)
    await first.running()
    second = await pods.apply("port", shell("a", RUNS, ports=ports), hostNetwork=True)
    assert rejected(await second.phase("Failed")) == (
        "NodePorts",
        "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    )
