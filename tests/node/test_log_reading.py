"""Reading a log file: its last lines, lines since a time, new lines, and across a rotation."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from syncpod.node.log_files import is_being_written
from syncpod.node.log_lines import LogText
from syncpod.node.log_reading import LogUnreadable, read_blocks, read_log
from tests.agent.waiting import until
from tests.node.test_log_lines import record


class Container:
    """The container that writes a log, as long as it is `alive`."""

    def __init__(self) -> None:
        self.alive = True

    async def runs(self) -> bool:
        return self.alive


async def texts(
    path: Path, *, tail: int | None = None, since: datetime | None = None, rotated: bool = False
) -> list[str]:
    """The output of `syncpod logs` for a log, by line."""
    text = LogText(timestamps=False, head=b"", since=since, limit_bytes=None)
    printed = b"".join([text.feed(block) async for block in read_blocks(path, tail=tail, rotated=rotated)])
    return (printed + text.flush()).decode().splitlines()


async def test_a_log_is_read_by_tail_and_since(tmp_path: Path) -> None:
    """Row 114: tail first, then since."""
    log = tmp_path / "0.log"
    log.write_bytes(b"".join(record(str(n), stamp=f"2026-01-31T12:00:0{n}.5Z") for n in range(5)))
    assert await texts(log) == ["0", "1", "2", "3", "4"]
    assert await texts(log, tail=2) == ["3", "4"]
    assert await texts(log, tail=0) == []
    since = datetime(2026, 1, 31, 12, 0, 3, tzinfo=UTC)
    assert await texts(log, since=since) == ["3", "4"]
    assert await texts(log, since=since, tail=1) == ["4"]


async def test_times_with_an_offset_and_nine_decimals_are_compared(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(
        record("early", stamp="2026-01-31T13:00:00+02:00") + record("late", stamp="2026-01-31T13:00:00.123456789+01:00")
    )
    assert await texts(log, since=datetime(2026, 1, 31, 12, 0, tzinfo=UTC)) == ["late"]


async def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await texts(tmp_path / "0.log")


async def test_following_continues_across_a_rotation_and_ends_with_the_container(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(record("old"))
    container = Container()
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def follow() -> None:
        async for line in read_log(log, container.runs):
            seen.put_nowait(line.text.decode())

    following = asyncio.create_task(follow())
    async with asyncio.timeout(60):
        assert await seen.get() == "old"
        with log.open("ab") as file:
            file.write(record("new"))
        assert await seen.get() == "new"
        log.rename(tmp_path / "0.log.20260131")
        with (tmp_path / "0.log.20260131").open("ab") as file:
            file.write(record("written before the runtime reopened"))
        log.write_bytes(record("after rotation"))
        assert await seen.get() == "written before the runtime reopened"
        assert await seen.get() == "after rotation"
        with log.open("ab") as file:
            file.write(record("last words", tag="P"))
        container.alive = False
        assert await seen.get() == "last words"
        await following


def rotated_log(tmp_path: Path) -> Path:
    """A log with two current lines, and six in rotated files, four of them compressed."""
    for number in range(3):
        name = tmp_path / f"0.log.20260131-12000{number}"
        lines = b"".join(record(str(2 * number + n), stamp=f"2026-01-31T12:00:0{2 * number + n}Z") for n in (0, 1))
        if number < 2:
            name.with_name(f"{name.name}.gz").write_bytes(gzip.compress(lines))
        else:
            name.write_bytes(lines)
    (tmp_path / "0.log.20260131-120000").write_bytes(b"half removed")
    (tmp_path / "0.log.20260131-120001.tmp").write_bytes(b"half compressed")
    log = tmp_path / "0.log"
    log.write_bytes(b"".join(record(str(n), stamp=f"2026-01-31T12:00:0{n}Z") for n in (6, 7)))
    return log


async def test_rotated_logs_are_read_only_on_request(tmp_path: Path) -> None:
    """Row 114: the kubelet reads only the growing file, whatever lines are requested."""
    log = rotated_log(tmp_path)
    (tmp_path / "0.log.20260131-120000").unlink()
    assert await texts(log) == ["6", "7"]
    assert await texts(log, tail=5) == ["6", "7"]
    assert await texts(log, rotated=True) == [str(n) for n in range(8)]
    for tail in range(10):
        assert await texts(log, rotated=True, tail=tail) == [str(n) for n in range(8)][8 - min(tail, 8) :]
    since = datetime(2026, 1, 31, 12, 0, 3, tzinfo=UTC)
    assert await texts(log, rotated=True, since=since) == ["3", "4", "5", "6", "7"]


async def test_a_line_split_by_a_rotation_is_counted_once(tmp_path: Path) -> None:
    older, log = tmp_path / "0.log.20260131-120000", tmp_path / "0.log"
    older.write_bytes(record("one") + record("two, be", tag="P"))
    log.write_bytes(b"")
    assert await texts(log, rotated=True, tail=1) == ["two, be"]
    log.write_bytes(record("gun") + record("three", tag="P"))
    assert await texts(log, tail=0) == []
    assert await texts(log, tail=1) == ["three"]
    assert await texts(log, rotated=True, tail=3) == ["one", "two, begun", "three"]


async def test_a_log_is_readable_during_its_rotation(tmp_path: Path) -> None:
    log = rotated_log(tmp_path)
    log.rename(tmp_path / "0.log.20260131-120003")
    assert await texts(log) == ["6", "7"]


async def test_following_reads_files_rotated_between_two_polls(tmp_path: Path) -> None:
    """Row 113: several rotations, the file that was open compressed and gone, and not a line is passed over."""
    log = tmp_path / "0.log"
    log.write_bytes(record("0"))
    container = Container()
    lines = read_log(log, container.runs)
    async with asyncio.timeout(60):
        assert (await anext(lines)).text == b"0"
        for number in range(1, 4):
            log.rename(rotated := tmp_path / f"0.log.20260131-12000{number}")
            log.write_bytes(record(str(number)))
            if number < 3:
                rotated.with_name(f"{rotated.name}.gz").write_bytes(gzip.compress(rotated.read_bytes()))
                rotated.unlink()
        assert [(await anext(lines)).text for _ in range(3)] == [b"1", b"2", b"3"]
        container.alive = False
        assert [line async for line in lines] == []


async def test_a_rotated_file_is_read_until_nobody_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []

    def look(number: int) -> bool:
        looks.append(is_being_written(number))
        return looks[-1]

    monkeypatch.setattr("syncpod.node.log_reading.is_being_written", look)
    log = tmp_path / "0.log"
    log.write_bytes(record("before"))
    container = Container()
    lines = read_log(log, container.runs)
    async with asyncio.timeout(60):
        assert (await anext(lines)).text == b"before"
        with log.open("ab", buffering=0) as slow:
            log.rename(tmp_path / "0.log.20260131-120000")
            log.write_bytes(record("after"))
            waiting = asyncio.ensure_future(anext(lines))
            await until(lambda: looks[:2] == [True, True])
            slow.write(record("late"))
            assert (await waiting).text == b"late"
        assert (await anext(lines)).text == b"after"
        container.alive = False
        assert [line async for line in lines] == []


async def test_a_log_that_gets_its_name_back_is_not_read_twice(tmp_path: Path) -> None:
    """A rotation is taken back where the runtime does not open a new log: the open file keeps its rotated name."""
    log = tmp_path / "0.log"
    log.write_bytes(record("before"))
    container = Container()
    lines = read_log(log, container.runs)
    async with asyncio.timeout(60):
        assert (await anext(lines)).text == b"before"
        log.rename(rotated := tmp_path / "0.log.20260131-120000")
        log.hardlink_to(rotated)
        rotated.unlink()
        container.alive = False
        assert [line.text async for line in lines] == []


def by_a_link(log: Path) -> None:
    log.unlink()
    log.symlink_to("/etc/shadow")


def by_a_pipe(log: Path) -> None:
    log.unlink()
    os.mkfifo(log)


def by_a_directory(log: Path) -> None:
    log.unlink()
    log.mkdir()


def by_a_link_to_its_directory(log: Path) -> None:
    log.rename(log.parent.parent / "kept")
    log.parent.rmdir()
    log.parent.symlink_to("/etc")


@pytest.mark.parametrize("replaced", [by_a_link, by_a_pipe, by_a_directory, by_a_link_to_its_directory])
async def test_a_followed_log_that_is_replaced_is_named_as_unreadable(
    replaced: Callable[[Path], None], tmp_path: Path
) -> None:
    (log := tmp_path / "pods" / "pod" / "app" / "0.log").parent.mkdir(parents=True)
    log.write_bytes(b"2026-01-01T00:00:00Z stdout F one\n")
    said = b""

    async def runs() -> bool:
        return True

    with pytest.raises(LogUnreadable, match=r"(?i)not a "):
        async for block in read_blocks(log, runs=runs):
            said += block
            replaced(log)
    assert said == b"2026-01-01T00:00:00Z stdout F one\n"


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"x" * 5000)[:-12], gzip.compress(b"x")[:10] + b"\xff" * 20],
    ids=["another format", "cut off", "damaged"],
)
async def test_a_rotated_file_that_is_not_compressed_is_named_as_unreadable(content: bytes, tmp_path: Path) -> None:
    (log := tmp_path / "pods" / "pod" / "app" / "0.log").parent.mkdir(parents=True)
    log.write_bytes(b"")
    log.with_name("0.log.20260101-000000.gz").write_bytes(content)
    with pytest.raises(LogUnreadable):
        async for _ in read_blocks(log, rotated=True):
            pass
