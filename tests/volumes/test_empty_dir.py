"""An emptyDir is created once and completely; afterwards only its containers change it.

Holds: Only mounts that were made for a pod are unmounted with it.
"""

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel import mounting
from syncpod.pod import Pod
from syncpod.volumes.empty_dir import (
    EmptyDir,
    EmptyDirRefused,
    Hugetlbfs,
    Tmpfs,
    empty_dir,
    make_empty_dir,
    memory_limit,
    take_away_mounts,
)

MIB = 1 << 20
ROOT = pytest.mark.skipif(os.geteuid() != 0 or not mounting.may_mount(), reason="mounts")


def pod(*limits: str, **spec: Any) -> Pod:
    """A pod whose containers have these limits of memory; "" stands for no limit."""
    containers = [
        {"name": f"c{index}", "resources": {"limits": {"memory": limit}} if limit else {}}
        for index, limit in enumerate(limits or ("",))
    ]
    return Pod.model_validate({"spec": {"containers": containers, **spec}}, extra="forbid")


def planned(place: Path, medium: str = "", *, of: Pod | None = None, may_mount: bool = True, **more: Any) -> EmptyDir:
    ready = place.parent / "ready"
    arguments = {
        "path": place,
        "ready": ready,
        "may_mount": may_mount,
        "memory_bytes": 100 * MIB,
        "page_sizes": (2 * MIB, 1 << 30),
    }
    return empty_dir(of or pod(), medium, more.pop("size_limit", None), **{**arguments, **more})


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


LIMITS: dict[str, tuple[Pod, str | None, int]] = {
    "the node's memory, where nothing else is said": (pod(), None, 100),
    "its own": (pod(), "10Mi", 10),
    "never more than the node has": (pod(), "1Gi", 100),
    "the pod's, where each container has one": (pod("20Mi", "30Mi"), None, 50),
    "the lesser of its own and the pod's": (pod("20Mi"), "30Mi", 20),
    "not the pod's, where a container has none": (pod("20Mi", ""), None, 100),
    "the pod's as a whole": (pod("", resources={"limits": {"memory": "5Mi"}}), None, 5),
    "zero is none": (pod(), "0", 100),
}


@pytest.mark.parametrize(("of", "own", "size"), LIMITS.values(), ids=LIMITS)
def test_the_size_of_a_memory_backed_empty_dir(of: Pod, own: str | None, size: int) -> None:
    assert memory_limit(of, own, 100 * MIB) == size * MIB


def test_a_memory_backed_empty_dir_is_a_tmpfs_if_the_node_may_mount(tmp_path: Path) -> None:
    assert planned(tmp_path / "v", "Memory", size_limit="1Mi").mount == Tmpfs(MIB)
    assert planned(tmp_path / "v", "Memory", may_mount=False).mount is None


