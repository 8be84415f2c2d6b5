"""Logs of running containers are rotated, and no line is lost."""

from __future__ import annotations

import asyncio
import gzip
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from syncpod.agent.storage import log_rotation as module
from syncpod.agent.storage.log_rotation import LogRotation, compress_rotated, remove_excess
from syncpod.cri.client import CriClient
from syncpod.cri.errors import RuntimeFailure
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.node.log_files import open_log_file, rotated_files
from syncpod.node.log_lines import LogText
from syncpod.node.log_reading import read_blocks
from syncpod.node.reader import PodReader
from syncpod.settings.node import LogSettings
from tests.agent.listings import Shown
from tests.agent.waiting import until
from tests.node.owned_pods import OWNER, owned_pod
from tests.runtimes.runtime import Runtime

LINE = 100
"""The length of a line in bytes, including the newline."""
LINES = 200_000
WRITES = """
awk -v n={lines} 'BEGIN {{
    p = sprintf("%90s", ""); gsub(/ /, "x", p);
    for (i = 1; i <= n; i++) {{ printf "%08d %s\\n", i, p; if (i % 20000 == 0) {{ fflush(); system("sleep 0.3") }} }}
}}'
exec sleep 600
"""
"""A shell script that writes numbered lines as fast as it can, two megabytes at a time, and then keeps running."""


def seconds() -> Iterator[datetime]:
    """A clock that advances by a second with each call."""
    at = datetime(2026, 11, 21, tzinfo=UTC)
    while True:
        at += timedelta(seconds=1)
        yield at


async def rotate_all(rotation: LogRotation) -> None:
    """Rotate each log that is due, and compress what was rotated."""
    await rotation._look()
    await asyncio.gather(*rotation._under_way.values())
    if rotation._compressing is not None:
        await rotation._compressing


@pytest.mark.every_runtime("ReopenContainerLog is the runtime's")
async def test_rotation_loses_no_line_of_a_container_writing_at_full_speed(runtime: Runtime, tmp_path: Path) -> None:
    """Row 113: twenty megabytes at full speed over several rotations are all in the files, and seen by a follower."""
    clock = seconds()
    limits = LogSettings(max_bytes=1_000_000, max_files=1000)

    def rotation(cri: CriClient, listing: ObservedPod) -> LogRotation:
        return LogRotation(tmp_path, cri, Shown(listing), limits, now=lambda: next(clock))

    async def often(rotation: LogRotation) -> None:
        while True:
            under_way = asyncio.ensure_future(rotate_all(rotation))
            try:
                await asyncio.shield(under_way)
            finally:
                await under_way  # its threads rename files, which are read next
            await asyncio.sleep(0.02)

    seen = await written_and_followed(runtime, tmp_path, LINES, lambda *given: often(rotation(*given)))
    expected = [b"%08d" % number for number in range(1, LINES + 1)]
    files = sorted((tmp_path / "default_web_uid" / "main").iterdir())
    assert len(files) > 2
    assert [file for file in files if file.suffix == ".gz"], "what was rotated before the last is compressed"
    assert _numbers(_kept(tmp_path / "default_web_uid" / "main" / "0.log")) == expected
    assert seen == expected


async def written_and_followed(
    runtime: Runtime, log_dir: Path, lines: int, rotate: Callable[[CriClient, ObservedPod], Coroutine[None, None, None]]
) -> list[bytes]:
    """Let a container write this many lines while its log is rotated; return the numbers that a follower reads."""
    logs, seen = log_dir / "default_web_uid", bytearray()
    async with (
        CriClient(runtime.endpoint) as cri,
        owned_pod(cri, cgroup_parent=runtime.cgroup_parent, logs=logs) as pod,
    ):
        await pod.run()
        container_id = await pod.start(pod.container(command=("sh", "-c", WRITES.format(lines=lines))))
        listing = await PodReader(cri, boot=1, owner=OWNER).read(pod.uid)

        async def runs() -> bool:
            return (await cri.container_status(container_id)).container.state == "running"

        async def follow() -> None:
            text = LogText()
            async for block in read_blocks(logs / "main" / "0.log", runs=runs):
                seen.extend(text.feed(block))
                if len(seen) >= lines * LINE:
                    break

        rotating = asyncio.create_task(rotate(cri, listing))
        try:
            async with asyncio.timeout(300):
                await follow()
        finally:
            rotating.cancel()
            await asyncio.gather(rotating, return_exceptions=True)
    return [bytes(seen[at : at + 8]) for at in range(0, len(seen), LINE)]


