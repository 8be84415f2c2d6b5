"""Readers of a volume see either the old or the new files, even if its writer crashes.

Holds: A reader of an object or a volume sees either the old set or the new one.
"""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.volumes.payload import Payload, PayloadFile
from syncpod.volumes.writer import write

PATHS = ("a", "b", "c/d", "c/e", "f/g/h")
FILES = st.builds(PayloadFile, st.sampled_from([b"", b"one", b"two"]), st.sampled_from([0o644, 0o400, 0o777]))
PAYLOADS = st.dictionaries(st.sampled_from(PATHS), FILES)


class Killed(BaseException):
    """Raised where the writer dies."""


CHANGES = {"os.mkdir", "os.rename", "os.symlink", "os.remove", "os.rmdir", "os.chmod", "open"}
deadline: list[int] = []
"""The number of further changes to the file system before the process dies; empty: no limit."""


def die_when_due(event: str, arguments: tuple[object, ...]) -> None:
    if not deadline or event not in CHANGES:
        return
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
        return
    if deadline[0] == 0:
        raise Killed
    deadline[0] -= 1


sys.addaudithook(die_when_due)


def write_until_killed(volume: Path, payload: Payload, changes: int) -> bool:
    """Write, or die before the change with this number; return whether the write ended."""
    deadline[:] = [changes]
    try:
        write(volume, payload)
    except Killed:
        return False
    finally:
        deadline.clear()
    return True


def files_in(directory: Path) -> dict[str, bytes]:
    """The files that a container sees there, without dangling links."""

    def below(path: Path, name: str) -> Iterator[tuple[str, bytes]]:
        if path.is_dir():
            for child in path.iterdir():
                yield from below(child, f"{name}/{child.name}")
        elif path.exists():
            yield name, path.read_bytes()

    return {
        path: data for child in directory.iterdir() if not child.name.startswith("..")
        for path, data in below(child, child.name)
    }  # fmt: skip


def contents(payload: Payload) -> dict[str, bytes]:
    return {path: file.data for path, file in payload.items()}


@given(st.lists(st.tuples(PAYLOADS, st.integers(0, 60)), max_size=6), PAYLOADS)
def test_readers_see_one_whole_set_after_any_sequence_of_writes_and_crashes(
    lives: list[tuple[Payload, int]], last: Payload
) -> None:
    with TemporaryDirectory() as name:
        volume = Path(name)
        shown: dict[str, bytes] = {}
        seen: set[str] = set()
        for payload, changes in lives:
            ended = write_until_killed(volume, payload, changes)
            data = volume / "..data"
            whole = files_in(data) if data.exists() else {}
            assert whole in ((contents(payload),) if ended else (shown, contents(payload)))
            # By their names: nothing that is not in that set, and all of it once the writer has come to its end.
            visible = files_in(volume)
            assert visible.items() <= whole.items()
            assert not ended or visible == whole
            # What was there, and is in the set that is shown now, is there throughout.
            assert {path for path in seen if path in whole} <= visible.keys()
            shown, seen = whole, set(visible)
        write(volume, last)
        assert files_in(volume) == contents(last)
        names = {path.partition("/")[0] for path in last}
        (of_set,) = [path.name for path in volume.iterdir() if path.is_dir() and path.name.startswith("..2")]
        assert {path.name for path in volume.iterdir()} == {of_set, "..data", *names}


def test_a_written_volume_has_the_kubelets_layout_despite_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path, {"key": PayloadFile(b"value", 0o640), "deep/er/key": PayloadFile(b"other", 0o404)})
    finally:
        os.umask(before)
    of_set = str((tmp_path / "..data").readlink())
    assert [len(part) for part in of_set.removeprefix("..").replace(".", "_").split("_")] == [4, 2, 2, 2, 2, 2, 9]
    assert (tmp_path / "key").readlink() == Path("..data/key")
    assert (tmp_path / "deep").readlink() == Path("..data/deep")
    assert {
        str(path.relative_to(tmp_path / of_set)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in (tmp_path / of_set).rglob("*")
    } == {"key": "0o640", "deep": "0o755", "deep/er": "0o755", "deep/er/key": "0o404"}


def test_unchanged_files_are_not_written_again(tmp_path: Path) -> None:
    files = {"key": PayloadFile(b"value", 0o400), "deep/key": PayloadFile(b"other", 0o400)}
    assert write(tmp_path, files)
    assert write_until_killed(tmp_path, files, 0)
    assert not write(tmp_path, files)


def test_one_file_that_changes_beside_one_that_does_not_is_written(tmp_path: Path) -> None:
    write(tmp_path, {"user": PayloadFile(b"me", 0o400), "password": PayloadFile(b"one", 0o400)})
    assert write(tmp_path, {"user": PayloadFile(b"me", 0o400), "password": PayloadFile(b"two", 0o400)})
    assert files_in(tmp_path) == {"user": b"me", "password": b"two"}


def test_an_open_file_keeps_its_old_content_after_an_update(tmp_path: Path) -> None:
    write(tmp_path, {"key": PayloadFile(b"old", 0o644)})
    with (tmp_path / "key").open("rb") as opened:
        write(tmp_path, {"key": PayloadFile(b"new", 0o644)})
        assert (opened.read(), (tmp_path / "key").read_bytes()) == (b"old", b"new")


def test_files_get_their_owner_before_they_are_shown(tmp_path: Path) -> None:
    seen = []

    def look() -> None:
        seen.append(((tmp_path / "..data").exists(), len(list(tmp_path.glob("..2*/key")))))

    write(tmp_path, {"key": PayloadFile(b"value", 0o644)}, look)
    assert seen == [(False, 1)]


def test_a_modified_volume_is_restored(tmp_path: Path) -> None:
    files = {"key": PayloadFile(b"value", 0o644)}
    for spoil in (
        lambda of_set: (of_set / "key").write_bytes(b"wrong"),
        lambda of_set: (of_set / "more").write_bytes(b"more"),
        lambda of_set: (of_set / "key").unlink(),
        lambda of_set: ((of_set / "key").unlink(), (of_set / "key").symlink_to("/etc/passwd")),
    ):
        write(tmp_path, files)
        spoil(tmp_path / (tmp_path / "..data").readlink())
        assert write(tmp_path, files)
        assert files_in(tmp_path) == {"key": b"value"}


def test_a_foreign_file_in_place_of_a_link_is_an_error_and_is_kept(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("mine")
    with pytest.raises(FileExistsError):
        write(tmp_path, {"key": PayloadFile(b"value", 0o644)})
    assert (tmp_path / "key").read_text() == "mine"
