"""A node short of resources sets conditions, reclaims, and evicts one pod at a time, in the kubelet's order."""

from __future__ import annotations

import asyncio
import threading
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.eviction import evictor as evictor_module
from syncpod.agent.eviction import observations as module
from syncpod.agent.eviction.evictor import Evictor
from syncpod.agent.eviction.node_pressure import NodePressure
from syncpod.agent.eviction.observations import NodeMeasurement, NodeObservations, available_memory, available_pids
from syncpod.agent.eviction.shortage_usage import ActivePod, PodUsages
from syncpod.agent.storage.image_gc import ImageGcFailed
from syncpod.cri import CriRuntime
from syncpod.cri.client import CriClient
from syncpod.cri.port import ContainerStats, FilesystemUsage, ImageFsInfo
from syncpod.lifecycle.eviction import RESOURCES, EvictionPolicy, Observation, Signal
from syncpod.lifecycle.eviction_ranking import Candidate, ContainerUsage, PodUsage, Written
from syncpod.lifecycle.eviction_settings import EvictionSettings, eviction_policy
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import Evict
from syncpod.node import disks
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.reader import PodReader
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.agent.waiting import until, until_asked
from tests.node.owned_pods import owned_pod
from tests.runtimes.runtime import Runtime

MI = 2**20
PLENTY = Observation(900, 1000)
POLICY = eviction_policy(
    EvictionSettings(
        hard="memory.available<100,nodefs.available<100,nodefs.inodesFree<0%,imagefs.available<0%,imagefs.inodesFree<0%"
    )
)


@dataclass
class Scene:
    """A node whose measurements and pod usages the test sets."""

    signals: dict[Signal, Observation] = field(default_factory=lambda: dict.fromkeys(RESOURCES, PLENTY))
    dedicated: bool = False
    used: dict[str, int] = field(default_factory=dict)
    critical: str = ""
    grace: int = 30
    without_workflow: str = ""
    away: bool = False
    frees: int = 0
    """How many bytes of the disk a reclaim frees."""
    told: list[Evict] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    """The limit in seconds of the wait for the end of each pod."""
    hangs: asyncio.Event | None = None
    """While it is not set, the removal of images does not end; None: it ends at once."""
    reclaimed: list[str] = field(default_factory=list)
    conditions: list[tuple[str, ...]] = field(default_factory=list)
    pressure: NodePressure = field(default_factory=NodePressure)

    def evictor(self, policy: EvictionPolicy = POLICY) -> Evictor:
        return Evictor(
            policy,
            self,
            cast("PodUsages", Usages(self)),
            self.send,
            pressure=self.pressure,
            wait_for_cleanup=self.wait_for_cleanup,
            reclaim=(self.containers, self.images),
            on_conditions=self.conditions.append,
        )

    def short(self, signal: Signal, available: int = 50) -> None:
        self.signals[signal] = Observation(available, 1000)

    async def measure(self) -> NodeMeasurement:
        return NodeMeasurement(dict(self.signals), self.dedicated)

    def pod(self, uid: str) -> Pod:
        priority = 2_000_000_000 if uid == self.critical else 0
        spec = {
            "containers": [{"name": "c", "image": "x"}],
            "priority": priority,
            "terminationGracePeriodSeconds": self.grace,
        }
        return Pod.model_validate({"metadata": {"name": uid, "uid": uid}, "spec": spec})

    async def send(self, ref: PodRef, order: Evict) -> bool:
        if self.away:
            raise RPCError("no connection", RPCStatusCode.UNAVAILABLE, b"")
        if ref.uid == self.without_workflow:
            return False
        self.told.append(order)
        return True

    async def wait_for_cleanup(self, uid: str, *, seconds: float) -> bool:
        self.waited.append(seconds)
        return True

    async def containers(self) -> None:
        self.reclaimed.append("containers")

    async def images(self) -> None:
        self.reclaimed.append("images")
        if self.hangs is not None:
            await self.hangs.wait()
        now = self.signals["nodefs.available"]
        self.signals["nodefs.available"] = Observation(now.available + self.frees, now.capacity)
        if self.frees < 0:
            raise ImageGcFailed("ImageGCFailed", "read-only file system")


