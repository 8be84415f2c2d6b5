"""The kubelet's podresources API: a node's pods and containers, for programs on its machine."""

from __future__ import annotations

import asyncio
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from protos.podresources.v1 import api_pb2, api_pb2_grpc
from syncpod.agent import pods_api
from syncpod.agent.kubernetes.pod_resources import SOCKET, PodResourcesApi
from syncpod.cli.machine.purge import purge
from syncpod.cli.machine.state_directory import mark
from tests.agent.waiting import until
from tests.kubernetes.storage_driver import cancelled


def a_pod(name: str, phase: str = "Running") -> dict[str, Any]:
    """A pod with each kind of container."""
    begins = [{"name": "first"}, {"name": "beside", "restartPolicy": "Always"}]
    spec = {"initContainers": begins, "containers": [{"name": "app"}], "ephemeralContainers": [{"name": "debug"}]}
    return {"metadata": {"namespace": "shop", "name": name}, "spec": spec, "status": {"phase": phase}}


@asynccontextmanager
async def served(*pods: dict[str, Any]) -> AsyncIterator[tuple[Path, grpc.aio.Channel]]:
    """The API of a node with these pods, and a connection to it."""
    with tempfile.TemporaryDirectory(prefix="podres-") as directory:
        socket = Path(directory) / SOCKET
        running = asyncio.ensure_future(PodResourcesApi(Path(directory), lambda: pods).run())
        try:
            await until(lambda: socket.exists() and stat.S_IMODE(socket.stat().st_mode) == 0o600)
            options = (("grpc.default_authority", "localhost"),)
            async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
                yield socket, channel
        finally:
            await cancelled(running)


def said(found: api_pb2.PodResources) -> tuple[str, str, list[str]]:
    """The API's answer about a pod."""
    assert not any(each.devices or each.cpu_ids or each.memory for each in found.containers)
    return found.namespace, found.name, [each.name for each in found.containers]


async def test_pods_that_have_not_ended_are_listed_and_each_can_be_asked_for() -> None:
    async with served(a_pod("web"), a_pod("job", "Succeeded")) as (socket, channel):
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        stub = api_pb2_grpc.PodResourcesListerStub(channel)
        listed = await stub.List(api_pb2.ListPodResourcesRequest())
        assert [said(each) for each in listed.pod_resources] == [("shop", "web", ["beside", "app"])]
        ended = await stub.Get(api_pb2.GetPodResourcesRequest(pod_name="job", pod_namespace="shop"))
        assert said(ended.pod_resources) == ("shop", "job", ["beside", "app"])
        all_of_it = await stub.GetAllocatableResources(api_pb2.AllocatableResourcesRequest())
        assert all_of_it == api_pb2.AllocatableResourcesResponse()
        with pytest.raises(grpc.aio.AioRpcError, match="pod x in namespace shop not found") as caught:
            await stub.Get(api_pb2.GetPodResourcesRequest(pod_name="x", pod_namespace="shop"))
        assert caught.value.code() is grpc.StatusCode.UNKNOWN


async def test_the_first_version_is_served_too() -> None:
    async with served(a_pod("web")) as (_, channel):
        call = channel.unary_unary(
            "/v1alpha1.PodResourcesLister/List",
            request_serializer=api_pb2.ListPodResourcesRequest.SerializeToString,
            response_deserializer=api_pb2.ListPodResourcesResponse.FromString,
        )
        [found] = (await call(api_pb2.ListPodResourcesRequest())).pod_resources
        assert found.name == "web"


async def test_a_reader_that_asks_without_a_pause_is_refused() -> None:
    async with served() as (_, channel):
        stub = api_pb2_grpc.PodResourcesListerStub(channel)
        calls = [stub.List(api_pb2.ListPodResourcesRequest()) for _ in range(200)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [each for each in answers if isinstance(each, grpc.aio.AioRpcError)]
    assert 0 < len(refused) < len(answers)
    assert {(each.code(), each.details()) for each in refused} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
    }


async def test_a_directory_too_deep_for_a_socket_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = asyncio.ensure_future(PodResourcesApi(tmp_path / ("d" * 120), lambda: ()).run())
    await until(lambda: "a socket's path at most 107" in caplog.text)
    assert not running.done()
    await cancelled(running)


def test_nothing_of_it_stays_after_a_purge(tmp_path: Path) -> None:
    state, memory = tmp_path / "state", tmp_path / "memory"
    state.mkdir(mode=0o700)
    mark(state)
    for socket in (state / SOCKET, state / pods_api.SOCKET):
        socket.parent.mkdir(mode=0o700)
        socket.touch()
    purge(state, memory, state / "log")
    assert not state.exists()
