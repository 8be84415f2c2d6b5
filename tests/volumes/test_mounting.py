"""The node's mounts are made once, distinguished from directories, and unmounted even if in use."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.kernel.mounting import bind, is_mount, may_mount, mount_tmpfs, unmount

needs_mounts = pytest.mark.skipif(not may_mount(), reason="mounting needs CAP_SYS_ADMIN")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory at which a test may mount; its remains are removed."""
    directory = tmp_path / "place"
    directory.mkdir()
    yield directory
    unmount(directory)


@needs_mounts
def test_a_tmpfs_has_its_size_and_its_permissions(place: Path) -> None:
    mount_tmpfs(place, 1 << 20, 0o1777)
    found = os.statvfs(place)
    assert (found.f_blocks * found.f_frsize, place.stat().st_mode & 0o7777) == (1 << 20, 0o1777)
    with pytest.raises(OSError, match="No space left"):
        (place / "large").write_bytes(bytes(2 << 20))


@needs_mounts
def test_a_tmpfs_is_mounted_once_and_keeps_its_files(place: Path) -> None:
    mount_tmpfs(place, None, 0o700)
    (place / "file").write_text("kept")
    mount_tmpfs(place, None, 0o700)
    assert (place / "file").read_text() == "kept"
    unmount(place)
    assert not is_mount(place)


@needs_mounts
def test_a_bind_mount_is_distinguished_from_a_directory_of_the_same_file_system(place: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("seen")
    assert not is_mount(place)
    bind(source, place)
    assert is_mount(place)
    assert (place / "file").read_text() == "seen"


@needs_mounts
def test_a_bind_mount_of_a_descriptor_shows_the_file_that_was_opened(place: Path, tmp_path: Path) -> None:
    source, other = tmp_path / "source", tmp_path / "other"
    for directory in (source, other):
        directory.mkdir()
        (directory / "name").write_text(directory.name)
    opened = os.open(source, os.O_PATH | os.O_DIRECTORY)
    source.rename(tmp_path / "moved")
    source.symlink_to(other)
    try:
        bind(opened, place)
    finally:
        os.close(opened)
    assert (place / "name").read_text() == "source"


@needs_mounts
def test_a_file_can_be_bind_mounted_on_a_file_but_not_on_a_directory(place: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("seen")
    target.touch()
    bind(source, target)
    assert (is_mount(target), target.read_text()) == (True, "seen")
    unmount(target)
    assert (is_mount(target), target.read_text()) == (False, "")
    with pytest.raises(NotADirectoryError, match=f"cannot mount {source} at this place: Not a directory.*{place}"):
        bind(source, place)


@needs_mounts
def test_stacked_mounts_and_mounts_in_use_are_all_unmounted(place: Path) -> None:
    for _ in range(2):
        bind(place, place)
    held = os.open(place, os.O_RDONLY)
    try:
        unmount(place)
        assert not is_mount(place)
    finally:
        os.close(held)


@needs_mounts
def test_a_symlink_is_not_followed_to_what_is_mounted_behind_it(place: Path, tmp_path: Path) -> None:
    mount_tmpfs(place, None, 0o700)
    link = tmp_path / "link"
    link.symlink_to(place)
    unmount(link)
    assert is_mount(place)


def test_unmounting_a_plain_or_missing_directory_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file", tmp_path / "none", tmp_path / "file" / "below"):
        unmount(path)
        assert not is_mount(path)


def test_a_failed_mount_error_names_the_mount_point(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=f"cannot mount tmpfs at this place: .*{tmp_path}/none") as failed:
        mount_tmpfs(tmp_path / "none", None, 0o700)
    # The kernel decides whether it first checks the place or the caller.
    assert failed.value.errno in ((errno.ENOENT,) if may_mount() else (errno.ENOENT, errno.EPERM))
