"""A storage driver's volume statistics reach the node's readers."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import pytest_asyncio

from syncpod.agent.kubernetes import driver_usage
from syncpod.agent.kubernetes.driver_usage import DriverUsage
from syncpod.agent.scraping.readings import NodeReadings
from syncpod.agent.scraping.volume_usage import VolumeUsage, claim_series, with_drivers
from syncpod.csi.driver import REPORTS_USAGE
from syncpod.kubernetes.claimed_volume import volume_path
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.csi import driver_path
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from syncpod.node.disks import Disk
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.objects import claim_needs
from syncpod.pod.origin import KUBERNETES_SOURCE
from syncpod.pod.parse import parse_pod
from syncpod.translation.paths import pod_directory
from tests.agent.waiting import until
from tests.kubernetes.api_server import served, write_kubeconfig
from tests.kubernetes.storage_driver import DRIVER, Node, StorageDriver, a_volume, cancelled, of_driver, serving


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory for sockets, whose paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="csi-") as directory:
        yield Path(directory)


@pytest_asyncio.fixture
async def node(short: Path) -> AsyncIterator[Node]:
    """A node of a cluster with one claim, of the driver."""
    async with served() as api:
        claim = {"metadata": {"name": "disk", "uid": "claim-uid"}, "spec": {"volumeName": "pv-1"}}
        await api.put("/api/v1/namespaces/default/persistentvolumeclaims/disk", {**claim, "status": {"phase": "Bound"}})
        await api.put(volume_path("pv-1"), a_volume())
        traits = of_driver(attachRequired=False, volumeLifecycleModes=["Persistent", "Ephemeral"])
        await api.put(driver_path(DRIVER), traits)
        async with ApiClient(read_kubeconfig(write_kubeconfig(short / "config", api)), user_agent="test") as client:
            yield Node(client, short)


POD = parse_pod(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "u1",
            "annotations": {"kubernetes.io/config.source": KUBERNETES_SOURCE},
        },
        "spec": {
            "containers": [{"name": "app", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}},
                {"name": "scratch", "csi": {"driver": DRIVER}},
                {"name": "local", "emptyDir": {}},
            ],
        },
    }
)


class Readings:
    """The node's readings, which know whether they may ask drivers."""

    ask_drivers = False

    @contextlib.contextmanager
    def asking_drivers(self, measure: Any) -> Iterator[None]:
        self.ask_drivers = True
        try:
            yield
        finally:
            self.ask_drivers = False


class Reader:
    """The node's readings, with the reader of drivers' statistics."""

    def __init__(self, node: Node) -> None:
        self.readings = Readings()
        self.asking = DriverUsage(cast(NodeReadings, self.readings), node.drivers, node.store, node.context)

    async def told(self) -> dict[str, Any]:
        """The drivers' statistics of the pod's volumes, by name."""
        return dict((await self.asking.measure()).get("u1", {}))


async def brought(node: Node) -> None:
    """Wait until the pod's volumes are published."""
    pod_directory(node.context, POD.metadata.uid).mkdir(parents=True)
    write_pod_record(node.context, PodRecord(pod=POD))
    await node.drivers.round()
    for need in claim_needs(POD):
        await node.brought(need)


def amounts(usage: VolumeUsage | None) -> tuple[Any, ...]:
    assert usage is not None
    disk = usage.disk
    assert disk.used_bytes == usage.used_bytes
    return (usage.claim, disk.capacity_bytes, disk.available_bytes, usage.used_bytes, disk.inodes, usage.inodes)


async def test_a_driver_is_asked_for_each_volume_of_a_pod_and_only_once_a_minute(
    node: Node, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = StorageDriver(DRIVER, short / "driver", [REPORTS_USAGE])
    async with serving(driver, node.registry):
        await brought(node)
        reader = Reader(node)
        for _ in range(2):
            told = await reader.told()
            assert {name: amounts(each) for name, each in told.items()} == {
                "data": ("disk", 100, 60, 30, 50, 5),
                "scratch": ("", 100, 60, 30, 50, 5),
            }
        asked = {each.volume_id: each.volume_path for each in driver.asked("usage")}
        assert asked["vol-1"] == driver.asked("publish")[0].target_path
        assert len(driver.asked("usage")) == len(asked) == 2
        monkeypatch.setattr(reader.asking, "_stale_at", 0.0)
        driver.refusals["usage"] = (grpc.StatusCode.INTERNAL, "no")
        assert await reader.told() == {"data": None, "scratch": None}
    await node.drivers.round()  # the driver has gone
    monkeypatch.setattr(reader.asking, "_stale_at", 0.0)
    assert await reader.told() == {}


async def test_a_driver_that_hangs_keeps_no_reader_and_is_not_asked_again_meanwhile(
    node: Node, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_usage, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(driver_usage, "FRESH_SECONDS", 0.0)
    driver = StorageDriver(DRIVER, short / "driver", [REPORTS_USAGE])
    driver.hangs.add("usage")
    async with serving(driver, node.registry):
        await brought(node)
        reader = Reader(node)
        running = asyncio.ensure_future(reader.asking.run())
        await until(lambda: reader.readings.ask_drivers)
        for _ in range(3):
            assert await reader.told() == {"data": None, "scratch": None}
        await until(lambda: len(driver.asked("usage")) == 2)
        await cancelled(running)
        assert not reader.readings.ask_drivers
        assert not reader.asking._asking


async def test_a_driver_that_tells_nothing_is_not_asked(node: Node, short: Path) -> None:
    driver = StorageDriver(DRIVER, short / "driver", [])
    async with serving(driver, node.registry):
        await brought(node)
        assert await Reader(node).told() == {}
        assert not driver.asked("usage")


async def test_a_driver_that_answers_without_usage_has_said_nothing(node: Node, short: Path) -> None:
    driver = StorageDriver(DRIVER, short / "driver", [REPORTS_USAGE])
    driver.usage = []
    async with serving(driver, node.registry):
        await brought(node)
        assert await Reader(node).told() == {"data": None, "scratch": None}


def test_readers_are_told_what_drivers_say_in_place_of_what_was_measured() -> None:
    def usage(name: str, used: int, claim: str) -> VolumeUsage:
        return VolumeUsage(name, datetime.now(UTC), used, 1, Disk(1, 9, 8, used, 3, 2), False, claim)

    measured = {"u1": (usage("a", 1, "one"), usage("b", 1, "two"), usage("c", 1, "three"))}
    found = with_drivers(measured, {"u1": {"a": usage("a", 7, "one"), "b": None}, "u2": {"x": usage("x", 7, "")}})
    assert {uid: [(each.name, each.used_bytes) for each in volumes] for uid, volumes in found.items()} == {
        "u1": [("c", 1), ("a", 7)],
        "u2": [("x", 7)],
    }
    used = next(each for each in claim_series(found, {"u1": "shop", "u2": "shop"}) if each.name.endswith("used_bytes"))
    assert {each.labels["persistentvolumeclaim"]: each.value for each in used.samples} == {"one": 7, "three": 1}
