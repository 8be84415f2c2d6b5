"""Fork bombs: containers that fork faster than processes can be killed singly. Needs cgroups and root."""

import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from protos.cri.v1.api_pb2 import LinuxContainerResources
from syncpod.kernel import cgroupfs
from syncpod.runtime.cgroups.limits import Cgroups, container_cgroup
from syncpod.runtime.processes import records
from syncpod.runtime.processes.records import Level
from tests.runtime.cgroup_removal import remove_in_time
from tests.runtime.supervised_processes import Machine, each_machine, lines, runs, until

BOMB = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        if os.getppid() == MAIN or os.getpid() == MAIN:
            print("full", flush=True)
            time.sleep(1000)
        time.sleep(0.001)
"""
MOST = 200

FOUND = Cgroups.find()
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or "pids" not in FOUND.controllers, reason="needs root, and the pids controller"
)


machine = each_machine(Level.PLAIN)


@pytest.fixture(params=["as the machine has it", "by version 1 alone, frozen meanwhile"])
def cgroup(request: pytest.FixtureRequest) -> Iterator[tuple[Path, ...]]:
    """A container's cgroup with a limit of MOST processes."""
    cgroups = FOUND
    if "version 1" in request.param:
        cgroups = replace(FOUND, hierarchies=tuple(each for each in FOUND.hierarchies if each.version == 1))
        if "freezer" not in cgroups.controllers:
            pytest.skip("this machine has no hierarchies of version 1")
    parent = f"/syncpod-test-{secrets.token_hex(4)}"
    path = container_cgroup(parent, secrets.token_hex(32))
    cgroups.make(path, LinuxContainerResources())
    directories = tuple(each.base / path.lstrip("/") for each in cgroups.hierarchies)
    for file in (each / "pids.max" for each in directories):
        if file.exists():
            cgroupfs.write(file, str(MOST))
    yield directories
    cgroups.kill(path)
    remove_in_time(cgroups, path)


def inside(cgroup: tuple[Path, ...]) -> set[int]:
    return {pid for directory in cgroup for pid in cgroupfs.processes_below(directory)}


async def bombed(machine: Machine, cgroup: tuple[Path, ...]) -> int:
    """Start a fork bomb and wait until it has forked; return its main process."""
    log = machine.directory / "log"
    process = await machine.start(
        sys.executable,
        *("-I", "-S", "-c", BOMB.replace("MAIN", "os.getpgrp()")),
        cgroup_procs=tuple(str(each / "cgroup.procs") for each in cgroup),
        log_path=str(log),
    )
    await until(lambda: "stdout F full" in lines(log))
    assert len(inside(cgroup)) > MOST // 2
    return process.pid


async def test_no_process_is_left_when_an_exit_is_recorded(machine: Machine, cgroup: tuple[Path, ...]) -> None:
    main = await bombed(machine, cgroup)
    process = await machine.found()
    process.kill()
    exited = await process.wait()
    assert not any(runs(pid) for pid in inside(cgroup))
    assert (exited.exit_code, exited.reason) == (137, "Error")
    assert not runs(main)


async def test_no_process_is_left_when_the_supervisor_was_killed(machine: Machine, cgroup: tuple[Path, ...]) -> None:
    await bombed(machine, cgroup)
    process = await machine.found()
    started = records.read_started(machine.place())
    assert started is not None
    os.kill(started.supervisor.pid, 9)
    assert (await process.wait()).reason == "Unknown"
    assert not any(runs(pid) for pid in inside(cgroup))
