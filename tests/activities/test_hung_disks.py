"""A hung disk delays only the pods that use it.

Holds: A hanging disk delays one pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from activities.between import collection
from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import Outcome
from syncpod.node.pod_threads import DiskSilent
from tests.activities.bench import Bench, PodOnBench, Running, until
from tests.hung_disk import hung_disk

HUNG = 20

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a FUSE file system without fusermount")


def on_disk(bench: Bench, disk: Path) -> PodOnBench:
    """A pod with a hostPath on a disk."""
    return bench.pod(volumes=[{"name": "data", "hostPath": {"path": str(disk), "type": "Directory"}}])


def begin(pod: PodOnBench) -> Running:
    return pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())


@needs_root
async def test_twenty_pods_on_a_hung_disk_delay_no_other_pod(bench: Bench, tmp_path: Path) -> None:
    """The next pod starts, and another is removed, as if they were alone; the hung ones let go when they are asked to.

    Today's measure is being stuck: with a pool that all pods share, nothing here ever ends.
    """
    other = bench.pod()
    await other.create_sandbox()
    with hung_disk(tmp_path / "hung") as disk:
        pods = [on_disk(bench, disk) for _ in range(HUNG)]
        hung = [begin(pod) for pod in pods]
        await until(lambda: _told(hung, "waits to make its directories and volumes: a disk has not answered"))

        started = await bench.pod().create_sandbox()
        assert started.outcome == Outcome.DONE
        await other.kill()
        assert await other.remove()
        assert not other.directory.exists()

        for running in hung:
            running.cancel()
        assert {(await running.result()).outcome for running in hung} == {Outcome.CANCELLED}
        for pod in pods:
            assert await pod.remove()
            assert not pod.directory.exists()


async def _told(running: list[Running], what: str) -> bool:
    return all(any(what in said for said in each.heartbeats) for each in running)


@needs_root
async def test_a_pod_is_deleted_while_a_disk_with_its_files_hangs_and_its_remains_go_later(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "PATIENCE_SECONDS", 0.1)
    pod = bench.pod()
    await pod.create_sandbox()
    with hung_disk(pod.directory / "volumes" / "hung"):
        assert (await pod.delete()).over
        with pytest.raises(DiskSilent, match="a disk does not answer"):
            await pod.remove()
        assert pod.directory.exists()

    async def gone() -> bool:
        with contextlib.suppress(DiskSilent):
            await pod.remove()
        return not pod.directory.exists()

    async with asyncio.timeout(60):
        await until(gone)
