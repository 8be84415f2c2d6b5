"""Reading a log file: its end, since a time, as it grows, and across a rotation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from syncpod.cli.log_files import read_log
from tests.cli.test_log_lines import record


async def texts(path: Path, **options: object) -> list[str]:
    return [line.text.decode() async for line in read_log(path, **options)]  # type: ignore[arg-type]


async def test_a_log_is_read_from_its_last_lines_or_from_a_moment(tmp_path: Path) -> None:
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
        record("late", stamp="2026-01-31T13:00:00.123456789+01:00") + record("early", stamp="2026-01-31T13:00:00+02:00")
    )
    assert await texts(log, since=datetime(2026, 1, 31, 12, 0, tzinfo=UTC)) == ["late"]


async def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await texts(tmp_path / "0.log")


async def test_following_goes_on_over_a_rotation_and_ends_with_the_container(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(record("old"))
    alive = asyncio.Event()
    alive.set()

    async def runs() -> bool:
        return alive.is_set()

    seen: asyncio.Queue[str] = asyncio.Queue()

    async def follow() -> None:
        async for line in read_log(log, runs=runs):
            seen.put_nowait(line.text.decode())

    following = asyncio.create_task(follow())
    async with asyncio.timeout(20):
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
        alive.clear()
        assert await seen.get() == "last words"
        await following
