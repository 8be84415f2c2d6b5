from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from syncpod.agent.eviction.disk_usage import DiskUsage, disk_usage
from syncpod.kernel.tree_removal import remove_tree

PATIENT = 60.0


def du(directory: Path, *how: str) -> int:
    """The result of coreutils' du."""
    said = subprocess.run(["du", "-sx", *(how or ("-B1",)), str(directory)], capture_output=True, check=True, text=True)
    return int(said.stdout.split()[0])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files of several sizes, a sparse file, one with two names, and links that lead outside and in circles."""
    tree = tmp_path / "tree"
    (tree / "deep/er").mkdir(parents=True)
    (tree / "large").write_bytes(b"x" * 3_000_000)
    (tree / "deep/small").write_bytes(b"x")
    (tree / "deep/er/twice").write_bytes(b"x" * 500_000)
    (tree / "again").hardlink_to(tree / "deep/er/twice")
    (tree / "sparse").touch()
    os.truncate(tree / "sparse", 2**40)
    (tree / "out").symlink_to("/usr")
    (tree / "deep/round").symlink_to("..")
    return tree


def test_disk_usage_equals_that_of_du(tree: Path) -> None:
    usage = disk_usage(tree, seconds=PATIENT)
    assert usage == DiskUsage(du(tree), du(tree, "--inodes"))
    assert 3_500_000 <= usage.bytes < 4_100_000


def test_what_lies_deeper_than_a_path_can_name_counts_too(tmp_path: Path) -> None:
    """A container that changes its directory as it goes down makes such a tree; du, and the kubelet, count a part."""
    levels, large = 3_000, 5_000_000
    top = os.open(tmp_path, os.O_RDONLY)
    here = os.dup(top)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    file = os.open("large", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(file, b"x" * large)
    for descriptor in (file, here, top):
        os.close(descriptor)
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/file").touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    try:
        usage = disk_usage(tmp_path, seconds=PATIENT)
    finally:
        remove_tree(tmp_path / "d")  # pytest's cleanup fails on such a tree
    assert (usage.inodes, usage.whole) == (levels + 4, True)
    assert usage.bytes >= large
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@pytest.mark.parametrize("remove", [False, True])
def test_a_directory_that_is_moved_while_it_is_counted_costs_what_is_below_it(tmp_path: Path, remove: bool) -> None:
    """Its parent is elsewhere or gone when the walk leaves it; its siblings are counted all the same."""
    deep = tmp_path / "top" / "/".join("d" * 60)
    deep.mkdir(parents=True)
    (tmp_path / "top/beside").mkdir()
    (tmp_path / "top/beside/large").write_bytes(b"x" * 1_000_000)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    listed = os.scandir

    def moved(directory: int) -> Any:
        entries = listed(directory)
        if os.path.samestat(os.fstat(directory), found):
            if remove:
                deep.rmdir()
            else:
                deep.parent.rename(elsewhere / "d")
        return entries

    found = deep.stat()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", moved)
        usage = disk_usage(tmp_path / "top", seconds=PATIENT)
    assert remove or not usage.whole
    assert usage.bytes >= 1_000_000


def test_a_missing_directory_uses_no_disk(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert disk_usage(tmp_path / "gone", seconds=PATIENT) == DiskUsage(0)
    assert disk_usage(tmp_path / "file/below", seconds=PATIENT) == DiskUsage(0)


def test_a_measurement_that_times_out_is_reported_as_incomplete(tree: Path) -> None:
    assert not disk_usage(tree, seconds=-1.0).whole


def test_a_symlink_in_place_of_the_directory_is_not_followed(tree: Path) -> None:
    (tree.parent / "link").symlink_to(tree)
    assert disk_usage(tree.parent / "link", seconds=PATIENT).bytes < 10_000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_other_file_systems_are_not_entered_and_dedicated_mounts_may_be_excluded(tmp_path: Path) -> None:
    mount = tmp_path / "volume/mount"
    mount.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mount)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mounts are refused: {mounted.stderr.decode().strip()}")
    try:
        (mount / "large").write_bytes(b"x" * 2_000_000)
        assert disk_usage(mount.parent, seconds=PATIENT).bytes < 100_000
        assert disk_usage(mount, seconds=PATIENT).bytes >= 2_000_000
        assert disk_usage(mount, seconds=PATIENT, own_mount=False) == DiskUsage(0)
        assert disk_usage(mount.parent, seconds=PATIENT, own_mount=False).bytes > 0
    finally:
        subprocess.run(["umount", str(mount)], check=True)