def _kept(path: Path) -> bytes:
    """Return the contents of the log's files, from the oldest to the current one."""
    files = (*rotated_files(path), path)
    return b"".join(gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in files)


def _numbers(log: bytes) -> list[bytes]:
    """Return the numbers in a log; a runtime may have split a line when it switched to a new file."""
    return [line[:8] for line in LogText().feed(log).splitlines()]


def test_the_oldest_rotated_logs_are_removed_and_the_others_compressed(tmp_path: Path) -> None:
    """Row 113: five files with the current one, all compressed except the newest two."""
    log = tmp_path / "0.log"
    for second in range(6):
        (tmp_path / f"0.log.20261121-00000{second}").write_text(f"{second}")
    (tmp_path / "0.log.20261121-000009.tmp").write_text("half")
    log.write_text("now")
    for _ in range(2):
        remove_excess(log, 5)
        compress_rotated(log)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0.log",
        "0.log.20261121-000002.gz",
        "0.log.20261121-000003.gz",
        "0.log.20261121-000004.gz",
        "0.log.20261121-000005",
    ]
    assert gzip.decompress((tmp_path / "0.log.20261121-000004.gz").read_bytes()) == b"4"


def test_a_log_that_is_still_written_to_is_not_compressed(tmp_path: Path) -> None:
    for second in range(2):
        (tmp_path / f"0.log.20261121-00000{second}").write_text("begun")
    with (tmp_path / "0.log.20261121-000000").open("a"):
        compress_rotated(tmp_path / "0.log")
        assert not list(tmp_path.glob("*.gz"))
    compress_rotated(tmp_path / "0.log")
    assert [path.name for path in tmp_path.glob("*.gz")] == ["0.log.20261121-000000.gz"]


class Refusing(CriClient):
    """A runtime that fails to open a new log."""

    async def reopen_container_log(self, container_id: str) -> None:
        raise RuntimeFailure("reopen_container_log", "UNKNOWN", f"no such container {container_id}")


class Hanging(CriClient):
    """A runtime that does not answer the request to open a new log."""

    def __init__(self, asked: asyncio.Event) -> None:
        super().__init__("unix:///nowhere.sock")
        self.asked = asked

    async def reopen_container_log(self, container_id: str) -> None:
        self.asked.set()
        await asyncio.Event().wait()


class Replacing(CriClient):
    """A runtime that replaces the log by a new file, as conmon does, even if its caller is gone."""

    def __init__(self, path: Path) -> None:
        super().__init__("unix:///nowhere.sock")
        self.path, self.asked, self.go_on = path, asyncio.Event(), asyncio.Event()
        self.work: asyncio.Task[None] | None = None

    async def reopen_container_log(self, container_id: str) -> None:
        self.asked.set()
        self.work = asyncio.create_task(self._reopen())
        await asyncio.shield(self.work)

    async def _reopen(self) -> None:
        await self.go_on.wait()
        draft = self.path.with_suffix(".tmp")
        draft.write_text("new")
        draft.replace(self.path)


async def test_a_log_keeps_its_name_if_the_runtime_does_not_reopen_it(tmp_path: Path) -> None:
    """Row 113: it is renamed back if the runtime does not reopen it."""
    path, listing = _grown(tmp_path)
    async with Refusing("unix:///nowhere.sock") as cri:
        await rotate_all(LogRotation(tmp_path, cri, Shown(listing), LogSettings(max_bytes=10)))
    assert [file.name for file in path.parent.iterdir()] == ["0.log"]


async def test_a_log_is_rotated_from_its_maximum_size_on(tmp_path: Path) -> None:
    """Row 113: containerLogMaxSize is the size from which a log is rotated (processContainer)."""
    _, listing = _grown(tmp_path)
    asked = asyncio.Event()
    async with Hanging(asked) as cri:
        await rotate_all(LogRotation(tmp_path, cri, Shown(listing), LogSettings(max_bytes=101)))
        rotating = asyncio.create_task(rotate_all(LogRotation(tmp_path, cri, Shown(listing), LogSettings(100))))
        asking = asyncio.create_task(asked.wait())
        await asyncio.wait({rotating, asking}, return_when=asyncio.FIRST_COMPLETED)
        assert asked.is_set()
        for task in (rotating, asking):
            task.cancel()
        await asyncio.gather(rotating, asking, return_exceptions=True)


