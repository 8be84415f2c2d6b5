"""The disk of a node's state, logs and memory is full: pods wait with a reason, and continue once there is space.

Holds: A full disk leaves nothing half-written.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.faults_disk import FULL, NO_EVICTION, filled, small_disk
from tests.e2e.faults_support import RUNS, FaultyNode, Pod, faulty_node, shell, until
from tests.e2e.words import says, waits_for
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def faulty(
    runtime: Runtime, temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[FaultyNode]:
    with small_disk(tmp_path_factory.mktemp("disk")) as disk:
        async with faulty_node(runtime, temporal_server, disk) as node:
            yield node


def labelled(pod: Pod, labels: dict[str, str]) -> dict[str, Any]:
    return {**pod.document, "metadata": {**pod.document["metadata"], "labels": labels}}


async def shown(pod: Pod) -> str:
    """The pod's labels in its container's file."""
    done = await pod.node.cri.exec_sync((await pod.live("web")).id, ("cat", "/info/labels"), timeout_seconds=20)
    return done.stdout.decode().strip()


async def nothing_half_written(directory: Path) -> bool:
    """Return whether no new file is left. One may exist briefly: a state is written a second after publication."""
    return halves(directory) == []


def halves(directory: Path) -> list[str]:
    """Leftover drafts, and records that cannot be read."""
    found = [str(path) for path in directory.rglob(".*.new")]
    for record in directory.glob("state/**/*.json"):
        try:
            json.loads(record.read_text())
        except ValueError:
            found.append(str(record))
    return found


async def test_a_full_disk_affects_only_operations_that_write(node: FaultyNode) -> None:
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
    with filled(node.directory) as fill:
        late = await node.apply(web, volumes=volumes)
        await late.until_event("Failed", FULL)
        pod = await late.get()
        (status,) = pod["status"]["containerStatuses"]
        assert (pod["status"]["phase"], status["state"]["waiting"]["reason"]) == ("Pending", "ContainerCreating")
        await early.handle.signal("update_pod", labelled(early, {"tier": "during"}))
        await early.until(lambda pod: pod["metadata"].get("labels") == {"tier": "during"})
        await early.until_event("FailedMount", FULL)
        assert await shown(early) == 'tier="before"'
        assert await early.live("web") == container
        assert halves(node.directory) == []
        # A worker that cannot store its life number does not serve, and reports that; the pods keep running.
        await node.kill()
        node.worker.output.write_bytes(b"")  # else the next process would free this block and use it
        fill()
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
    await until(partial(nothing_half_written, node.directory))
    await asyncio.gather(early.delete(), late.delete())


async def test_a_container_is_restarted_on_a_full_disk(node: FaultyNode) -> None:
    await node.kill()
    await node.serve(**NO_EVICTION)
    mount = {"volumeMounts": [{"name": "go", "mountPath": "/go"}]}
    once = f"{RUNS[: RUNS.index('while')]}{waits_for('/go/on')}; exit 3"
    pod = await node.apply(shell("web", once, **mount), volumes=[{"name": "go", "emptyDir": {"medium": "Memory"}}])
    await pod.running()
    with filled(node.directory):
        done = await node.cri.exec_sync((await pod.live("web")).id, ("sh", "-c", says("/go/on")), timeout_seconds=20)
        assert done.exit_code in (0, 137), done  # the container that it tells to end may take it along
        await pod.running(web=1)
        await pod.assert_whole(web=1)
    await pod.delete()


async def test_a_pod_that_fills_the_disk_can_be_deleted(node: FaultyNode) -> None:
    await node.kill()
    await node.serve(**NO_EVICTION)
    fills = f"{RUNS[: RUNS.index('echo up')]}cat /dev/zero >/full/all; {RUNS[RUNS.index('echo up') :]}"
    pod = await node.apply(
        shell("fills", fills, volumeMounts=[{"name": "full", "mountPath": "/full"}]),
        volumes=[{"name": "full", "emptyDir": {}}],
    )
    await pod.running()
    await until(lambda: asyncio.to_thread(is_full, node.directory))
    await pod.delete()
    assert not is_full(node.directory)


def is_full(disk: Path) -> bool:
    """Return whether the disk is full to the last byte."""
    return os.statvfs(disk).f_bfree == 0


async def said(pod: Pod, labels: str) -> bool:
    """Return whether the pod's container reads these labels."""
    return await shown(pod) == labels
