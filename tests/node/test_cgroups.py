"""A pod's cgroup: its name, its processes and its removal."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel.cgroupfs import CgroupBusy, whole_hierarchies
from syncpod.kernel.mountinfo import read_mounts
from syncpod.node.cgroups import kill_pod_cgroup, populated, remove_pod_cgroup
from syncpod.translation.cgroup_paths import pod_cgroup, pod_cgroups
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName
from tests.translation.translation import NODE, make_pod

GUARANTEED = {"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "1", "memory": "1Mi"}}
BURSTABLE = {"requests": {"cpu": "1"}}

NAMES = [
    ("cgroupfs", "syncpod", GUARANTEED, "a-b", "/syncpod/poda-b"),
    ("cgroupfs", "syncpod", BURSTABLE, "a-b", "/syncpod/burstable/poda-b"),
    ("cgroupfs", "/machine/syncpod/", {}, "a", "/machine/syncpod/besteffort/poda"),
    ("systemd", "syncpod", GUARANTEED, "a-b", "/syncpod.slice/syncpod-poda_b.slice"),
    ("systemd", "syncpod", {}, "a", "/syncpod.slice/syncpod-besteffort.slice/syncpod-besteffort-poda.slice"),
    (
        "systemd",
        "machine/sync-pod",
        BURSTABLE,
        "a",
        "/machine.slice/machine-sync_pod.slice/machine-sync_pod-burstable.slice/machine-sync_pod-burstable-poda.slice",
    ),
]


@pytest.mark.parametrize(("driver", "parent", "resources", "uid", "path"), NAMES)
def test_the_path_of_a_pods_cgroup(driver: str, parent: str, resources: dict[str, Any], uid: str, path: str) -> None:
    node = replace(NODE, cgroup_driver=driver, cgroup_parent=parent)  # type: ignore[arg-type]
    pod = make_pod({"containers": [{"name": "a", "image": "i", "resources": resources}]}, uid=uid)
    assert str(pod_cgroup(node, pod)) == path
    assert path in map(str, pod_cgroups(node, uid))


def test_the_former_cgroup_path_without_qos_tier_is_also_searched() -> None:
    assert [str(path) for path in pod_cgroups(NODE, "a")] == [
        "/syncpod/poda",
        "/syncpod/burstable/poda",
        "/syncpod/besteffort/poda",
    ]


@pytest.mark.parametrize("uid", ["", "..", "../..", "a/../..", "a\n"])
def test_an_unsafe_uid_has_no_cgroup(uid: str) -> None:
    with pytest.raises(UnsafeName):
        pod_cgroups(NODE, uid)


HIERARCHIES = [each.path for each in whole_hierarchies(read_mounts())]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeContext]:
    """A node with a parent cgroup of its own, in every hierarchy of this machine."""
    if os.geteuid() != 0 or not HIERARCHIES:
        pytest.skip("only root makes cgroups, and only where they are mounted")
    parent = f"syncpod-test-{os.getpid()}-{tmp_path.name}"
    for hierarchy in HIERARCHIES:
        (hierarchy / parent).mkdir()
    yield replace(NODE, cgroup_parent=parent)
    for hierarchy in HIERARCHIES:
        for directory, _, _ in os.walk(hierarchy / parent, topdown=False):
            Path(directory).rmdir()


def made(node: NodeContext, uid: str, *below: str, tier: str = "burstable") -> list[Path]:
    """The pod's cgroup in each hierarchy, with containers' below it."""
    cgroups = [hierarchy / node.cgroup_parent / tier / f"pod{uid}" for hierarchy in HIERARCHIES]
    for cgroup in cgroups:
        cgroup.mkdir(parents=True)
        for name in below:
            (cgroup / name).mkdir(parents=True)
    return cgroups


@pytest.mark.parametrize("tier", ["", "burstable", "besteffort"])
def test_a_pods_cgroups_are_removed_from_every_hierarchy_and_others_kept(node: NodeContext, tier: str) -> None:
    gone, kept = made(node, "gone", "one", "two/deep", tier=tier), made(node, "kept", "one", tier=tier)
    remove_pod_cgroup(node, "gone")
    assert [cgroup for cgroup in gone if cgroup.exists()] == []
    assert all((cgroup / "one").exists() for cgroup in kept)


def test_removing_missing_cgroups_succeeds(node: NodeContext) -> None:
    remove_pod_cgroup(node, "never")
    made(node, "twice")
    remove_pod_cgroup(node, "twice")
    remove_pod_cgroup(node, "twice")


def test_a_cgroup_missing_in_some_hierarchies_is_removed_from_the_others(node: NodeContext) -> None:
    cgroups = made(node, "half", "one")
    (cgroups[0] / "one").rmdir()
    cgroups[0].rmdir()
    remove_pod_cgroup(node, "half")
    assert not any(cgroup.exists() for cgroup in cgroups)


def test_a_cgroup_in_use_is_kept_and_the_error_names_the_process(node: NodeContext) -> None:
    cgroup = made(node, "busy", "one")[-1]
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            (cgroup / "one" / "cgroup.procs").write_text(str(process.pid))
            with pytest.raises(CgroupBusy, match=rf"still in use by processes {process.pid}: '{cgroup}/one'"):
                remove_pod_cgroup(node, "busy")
            assert process.poll() is None
        finally:
            process.kill()
    remove_pod_cgroup(node, "busy")
    assert not cgroup.exists()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing, until it is killed."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_only_processes_outside_known_containers_are_killed_and_reported(
    node: NodeContext, sleeper: subprocess.Popen[bytes]
) -> None:
    (made(node, "forgotten", "one")[-1] / "one" / "cgroup.procs").write_text(str(sleeper.pid))
    with subprocess.Popen(["sleep", "60"]) as neighbour:
        (made(node, "kept", "one")[-1] / "one" / "cgroup.procs").write_text(str(neighbour.pid))
        assert kill_pod_cgroup(node, "forgotten") == (sleeper.pid,)
        assert sleeper.wait() == -signal.SIGKILL
        assert kill_pod_cgroup(node, "forgotten") == kill_pod_cgroup(node, "never") == ()
        assert neighbour.poll() is None
        neighbour.kill()
    remove_pod_cgroup(node, "forgotten")


@pytest.mark.parametrize("name", ["{}", "cri-containerd-{}.scope"])
def test_containers_with_processes_in_their_cgroups_are_found(
    node: NodeContext, sleeper: subprocess.Popen[bytes], name: str
) -> None:
    full, empty, absent = ("f" * 64, "e" * 64, "a" * 64)
    cgroup = made(node, "pod", f"{name.format(full)}/below", name.format(empty))[-1]
    (cgroup / name.format(full) / "below" / "cgroup.procs").write_text(str(sleeper.pid))
    assert populated(node, "pod", [empty, full, absent]) == (full,)
    assert populated(node, "never", [full]) == ()
