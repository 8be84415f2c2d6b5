"""The socket for readers of a node: its list of pods, their resource usage, and who may read."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from prometheus_client.parser import text_string_to_metric_families

from syncpod.agent.joined_cluster import ClusterLink, JoinedCluster
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.scraping import pod_usage
from syncpod.agent.scraping import readings as module
from syncpod.agent.scraping.endpoint import ReaderToken
from syncpod.agent.scraping.node_usage import read_node_usage
from syncpod.agent.scraping.terminations import Terminations
from syncpod.cri.port import (
    ContainerStats,
    CpuUsage,
    FilesystemUsage,
    ImageFsInfo,
    InterfaceUsage,
    MemoryUsage,
    SandboxStats,
)
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.pod import Pod
from syncpod.translation.paths import claim_link, pod_directory, volume_directory
from tests.agent.node_endpoint import Measuring, node_endpoint, node_of
from tests.agent.test_metrics_endpoint import CRASHES, Shown
from tests.agent.waiting import until

AT = datetime(2026, 11, 23, 10, tzinfo=UTC)
AT_NS = int(AT.timestamp()) * 10**9
MEMORY = MemoryUsage(AT_NS, usage_bytes=300, working_set_bytes=200, rss_bytes=100)
MAIN = ContainerStats("c2", "app", FilesystemUsage("/", AT, 4096, 2), CpuUsage(AT_NS, 3 * 10**9, 5), MEMORY)
ENDED = ContainerStats("c1", "app", None)
WEB = SandboxStats(
    "s", "u1", "web", "default", (MAIN, ENDED), CpuUsage(AT_NS, 4 * 10**9, None), None,
    (InterfaceUsage("eth0", 7, 0, 8, None),), AT_NS, processes=2,
)  # fmt: skip
LISTING = ObservedPod(
    uid="u1",
    name="web",
    namespace="default",
    sandboxes=(ObservedSandbox(id="s", state="SANDBOX_READY", created_at=AT),),
    containers=(
        ObservedContainer(id="c2", name="app", state="running", started_at=AT),
        ObservedContainer(id="c1", name="app", state="exited", started_at=AT),
    ),
)


class Reader:
    """A client of an endpoint."""

    def __init__(self, port: int, directory: Path, runtime: Measuring) -> None:
        self._port, self.runtime = port, runtime
        self.token = (directory / "reader-token").read_text().strip()

    async def get(self, path: str, authorization: str | None = None) -> tuple[int, str]:
        """Return status and body of a request, with the token unless another header is given."""
        shown = f"Bearer {self.token}" if authorization is None else authorization
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {shown}\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        return int(head.split(" ")[1]), body

    async def samples(self) -> dict[tuple[str, ...], tuple[float, float | None]]:
        """Values and times of the resources' series, by name and labels."""
        _, text = await self.get("/metrics/resource", "")
        samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
        times = [float(str(each.timestamp)) if each.timestamp is not None else None for each in samples]
        return {(each.name, *each.labels.values()): (each.value, at) for each, at in zip(samples, times, strict=True)}


@asynccontextmanager
async def served(
    directory: Path, host: str = "127.0.0.1", *, in_cluster: dict[str, Any] | None = None
) -> AsyncIterator[Reader]:
    published, runtime = PublishedPods(node_of(directory)), Measuring()
    cluster = JoinedCluster()
    cluster.join(ClusterLink(lambda meta: in_cluster, Mock(), Mock(), Mock()))
    published.take("pod/default/web", "run", Shown(CRASHES))
    runtime.stats = (WEB,)
    endpoint = node_endpoint(
        host,
        0,
        directory,
        published,
        terminations=Terminations(lambda *_: None),
        runtime=runtime,
        listings=lambda: (LISTING,),
        cluster=cluster,
    )
    running = asyncio.create_task(endpoint.run())
    await until(lambda: endpoint.address is not None)
    assert endpoint.address is not None
    yield Reader(endpoint.address[1], directory, runtime)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FRESH_SECONDS", 0.0)
    monkeypatch.setattr(pod_usage, "_FRESH_SECONDS", 0.0)


