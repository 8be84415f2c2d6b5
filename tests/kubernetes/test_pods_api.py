"""The kubelet's Pods API: a node's complete pods, for programs on its machine."""

from __future__ import annotations

import asyncio
import contextlib
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import grpc
import grpc.aio
import pytest

from protos.pods.v1 import pod_pb2
from protos.pods.v1alpha1 import api_pb2, api_pb2_grpc
from syncpod.agent.agent import Agent
from syncpod.agent.joined_cluster import ClusterLink, JoinedCluster
from syncpod.agent.pods_api import SOCKET, add_pods_api
from syncpod.pods_api import server
from syncpod.pods_api.pod_bytes import pod_bytes
from syncpod.pods_api.server import EVENTS, PodNews, ServedNode, serving
from tests.agent.waiting import until
from tests.kubernetes.storage_driver import cancelled

SYNCED = (api_pb2.INITIAL_SYNC_COMPLETE, "", "")


def a_pod(uid: str, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    meta = {"namespace": "shop", "name": f"pod-{uid}", "uid": uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


@dataclass
class Served:
    """The API of a node, and a client of it."""

    socket: Path
    news: PodNews
    stub: Any
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_ready: bool = True
    has_room: bool = True
    dropped: int = 0

    def change(self, pod: Mapping[str, Any]) -> None:
        """Replace a pod by this one."""
        uid = pod["metadata"]["uid"]
        self.pods[uid] = dict(pod)
        self.news.changed(uid, lambda: pod)

    def end(self, uid: str) -> None:
        """Remove a pod."""
        meta = self.pods.pop(uid)["metadata"]
        self.news.gone(uid, meta["namespace"], meta["name"])

    def watch(self) -> Any:
        return self.stub.WatchPods(api_pb2.WatchPodsRequest())


@pytest.fixture
async def node() -> AsyncIterator[Served]:
    async with serving_pods() as made:
        yield made


@asynccontextmanager
async def serving_pods() -> AsyncIterator[Served]:
    news = PodNews()
    with tempfile.TemporaryDirectory(prefix="pods-") as directory:
        socket = Path(directory) / "pods-api" / "pods-api.sock"
        options = (("grpc.default_authority", "localhost"),)
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
            made = Served(socket, news, api_pb2_grpc.PodsStub(channel))

            async def is_ready() -> bool:
                return made.is_ready

            def drop() -> None:
                made.dropped += 1

            facts = ServedNode(lambda: list(made.pods.values()), is_ready, lambda: made.has_room, drop)
            running = asyncio.ensure_future(news.run())
            async with serving(socket, facts, news):
                yield made
            await cancelled(running)


def said(event: Any) -> tuple[int, str, str]:
    """An event's type, and the pod's UID and phase."""
    pod = pod_pb2.Pod.FromString(event.pod)
    return event.type, pod.metadata.uid, pod.status.phase


async def test_pods_are_listed_by_uid_and_each_can_be_asked_for(node: Served) -> None:
    node.pods = {uid: a_pod(uid) for uid in ("b", "a")}
    assert stat.S_IMODE(node.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(node.socket.parent.stat().st_mode) == 0o700
    listed = await node.stub.ListPods(api_pb2.ListPodsRequest())
    assert [pod_pb2.Pod.FromString(each).metadata.name for each in listed.pods] == ["pod-a", "pod-b"]
    found = await node.stub.GetPod(api_pb2.GetPodRequest(podUID="b"))
    assert found.pod == listed.pods[1]
    with pytest.raises(grpc.aio.AioRpcError, match="pod with UID c not found") as caught:
        await node.stub.GetPod(api_pb2.GetPodRequest(podUID="c"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_watcher_is_told_of_all_pods_and_then_of_each_change_in_its_order(node: Served) -> None:
    node.pods = {"a": a_pod("a")}
    watch = node.watch()
    assert [said(await watch.read()) for _ in range(2)] == [(api_pb2.ADDED, "a", "Running"), SYNCED]
    node.change(a_pod("b", "Pending"))
    assert said(await watch.read()) == (api_pb2.ADDED, "b", "Pending")
    node.change(a_pod("b"))
    node.end("a")
    node.end("b")  # its newest state is sent before its end
    events = [said(await watch.read()) for _ in range(3)]
    assert sorted(events) == [
        (api_pb2.MODIFIED, "b", "Running"),
        (api_pb2.DELETED, "a", ""),
        (api_pb2.DELETED, "b", ""),
    ]
    assert events.index((api_pb2.MODIFIED, "b", "Running")) < events.index((api_pb2.DELETED, "b", ""))
    node.change(a_pod("c"))
    assert said(await watch.read()) == (api_pb2.ADDED, "c", "Running")
    watch.cancel()
    await until(lambda: not node.news._watchers)


async def test_a_watcher_that_does_not_read_is_dropped_and_little_waits_for_it(node: Served) -> None:
    slow, quick = node.watch(), node.watch()
    for watch in (slow, quick):
        assert said(await watch.read()) == SYNCED
    [one, other] = node.news._watchers
    text = "x" * 100_000  # soon the connection takes no more
    sent = 0
    while len(node.news._watchers) == 2:
        node.change(a_pod("a", nodeName=f"{sent}{text}"))
        sent += 1
        assert (await quick.read()).type in (api_pb2.ADDED, api_pb2.MODIFIED)
        assert sent < 10 * EVENTS
        assert max(one._queue.qsize(), other._queue.qsize()) <= EVENTS + 1
    node.change(a_pod("a", nodeName="last"))
    event = await quick.read()
    assert pod_pb2.Pod.FromString(event.pod).spec.nodeName == "last"
    with pytest.raises(grpc.aio.AioRpcError, match="watch client channel closed") as caught:
        while True:
            await slow.read()
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert node.dropped == 1


async def test_changes_that_nobody_watches_cost_nothing(node: Served) -> None:
    node.change(a_pod("a"))
    node.end("a")
    assert not node.news._waiting


async def test_nobody_is_answered_before_the_sources_have_told_of_their_pods_nor_too_often(node: Served) -> None:
    for change, code, why in (
        ({"is_ready": False}, grpc.StatusCode.FAILED_PRECONDITION, "Kubelet is initializing"),
        ({"has_room": False}, grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit"),
    ):
        for name, value in change.items():
            setattr(node, name, value)
        with pytest.raises(grpc.aio.AioRpcError, match=why) as caught:
            await node.stub.ListPods(api_pb2.ListPodsRequest())
        assert caught.value.code() is code
        with pytest.raises(grpc.aio.AioRpcError, match=why):
            await node.watch().read()


async def test_more_calls_than_there_is_room_for_are_refused(node: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WATCHERS", 2)
    async with serving_pods() as few:
        watches = [few.watch() for _ in range(2)]
        for watch in watches:
            assert said(await watch.read()) == SYNCED
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await few.watch().read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_what_json_writes_otherwise_is_written_as_kubernetes_does() -> None:
    probe = {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 3}
    container = {
        "name": "app",
        "ports": [{"containerPort": 80}],
        "livenessProbe": probe,
        "resources": {"limits": {"cpu": "100m", "memory": 1024}},
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "a",
            "labels": {"b": "2", "a": "1"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": None,
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            "containers": [container],
            "ephemeralContainers": [{"name": "debug", "image": "i", "targetContainerName": "app"}],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "s", "secret": {"secretName": "s"}}],
            "securityContext": {"runAsNonRoot": False, "fsGroup": 0},
            "hostUsers": False,
            "aFieldOfALaterVersion": 1,
        },
        "status": {"startTime": "2026-01-02T03:04:05.25+02:00"},
    }
    found = pod_pb2.Pod.FromString(pod_bytes(pod))
    spec = found.spec
    [app] = spec.containers
    assert (found.metadata.creationTimestamp.seconds, dict(found.metadata.labels)) == (1767323045, {"a": "1", "b": "2"})
    assert (found.status.startTime.seconds, found.status.startTime.nanos) == (1767315845, 250_000_000)
    assert not found.metadata.HasField("deletionTimestamp")
    assert found.metadata.managedFields[0].fieldsV1.Raw == b'{"f:spec":{}}'
    assert (app.livenessProbe.handler.httpGet.port.type, app.livenessProbe.handler.httpGet.port.strVal) == (1, "web")
    assert {name: each.string for name, each in app.resources.limits.items()} == {"cpu": "100m", "memory": "1024"}
    key = app.env[0].valueFrom.secretKeyRef
    assert (key.localObjectReference.name, key.key, key.HasField("optional"), key.optional) == ("s", "k", True, False)
    [debug] = spec.ephemeralContainers
    assert (debug.ephemeralContainerCommon.image, debug.targetContainerName) == ("i", "app")
    assert spec.volumes[0].volumeSource.emptyDir.sizeLimit.string == "1Gi"
    assert spec.volumes[1].volumeSource.HasField("secret")
    assert spec.HasField("hostUsers")
    assert spec.securityContext.HasField("fsGroup")


def test_a_value_that_no_pod_has_is_named() -> None:
    with pytest.raises(ValueError, match=r"spec\.containers\[0\]\.name: "):
        pod_bytes({"spec": {"containers": [{"name": 3}]}})


class FakeAgent:
    """The part of an agent that the API uses."""

    def __init__(self) -> None:
        self.published_pods = self.task_watch = self
        self.cluster = JoinedCluster()
        self.cluster.join(ClusterLink(lambda meta: self.objects.get(meta.uid), Mock(), Mock(), Mock()))
        self.states: list[Any] = []
        self.objects: dict[str, dict[str, Any]] = {}
        self.watchers: list[Any] = []
        self.run: Any = None

    def add_background_task(self, _: str, run: Any) -> None:
        self.run = run

    def pods(self) -> list[Any]:
        return self.states

    @contextlib.contextmanager
    def watched(self, changed: Any, gone: Any) -> Iterator[None]:
        self.watchers = [changed, gone]
        yield


def a_state(pod: dict[str, Any]) -> Any:
    """A pod's state that its workflow has published."""
    return SimpleNamespace(metadata=SimpleNamespace(**pod["metadata"]), pod=lambda: pod)


async def test_a_pod_of_the_cluster_is_as_the_cluster_has_it_with_the_nodes_status_also_after_its_deletion() -> None:
    agent, own = FakeAgent(), a_pod("a")
    agent.states = [a_state(own), a_state(a_pod("static"))]
    agent.objects["a"] = {**a_pod("a", "Pending"), "metadata": {**own["metadata"], "labels": {"state": "new"}}}

    async def status() -> Any:
        return SimpleNamespace(sources_ready=True)

    with tempfile.TemporaryDirectory(prefix="pods-") as directory:
        add_pods_api(cast(Agent, agent), Path(directory), status)
        running = asyncio.ensure_future(agent.run())
        await until(lambda: bool(agent.watchers))
        options = (("grpc.default_authority", "localhost"),)
        async with grpc.aio.insecure_channel(f"unix:{Path(directory) / SOCKET}", options=options) as channel:
            watch = cast(Any, api_pb2_grpc.PodsStub(channel)).WatchPods(api_pb2.WatchPodsRequest())
            pods = [pod_pb2.Pod.FromString((await watch.read()).pod) for _ in range(3)]
            assert [(each.status.phase, dict(each.metadata.labels)) for each in pods[:2]] == [
                ("Running", {"state": "new"}),
                ("Running", {}),
            ]
            assert pods[0].metadata.annotations["kubernetes.io/config.source"] == "api"
            del agent.objects["a"]
            changed, gone = agent.watchers
            changed(a_state(a_pod("a", "Succeeded")))
            gone(a_state(own))
            last = pod_pb2.Pod.FromString((await watch.read()).pod)
            assert (last.status.phase, dict(last.metadata.labels)) == ("Succeeded", {"state": "new"})
            assert said(await watch.read()) == (api_pb2.DELETED, "a", "")
            changed(a_state(own))
            assert not pod_pb2.Pod.FromString((await watch.read()).pod).metadata.labels
        await cancelled(running)