@dataclass
class Usages:
    """The usages of a scene's pods."""

    scene: Scene

    async def active(self) -> dict[str, ActivePod]:
        return {
            uid: ActivePod(PodRef(namespace="default", name=uid, uid=uid), self.scene.pod(uid), (), Path("/none"))
            for uid in self.scene.used
        }

    async def measure(self, pods: dict[str, ActivePod], signal: Signal) -> tuple[Candidate, ...]:
        return tuple(Candidate(pod.pod, self._usage(self.scene.used[uid])) for uid, pod in pods.items())

    def _usage(self, used: int) -> PodUsage:
        return PodUsage((ContainerUsage("c", used, Written(used), Written(0)),))


async def test_nothing_is_evicted_without_pressure() -> None:
    """Row 118: no threshold met."""
    scene = Scene(used={"web": 5})
    assert await scene.evictor().round() is None
    assert (scene.told, scene.reclaimed, scene.conditions) == ([], [], [])


async def test_one_pod_at_a_time_is_evicted_by_usage_and_never_a_critical_one() -> None:
    """Row 118: one pod per interval, grace 1 s, DisruptionTarget; critical pods are exempt."""
    scene = Scene(used={"small": 5 * MI, "big": 9 * MI, "system": 99 * MI}, critical="system")
    scene.short("memory.available")
    evictor = scene.evictor()
    assert [(await evictor.round() or PodRef()).uid for _ in range(3)] == ["big", "small", ""]
    assert scene.told[0] == Evict(
        uid="big",
        message="The node was low on resource: memory. Threshold quantity: 100, available: 50. "
        "Container c was using 9Mi, request is 0, has larger consumption of memory. ",
        grace_period_seconds=1,
        disruption=True,
    )
    assert scene.reclaimed == [], "no image is memory"


@pytest.mark.parametrize(
    ("hard", "own", "granted", "waited"), [(True, 120, 1, 40), (False, 5, 5, 40), (False, 120, 120, 210)]
)
async def test_an_evicted_pod_is_awaited_according_to_its_grace(
    hard: bool, own: int, granted: int, waited: float
) -> None:
    """Row 118: killPodNow blocks for max(10 s, 1.5 times the grace), and podCleanupTimeout counts from there."""
    met = "memory.available<100"
    soft = EvictionSettings(hard="none", soft=met, soft_grace_period="memory.available=1ms", max_pod_grace_period="600")
    scene = Scene(used={"web": 5}, grace=own)
    scene.short("memory.available")
    evictor = scene.evictor(eviction_policy(EvictionSettings(hard=met) if hard else soft))

    async def evicts() -> bool:
        return await evictor.round() is not None

    await until_asked(evicts)
    assert [order.grace_period_seconds for order in scene.told] == [granted]
    assert scene.waited == [waited]


async def test_unused_images_and_dead_containers_are_removed_before_any_eviction() -> None:
    """Row 118: reclaim dead containers and unused images before a pod is evicted."""
    scene = Scene(used={"web": 5}, frees=400)
    scene.short("nodefs.available")
    assert await scene.evictor().round() is None
    assert (scene.reclaimed, scene.told) == (["containers", "images"], [])


@pytest.mark.parametrize("frees", [10, -10])
async def test_a_pod_is_evicted_if_reclaiming_fails_or_is_not_enough(frees: int) -> None:
    """Row 118: reclaim first, then evict."""
    scene = Scene(used={"web": 5}, frees=frees)
    scene.short("nodefs.available")
    assert (await scene.evictor().round() or PodRef()).uid == "web"
    assert scene.reclaimed == ["containers", "images"]


