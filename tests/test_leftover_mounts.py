"""A run unmounts and removes the leftovers of killed runs, but not those of a live run."""

from __future__ import annotations

import getpass
import os
import subprocess
from pathlib import Path

import pytest

from syncpod.kernel.mounting import is_mount, may_mount
from tests.leftover_mounts import left_behind, remove_left_behind, unmount_left_behind


def test_mounts_without_a_live_test_run_are_listed_innermost_first(tmp_path: Path) -> None:
    for name, pid in (("pytest-1", "1"), ("pytest-2", "2"), ("pytest-3", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".lock").write_text(pid)
    places = ("garbage-1/a", "garbage-1/a/b", "pytest-1/a", "pytest-2/a", "pytest-3/a", "pytest-4/a")
    mounted = ["/", "/proc", str(tmp_path), *(f"{tmp_path}/{place}" for place in places)]
    left = left_behind(mounted, tmp_path, lambda pid: pid == 2)
    innermost, *others = (place.removeprefix(f"{tmp_path}/") for place in left)
    assert innermost == "garbage-1/a/b"
    assert sorted(others) == ["garbage-1/a", "pytest-1/a", "pytest-3/a", "pytest-4/a"]


@pytest.mark.skipif(not may_mount(), reason="nothing can be mounted here")
def test_a_mount_of_a_killed_run_is_gone_and_one_of_a_living_run_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    root = tmp_path / f"pytest-of-{getpass.getuser()}"
    killed, living = root / "garbage-1" / "disk", root / "pytest-1" / "disk"
    try:
        for place in (killed, living):
            place.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
        (living.parent / ".lock").write_text(str(os.getpid()))
        unmount_left_behind()
        assert (is_mount(killed), is_mount(living)) == (False, True)
    finally:
        subprocess.run(["umount", "--lazy", living], check=True)


def test_what_pytest_could_not_remove_is_gone_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    root = tmp_path / f"pytest-of-{getpass.getuser()}"
    closed, living = root / "garbage-1" / "work" / "work", root / "pytest-1" / "work"
    for place in (closed / "incompat", living):
        place.mkdir(parents=True)
    closed.chmod(0o000)
    remove_left_behind()
    assert list(root.iterdir()) == [living.parent]
