"""Logs of running containers are rotated, and no line of them is lost."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from syncpod.agent.log_rotation import LogLimits, LogRotation, clear_rotated
from syncpod.cri.client import CriClient
from syncpod.cri.errors import RuntimeFailure
from syncpod.cri.reader import PodReader
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from tests.cri.owned_pods import OWNER, owned_pod
from tests.runtimes.runtime import Runtime

BATCHES, BATCH = 100, 300
COUNTS = (
    f"i=0; while [ $i -lt {BATCHES} ]; do seq $((i*{BATCH}+1)) $((i*{BATCH}+{BATCH})); i=$((i+1)); sleep 0.03; done;"
    " while :; do sleep 0.1; done"
)
LINES = BATCHES * BATCH


def seconds() -> Iterator[datetime]:
    """A clock that has moved on by a second each time it is looked at."""
    at = datetime(2026, 11, 21, tzinfo=UTC)
    while True:
        at += timedelta(seconds=1)
        yield at


async def test_no_line_is_lost_while_a_container_writes_as_fast_as_it_can(runtime: Runtime, tmp_path: Path) -> None:
    clock = seconds()
    logs = tmp_path / "default_web_uid"
    async with (
        CriClient(runtime.endpoint) as cri,
        owned_pod(cri, cgroup_parent=runtime.cgroup_parent, logs=logs) as pod,
    ):
        await pod.run()
        await pod.start(pod.container(command=("sh", "-c", COUNTS)))
        reader = PodReader(cri, boot=1, owner=OWNER)
        listing = await reader.read(pod.uid)
        limits = LogLimits(max_bytes=20_000, max_files=1000)
        rotation = LogRotation(tmp_path, cri, lambda: [listing], limits, now=lambda: next(clock))
        async with asyncio.timeout(120):
            while str(LINES) not in _numbers(logs / "main").split()[-1:]:
                await rotation.rotate_all()
                await asyncio.sleep(0.02)
    files = sorted(path.name for path in (logs / "main").iterdir())
    assert len(files) > 3
    assert _numbers(logs / "main").split() == [str(number) for number in range(1, LINES + 1)]
    assert [name for name in files if name.endswith(".gz")], "what was rotated before the last is compressed"


def _numbers(directory: Path) -> str:
    """What the container wrote, from the oldest file to the growing one."""
    rotated = sorted(directory.glob("0.log.*"))
    whole = "".join(
        gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text() for file in rotated
    )
    current = directory / "0.log"
    whole += current.read_text() if current.exists() else ""
    return "".join(line.split(" ", 3)[3] + "\n" for line in whole.splitlines() if line.count(" ") >= 3)


def test_the_oldest_go_and_the_others_are_compressed(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    for second in range(6):
        (tmp_path / f"0.log.20261121-00000{second}").write_text(f"{second}")
    (tmp_path / "0.log.20261121-000009.tmp").write_text("half")
    log.write_text("now")
    clear_rotated(log, 5)
    clear_rotated(log, 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0.log",
        "0.log.20261121-000003.gz",
        "0.log.20261121-000004.gz",
        "0.log.20261121-000005.gz",
    ]
    assert gzip.decompress((tmp_path / "0.log.20261121-000005.gz").read_bytes()) == b"5"


class Refusing(CriClient):
    """A runtime that does not begin a new log."""

    async def reopen_container_log(self, container_id: str) -> None:
        raise RuntimeFailure("reopen_container_log", "UNKNOWN", f"no such container {container_id}")


async def test_a_log_that_cannot_be_begun_anew_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "default_web_uid" / "main" / "0.log"
    path.parent.mkdir(parents=True)
    path.write_text("x" * 100)
    container = ObservedContainer.model_validate({"id": "c", "name": "main", "state": "running", "log_path": str(path)})
    listing = ObservedPod(uid="uid", name="web", containers=(container,))
    async with Refusing("unix:///nowhere.sock") as cri:
        await LogRotation(tmp_path, cri, lambda: [listing], LogLimits(max_bytes=10)).rotate_all()
    assert [file.name for file in path.parent.iterdir()] == ["0.log"]


async def test_what_is_no_log_of_ours_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.log"
    path.write_text("x" * 100)
    container = ObservedContainer.model_validate({"id": "c", "name": "main", "state": "running", "log_path": str(path)})
    async with Refusing("unix:///nowhere.sock") as cri:
        rotation = LogRotation(tmp_path / "logs", cri, lambda: [ObservedPod(containers=(container,))], LogLimits(10))
        await rotation.rotate_all()
    assert path.read_text() == "x" * 100
