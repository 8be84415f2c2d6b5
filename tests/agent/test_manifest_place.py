"""If the disk of a manifest directory disappears, its pods continue to run.

Holds: What cannot be read ends no pod.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from syncpod.agent.sources import manifest_files
from syncpod.agent.sources.desired_pods import Listing
from syncpod.agent.sources.manifest_place import MEANT, DirectoryPlace, place_of, recall_place
from syncpod.kernel.mounting import mount_tmpfs, unmount
from syncpod.messages.node import PodKey
from tests.agent.test_manifest_source import NODE, Directory, names, pod

needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
KEPT = (PodKey(namespace="default", name=f"a-{NODE}"),)


@contextmanager
def mounted(path: Path) -> Iterator[None]:
    """Mount another file system at this path."""
    mount_tmpfs(path, 1 << 20, 0o700)
    try:
        yield
    finally:
        unmount(path)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def runs_on(listing: Listing) -> bool:
    """Whether the pod stays, and the reason was reported."""
    return (names(listing) == [f"a-{NODE}"] or listing.kept == KEPT) and "its pods run on" in listing.problems[0]


@needs_mounts
@pytest.mark.parametrize("has_restarted", [False, True])
def test_a_disk_that_is_not_mounted_any_more_ends_no_pod(directory: Directory, has_restarted: bool) -> None:
    with mounted(directory.path):
        directory.path.joinpath("a.yaml").write_text(yaml_of("a"))
        assert directory.names() == [f"a-{NODE}"]
    files = directory.again() if has_restarted else directory.files
    listing = files.look()
    assert runs_on(listing)
    assert f"tmpfs mounted at {directory.path}" in listing.problems[0]
    assert runs_on(files.look()), "also at the next look"
    with mounted(directory.path):  # another one, which is empty
        assert runs_on(files.look())


@needs_mounts
def test_the_disk_that_is_back_is_read_as_before(directory: Directory, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with mounted(tmp_path / "disk"):
        away = tmp_path / "disk" / "pods"
        away.mkdir()
        (away / "a.yaml").write_text(yaml_of("a"))
        directory.path.rmdir()
        directory.path.symlink_to(away)
        assert directory.names() == [f"a-{NODE}"]
        directory.path.unlink()
        directory.path.mkdir()
        assert runs_on(directory.files.look())
        directory.path.rmdir()
        directory.path.symlink_to(away)
        (away / "a.yaml").unlink()
        (away / "b.yaml").write_text(yaml_of("b"))
        listing = directory.files.look()
        assert (names(listing), listing.kept, listing.problems) == ([f"b-{NODE}"], (), ())


@needs_mounts
def test_a_disk_in_its_place_is_taken_once_somebody_says_so(directory: Directory) -> None:
    directory.write("a.yaml", pod("a"))
    assert directory.names() == [f"a-{NODE}"]
    with mounted(directory.path):
        (directory.path / "b.yaml").write_text(yaml_of("b"))
        listing = directory.files.look()
        assert runs_on(listing)
        assert f"if this one is meant, make an empty file {MEANT} in it" in listing.problems[0]
        (directory.path / MEANT).touch()
        assert directory.names() == [f"b-{NODE}"]
        (directory.path / MEANT).unlink()
        assert directory.names() == [f"b-{NODE}"], "it has been taken"
    assert "its pods run on" in directory.files.look().problems[0]


@needs_mounts
def test_a_directory_that_has_made_no_pod_may_lie_anywhere(directory: Directory) -> None:
    assert directory.names() == []
    with mounted(directory.path):
        (directory.path / "a.yaml").write_text(yaml_of("a"))
        assert directory.names() == [f"a-{NODE}"]


@needs_mounts
def test_a_disk_that_goes_away_while_it_is_read_ends_no_pod(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(directory.path):
        (directory.path / "a.yaml").write_text(yaml_of("a"))
        assert directory.names() == [f"a-{NODE}"]
        read_files = manifest_files.ManifestFiles._read_files

        def unmounted(files: manifest_files.ManifestFiles) -> object:
            unmount(directory.path)
            return read_files(files)

        with monkeypatch.context() as patched:
            patched.setattr(manifest_files.ManifestFiles, "_read_files", unmounted)
            assert runs_on(directory.files.look())
        mount_tmpfs(directory.path, 1 << 20, 0o700)


def test_a_missing_directory_ends_no_pod_and_an_empty_one_in_its_place_does(directory: Directory) -> None:
    directory.write("a.yaml", pod("a"))
    assert directory.names() == [f"a-{NODE}"]
    directory.path.rename(directory.path.with_name("away"))
    for files in (directory.files, directory.again()):
        listing = files.look()
        assert runs_on(listing)
        assert listing.problems[0].endswith(
            "is missing; its pods run on until it is back: an empty directory in its place ends them"
        )
    directory.path.mkdir()
    assert directory.files.look() == Listing((), (), ())


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ESTALE])
def test_a_directory_that_cannot_be_listed_ends_no_pod(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    directory.write("a.yaml", pod("a"))
    assert directory.names() == [f"a-{NODE}"]

    def fails(_path: Path) -> object:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "iterdir", fails)
    for files in (directory.files, directory.again()):
        listing = files.look()
        assert runs_on(listing)
        assert f"cannot be read ({os.strerror(number)})" in listing.problems[0]


def test_after_a_boot_the_mount_counts_and_not_the_number_of_the_device(directory: Directory) -> None:
    before = DirectoryPlace("/pods", "boot-1", 17, 1, "/mnt", "ext4")
    assert not replace(before, boot="boot-2", device=18).is_another_than(before)
    assert replace(before, boot="boot-2", mount_point="/").is_another_than(before)
    assert replace(before, boot="boot-2", file_system="tmpfs").is_another_than(before)
    assert replace(before, device=18).is_another_than(before)
    assert replace(before, disk=2).is_another_than(before)
    assert not replace(before, directory="/others", device=18).is_another_than(before)


def test_where_a_directory_lies_is_noted(directory: Directory) -> None:
    directory.files.look()
    noted = recall_place(directory.state)
    assert noted is not None and noted == place_of(directory.path, None) == place_of(directory.path, noted)
    assert noted.device == directory.path.stat().st_dev and noted.file_system


def yaml_of(name: str) -> str:
    return str(yaml.safe_dump(pod(name)))