async def test_a_log_keeps_its_name_if_the_worker_ends_during_the_rotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until another worker comes nobody rotates the file, and perhaps none ever comes."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.0)
    path, listing = _grown(tmp_path)
    async with Hanging(asyncio.Event()) as cri:
        rotating = asyncio.create_task(rotate_all(LogRotation(tmp_path, cri, Shown(listing), LogSettings(10))))
        await cri.asked.wait()
        assert not path.exists()
        rotating.cancel()
        await asyncio.gather(rotating, return_exceptions=True)
    assert [file.name for file in path.parent.iterdir()] == ["0.log"]


async def test_a_log_reopened_despite_a_lost_answer_stays_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was lost: the log continues in a new file, and the old one keeps its new name."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.0)
    path, listing = _grown(tmp_path)
    async with Hanging(asyncio.Event()) as cri:
        rotating = asyncio.create_task(rotate_all(LogRotation(tmp_path, cri, Shown(listing), LogSettings(10))))
        await cri.asked.wait()
        path.write_text("new")
        rotating.cancel()
        await asyncio.gather(rotating, return_exceptions=True)
    assert [file.read_text() for file in (*rotated_files(path), path)] == ["x" * 100, "new"]


async def test_a_log_whose_reopening_outlasts_the_worker_is_not_lost(tmp_path: Path) -> None:
    path, listing = _grown(tmp_path)
    async with Replacing(path) as cri:
        rotating = asyncio.create_task(rotate_all(LogRotation(tmp_path, cri, Shown(listing), LogSettings(10))))
        await cri.asked.wait()
        rotating.cancel()
        await asyncio.wait({rotating}, timeout=0.2)
        cri.go_on.set()
        await asyncio.gather(rotating, *filter(None, [cri.work]), return_exceptions=True)
    assert [file.read_text() for file in (*rotated_files(path), path)] == ["x" * 100, "new"]


def _grown(log_dir: Path) -> tuple[Path, ObservedPod]:
    """A log of a hundred bytes, and the pod with its running container."""
    path = log_dir / "default_web_uid" / "main" / "0.log"
    path.parent.mkdir(parents=True)
    path.write_text("x" * 100)
    container = ObservedContainer.model_validate({"id": "c", "name": "main", "state": "running", "log_path": str(path)})
    return path, ObservedPod(uid="uid", name="web", containers=(container,))


@pytest.mark.every_runtime("ReopenContainerLog is the runtime's")
async def test_a_log_renamed_by_a_dead_worker_is_reopened(runtime: Runtime, tmp_path: Path) -> None:
    """Row 113: a worker may die between renaming and reopening; then the container writes to a file that nobody
    rotates."""
    logs = tmp_path / "default_web_uid"
    async with (
        CriClient(runtime.endpoint) as cri,
        owned_pod(cri, cgroup_parent=runtime.cgroup_parent, logs=logs) as pod,
    ):
        await pod.run()
        await pod.start(pod.container(command=("sh", "-c", "while :; do echo well; sleep 0.1; done")))
        listing = await PodReader(cri, boot=1, owner=OWNER).read(pod.uid)
        log = logs / "main" / "0.log"
        log.rename(log.with_name("0.log.20261121-000000"))
        await rotate_all(LogRotation(tmp_path, cri, Shown(listing), LogSettings()))
        await until(lambda: log.exists() and log.stat().st_size > 0)


async def test_of_many_pods_each_has_its_turn_and_one_whose_log_was_just_rotated_has_every_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PODS_PER_TURN", 5)
    pods = [ObservedPod(uid=f"u{number}") for number in range(20)]
    async with Refusing("unix:///nowhere.sock") as cri:
        rotation = LogRotation(tmp_path, cri, Shown(*pods), LogSettings(10))
        rotation._busy_until["u7"] = time.monotonic() + 600
        turns = [[each.uid for each in rotation._listings_in_turn()] for _ in range(4)]
    assert all("u7" in turn and len(turn) < 20 for turn in turns)
    assert sorted({uid for turn in turns for uid in turn}) == sorted(each.uid for each in pods)
    assert sum(map(len, turns)) == 20 + 3  # only the busy one twice


