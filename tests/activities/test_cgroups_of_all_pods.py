"""The cgroup of all pods is limited before a pod runs; each pod has a limit of processes if the node sets one."""

from __future__ import annotations

import logging
import os
from dataclasses import replace

import pytest

from syncpod.kernel.cgroupfs import whole_hierarchies
from syncpod.kernel.mountinfo import read_mounts
from tests.activities.bench import Bench, container

HERE = whole_hierarchies(read_mounts())
SIZE = {"cpu": 2000, "memory": 2 << 30}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes cgroups")
async def test_all_pods_are_limited_before_the_first_one_runs(bench: Bench) -> None:
    """Row 52: processes, memory and weight."""
    parent = f"{bench.runtime.cgroup_parent}/of-this-size"
    here = bench.node.context
    bench.node.context = replace(here, capacity=SIZE, cgroup_parent=parent, host=replace(here.host, max_pids=30000))
    pod = bench.pod()
    await pod.create_sandbox()
    await pod.until_state((await pod.start()).id, "running")
    places = [each.path / parent.strip("/") for each in HERE]

    def value(*names: str) -> set[str]:
        return {file.read_text().strip() for place in places for name in names if (file := place / name).exists()}

    assert bench.node.unlimited == ""
    assert value("pids.max") == {"27000"}
    assert value("memory.limit_in_bytes", "memory.max") == {str(2 << 30)}
    assert value("cpu.shares", "cpu.weight") <= {"2048", "79"}


async def test_a_node_that_cannot_limit_its_pods_says_so_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.node.context = replace(bench.node.context, capacity=SIZE, pod_cgroups=False)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            await bench.pod().create_sandbox()
    assert caplog.text.count("the node's pods are not limited as a whole: cpu, memory") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes cgroups")
async def test_a_pod_forks_no_further_than_its_limit(bench: Bench) -> None:
    """podPidsLimit: all containers of a pod and its sandbox have so many processes together, and no more."""
    parent = f"{bench.runtime.cgroup_parent}/bombs"
    bench.node.context = replace(bench.node.context, cgroup_parent=parent, pod_max_pids=20)
    pod = bench.pod(container(command=("sh", "-c", "for i in $(seq 100); do sleep 600 & done; sleep 600")))
    await pod.create_sandbox()
    places = [each.path / parent.strip("/") / "besteffort" / f"pod{pod.uid}" for each in HERE]
    assert [file.read_text() for place in places if (file := place / "pids.max").exists()] == ["20\n"]
    ended = await pod.until_state((await pod.start()).id, "exited")
    assert ended.exit_code == 2, "the shell ends once it cannot fork"
    await pod.kill()
    assert await pod.remove()
    assert not any(place.exists() for place in places)
