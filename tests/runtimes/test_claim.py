"""Directories of live processes, with several test processes in one home."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.runtimes import claim


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(claim, "HOME", tmp_path)
    monkeypatch.setattr(claim, "MEMORY_HOME", tmp_path / "memory")
    return tmp_path


def test_a_live_process_keeps_its_directory() -> None:
    held = claim.fresh("server")
    with pytest.raises(claim.Claimed):
        claim.Claim(held.directory)
    assert claim.abandoned("server") == ()


def test_the_directory_of_a_dead_process_is_claimed_once(home: Path) -> None:
    (home / "server-left").mkdir()
    assert [left.directory for left in claim.abandoned("server")] == [home / "server-left"]


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_what_another_kind_of_run_left_is_claimed_too(home: Path, is_in_memory: bool) -> None:
    """A benchmark keeps everything on the disk, and tests do not."""
    left = home / "memory" if is_in_memory else home
    (left / "embedded-left").mkdir(parents=True)
    assert [each.directory for each in claim.abandoned("embedded")] == [left / "embedded-left"]


def test_a_directory_being_removed_is_not_claimed_by_others(home: Path) -> None:
    def run(_: int) -> None:
        for _ in range(50):
            held = claim.fresh("server")
            (held.directory / "zz").mkdir()
            for left in claim.abandoned("server"):
                left.remove()
            held.remove()

    # A thread replaces a process here: a lock belongs to the open file, and not to the process.
    with ThreadPoolExecutor(8) as runs:
        list(runs.map(run, range(8)))
    assert [path.name for path in home.iterdir()] == ["lock"]
