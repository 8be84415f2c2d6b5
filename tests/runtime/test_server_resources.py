"""Limits that are changed before or while a container runs, checked in its cgroup and its status."""

from __future__ import annotations

import os
from pathlib import Path

import grpc.aio
import pytest

from protos.cri.v1 import api_pb2 as cri
from syncpod.runtime.cgroups.limits import CgroupRefused, Cgroups
from tests.runtime.real_pods import Pod
from tests.runtimes.embedded import Embedded

MIB = 1 << 20
FOUND = Cgroups.find()
RUNS = ("sh", "-c", "exec sleep 600")

needs_cgroups = pytest.mark.skipif(
    os.geteuid() != 0 or not {"cpu", "memory"} <= set(FOUND.controllers), reason="needs cgroups for cpu and memory"
)


def limited(pod: Pod, **resources: int) -> cri.ContainerConfig:
    config = pod.container(*RUNS)
    config.linux.resources.CopyFrom(cri.LinuxContainerResources(**resources))  # type: ignore[arg-type]
    return config


async def update(pod: Pod, container: str, **resources: int) -> None:
    change = cri.LinuxContainerResources(**resources)  # type: ignore[arg-type]
    request = cri.UpdateContainerResourcesRequest(container_id=container, linux=change)
    await pod.calls.UpdateContainerResources(request, wait_for_ready=True)


async def refusal(pod: Pod, container: str, **resources: int) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await update(pod, container, **resources)
    return caught.value.details() or ""


async def limits(pod: Pod, container: str) -> tuple[int, int, int]:
    """Memory, quota and shares in the status."""
    linux = (await pod.status(container)).resources.linux
    return linux.memory_limit_in_bytes, linux.cpu_quota, linux.cpu_shares


def in_cgroup(pod: Pod, container: str) -> tuple[str, str, str]:
    """Memory, quota and shares (or weight) in the kernel."""
    names = (
        ("memory.limit_in_bytes", "memory.max"),
        ("cpu.cfs_quota_us", "cpu.max"),
        ("cpu.shares", "cpu.weight"),
    )
    places = [each.base / pod.config.linux.cgroup_parent.lstrip("/") / container for each in FOUND.hierarchies]
    memory, quota, shares = (
        next((place / name).read_text().split()[0] for place in places for name in pair if (place / name).exists())
        for pair in names
    )
    return memory, quota, shares


def oom_score_adj(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@needs_cgroups
async def test_updated_limits_are_set_in_the_cgroup_and_survive_a_server_restart(server: Embedded, pod: Pod) -> None:
    container = await pod.create(
        limited(pod, memory_limit_in_bytes=32 * MIB, cpu_quota=50_000, cpu_period=100_000, oom_score_adj=900)
    )
    await pod.start(container)
    pid = await pod.pid(container)
    await update(pod, container, memory_limit_in_bytes=64 * MIB, cpu_shares=2, oom_score_adj=100)
    assert in_cgroup(pod, container)[:2] == (str(64 * MIB), "50000")
    await update(pod, container, cpu_quota=20_000, cpu_period=100_000)
    assert in_cgroup(pod, container) in ((str(64 * MIB), "20000", "2"), (str(64 * MIB), "20000", "1"))
    server.restart()
    assert await limits(pod, container) == (64 * MIB, 20_000, 2)
    # A process's OOM score is given to it at its start, and no limit of its cgroup.
    assert (await pod.status(container)).resources.linux.oom_score_adj == 900
    assert oom_score_adj(pid) == 900
    assert await pod.pid(container) == pid
    await update(pod, container, memory_limit_in_bytes=-1, cpu_quota=-1)
    assert int(in_cgroup(pod, container)[0].replace("max", str(1 << 62))) >= 1 << 62
    assert in_cgroup(pod, container)[1] in ("-1", "max")


@needs_cgroups
async def test_a_created_container_starts_with_its_updated_limits(server: Embedded, pod: Pod) -> None:
    container = await pod.create(limited(pod, memory_limit_in_bytes=32 * MIB))
    await update(pod, container, memory_limit_in_bytes=48 * MIB, cpu_quota=30_000, cpu_period=100_000)
    server.restart()
    await pod.start(container)
    assert in_cgroup(pod, container)[:2] == (str(48 * MIB), "30000")


@needs_cgroups
async def test_an_update_refused_in_part_changes_nothing(pod: Pod) -> None:
    container = await pod.create(limited(pod, memory_limit_in_bytes=64 * MIB, cpu_shares=512))
    await pod.start(container)
    before = in_cgroup(pod, container)
    said = await refusal(pod, container, cpu_quota=40_000, cpu_period=100_000, cpu_shares=256, memory_limit_in_bytes=1)
    assert "memory limit" in said
    assert in_cgroup(pod, container) == before
    assert await limits(pod, container) == (64 * MIB, 0, 512)


async def test_limits_of_an_exited_container_cannot_be_changed(pod: Pod) -> None:
    container = await pod.started("true")
    await pod.ended(container)
    assert await refusal(pod, container, cpu_shares=2) == f'container "{container}" is in CONTAINER_EXITED state'


async def test_pod_sandbox_resources_are_recorded(server: Embedded, pod: Pod) -> None:
    request = cri.UpdatePodSandboxResourcesRequest(
        pod_sandbox_id=pod.sandbox, resources=cri.LinuxContainerResources(memory_limit_in_bytes=256 * MIB)
    )
    await pod.calls.UpdatePodSandboxResources(request)
    server.restart()
    status = await pod.calls.PodSandboxStatus(
        cri.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox, verbose=True), wait_for_ready=True
    )
    assert str(256 * MIB) in status.info["info"]


def test_without_usable_cgroups_a_limit_is_refused_by_name() -> None:
    closed = Cgroups(why_not="cgroups are closed to this user", remedy="run as root")
    change = cri.LinuxContainerResources(memory_limit_in_bytes=MIB)
    sentence = r"^memory limit: cannot be enforced, since cgroups are closed to this user"
    with pytest.raises(CgroupRefused, match=sentence):
        closed.update(f"/syncpod/{'a' * 64}", change, cri.LinuxContainerResources())