async def test_a_hung_removal_does_not_block_an_eviction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 118: nor is it started again before it has ended; afterwards it is."""
    monkeypatch.setattr(evictor_module, "RECLAIM_SECONDS", 0.05)
    scene = Scene(used={"first": 9, "second": 5, "third": 2}, hangs=asyncio.Event())
    scene.short("nodefs.available")
    evictor = scene.evictor()
    for uid in ("first", "second"):
        assert (await evictor.round() or PodRef()).uid == uid
    assert scene.reclaimed == ["containers", "images", "containers"]
    assert scene.hangs is not None
    scene.hangs.set()
    assert (await evictor.round() or PodRef()).uid == "third"
    await evictor.round()
    assert scene.reclaimed[3:] == ["containers", "containers", "images"]


async def test_the_evictor_restarts_after_an_internal_error_during_a_removal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evictor_module, "RECLAIM_SECONDS", 0.05)
    scene = Scene(used={"first": 9, "second": 5}, hangs=asyncio.Event())
    scene.short("nodefs.available")
    evictor = scene.evictor()
    measure, looks = scene.measure, 0

    async def fails_at_the_second_look() -> NodeMeasurement:
        nonlocal looks
        looks += 1
        if scene.told and looks > 0:
            looks = -1_000_000
            raise ZeroDivisionError("a defect")
        return await measure()

    monkeypatch.setattr(scene, "measure", fails_at_the_second_look)
    monkeypatch.setattr(evictor, "_period", 0.0)
    with pytest.raises(ZeroDivisionError):
        await evictor.run()
    assert scene.hangs is not None
    scene.hangs.set()
    again = asyncio.create_task(evictor.run())
    await until(lambda: len(scene.told) == 2 or again.done())
    assert not again.done()
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_an_internal_error_in_reclaiming_does_not_block_an_eviction(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(used={"web": 5})
    scene.short("nodefs.available")

    async def fails() -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(scene, "containers", fails)
    assert (await scene.evictor().round() or PodRef()).uid == "web"
    assert scene.reclaimed == ["images"]
    assert "because of a defect" in caplog.text
    assert "a defect" in caplog.text


async def test_images_on_a_dedicated_disk_are_not_removed_for_nodefs_pressure() -> None:
    """Row 118: buildSignalToNodeReclaimFuncs, with a dedicated imagefs."""
    scene = Scene(used={"web": 5}, dedicated=True)
    scene.short("nodefs.available")
    await scene.evictor().round()
    assert scene.reclaimed == []
    assert len(scene.told) == 1


async def test_a_pod_without_a_workflow_is_skipped_and_no_pod_is_evicted_during_a_server_outage() -> None:
    """Row 118: a pod that cannot be signalled is not evicted."""
    scene = Scene(used={"small": 5, "lost": 9}, without_workflow="lost", away=True)
    scene.short("memory.available")
    evictor = scene.evictor()
    assert await evictor.round() is None
    scene.away = False
    assert (await evictor.round() or PodRef()).uid == "small"


async def test_a_pressure_condition_is_reported_and_rejects_pods() -> None:
    """Row 118: MemoryPressure refuses best-effort pods, with the kubelet's message."""
    scene = Scene(used={})
    evictor = scene.evictor()
    assert scene.pressure.admission_refusal(scene.pod("new")) == ""
    scene.short("memory.available")
    await evictor.round()
    assert scene.pressure.admission_refusal(scene.pod("new")) == "The node had condition: [MemoryPressure]. "
    scene.short("memory.available", 900)
    await evictor.round()
    assert scene.pressure.admission_refusal(scene.pod("new")) != "", "for five minutes more"
    assert scene.conditions == [("MemoryPressure",)]


async def test_nothing_is_measured_without_thresholds() -> None:
    """Row 118: every threshold can be removed."""
    async with asyncio.timeout(5):
        await Scene().evictor(eviction_policy(EvictionSettings(hard="none"))).run()


