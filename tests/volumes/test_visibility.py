"""Whether a runtime sees a node's mounts, on the same machine or outside the node's container."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from syncpod.kernel.mountinfo import parse_mounts
from syncpod.kernel.mounting import may_mount
from syncpod.volumes.visibility import has_no_more_rights, is_the_machines, mounts_reach, propagates, shares_mounts

HOST = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:20 / /run rw shared:5 - tmpfs tmpfs rw
"""
CONTAINER = """\
50 40 0:60 / / rw,relatime master:40 - overlay overlay rw
51 50 8:1 /var/lib/syncpod /var/lib/syncpod rw {propagation} - ext4 /dev/sda1 rw
52 50 8:1 /var/lib/a\\040b /var/lib/a\\040b rw shared:1 - ext4 /dev/sda1 rw
"""
STATE = Path("/var/lib/syncpod/pods/x")


@pytest.mark.parametrize(
    ("propagation", "outside", "seen"),
    [
        ("shared:1", HOST, True),
        ("shared:1", HOST.replace("shared:1", "master:1"), True),
        ("shared:1", "", True),
        ("shared:1", HOST.replace("shared:1", "shared:11"), False),
        ("master:1", HOST, False),
        ("", HOST, False),
    ],
)
def test_mounts_made_in_a_container_are_visible_to_the_host_if_the_directory_is_shared(
    propagation: str, outside: str, seen: bool
) -> None:
    own = CONTAINER.format(propagation=propagation).replace("rw  -", "rw -")
    assert propagates(parse_mounts(own.encode()), parse_mounts(outside.encode()), STATE) is seen


def test_the_deepest_and_topmost_mount_of_a_path_decides() -> None:
    own = CONTAINER.format(propagation="shared:1")
    assert not propagates(parse_mounts(own.encode()), parse_mounts(HOST.encode()), Path("/var/lib/other"))
    assert propagates(parse_mounts(own.encode()), parse_mounts(HOST.encode()), Path("/var/lib/a b/c"))
    covered = own + "60 51 0:70 / /var/lib/syncpod rw - tmpfs tmpfs rw\n"
    assert not propagates(parse_mounts(covered.encode()), parse_mounts(HOST.encode()), STATE)


def test_a_process_in_the_same_mount_namespace_sees_everything(tmp_path: Path) -> None:
    assert shares_mounts(os.getpid())
    assert mounts_reach(os.getpid(), tmp_path)


def test_a_missing_process_shares_no_mounts() -> None:
    assert not shares_mounts(0)


@pytest.mark.skipif(not may_mount(), reason="a mount namespace needs CAP_SYS_ADMIN")
def test_a_process_in_a_private_mount_namespace_does_not_see_our_mounts(tmp_path: Path) -> None:
    waits = (sys.executable, "-c", "print('ready', flush=True); input()")
    with subprocess.Popen(
        ("unshare", "--mount", "--propagation", "private", *waits),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert not shares_mounts(other.pid)
        assert not mounts_reach(other.pid, tmp_path)
        other.communicate("\n")


def test_a_process_of_the_same_user_without_more_capabilities_is_not_more_privileged() -> None:
    assert has_no_more_rights(os.getpid())
    assert not has_no_more_rights(0)
    if os.geteuid() != 0:
        assert not has_no_more_rights(1)


@pytest.mark.skipif(os.geteuid() != 0 or not may_mount(), reason="only root can give up capabilities")
def test_a_process_with_dropped_capabilities_sees_a_fully_capable_one_as_more_privileged() -> None:
    ask = "import sys; from syncpod.volumes.visibility import *; print(has_no_more_rights(int(sys.argv[1])))"
    ran = subprocess.run(
        ("setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", ask, str(os.getpid())),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "False\n", ran.stderr


def test_a_path_belongs_to_the_host_if_the_host_has_the_same_file_there(tmp_path: Path) -> None:
    here = tmp_path / "etc"
    here.mkdir()
    assert is_the_machines(here, machine=Path("/proc/self/root"))
    assert not is_the_machines(tmp_path / "none", machine=Path("/proc/self/root"))
    other = tmp_path / "machine"
    assert not is_the_machines(here, machine=other)
    Path(f"{other}{here}").mkdir(parents=True)
    assert not is_the_machines(here, machine=other)