async def test_a_runtime_that_hangs_holds_up_no_other_reader(tmp_path: Path) -> None:
    async with served(tmp_path) as reader:
        reader.runtime.answers.clear()
        waiting = asyncio.create_task(reader.get("/metrics/resource"))
        await until(lambda: reader.runtime.calls > 0)
        for path in ("/metrics", "/pods"):
            assert (await reader.get(path))[0] == 200
        assert not waiting.done()
        reader.runtime.answers.set()
        assert (await waiting)[0] == 200


# --- who may read -----------------------------------------------------------------------------------------------------


async def test_pods_and_what_they_use_are_told_to_whoever_shows_the_token(tmp_path: Path) -> None:
    async with served(tmp_path) as reader:
        assert (tmp_path / "reader-token").stat().st_mode & 0o777 == 0o600
        for path in ("/pods", "/stats/summary"):
            assert (await reader.get(path))[0] == 200
            for shown in ("", "Bearer", "Bearer x", f"Basic {reader.token}", f"Bearer {reader.token}x", reader.token):
                status, body = await reader.get(path, shown)
                assert (status, "web" in body) == (401, False), shown
        assert (await reader.get("/metrics", ""))[0] == 200


async def test_the_token_is_not_asked_for_where_others_could_hear_it(tmp_path: Path) -> None:
    async with served(tmp_path, "0.0.0.0") as reader:
        for path in ("/pods", "/stats/summary"):
            assert (await reader.get(path))[0] == 403
        assert (await reader.get("/metrics"))[0] == 200


def test_the_token_stays_unless_others_could_read_it(tmp_path: Path) -> None:
    file = tmp_path / "reader-token"

    def token() -> str:
        ReaderToken(tmp_path)
        return file.read_text()

    first = token()
    assert token() == first
    file.chmod(0o640)
    second = token()
    assert second != first and file.stat().st_mode & 0o777 == 0o600
    file.write_text("\n")
    assert len(token()) > 32


# --- what is told -----------------------------------------------------------------------------------------------------


async def test_the_pods_are_a_list_of_v1(tmp_path: Path) -> None:
    async with served(tmp_path) as reader:
        told = json.loads((await reader.get("/pods"))[1])
    assert (told["kind"], told["apiVersion"], told["metadata"]) == ("PodList", "v1", {})
    assert told["items"] == [CRASHES]


async def test_a_pod_shows_the_labels_that_its_cluster_has_given_it_though_its_workflow_was_not_told(
    tmp_path: Path,
) -> None:
    """The workflow of an ending pod does not get them, but a kubelet shows them."""
    own: Any = CRASHES["metadata"]
    theirs = {"labels": {"phase": "leaving"}, "annotations": {"why": "moved"}}
    async with served(tmp_path, in_cluster={"metadata": theirs}) as reader:
        [told] = json.loads((await reader.get("/pods"))[1])["items"]
    assert told == {**CRASHES, "metadata": {**own, **theirs}}
    async with served(tmp_path, in_cluster={"metadata": {}}) as reader:
        [told] = json.loads((await reader.get("/pods"))[1])["items"]
    assert "labels" not in told["metadata"]


async def test_the_summary_has_what_is_known_and_nothing_else(tmp_path: Path) -> None:
    logs = tmp_path / "default_web_u1" / "app"
    logs.mkdir(parents=True)
    (logs / "0.log").write_bytes(b"x" * 10)
    async with served(tmp_path) as reader:
        reader.runtime.images = ImageFsInfo((FilesystemUsage(str(tmp_path), AT, 99, 3),))
        told = json.loads((await reader.get("/stats/summary"))[1])
        reader.runtime.stats = None
        unknown = json.loads((await reader.get("/stats/summary"))[1])
    (pod,), node, at = told["pods"], told["node"], "2026-11-23T10:00:00Z"
    (container,) = pod.pop("containers")
    assert pod == {
        "podRef": {"name": "web", "namespace": "default", "uid": "u1"},
        "startTime": at,
        "cpu": {"time": at, "usageCoreNanoSeconds": 4 * 10**9},
        "network": {
            "time": at,
            **(eth0 := {"name": "eth0", "rxBytes": 7, "rxErrors": 0, "txBytes": 8}),
            "interfaces": [eth0],
        },
        "process_stats": {"process_count": 2},
    }
    assert (container["name"], container["startTime"]) == ("app", at)
    assert container["cpu"] == {"time": at, "usageNanoCores": 5, "usageCoreNanoSeconds": 3 * 10**9}
    assert container["memory"] == {"time": at, "usageBytes": 300, "workingSetBytes": 200, "rssBytes": 100}
    assert (container["rootfs"]["usedBytes"], container["rootfs"]["inodesUsed"]) == (4096, 2)
    assert container["logs"]["usedBytes"] > 0 and container["logs"]["inodesUsed"] == 1
    assert node["nodeName"] == "n1" and node["runtime"]["imageFs"]["usedBytes"] == 99
    assert node["fs"]["capacityBytes"] >= node["fs"]["usedBytes"] > 0
    assert unknown["pods"] == [] and unknown["node"]["fs"]["capacityBytes"] > 0