HUGE = {"name": "a", "resources": {"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}}
LARGE = {"name": "b", "resources": {"requests": {"hugepages-1Gi": "1Gi"}, "limits": {"hugepages-1Gi": "1Gi"}}}


ODD = {"name": "c", "resources": {"requests": {"hugepages-32Mi": "32Mi"}, "limits": {"hugepages-32Mi": "32Mi"}}}


@pytest.mark.parametrize(
    ("medium", "containers", "page"),
    [("HugePages", [HUGE], 2 * MIB), ("HugePages-2Mi", [HUGE, LARGE], 2 * MIB), ("HugePages-1Gi", [LARGE], 1 << 30)],
)
def test_the_huge_page_size_is_the_one_that_the_pod_requests(
    medium: str, containers: list[dict[str, Any]], page: int, tmp_path: Path
) -> None:
    of = Pod.model_validate({"spec": {"containers": containers}})
    assert planned(tmp_path / "v", medium, of=of).mount == Hugetlbfs(page)


REFUSED: dict[str, tuple[str, list[dict[str, Any]], bool, str]] = {
    "of no container": ("HugePages", [{"name": "a"}], True, "no container of the pod requests huge pages"),
    "of another size": ("HugePages-1Gi", [HUGE], True, "no container of the pod requests huge pages"),
    "of several sizes": ("HugePages", [HUGE, LARGE], True, "can't be used if container requests multiple"),
    "that the machine has not": ("HugePages-32Mi", [ODD], True, "no huge pages of 33554432 bytes"),
    "where nothing may be mounted": ("HugePages", [HUGE], False, "has no right to mount"),
}


@pytest.mark.parametrize(("medium", "containers", "may_mount", "why"), REFUSED.values(), ids=REFUSED)
def test_huge_pages_are_refused(
    medium: str, containers: list[dict[str, Any]], may_mount: bool, why: str, tmp_path: Path
) -> None:
    of = Pod.model_validate({"spec": {"containers": containers}})
    with pytest.raises(EmptyDirRefused, match=why):
        planned(tmp_path / "v", medium, of=of, may_mount=may_mount)


def test_an_empty_dir_left_half_made_by_a_crash_is_completed(tmp_path: Path) -> None:
    volume = planned(tmp_path / "v")
    volume.path.mkdir(mode=0o700)
    make_empty_dir(volume)
    assert (mode(volume.path), volume.ready.exists()) == ("0o777", True)


def test_an_existing_empty_dir_keeps_what_containers_changed(tmp_path: Path) -> None:
    volume = planned(tmp_path / "v")
    make_empty_dir(volume)
    volume.path.chmod(0o700)
    make_empty_dir(volume)
    assert mode(volume.path) == "0o700"


def test_a_memory_backed_empty_dir_lost_in_a_reboot_is_made_again(tmp_path: Path) -> None:
    volume = planned(tmp_path / "v", "Memory", may_mount=False)
    make_empty_dir(volume)
    volume.path.rmdir()
    make_empty_dir(volume)
    assert mode(volume.path) == "0o1777"


def test_another_file_in_place_of_an_empty_dir_is_left_alone(tmp_path: Path) -> None:
    volume = planned(tmp_path / "v")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    volume.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotADirectoryError):
        make_empty_dir(volume)
    assert mode(tmp_path / "elsewhere") == "0o700"


@ROOT
def test_a_memory_backed_empty_dir_is_mounted_once_with_its_size_and_group(tmp_path: Path) -> None:
    volume = replace(planned(tmp_path / "v", "Memory", size_limit="1Mi"), group=2000)
    try:
        make_empty_dir(volume)
        (volume.path / "kept").touch()
        make_empty_dir(volume)
        found = os.statvfs(volume.path)
        assert (found.f_blocks * found.f_frsize, (volume.path / "kept").exists()) == (MIB, True)
        assert (mode(volume.path), volume.path.stat().st_gid) == ("0o3777", 2000)
        assert len(mounting.mounts_at(volume.path)) == 1
        # A reboot: the mark is still there, the mount is not.
        mounting.unmount(volume.path)
        make_empty_dir(volume)
        assert mounting.is_mount(volume.path)
    finally:
        mounting.unmount(volume.path)


@ROOT
@pytest.mark.skipif(not Path("/sys/kernel/mm/hugepages/hugepages-2048kB").exists(), reason="no huge pages of 2 MiB")
def test_a_huge_page_empty_dir_is_a_hugetlbfs(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    volume = planned(plugin / "v", "HugePages", of=Pod.model_validate({"spec": {"containers": [HUGE]}}))
    make_empty_dir(volume)
    make_empty_dir(volume)
    assert [each.file_system for each in mounting.mounts_at(volume.path)] == ["hugetlbfs"]
    assert os.statvfs(volume.path).f_bsize == 2 * MIB
    take_away_mounts(plugin)
    assert not mounting.is_mount(volume.path)


@ROOT
def test_only_what_was_mounted_for_a_volume_is_unmounted(tmp_path: Path) -> None:
    plugin, elsewhere = tmp_path / "plugin", tmp_path / "elsewhere"
    places = [plugin / name for name in ("ours", "bound", "covered", "plain")]
    for place in (*places, elsewhere):
        place.mkdir(parents=True)
    try:
        for place in (plugin / "ours", plugin / "covered"):
            mounting.mount_tmpfs(place, MIB, 0o777)
        mounting.bind(elsewhere, plugin / "bound")
        mounting.bind(elsewhere, plugin / "covered")
        take_away_mounts(plugin)
        take_away_mounts(plugin)
        assert [mounting.is_mount(place) for place in places] == [False, True, True, False]
    finally:
        for place in places:
            mounting.unmount(place)