# --- measuring --------------------------------------------------------------------------------------------------------


@dataclass
class Disks:
    """A runtime that keeps its images in a directory."""

    images: Path

    async def image_fs_info(self) -> ImageFsInfo:
        return ImageFsInfo(image_filesystems=(FilesystemUsage(str(self.images), None, 1, 1),))


def a_node(directory: Path) -> NodeContext:
    return NodeContext(name="n", state_dir=directory, memory_dir=directory, log_dir=directory, cluster="c/default")


def test_available_memory_is_capacity_minus_the_working_set(tmp_path: Path) -> None:
    """Row 118: memory.available = capacity - working set."""
    (tmp_path / "meminfo").write_text(
        "MemTotal:  1000 kB\nMemFree: 100 kB\nInactive(file):  50 kB\nHugePages_Free: 0\n"
    )
    assert available_memory(tmp_path) == Observation(150 * 1024, 1000 * 1024)
    real = available_memory(Path("/proc"))
    assert 0 < real.available < real.capacity


def test_pages_that_are_set_aside_for_huge_pages_are_no_available_memory(tmp_path: Path) -> None:
    """kubernetes/kubernetes#138127: the kernel counts them neither as free nor as of files."""
    (tmp_path / "meminfo").write_text(
        "MemTotal:  1000 kB\nMemFree: 100 kB\nInactive(file):  50 kB\nHugePages_Total: 3\nHugePages_Free: 3\n"
        "Hugepagesize: 200 kB\nHugetlb: 600 kB\n"
    )
    assert available_memory(tmp_path) == Observation(150 * 1024, 1000 * 1024)


def test_available_pids_are_counted_against_the_smaller_limit(tmp_path: Path) -> None:
    """Row 118: pid.available."""
    kernel = tmp_path / "sys/kernel"
    kernel.mkdir(parents=True)
    (kernel / "pid_max").write_text("32768\n")
    (kernel / "threads-max").write_text("1000\n")
    (tmp_path / "loadavg").write_text("0.1 0.2 0.3 2/250 4711\n")
    assert available_pids(tmp_path) == Observation(750, 1000)
    real = available_pids(Path("/proc"))
    assert 0 < real.available < real.capacity


async def test_nodefs_and_imagefs_are_measured_where_state_and_images_are(tmp_path: Path) -> None:
    """Row 118: nodefs and imagefs, and whether they are one disk."""
    one = NodeObservations(a_node(tmp_path), cast("CriRuntime", Disks(tmp_path)), RESOURCES)
    measured = await one.measure()
    assert not measured.dedicated_images
    assert measured.signals["nodefs.available"].capacity == measured.signals["imagefs.available"].capacity > 0
    assert set(measured.signals) <= set(RESOURCES)
    other = NodeObservations(a_node(tmp_path), cast("CriRuntime", Disks(Path("/dev/shm"))), ["imagefs.available"])
    measured = await other.measure()
    assert measured.dedicated_images
    assert set(measured.signals) == {"imagefs.available"}