async def test_what_a_runtime_does_not_say_of_a_pod_is_the_sum_of_its_containers(tmp_path: Path) -> None:
    """CRI-O reports neither a pod's CPU and memory nor the time of network figures, and lists the loopback first."""
    loopback = InterfaceUsage("lo", 0, 0, 0, 0)
    helper = replace(MAIN, id="c3", name="helper", cpu=CpuUsage(AT_NS + 10**9, 10**9, 2))
    of_crio = replace(
        WEB,
        cpu=None,
        containers=(MAIN, helper, ENDED),
        interfaces=(loopback, *WEB.interfaces),
        network_measured_at_ns=0,
    )
    async with served(tmp_path) as reader:
        reader.runtime.stats = (of_crio,)
        before = datetime.now(UTC).replace(microsecond=0)
        (pod,) = json.loads((await reader.get("/stats/summary"))[1])["pods"]
        series = await reader.samples()
    assert pod["cpu"] == {"time": "2026-11-23T10:00:01Z", "usageNanoCores": 7, "usageCoreNanoSeconds": 4 * 10**9}
    at = "2026-11-23T10:00:00Z"
    assert pod["memory"] == {"time": at, "usageBytes": 600, "workingSetBytes": 400, "rssBytes": 200}
    assert [each["name"] for each in (pod["network"], *pod["network"]["interfaces"])] == ["eth0", "lo", "eth0"]
    assert datetime.fromisoformat(pod["network"]["time"]) >= before
    assert series["pod_memory_working_set_bytes", "default", "web"] == (400.0, AT.timestamp())


async def test_volumes_are_counted_and_those_on_disk_are_ephemeral_storage(tmp_path: Path) -> None:
    spec = {
        "containers": [{"name": "app", "image": "i"}],
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "fast", "emptyDir": {"medium": "Memory"}},
            {"name": "host", "hostPath": {"path": "/etc"}},
            {"name": "never-made", "emptyDir": {}},
            {"name": "disk", "persistentVolumeClaim": {"claimName": "mine"}},
            {"name": "made", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
            {"name": "unbound", "persistentVolumeClaim": {"claimName": "other"}},
        ],
    }
    pod = Pod.model_validate({"metadata": {"name": "web", "namespace": "default", "uid": "u1"}, "spec": spec})
    node = node_of(tmp_path)
    pod_directory(node, "u1").mkdir(parents=True)
    write_pod_record(node, PodRecord(pod=pod))
    for volume, size in zip(pod.spec.volumes[:2], (100_000, 50_000), strict=True):
        path = volume_directory(node, "u1", volume)
        assert path is not None
        path.mkdir(parents=True)
        (path / "file").write_bytes(b"x" * size)
    for volume in pod.spec.volumes[4:6]:
        link = claim_link(node, "u1", volume)
        assert link is not None
        link.parent.mkdir(exist_ok=True)
        link.symlink_to("/dev/shm")
    logs = tmp_path / "default_web_u1" / "app"
    logs.mkdir(parents=True)
    (logs / "0.log").write_bytes(b"x" * 10)
    async with served(tmp_path) as reader:
        (told,) = json.loads((await reader.get("/stats/summary"))[1])["pods"]
    data, fast, *claims = told["volume"]
    assert [(each["name"], each["pvcRef"]) for each in claims] == [
        ("disk", {"name": "mine", "namespace": "default"}),
        ("made", {"name": "web-made", "namespace": "default"}),
    ]
    shared = os.statvfs("/dev/shm")
    assert {each["capacityBytes"] for each in claims} == {shared.f_blocks * shared.f_frsize}
    assert not {"pvcRef"} & {*data, *fast}
    assert (data["name"], data["inodesUsed"], fast["name"]) == ("data", 2, "fast")
    assert data["usedBytes"] >= 100_000 and data["capacityBytes"] >= data["availableBytes"] > 0
    container, storage = told["containers"][0], told["ephemeral-storage"]
    parts = (container["rootfs"], container["logs"], data)
    assert storage["usedBytes"] == sum(each["usedBytes"] for each in parts)
    assert storage["inodesUsed"] == sum(each["inodesUsed"] for each in parts)


