"""Pods that exceed a storage limit are evicted; the others continue, even if a disk hangs.

Holds: A hanging disk delays one pod.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.eviction import storage_limits as module
from syncpod.agent.eviction.disk_usage import DiskUsage, disk_usage
from syncpod.agent.eviction.storage_limits import LocalStorageEviction
from syncpod.cri import CriRuntime
from syncpod.cri.client import CriClient
from syncpod.cri.port import ContainerStats, FilesystemUsage
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import Evict
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.reader import PodReader
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import etc_hosts_file, log_directory_of, pod_directory, volume_directory
from tests.agent import listings
from tests.agent.listings import unavailable
from tests.agent.waiting import until, until_asked
from tests.node.owned_pods import owned_pod
from tests.runtimes.runtime import Runtime

MI = 2**20
CACHE = {"name": "cache", "emptyDir": {"sizeLimit": "1Mi"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}
IN_MEMORY = {"name": "fast", "emptyDir": {"sizeLimit": "1Mi", "medium": "Memory"}}


@dataclass
class Layers:
    """A runtime that reports writable layers by sandbox; it never answers for the sandbox `hangs`."""

    used: dict[str, dict[str, int]] = field(default_factory=dict)
    hangs: str = ""
    asked: int = 0

    async def list_container_stats(self, *, sandbox_id: str, timeout_seconds: float) -> tuple[ContainerStats, ...]:
        self.asked += 1
        if sandbox_id == self.hangs:
            raise unavailable()
        uid = sandbox_id.removesuffix("-sandbox")
        return tuple(
            ContainerStats(f"{uid}-{name}", name.partition(".")[0], FilesystemUsage("/", None, size, 1))
            for name, size in self.used.get(sandbox_id, {}).items()
        )


@dataclass
class Workflows:
    """Records the signals to pods; the first `away` signals fail, and `unknown` pods have no workflow."""

    told: list[tuple[PodRef, Evict]] = field(default_factory=list)
    away: int = 0
    unknown: bool = False

    async def send(self, ref: PodRef, order: Evict) -> bool:
        if self.away:
            self.away -= 1
            raise RPCError("no connection", RPCStatusCode.UNAVAILABLE, b"")
        self.told.append((ref, order))
        return not self.unknown

    @property
    def messages(self) -> dict[str, str]:
        return {ref.name: order.message for ref, order in self.told}


class Scene:
    """A node in a directory, with pods set up by their records and files."""

    def __init__(self, directory: Path) -> None:
        self.node = NodeContext(
            name="n",
            state_dir=directory / "state",
            memory_dir=directory / "memory",
            log_dir=directory / "logs",
            cluster="c/default",
        )
        self.layers, self.workflows = Layers(), Workflows()
        self.running: dict[str, ObservedPod] = {}
        self.storage = LocalStorageEviction(
            self.node, cast("CriRuntime", self.layers), self.running.get, self.workflows.send
        )

    def pod(self, name: str, *volumes: dict[str, Any], limit: str | None = None, life: str = "life-1") -> Pod:
        """Create a pod with these volumes, whose container `web` has this limit of ephemeral-storage."""
        limits = {} if limit is None else {"limits": {"ephemeral-storage": limit}}
        pod = Pod.model_validate(
            {
                "metadata": {"name": name, "namespace": "default", "uid": f"u-{name}"},
                "spec": {"containers": [{"name": "web", "image": "x", "resources": limits}], "volumes": list(volumes)},
            }
        )
        uid = pod.metadata.uid
        pod_directory(self.node, uid).mkdir(parents=True, exist_ok=True)
        write_pod_record(self.node, PodRecord(pod=pod, incarnation=life))
        self.running[uid] = listings.pod(uid, web="running")
        return pod

    def fill(self, pod: Pod, volume: str, size: int) -> None:
        """Write this many bytes into a volume."""
        source = next(each for each in pod.spec.volumes if each.name == volume)
        directory = volume_directory(self.node, pod.metadata.uid, source)
        assert directory is not None
        write(directory / "file", size)

    async def look(self) -> None:
        """Run one check, and everything that it starts."""
        await asyncio.gather(*await self.storage.look())


def write(file: Path, size: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)


@pytest_asyncio.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(module, "REST", 0.0)
    monkeypatch.setattr(module, "_RETRY_SECONDS", (0.001, 0.001))
    scene = Scene(tmp_path)
    yield scene
    await scene.storage.close()


async def test_a_pod_with_a_volume_over_its_limit_is_evicted_once(scene: Scene) -> None:
    """Row 118: an emptyDir's sizeLimit."""
    web = scene.pod("web", CACHE)
    scene.fill(web, "cache", MI // 2)
    await scene.look()
    assert scene.workflows.told == []

    scene.fill(web, "cache", 2 * MI)
    await scene.look()
    await scene.look()
    ((ref, order),) = scene.workflows.told
    assert ref == PodRef(namespace="default", name="web", uid="u-web", incarnation="life-1")
    assert order == Evict(
        uid="u-web",
        reason="Evicted",
        message='Usage of EmptyDir volume "cache" exceeds the limit "1Mi". ',
        grace_period_seconds=1,
    )


async def test_an_eviction_is_sent_until_the_server_accepts_it(scene: Scene) -> None:
    scene.fill(scene.pod("web", CACHE), "cache", 2 * MI)
    scene.workflows.away = 3
    await scene.look()
    assert list(scene.workflows.messages) == ["web"]


async def test_pods_without_a_storage_limit_are_not_measured(scene: Scene) -> None:
    scene.fill(scene.pod("web", SCRATCH), "scratch", 2 * MI)
    assert await scene.storage.look() == ()
    assert scene.layers.asked == 0


async def test_a_memory_volume_that_is_a_plain_directory_is_limited_to_its_size(scene: Scene) -> None:
    scene.fill(scene.pod("web", IN_MEMORY), "fast", 2 * MI)
    await scene.look()
    assert scene.workflows.messages["web"].startswith('Usage of EmptyDir volume "fast"')


async def test_pod_usage_counts_layers_logs_volumes_and_the_hosts_file(scene: Scene) -> None:
    """Row 118: limits of ephemeral-storage."""
    web = scene.pod("web", SCRATCH, limit="4Mi")
    scene.fill(web, "scratch", MI)
    logs = log_directory_of(web, scene.node) / "web"
    write(logs / "0.log", MI)
    write(logs / "0.log.20260101-000000", MI // 2)
    write(etc_hosts_file(scene.node, web.metadata.uid), MI // 4)
    scene.layers.used = {"u-web-sandbox": {"web": MI}}
    await scene.look()
    assert scene.workflows.told == []

    scene.layers.used = {"u-web-sandbox": {"web": MI, "web.dead": 8 * MI}}
    await scene.look()
    assert scene.workflows.told == []

    scene.layers.used = {"u-web-sandbox": {"web": MI + MI // 2}}
    await scene.look()
    assert scene.workflows.messages == {
        "web": "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. "
    }


async def test_a_pod_without_running_containers_is_not_measured(scene: Scene) -> None:
    web = scene.pod("web", CACHE)
    scene.fill(web, "cache", 2 * MI)
    del scene.running["u-web"]
    await scene.look()
    scene.running["u-web"] = ObservedPod(uid="u-web")
    await scene.look()
    assert scene.workflows.told == []


async def test_a_new_incarnation_is_measured_anew_and_a_removed_pod_forgotten(scene: Scene) -> None:
    web = scene.pod("web", CACHE)
    scene.fill(web, "cache", 2 * MI)
    await scene.look()
    scene.pod("web", CACHE, life="life-2")
    await scene.look()
    assert [ref.incarnation for ref, _ in scene.workflows.told] == ["life-1", "life-2"]

    (pod_directory(scene.node, "u-web") / "pod.json").unlink()
    await scene.look()
    scene.pod("web", CACHE, life="life-2")
    await scene.look()
    assert [ref.incarnation for ref, _ in scene.workflows.told] == ["life-1", "life-2", "life-2"]


async def test_a_pod_with_a_hung_disk_delays_no_other_and_is_judged_when_the_disk_answers(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()
    counts = disk_usage

    def hangs_for_some(directory: Path, *, seconds: float, own_mount: bool = True) -> DiskUsage:
        if "u-hung" in str(directory):
            answers.wait(60)
        return counts(directory, seconds=seconds, own_mount=own_mount)

    monkeypatch.setattr(module, "disk_usage", hangs_for_some)
    monkeypatch.setattr(module, "COUNT_SECONDS", 0.05)
    for number in range(4):
        scene.fill(scene.pod(f"hung-{number}", CACHE), "cache", 2 * MI)
    scene.fill(scene.pod("web", CACHE), "cache", 2 * MI)
    try:
        await scene.storage.look()
        await until(lambda: caplog.text.count("its disk does not answer") == 4)
        await until(lambda: "web" in scene.workflows.messages)
        await scene.storage.look()
        assert list(scene.workflows.messages) == ["web"]
    finally:
        answers.set()
    await scene.look()
    assert len(scene.workflows.told) == 5


async def test_without_layer_statistics_volumes_are_still_judged_and_a_warning_logged_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    web = scene.pod("web", CACHE, limit="1Gi")
    scene.layers.hangs = "u-web-sandbox"
    await scene.look()
    await scene.look()
    complaints = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(complaints) == 1
    scene.fill(web, "cache", 2 * MI)
    await scene.look()
    assert list(scene.workflows.messages) == ["web"]


async def test_a_slow_measurement_is_repeated_less_often(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 1e9)
    scene.pod("web", CACHE)
    await scene.look()
    assert await scene.storage.look() == ()


async def test_many_pods_are_measured_in_turn(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_A_ROUND", 2)
    for number in range(5):
        scene.fill(scene.pod(f"web-{number}", CACHE), "cache", MI // 2)
    scene.fill(scene.pod("full", CACHE), "cache", 2 * MI)
    for _ in range(3):
        assert len(await scene.storage.look()) == 2
        await scene.look()
    assert list(scene.workflows.messages) == ["full"]


@pytest.mark.every_runtime("the runtime reports the size of a layer")
async def test_a_container_that_fills_its_writable_layer_is_evicted_on_every_runtime(
    runtime: Runtime, tmp_path: Path
) -> None:
    scene = Scene(tmp_path)
    owner = f"n-{uuid.uuid4()}"
    async with (
        CriClient(runtime.endpoint) as cri,
        owned_pod(cri, cgroup_parent=runtime.cgroup_parent, logs=tmp_path / "logs", owner=owner) as pod,
    ):
        await pod.run()
        await pod.start(pod.container("quiet"))
        busy = pod.container("busy", ("sh", "-c", "dd if=/dev/zero of=/root/file bs=1M count=4; sleep 1000"))
        await pod.start(busy)
        reader = PodReader(cri, boot=1, owner=owner)
        resources = {"limits": {"ephemeral-storage": "1Mi"}}
        record = Pod.model_validate(
            {
                "metadata": {"name": "web", "namespace": "default", "uid": pod.uid},
                "spec": {
                    "containers": [
                        {"name": "quiet", "image": "x", "resources": {"limits": {"ephemeral-storage": "1Gi"}}},
                        {"name": "busy", "image": "x", "resources": resources},
                    ]
                },
            }
        )
        pod_directory(scene.node, pod.uid).mkdir(parents=True)
        write_pod_record(scene.node, PodRecord(pod=record))
        scene.running[pod.uid] = await reader.read(pod.uid)
        storage = LocalStorageEviction(scene.node, cri, scene.running.get, scene.workflows.send)

        async def told() -> bool:
            await asyncio.gather(*await storage.look())
            return bool(scene.workflows.told)

        await until_asked(told, patience=120, pause=0.5)  # containerd itself measures layers each ten seconds
        assert scene.workflows.messages == {"web": 'Container busy exceeded its local ephemeral storage limit "1Mi". '}
        used: dict[str, int] = {}

        async def written() -> bool:
            stats = await cri.list_container_stats(sandbox_id=pod.sandbox_id, timeout_seconds=10)
            used.update(
                {each.name: each.writable_layer.used_bytes for each in stats if each.writable_layer is not None}
            )
            return used["busy"] >= 4 * MI

        await until_asked(written, patience=120, pause=0.5)  # it may have been measured while it was writing
        assert used["busy"] < 5 * MI
        assert used["quiet"] < MI
        await storage.close()
