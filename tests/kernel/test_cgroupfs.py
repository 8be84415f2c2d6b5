"""Finding cgroup hierarchies; errors name the file."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from syncpod.kernel import cgroupfs
from syncpod.kernel.cgroupfs import Hierarchy, hierarchies, whole_hierarchies
from syncpod.kernel.mountinfo import Mount, parse_mounts

MOUNTINFO = rb"""
24 1 0:22 / /proc rw,nosuid shared:5 - proc proc rw
30 24 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
33 30 0:29 / /sys/fs/cgroup/with\040space rw shared:11 master:2 - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
35 30 0:27 /docker/1 /part rw - cgroup cgroup rw,cpu,cpuacct
36 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
""".strip()


def test_each_fully_mounted_hierarchy_is_found_once() -> None:
    assert whole_hierarchies(parse_mounts(MOUNTINFO)) == (
        Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct"), 1, frozenset({"cpu", "cpuacct"})),
        Hierarchy(Path("/sys/fs/cgroup/systemd"), 1, frozenset({"name=systemd"})),
        Hierarchy(Path("/sys/fs/cgroup/with space"), 1, frozenset({"memory"})),
        Hierarchy(Path("/sys/fs/cgroup/unified"), 2, frozenset()),
    )


def test_a_hierarchy_seen_from_within_a_cgroup_namespace_counts_as_fully_mounted() -> None:
    line = b"59 49 0:38 /../.. /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw,nsdelegate"
    assert [each.path for each in whole_hierarchies(parse_mounts(line))] == [Path("/sys/fs/cgroup")]


def test_a_mount_of_a_part_of_a_hierarchy_says_which_part() -> None:
    assert [each.shown for each in hierarchies(parse_mounts(MOUNTINFO)) if each.path == Path("/part")] == ["/docker/1"]


def test_an_error_names_the_file_that_could_not_be_written() -> None:
    with pytest.raises(OSError) as failed:
        cgroupfs.write(Path("/dev/full"), "1")
    assert failed.value.filename == "/dev/full"


def test_making_a_cgroup_that_is_removed_meanwhile_raises_file_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found_and_then_removed(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        raise FileExistsError(17, "File exists", str(self))

    monkeypatch.setattr(Path, "mkdir", found_and_then_removed)
    with pytest.raises(FileNotFoundError):
        cgroupfs.make(tmp_path / "tier")
    assert not cgroupfs.make(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        cgroupfs.make(tmp_path / "file")


def test_the_hierarchies_of_this_process_are_kept_for_a_while_and_those_of_a_file_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "mountinfo"
    listed.write_bytes(MOUNTINFO)
    assert cgroupfs.mounted_hierarchies(listed) == whole_hierarchies(parse_mounts(MOUNTINFO))
    listed.write_bytes(b"")
    assert cgroupfs.mounted_hierarchies(listed) == ()
    now = [0.0]
    monkeypatch.setattr("syncpod.kernel.cgroupfs.time", SimpleNamespace(monotonic=lambda: now[0]))
    read: list[Path] = []

    def none(file: Path, **_: Any) -> tuple[Mount, ...]:
        read.append(file)
        return ()

    monkeypatch.setattr(cgroupfs, "read_mounts", none)
    cgroupfs._kept_hierarchies.cache_clear()
    try:
        for second, times in ((1.0, 1), (cgroupfs.KEPT_SECONDS - 1, 1), (cgroupfs.KEPT_SECONDS + 1, 2)):
            now[0] = second
            assert (cgroupfs.mounted_hierarchies(), len(read)) == ((), times)
    finally:
        cgroupfs._kept_hierarchies.cache_clear()


def test_a_hierarchy_below_a_directory_that_is_closed_to_this_process_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    listed, theirs = tmp_path / "mountinfo", tmp_path / "theirs/sys/fs/cgroup"
    listed.write_text(
        f"34 30 0:30 / {tmp_path} rw - cgroup2 cgroup2 rw\n35 30 0:30 / {theirs} rw - cgroup2 cgroup2 rw\n"
    )
    stat = Path.stat

    def as_another_user(self: Path, **how: bool) -> os.stat_result:
        if self.is_relative_to(tmp_path / "theirs"):
            raise PermissionError(13, "Permission denied", str(self))
        return stat(self, **how)

    monkeypatch.setattr(Path, "stat", as_another_user)
    assert [each.path for each in cgroupfs.mounted_hierarchies(listed)] == [tmp_path]


def test_a_removed_cgroup_has_no_processes(tmp_path: Path) -> None:
    assert cgroupfs.read(tmp_path / "gone" / "cgroup.procs") is None
    assert cgroupfs.processes_of(tmp_path / "gone") == frozenset()
    assert cgroupfs.processes_below(tmp_path / "gone") == ()
    assert cgroupfs.kill_processes(tmp_path / "gone") == ()
    cgroupfs.remove_tree(tmp_path / "gone")


def test_a_process_of_another_pid_namespace_is_counted_and_never_killed(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("0\n0\n")
    assert cgroupfs.processes_of(tmp_path) == {0}
    assert cgroupfs.processes_below(tmp_path) == cgroupfs.kill_processes(tmp_path) == ()
