import asyncio
import os
import re
from pathlib import Path

import pytest

from syncpod.runtime.processes.cri_log import LONGEST_LINE, CriLog
from syncpod.runtime.processes.records import Level
from tests.runtime.supervised_processes import LEVELS, lines, machine_at, until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pod" / "container" / "0.log"


@pytest.fixture
def log(path: Path) -> CriLog:
    return CriLog(str(path))


def test_a_line_has_its_time_its_stream_and_its_text(log: CriLog, path: Path) -> None:
    log.write(b"stdout", b"hello \xff world\r\n\n")
    log.write(b"stderr", b"no\n")
    text = path.read_bytes().split(b"\n")
    moment = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"
    assert re.fullmatch(moment + rb" stdout F hello \xff world\r", text[0])
    assert re.fullmatch(moment + rb" stdout F ", text[1])
    assert re.fullmatch(moment + rb" stderr F no", text[2])
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_line_written_in_pieces_is_one_line_even_if_the_other_stream_writes_meanwhile(
    log: CriLog, path: Path
) -> None:
    log.write(b"stdout", b"one ")
    log.write(b"stderr", b"between\n")
    log.write(b"stdout", b"line\ntwo")
    assert lines(path) == ["stderr F between", "stdout F one line"]
    log.end(b"stdout")
    log.end(b"stderr")
    assert lines(path) == ["stderr F between", "stdout F one line", "stdout P two"]


@pytest.mark.parametrize(
    ("length", "tags"),
    [
        (LONGEST_LINE - 1, "F"),
        (LONGEST_LINE, "F"),
        (LONGEST_LINE + 1, "PF"),
        (2 * LONGEST_LINE, "PF"),
        (5 * LONGEST_LINE + 3, "PPPPPF"),
    ],
)
@pytest.mark.parametrize("piece", [1000, 10**6])
def test_a_long_line_is_split_into_partial_lines(log: CriLog, path: Path, length: int, tags: str, piece: int) -> None:
    text = "".join(chr(97 + index % 26) for index in range(length))
    data = f"{text}\n".encode()
    for start in range(0, len(data), piece):
        log.write(b"stdout", data[start : start + piece])
    written = [line.split(" ", 2) for line in lines(path)]
    assert "".join(tag for _, tag, _ in written) == tags
    assert "".join(part for _, _, part in written) == text
    assert all(len(part) <= LONGEST_LINE for _, _, part in written)


def test_a_moved_and_reopened_log_continues_in_a_new_file(log: CriLog, path: Path) -> None:
    log.write(b"stdout", b"old\nhalf")
    path.rename(path.with_suffix(".1"))
    log.reopen()
    log.write(b"stdout", b" and half\n")
    assert lines(path.with_suffix(".1")) == ["stdout F old"]
    assert lines(path) == ["stdout F half and half"]


def test_an_existing_file_is_appended_to(log: CriLog, path: Path) -> None:
    log.write(b"stdout", b"first\n")
    CriLog(str(path)).write(b"stdout", b"second\n")
    assert lines(path) == ["stdout F first", "stdout F second"]


def test_a_log_that_is_an_unread_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    log = CriLog(str(tmp_path / "log"))
    for _ in range(20):
        log.write(b"stdout", b"x" * 10_000 + b"\n")
    os.close(reader)
    log.write(b"stdout", b"nobody\n")


async def test_all_output_of_a_container_is_logged(tmp_path: Path) -> None:
    async with machine_at(LEVELS[-1], tmp_path) as machine:
        script = "for i in $(seq 2000); do echo line $i; done; echo oops >&2; printf end"
        exited, log = await machine.run("sh", "-c", script)
        assert exited.exit_code == 0
        assert [line for line in log if line.startswith("stdout F")] == [f"stdout F line {i + 1}" for i in range(2000)]
        assert {line for line in log if not line.startswith("stdout F")} == {"stderr F oops", "stdout P end"}


async def test_without_a_log_path_output_is_discarded(tmp_path: Path) -> None:
    async with machine_at(LEVELS[-1], tmp_path) as machine:
        process = await machine.start("sh", "-c", "head -c 1000000 /dev/zero")
        assert (await process.wait()).exit_code == 0


async def test_a_running_containers_log_is_reopened_on_demand(tmp_path: Path) -> None:
    async with machine_at(LEVELS[-1], tmp_path) as machine:
        log = tmp_path / "logs" / "c.log"
        process = await machine.start("sh", "-c", "while :; do echo tick; sleep 0.01; done", log_path=str(log))
        await until(lambda: lines(log))
        log.rename(log.with_suffix(".1"))
        await process.reopen_log()
        await until(lambda: lines(log))
        await machine.restart()
        found = await machine.found()
        log.rename(log.with_suffix(".2"))
        await found.reopen_log()
        await until(lambda: lines(log))
        log.unlink()
        log.parent.rename(tmp_path / "away")
        with pytest.raises(FileNotFoundError):
            await found.reopen_log()


async def test_a_full_log_disk_does_not_stop_a_container(tmp_path: Path) -> None:
    async with machine_at(LEVELS[-1], tmp_path) as machine:
        process = await machine.start("sh", "-c", "echo lost; exit 3", log_path="/dev/full")
        assert (await process.wait()).exit_code == 3


@pytest.mark.parametrize("level", [each for each in LEVELS if each is not Level.PLAIN], ids=lambda level: level.value)
async def test_output_of_background_processes_is_logged_until_the_container_ends(tmp_path: Path, level: Level) -> None:
    async with machine_at(level, tmp_path) as machine:
        log = tmp_path / "log"
        script = "(while :; do echo child; sleep 0.01; done) & while ! [ -s /tmp/done ]; do sleep 0.01; done"
        process = await machine.start("sh", "-c", script, log_path=str(log))
        await until(lambda: "stdout F child" in lines(log))
        command = await process.execute(("sh", "-c", "echo 1 > /tmp/done"))
        async with asyncio.timeout(60):
            assert await command.wait() == 0
        await command.close()
        assert (await process.wait()).exit_code == 0