async def test_a_hung_or_missing_disk_is_skipped_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 118: a resource that cannot be measured meets no threshold."""
    answers = threading.Event()
    reads = disks.read_disk

    def hangs(path: Path) -> object:
        answers.wait(60)
        return reads(path)

    monkeypatch.setattr(disks, "read_disk", hangs)
    monkeypatch.setattr(module, "DISK_SECONDS", 0.02)
    looking = NodeObservations(a_node(tmp_path), cast("CriRuntime", Disks(tmp_path / "gone")), ["nodefs.available"])
    try:
        for _ in range(3):
            assert (await looking.measure()).signals == {}
        assert caplog.text.count("the node's disk cannot be measured") == 1
        assert threading.active_count() < 50
    finally:
        answers.set()


async def test_pod_usage_is_measured_on_every_runtime(runtime: Runtime, tmp_path: Path) -> None:
    """Row 118: pods are ranked by working sets, writable layers, logs, volumes and processes."""
    node = replace(a_node(tmp_path), cgroup_parent=runtime.cgroup_parent.strip("/") or "syncpod")
    owner = f"n-{uuid.uuid4()}"
    async with (
        CriClient(runtime.endpoint) as cri,
        owned_pod(cri, cgroup_parent=runtime.cgroup_parent, logs=tmp_path / "logs", owner=owner) as pod,
    ):
        await pod.run()
        await pod.start(pod.container("busy", ("sh", "-c", "dd if=/dev/zero of=/root/file bs=1M count=3; sleep 1000")))
        record = Pod.model_validate(
            {
                "metadata": {"name": "web", "namespace": "default", "uid": pod.uid},
                "spec": {
                    "containers": [{"name": "busy", "image": "x"}],
                    "volumes": [{"name": "scratch", "emptyDir": {}}],
                },
            }
        )
        scratch = pod_directory(node, pod.uid) / "volumes" / "kubernetes.io~empty-dir" / "scratch"
        scratch.mkdir(parents=True)
        (scratch / "file").write_bytes(b"x" * MI)
        write_pod_record(node, PodRecord(pod=record))
        seen = {pod.uid: await PodReader(cri, boot=1, owner=owner).read(pod.uid)}
        usages = PodUsages(node, cri, seen.get)
        active = await usages.active()
        assert list(active) == [pod.uid]

        async def measured() -> bool:
            (memory,) = await usages.measure(active, "memory.available")
            (disk,) = await usages.measure(active, "nodefs.available")
            if not memory.usage or not memory.usage.memory or not disk.usage:
                return False
            (container,) = disk.usage.containers
            assert MI <= disk.usage.volumes.bytes < 2 * MI
            return container.layer is not None and container.layer.bytes >= 3 * MI

        await until_asked(measured, patience=120, pause=0.5)  # containerd itself measures layers each ten seconds
        (processes,) = await usages.measure(active, "pid.available")
        assert processes.usage is None or processes.usage.processes >= 1
        write_pod_record(node, PodRecord(pod=record, finished=True))
        assert await usages.active() == {}


async def test_logs_of_foreign_containers_in_a_pod_are_not_counted(tmp_path: Path) -> None:
    """Its name is not in the pod's manifest, and may not be a valid file name."""
    node = a_node(tmp_path)
    containers = {name: f"c{index}" for index, name in enumerate(("main", "/", "../..", "a\0b", "x" * 300))}
    meta = {"name": "web", "namespace": "default", "uid": "u1"}
    record = Pod.model_validate({"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}})
    pod_directory(node, "u1").mkdir(parents=True)
    write_pod_record(node, PodRecord(pod=record))
    (tmp_path / "default_web_u1" / "main").mkdir(parents=True)
    (tmp_path / "default_web_u1" / "main" / "0.log").write_bytes(b"x" * MI)
    seen = ObservedPod(
        uid="u1",
        sandboxes=(ObservedSandbox(id="s", state="SANDBOX_READY"),),
        containers=tuple(ObservedContainer(id=id_, name=name, state="running") for name, id_ in containers.items()),
    )

    class Stats:
        async def list_container_stats(self, **_: object) -> list[ContainerStats]:
            return [ContainerStats(id_, name, None) for name, id_ in containers.items()]

    usages = PodUsages(node, cast("CriRuntime", Stats()), {"u1": seen}.get)
    (candidate,) = await usages.measure(await usages.active(), "nodefs.available")
    assert candidate.usage is not None
    logs = {each.name: each.logs for each in candidate.usage.containers}
    its_own = logs.pop("main")
    assert its_own is not None
    assert its_own.bytes >= MI
    assert set(logs.values()) == {Written()}
