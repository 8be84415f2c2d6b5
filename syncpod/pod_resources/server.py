"""Serves the kubelet's podresources API on a unix socket, read-only.

Mirrors pkg/kubelet/apis/podresources/server_v1.go and server_v1alpha1.go, v1.36. It answers like a kubelet without
device plugins and with the policy `none` for CPU and memory: its answers have the names of pods and containers, and no
exclusive resources.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from protos.podresources.v1 import api_pb2, api_pb2_grpc
from syncpod.grpc_server import serving_at

_OLDER: Final = "v1alpha1.PodResourcesLister"
"""The name of the service's first version. It has only `List`, whose messages have the same field numbers."""


@dataclass(frozen=True)
class PodContainers:
    """A pod of the node."""

    namespace: str
    name: str
    containers: tuple[str, ...]
    """The names of its sidecars (restartable init containers), and then of its containers."""
    has_ended: bool = False


@asynccontextmanager
async def serving(
    socket: Path, pods: Callable[[], Iterable[PodContainers]], takes: Callable[[], bool]
) -> AsyncIterator[None]:
    """Serve at `socket`, with mode 0600, until the block is left.

    `pods` returns the node's pods; `takes` returns whether the rate limit admits one more request. Raises OSError.
    """
    lister, server = _Lister(pods, takes), grpc.aio.server()
    api_pb2_grpc.add_PodResourcesListerServicer_to_server(lister, server)
    listing = grpc.unary_unary_rpc_method_handler(
        lister.List,
        request_deserializer=api_pb2.ListPodResourcesRequest.FromString,
        response_serializer=api_pb2.ListPodResourcesResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_OLDER, {"List": listing}),))
    async with serving_at(socket, server):
        yield


class _Lister(api_pb2_grpc.PodResourcesListerServicer):
    def __init__(self, pods: Callable[[], Iterable[PodContainers]], takes: Callable[[], bool]) -> None:
        self._pods, self._takes = pods, takes

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return all pods that have not ended (GetActivePods)."""
        await self._take(context)
        found = [_of_pod(each) for each in self._pods() if not each.has_ended]
        return api_pb2.ListPodResourcesResponse(pod_resources=found)

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return one pod."""
        await self._take(context)
        asked = (request.pod_namespace, request.pod_name)
        for pod in self._pods():
            if (pod.namespace, pod.name) == asked:
                return api_pb2.GetPodResourcesResponse(pod_resources=_of_pod(pod))
        why = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        return await context.abort(grpc.StatusCode.UNKNOWN, why)

    async def GetAllocatableResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return an empty answer: no container has a CPU, memory or device of its own."""
        await self._take(context)
        return api_pb2.AllocatableResourcesResponse()

    async def _take(self, context: Any) -> None:
        if not self._takes():
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")


def _of_pod(pod: PodContainers) -> api_pb2.PodResources:
    containers = [api_pb2.ContainerResources(name=each) for each in pod.containers]
    return api_pb2.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)
