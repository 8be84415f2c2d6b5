"""A disk that is full, below state, logs and memory of a node: pods wait and say why, and go on when there is space."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.faults_support import FaultyNode, Pod, faulty_node, shell, until
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

FULL = "No space left on device"
NO_EVICTION = {"SYNCPOD_EVICTION_HARD": "none"}
"""A node that is short of disk would else put its pods out, which is another story."""


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system of eight megabytes."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0755", "tmpfs", directory], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def faulty(
    runtime: Runtime, temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[FaultyNode]:
    with small_disk(tmp_path_factory.mktemp("disk")) as disk:
        async with faulty_node(runtime, temporal_server, disk) as node:
            yield node


@contextlib.contextmanager
def filled(node: FaultyNode) -> Iterator[None]:
    """Leave no byte on the node's disk for the block."""
    ballast = node.directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = 1 << 16
        while size:
            try:
                file.write(b"\0" * size)
            except OSError as error:
                assert error.errno == errno.ENOSPC
                size //= 2
    try:
        yield
    finally:
        ballast.unlink()


def labelled(pod: Pod, labels: dict[str, str]) -> dict[str, Any]:
    return {**pod.document, "metadata": {**pod.document["metadata"], "labels": labels}}


async def shown(pod: Pod) -> str:
    """The labels that the pod's container reads in its file."""
    done = await pod.node.cri.exec_sync((await pod.live("web")).id, ("cat", "/info/labels"), timeout_seconds=20)
    return done.stdout.decode().strip()


def halves(directory: Path) -> list[str]:
    """Drafts that lie about, and records that nobody can read."""
    found = [str(path) for path in directory.rglob(".*.new")]
    for record in directory.glob("state/**/*.json"):
        try:
            json.loads(record.read_text())
        except ValueError:
            found.append(str(record))
    return found


async def test_a_full_disk_stops_what_writes_and_nothing_else(node: FaultyNode) -> None:
    await node.kill()
    await node.serve(**NO_EVICTION)
    web = shell("web", volumeMounts=[{"name": "info", "mountPath": "/info"}])
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    volumes = [{"name": "info", "downwardAPI": {"items": items}}, {"name": "empty", "emptyDir": {}}]
    early = await node.apply(web, volumes=volumes)
    await early.handle.signal("update_pod", labelled(early, {"tier": "before"}))
    await early.running()
    await until(lambda: said(early, 'tier="before"'))
    container = await early.live("web")
    with filled(node):
        late = await node.apply(web, volumes=volumes)
        await late.until_event("Failed", f"error making pod data directories: [Errno 28] {FULL}")
        pod = await late.get()
        (status,) = pod["status"]["containerStatuses"]
        assert (pod["status"]["phase"], status["state"]["waiting"]["reason"]) == ("Pending", "ContainerCreating")
        await early.handle.signal("update_pod", labelled(early, {"tier": "during"}))
        await early.until(lambda pod: pod["metadata"].get("labels") == {"tier": "during"})
        await early.until_event("FailedMount", FULL)
        assert await shown(early) == 'tier="before"'
        assert await early.live("web") == container
        assert halves(node.directory) == []
        # A worker that cannot count its life serves nobody, and says so; what runs runs on.
        await node.kill()
        with node.worker_process(node.directory, **NO_EVICTION) as refused:
            assert await refused.ended() == 2, refused.log.read_text()[-4000:]
            assert "Traceback" not in refused.log.read_text().rpartition("syncpod worker: ")[2]
        assert await early.live("web") == container
    await node.serve(**NO_EVICTION)
    for pod_, held in ((early, "sync_volumes"), (late, "create_sandbox")):
        await pod_.handle.signal("backoff_expired", {"container": held})
    await late.running()
    await until(lambda: said(early, 'tier="during"'))
    assert await early.live("web") == container
    for whole in (early, late):
        await whole.assert_whole(sandbox=None)
    assert halves(node.directory) == []
    await asyncio.gather(early.delete(), late.delete())


async def said(pod: Pod, labels: str) -> bool:
    """Say whether the pod's container reads these labels."""
    return await shown(pod) == labels
