"""Mountinfo is parsed correctly with any names in it."""

import os
import subprocess
from pathlib import Path

import pytest

from syncpod.kernel.mountinfo import Mount, mount_of, parse_mounts, read_mounts
from syncpod.kernel.mounting import bind, may_mount, mounts_at, mounts_below, unmount

LINE = rb"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue"


def test_all_fields_of_a_line_are_read() -> None:
    assert parse_mounts(LINE + b"\n") == (
        Mount("98:0", "/mnt1", "/mnt2", ("master:1", "shared:7"), "ext3", ("rw", "errors=continue")),
    )


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (rb"/a\040b\011c\012d\134e", "/a b\tc\nd\\e"),
        (b"/carriage\rreturn\x0b\x0c", "/carriage\rreturn\x0b\x0c"),
        ("/line\u2028separator\x85é".encode(), "/line\u2028separator\x85é"),
        (b"/not-utf-8-\xff", os.fsdecode(b"/not-utf-8-\xff")),
        (b"/-", "/-"),
    ],
)
def test_a_mount_point_may_have_any_name(written: bytes, path: str) -> None:
    assert [mount.mount_point for mount in parse_mounts(LINE.replace(b"/mnt2", written))] == [path]


def test_a_source_may_be_empty() -> None:
    (mount,) = parse_mounts(LINE.replace(b"/dev/root", b""))
    assert (mount.file_system, mount.options) == ("ext3", ("rw", "errors=continue"))


def test_only_the_mounts_of_one_kind_of_file_system_are_parsed() -> None:
    lines = [
        LINE,
        LINE.replace(b"ext3", b"cgroup2"),
        LINE.replace(b"ext3", b"cgroup").replace(b"/mnt2", b"/-\\040-\\040cgroup"),
        LINE.replace(b"/dev/root", b"cgroup"),
        LINE.replace(b"ext3 /dev/root", b"ext3  - cgroup"),
        b"no mount",
    ]
    found = parse_mounts(b"\n".join(lines), file_system="cgroup")
    assert [(each.file_system, each.mount_point) for each in found] == [("cgroup2", "/mnt2"), ("cgroup", "/- - cgroup")]
    with pytest.raises(ValueError, match="not in list"):
        parse_mounts(b"\n".join(lines))


def test_a_path_lies_on_the_topmost_mount_at_the_deepest_mount_point_on_its_way() -> None:
    places = {b"1": b"/", b"2": b"/a/b", b"3": b"/a", b"4": b"/a/b", b"5": b"/a/bc"}
    lines = [LINE.replace(b"/mnt1", b"/" + root).replace(b"/mnt2", place) for root, place in places.items()]
    mounts = parse_mounts(b"\n".join(lines))
    holding = {path: mount_of(mounts, Path(path)) for path in ("/a/b/c", "/a/b", "/a/x", "/x")}
    assert {path: found and found.root for path, found in holding.items()} == {
        "/a/b/c": "/4", "/a/b": "/4", "/a/x": "/3", "/x": "/1",
    }  # fmt: skip
    assert mount_of(mounts[1:], Path("/x")) is None


def test_a_mount_without_a_peer_group_is_private() -> None:
    assert parse_mounts(LINE.replace(b"master:1 shared:7 ", b""))[0].propagation == ()


@pytest.mark.skipif(not may_mount(), reason="needs CAP_SYS_ADMIN")
@pytest.mark.parametrize("source", ["none", ""])
def test_the_mountinfo_of_this_machine_is_read_despite_hostile_mount_names(tmp_path: Path, source: str) -> None:
    place = tmp_path / os.fsdecode(b"a b\r\n\\\xff#")
    place.mkdir()
    subprocess.run(["mount", "-n", "-i", "-t", "tmpfs", source, place], check=True)
    try:
        (mount,) = (each for each in read_mounts() if each.mount_point == str(place))
        assert mount.file_system == "tmpfs"
        assert mounts_at(place) == (mount,)
        assert mounts_below(tmp_path) == (place,)
    finally:
        unmount(place)
    assert mounts_below(tmp_path) == ()


@pytest.mark.skipif(not may_mount(), reason="needs CAP_SYS_ADMIN")
def test_a_failed_mount_names_the_target(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as failed:
        bind(tmp_path, tmp_path / "absent")
    assert failed.value.filename == str(tmp_path / "absent")
