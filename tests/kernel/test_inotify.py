"""Watching a real directory through inotify."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from syncpod.kernel import inotify
from syncpod.kernel.inotify import DirectoryChange, DirectoryWatch, parsed

PATIENCE = 60.0


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "watched"
    directory.mkdir()
    (directory / "there").write_text("old")
    return directory


@pytest.fixture
def watch(directory: Path) -> Iterator[DirectoryWatch]:
    watch = DirectoryWatch(directory)
    yield watch
    watch.close()


def _write(directory: Path) -> None:
    (directory / "new").write_text("new")


def _rename_into(directory: Path) -> None:
    (directory.parent / "draft").write_text("new")
    (directory.parent / "draft").rename(directory / "new")


def _rename_directory(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def _remove_directory(directory: Path) -> None:
    (directory / "there").unlink()
    directory.rmdir()


@pytest.mark.parametrize(
    ("does", "change"),
    [
        (_write, DirectoryChange.COMPLETE),
        (_rename_into, DirectoryChange.COMPLETE),
        (lambda directory: (directory / "link").symlink_to("there"), DirectoryChange.BEGUN),
        (lambda directory: (directory / "there").unlink(), DirectoryChange.GONE),
        (lambda directory: (directory / "there").rename(directory.parent / "away"), DirectoryChange.GONE),
        (lambda directory: (directory / "there").chmod(0o600), DirectoryChange.BEGUN),
        (lambda directory: (directory / "sub").mkdir(), DirectoryChange.BEGUN),
        (_rename_directory, DirectoryChange.OVER),
        (_remove_directory, DirectoryChange.OVER),
    ],
)
async def test_what_notices_say_of_a_directory(
    directory: Path, watch: DirectoryWatch, does: Callable[[Path], None], change: DirectoryChange
) -> None:
    does(directory)
    assert await watch.noticed(PATIENCE) is change
    assert await watch.noticed(0) is DirectoryChange.NONE


async def test_a_file_is_complete_only_once_it_is_closed(directory: Path, watch: DirectoryWatch) -> None:
    with (directory / "new").open("w") as file:
        file.write("half")
        file.flush()
        assert await watch.noticed(PATIENCE) is DirectoryChange.BEGUN
    assert await watch.noticed(PATIENCE) is DirectoryChange.COMPLETE


async def test_a_change_wakes_who_waits(directory: Path, watch: DirectoryWatch) -> None:
    waiting = asyncio.create_task(watch.noticed(PATIENCE))
    await asyncio.sleep(0)
    _write(directory)
    assert await waiting is DirectoryChange.COMPLETE


def test_a_queue_that_has_overflowed_is_a_change() -> None:
    overflowed = struct.pack("=iIII", -1, 0x4000, 0, 0)
    assert parsed(overflowed) == (DirectoryChange.BEGUN, ())
    named = struct.pack("=iIII", 1, inotify.IN_MOVED_TO, 0, 16) + b"\xff".ljust(16, b"\0")
    assert parsed(overflowed + named + overflowed) == (DirectoryChange.COMPLETE, ())
    gone = struct.pack("=iIII", 1, inotify.IN_DELETE, 0, 16) + b"\xff".ljust(16, b"\0")
    assert parsed(gone + gone) == (DirectoryChange.GONE, (b"\xff", b"\xff"))
    assert parsed(gone + overflowed + gone)[0] is DirectoryChange.BEGUN


async def test_files_that_were_removed_or_moved_away_are_named_once(directory: Path, watch: DirectoryWatch) -> None:
    (directory / "away").write_text("")
    (directory / ".hidden").write_text("")
    (directory / "sub").mkdir()
    assert await watch.noticed(PATIENCE) is DirectoryChange.COMPLETE
    assert watch.take_gone() == ()
    (directory / "there").unlink()
    _write(directory)
    (directory / "away").rename(directory.parent / "away")
    (directory / ".hidden").unlink()
    (directory / "sub").rmdir()
    assert await watch.noticed(PATIENCE) is DirectoryChange.COMPLETE
    assert (watch.take_gone(), watch.take_gone()) == (("there", "away"), ())


def test_only_a_directory_can_be_watched(directory: Path) -> None:
    with pytest.raises(NotADirectoryError):
        DirectoryWatch(directory / "there")
    with pytest.raises(FileNotFoundError):
        DirectoryWatch(directory / "none")
