"""Pods whose disks hang hold up themselves, and nobody else.

Holds: A hanging disk delays one pod.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from activities.pods import removal
from syncpod.lifecycle.step_name import StepName
from syncpod.messages.steps import Outcome, RemovePod, StepResult
from tests.activities.bench import Bench, PodOnBench, Running, until
from tests.hung_disk import hung_disk

HUNG = 20

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a FUSE file system without fusermount")


def on_disk(bench: Bench, disk: Path) -> PodOnBench:
    """A pod with a hostPath on a disk."""
    return bench.pod(volumes=[{"name": "data", "hostPath": {"path": str(disk), "type": "Directory"}}])


def begin(pod: PodOnBench) -> Running:
    return pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())


def remove(pod: PodOnBench, *, forced: bool = False) -> Running:
    return pod.step(StepName.REMOVE_POD, RemovePod(ref=pod.ref, fence=pod.next_fence(), forced=forced))


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
        assert (await other.remove()).outcome == Outcome.DONE
        assert not other.directory.exists()

        for running in hung:
            running.cancel()
        assert {(await running.result()).outcome for running in hung} == {Outcome.CANCELLED}
        for pod in pods:
            assert (await pod.remove()).outcome == Outcome.DONE
            assert not pod.directory.exists()


async def _told(running: list[Running], what: str) -> bool:
    return all(any(what in said for said in each.heartbeats) for each in running)


@needs_root
async def test_a_hung_removal_is_reported_and_a_forced_deletion_frees_the_name(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "FORCED_SECONDS", 0.1)
    pod = bench.pod()
    await pod.create_sandbox()
    await pod.kill()
    with hung_disk(pod.directory / "volumes" / "hung"):
        removing = remove(pod)
        await until(lambda: _told([removing], "waits to remove its directories and volumes: a disk has not answered"))
        removing.cancel()
        assert (await removing.result()).outcome == Outcome.STOPPING
        forced: StepResult = await remove(pod, forced=True).result()
        assert forced.outcome == Outcome.DONE
        [event] = [each for each in forced.events if each.reason == "RemainsLeft"]
        assert "a disk does not answer" in event.message

    async def gone() -> bool:
        await remove(pod, forced=True).result()
        return not pod.directory.exists()

    async with asyncio.timeout(60):
        await until(gone)
