"""The cgroups of an ordinary user: a delegated part of version 2, or none. Needs root, to become that user."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel.mountinfo import read_mounts
from syncpod.runtime.cgroups.mounts import mounted_hierarchies

NOBODY = 65534
LIVES = """
import json, os, secrets, signal, sys
from protos.cri.v1.api_pb2 import LinuxContainerResources
from syncpod.runtime.cgroups.limits import CgroupRefused, Cgroups, container_cgroup

with open(sys.argv[1] + "/cgroup.procs", "w") as procs:
    procs.write("0")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
cgroups = Cgroups.find()
told = {
    "bases": [str(each.base) for each in cgroups.hierarchies],
    "controllers": cgroups.controllers,
    "why_not": cgroups.why_not,
    "refusal": cgroups.refusal(LinuxContainerResources(memory_limit_in_bytes=1 << 30)),
}
if cgroups.hierarchies:
    path = container_cgroup("/syncpod/pod1", secrets.token_hex(32))
    cgroups.make(path, LinuxContainerResources(cpu_shares=2))
    ready, entered = os.pipe()
    pid = os.fork()
    if not pid:
        for file in cgroups.procs(path):
            with open(file, "w") as procs:
                procs.write("0")
        os.write(entered, b".")
        while True:
            pass
    os.read(ready, 1)
    told["usage"] = cgroups.usage(path).processes
    cgroups.kill(path)
    told["ended by"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    told["cpu"] = cgroups.usage(path).cpu_nanoseconds
    cgroups.remove(path)
    told["left"] = os.path.exists(told["bases"][0] + "/syncpod")
print(json.dumps(told))
"""


def version_2() -> Path | None:
    mounted = mounted_hierarchies(read_mounts(), Path("/proc/self/cgroup").read_text())
    return next((mount.mount_point for mount in mounted if mount.version == 2), None)


MOUNT_POINT = version_2()
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or MOUNT_POINT is None, reason="needs root, and cgroups of version 2")


@pytest.fixture
def session() -> Iterator[Path]:
    """A cgroup as systemd makes it for a user's service: `<user's>/<application>`, into which the process is put."""
    assert MOUNT_POINT
    user = MOUNT_POINT / f"syncpod-test-{secrets.token_hex(4)}"
    application = user / "application"
    application.mkdir(parents=True)
    for directory in (application, user):
        for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(directory / name, NOBODY, NOBODY)
    yield application
    for found, _, _ in os.walk(user, topdown=False):
        Path(found).rmdir()


def live_in(application: Path) -> dict[str, Any]:
    """Run a program as nobody in a cgroup, and return its report."""
    command = [sys.executable, "-c", LIVES, str(application)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


def test_container_cgroups_are_made_in_the_parent_of_our_own_if_it_is_delegated(session: Path) -> None:
    available = (session.parent / "cgroup.controllers").read_text().split()
    told = live_in(session)
    assert told["bases"] == [str(session.parent)]
    assert set(told["controllers"]) == set(available) & {"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}
    assert told["usage"] == 1
    assert told["ended by"] == -9
    assert told["cpu"] > 0
    assert told["left"] is False
    if "memory" in available:
        assert told["refusal"] is None
    else:
        assert told["refusal"] == (
            "memory limit: cannot be enforced, since the memory controller is not delegated to this user: "
            "remove spec.containers[].resources.limits, or run as root"
        )


def test_an_own_cgroup_below_an_undelegated_parent_is_not_used(session: Path) -> None:
    os.chown(session.parent, 0, 0)
    told = live_in(session)
    assert told["bases"] == []
    assert told["why_not"] == "cgroups are closed to this user"
    assert told["refusal"].startswith(
        "memory limit: cannot be enforced, since cgroups are closed to this user: remove "
    )
    assert "or run as root" in told["refusal"]