async def test_resources_are_the_kubelets_series_with_the_times_of_the_measurements(tmp_path: Path) -> None:
    async with served(tmp_path) as reader:
        series = await reader.samples()
        assert series["container_cpu_usage_seconds_total", "app", "default", "web"] == (3.0, AT.timestamp())
        assert series["container_memory_working_set_bytes", "app", "default", "web"] == (200.0, AT.timestamp())
        assert series["container_start_time_seconds", "app", "default", "web"] == (AT.timestamp(), None)
        assert series["pod_cpu_usage_seconds_total", "default", "web"] == (4.0, AT.timestamp())
        assert not [name for name, *_ in series if name == "pod_memory_working_set_bytes"], "the runtime does not say"
        assert series[("node_cpu_usage_seconds_total",)][0] > 0
        assert series[("resource_scrape_error",)] == (0.0, None)
        reader.runtime.stats = None
        failed = await reader.samples()
        assert failed[("resource_scrape_error",)] == failed[("scrape_error",)] == (1.0, None)
        assert not [name for name, *_ in failed if name.startswith(("container_", "pod_"))]


async def test_the_runtime_is_asked_once_for_all_pods_and_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_usage, "_FRESH_SECONDS", 3600.0)
    async with served(tmp_path) as reader:
        reader.runtime.stats = tuple(replace(WEB, id=f"s{number}", name=f"web-{number}") for number in range(50))
        await asyncio.gather(*(reader.get(path) for path in ("/metrics/resource", "/stats/summary") * 5))
        assert reader.runtime.calls == 1


# --- the node ---------------------------------------------------------------------------------------------------------


def test_the_node_is_read_from_procfs(tmp_path: Path) -> None:
    files = {
        "stat": "cpu  100 0 50 1000 30 0 10 5 0 0\nbtime 1795400000\n",
        "meminfo": "MemTotal: 1000 kB\nMemFree: 300 kB\nInactive(file): 100 kB\nAnonPages: 50 kB\n",
        "vmstat": "pgfault 7\npgmajfault 2\n",
        "net/route": "Iface Destination\neth1 00000000 x\n",
        "net/dev": "h\nh\n lo: 1 0 0 0 0 0 0 0 1 0 0\neth0: 1 0 2 0 0 0 0 0 3 0 4\neth1: 5 0 6 0 0 0 0 0 7 0 8\n",
        "sys/kernel/pid_max": "400",
        "sys/kernel/threads-max": "300",
        "loadavg": "0 0 0 1/42 7",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = read_node_usage(tmp_path)
    assert found.cpu is not None and found.cpu.used_ns == 1_600_000_000, "not what was idle, or stolen"
    memory: Any = found.memory
    assert (memory.usage_bytes, memory.working_set_bytes) == (700 * 1024, 600 * 1024)
    assert (memory.available_bytes, memory.rss_bytes, memory.page_faults) == (400 * 1024, 50 * 1024, 7)
    assert found.interfaces == (InterfaceUsage("eth1", 5, 6, 7, 8), InterfaceUsage("eth0", 1, 2, 3, 4))
    assert (found.max_pids, found.tasks) == (300, 42)


def test_what_procfs_does_not_say_is_left_out(tmp_path: Path) -> None:
    assert read_node_usage(tmp_path) == type(read_node_usage(tmp_path))()
