"""CRI's calls that measure containers and sandboxes: ContainerStats, PodSandboxStats, and their lists and streams."""

from __future__ import annotations

from collections.abc import AsyncIterator

from protos.cri.v1 import api_pb2
from syncpod.runtime.calls.lookup import Lookup, running
from syncpod.runtime.refusals import failed
from syncpod.runtime.state import Runtime
from syncpod.runtime.statistics import Statistics


class StatisticsCalls:
    """One method for each call, named as on the wire. All raise Refusal."""

    def __init__(self, runtime: Runtime, lookup: Lookup) -> None:
        self._runtime = runtime
        self._lookup = lookup
        self._statistics = Statistics(runtime)

    async def ContainerStats(self, request: api_pb2.ContainerStatsRequest) -> api_pb2.ContainerStatsResponse:  # noqa: N802
        """Measure a running container."""
        container = self._lookup.container(request.container_id)
        running(container)
        return api_pb2.ContainerStatsResponse(stats=await self._statistics.container(container))

    async def ListContainerStats(  # noqa: N802
        self, request: api_pb2.ListContainerStatsRequest
    ) -> api_pb2.ListContainerStatsResponse:
        """Measure running containers."""
        return api_pb2.ListContainerStatsResponse(stats=await self._container_stats(request.filter))

    async def StreamContainerStats(  # noqa: N802
        self, request: api_pb2.StreamContainerStatsRequest
    ) -> AsyncIterator[api_pb2.StreamContainerStatsResponse]:
        """Measure running containers, each in a part of its own."""
        for measured in await self._container_stats(request.filter):
            yield api_pb2.StreamContainerStatsResponse(container_stats=[measured])

    async def _container_stats(self, wanted: api_pb2.ContainerStatsFilter) -> list[api_pb2.ContainerStats]:
        chosen = self._lookup.containers(wanted.id, wanted.pod_sandbox_id, dict(wanted.label_selector))
        return await self._statistics.containers([each for each in chosen if each.process is not None])

    async def PodSandboxStats(self, request: api_pb2.PodSandboxStatsRequest) -> api_pb2.PodSandboxStatsResponse:  # noqa: N802
        """Measure a sandbox with its containers."""
        sandbox = self._lookup.sandbox(request.pod_sandbox_id)
        if not sandbox.ready:
            raise failed(f'sandbox "{sandbox.id}" is not ready')
        return api_pb2.PodSandboxStatsResponse(stats=(await self._statistics.sandboxes([sandbox]))[0])

    async def ListPodSandboxStats(  # noqa: N802
        self, request: api_pb2.ListPodSandboxStatsRequest
    ) -> api_pb2.ListPodSandboxStatsResponse:
        """Measure sandboxes."""
        return api_pb2.ListPodSandboxStatsResponse(stats=await self._sandbox_stats(request.filter))

    async def StreamPodSandboxStats(  # noqa: N802
        self, request: api_pb2.StreamPodSandboxStatsRequest
    ) -> AsyncIterator[api_pb2.StreamPodSandboxStatsResponse]:
        """Measure sandboxes, each in a part of its own."""
        for measured in await self._sandbox_stats(request.filter):
            yield api_pb2.StreamPodSandboxStatsResponse(pod_sandbox_stats=[measured])

    async def _sandbox_stats(self, wanted: api_pb2.PodSandboxStatsFilter) -> list[api_pb2.PodSandboxStats]:
        chosen = self._runtime.sandboxes.select(wanted.id, dict(wanted.label_selector))
        return await self._statistics.sandboxes([each for each in chosen if each.ready])