async def test_a_round_over_many_pods_begins_with_the_newest_and_looks_at_none_that_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PODS_PER_TURN", 2)
    pods = Shown(*(ObservedPod(uid=f"u{number}") for number in range(5)))
    async with Refusing("unix:///nowhere.sock") as cri:
        rotation = LogRotation(tmp_path, cri, pods, LogSettings(10))
        first = {each.uid for each in rotation._listings_in_turn()}
        pods.forget("u2")
        turns = [{each.uid for each in rotation._listings_in_turn()} for _ in range(3)]
    assert [first, *turns] == [{"u4", "u3"}, {"u1"}, {"u0"}, {"u4", "u3"}]


async def test_a_foreign_log_is_not_rotated(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.log"
    path.write_text("x" * 100)
    container = ObservedContainer.model_validate({"id": "c", "name": "main", "state": "running", "log_path": str(path)})
    async with Refusing("unix:///nowhere.sock") as cri:
        rotation = LogRotation(tmp_path / "logs", cri, Shown(ObservedPod(containers=(container,))), LogSettings(10))
        await rotate_all(rotation)
    assert path.read_text() == "x" * 100


@pytest.fixture
def planted(tmp_path: Path) -> tuple[Path, Path]:
    """A log with two rotated files, where a pod added links, a FIFO and a hard link; and their targets."""
    path, _ = _grown(tmp_path / "logs")
    secret = tmp_path / "shadow"
    secret.write_text("root's own")
    for second in (1, 9):
        path.with_name(f"0.log.20261121-00000{second}").write_text("ours")
    path.with_name("0.log.20200101-000000").symlink_to(secret)
    path.with_name("0.log.20200101-000001").hardlink_to(secret)
    path.with_name("0.log.20200101-000003.gz").symlink_to(secret)
    os.mkfifo(path.with_name("0.log.20200101-000004"))
    path.with_name("0.log.20261121-000001.tmp").symlink_to(secret)
    return path, secret


def test_links_and_fifos_planted_among_rotated_logs_are_not_followed_or_read(
    planted: tuple[Path, Path],
) -> None:
    """A second name of root's file ends the compression with an error; a link and a FIFO are passed over."""
    path, secret = planted
    with pytest.raises(OSError, match="not a regular file with one name"):
        compress_rotated(path)
    path.with_name("0.log.20200101-000001").unlink()
    compress_rotated(path)
    compressed = [file.name for file in path.parent.iterdir() if file.suffix == ".gz" and not file.is_symlink()]
    assert compressed == ["0.log.20261121-000001.gz"]
    remove_excess(path, 1)
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("root's own", 0o644)
    assert path.with_name("0.log.20200101-000000").is_symlink()


def test_a_log_directory_that_is_a_symlink_is_left_alone(tmp_path: Path) -> None:
    path, _ = _grown(tmp_path / "logs")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    for second in (1, 2, 3):
        (elsewhere / f"0.log.20261121-00000{second}").write_text("root's own")
    path.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(elsewhere)
    for act in (compress_rotated, lambda path: remove_excess(path, 1)):
        with pytest.raises(OSError, match="Not a directory"):
            act(path)
    assert len(list(elsewhere.iterdir())) == 3


async def test_a_log_that_is_a_symlink_is_not_rotated(tmp_path: Path) -> None:
    path, listing = _grown(tmp_path)
    path.unlink()
    (secret := tmp_path / "shadow").write_text("x" * 100)
    path.symlink_to(secret)
    async with Refusing("unix:///nowhere.sock") as cri:
        await rotate_all(LogRotation(tmp_path, cri, Shown(listing), LogSettings(10)))
    assert (path.is_symlink(), [file.name for file in path.parent.iterdir()]) == (True, ["0.log"])


def test_logs_are_read_only_from_regular_files(planted: tuple[Path, Path]) -> None:
    path, _ = planted
    assert [file.name for file in rotated_files(path)] == [
        "0.log.20200101-000001",
        "0.log.20261121-000001",
        "0.log.20261121-000009",
    ]
    for name in ("0.log.20200101-000000", "0.log.20200101-000001", "0.log.20200101-000004"):
        with pytest.raises(OSError, match="not a regular file"):
            open_log_file(path.with_name(name))
