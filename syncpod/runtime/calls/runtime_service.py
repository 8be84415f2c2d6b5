"""CRI's RuntimeService: validates each call, looks up its subject, and leaves the work to other modules."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.metadata import version
from typing import Final

from protos.cri.v1 import api_pb2
from syncpod.kernel.os_errors import where_and_why
from syncpod.runtime import statuses
from syncpod.runtime.calls import validation
from syncpod.runtime.calls.faults import Faults
from syncpod.runtime.calls.lookup import Lookup, running
from syncpod.runtime.calls.status import configuration
from syncpod.runtime.cgroups.limits import CgroupRefused
from syncpod.runtime.containers import Containers
from syncpod.runtime.refusals import failed, invalid, not_found, precondition
from syncpod.runtime.sandboxes import Sandboxes
from syncpod.runtime.state import Runtime

RUNTIME_NAME: Final = "syncpod-embedded"
_KUBELET_API_VERSION: Final = "0.1.0"
_PART: Final = 500
"""The number of entries in each part of a streamed list."""


class RuntimeService:
    """One method for each call except those for streams and measurements, named as on the wire. All raise Refusal."""

    def __init__(
        self,
        runtime: Runtime,
        sandboxes: Sandboxes,
        containers: Containers,
        lookup: Lookup,
        faults: Faults,
        features: api_pb2.RuntimeHandlerFeatures,
    ) -> None:
        self._runtime = runtime
        self._sandboxes = sandboxes
        self._containers = containers
        self._lookup = lookup
        self._faults = faults
        self._features = features

    # --- the runtime itself -------------------------------------------------------------------------------------------

    async def Version(self, request: api_pb2.VersionRequest) -> api_pb2.VersionResponse:  # noqa: N802
        """Return the runtime's name and version."""
        return api_pb2.VersionResponse(
            version=_KUBELET_API_VERSION,
            runtime_name=RUNTIME_NAME,
            runtime_version=version("syncpod"),
            runtime_api_version="v1",
        )

    async def Status(self, request: api_pb2.StatusRequest) -> api_pb2.StatusResponse:  # noqa: N802
        """Return the runtime's conditions, which are always true, and its features."""
        host = self._runtime.host
        conditions = [api_pb2.RuntimeCondition(type=type, status=True) for type in ("RuntimeReady", "NetworkReady")]
        return api_pb2.StatusResponse(
            status=api_pb2.RuntimeStatus(conditions=conditions),
            info={"config": json.dumps(configuration(self._runtime))} if request.verbose else None,
            runtime_handlers=[api_pb2.RuntimeHandler(name="", features=self._features)],
            features=api_pb2.RuntimeFeatures(supplemental_groups_policy=host.root),
        )

    async def RuntimeConfig(self, request: api_pb2.RuntimeConfigRequest) -> api_pb2.RuntimeConfigResponse:  # noqa: N802
        """Return the cgroup driver."""
        return api_pb2.RuntimeConfigResponse(linux=api_pb2.LinuxRuntimeConfiguration(cgroup_driver=api_pb2.CGROUPFS))

    async def UpdateRuntimeConfig(  # noqa: N802
        self, request: api_pb2.UpdateRuntimeConfigRequest
    ) -> api_pb2.UpdateRuntimeConfigResponse:
        """Do nothing: pods have loopback addresses, and none of the node's pod CIDR."""
        return api_pb2.UpdateRuntimeConfigResponse()

    # --- sandboxes ----------------------------------------------------------------------------------------------------

    async def RunPodSandbox(self, request: api_pb2.RunPodSandboxRequest) -> api_pb2.RunPodSandboxResponse:  # noqa: N802
        """Make a sandbox."""
        validation.sandbox_config(request.config, "config")
        if request.runtime_handler:
            raise invalid(
                "runtime_handler",
                f'no runtime for "{request.runtime_handler}" is configured: there is only the default, ""',
            )
        await self._faults.before("RunPodSandbox", request.config.annotations, request.config.metadata.uid)
        return api_pb2.RunPodSandboxResponse(pod_sandbox_id=await self._sandboxes.run(request.config))

    async def StopPodSandbox(self, request: api_pb2.StopPodSandboxRequest) -> api_pb2.StopPodSandboxResponse:  # noqa: N802
        """Stop a sandbox; a missing one is success."""
        sandbox = self._runtime.sandboxes.find(request.pod_sandbox_id, "pod_sandbox_id")
        if sandbox is not None:
            await self._lookup.before("StopPodSandbox", sandbox)
            await self._sandboxes.stop(sandbox)
        return api_pb2.StopPodSandboxResponse()

    async def RemovePodSandbox(  # noqa: N802
        self, request: api_pb2.RemovePodSandboxRequest
    ) -> api_pb2.RemovePodSandboxResponse:
        """Remove a sandbox with its containers; a missing one is success."""
        sandbox = self._runtime.sandboxes.find(request.pod_sandbox_id, "pod_sandbox_id")
        if sandbox is not None:
            await self._lookup.before("RemovePodSandbox", sandbox)
            await self._sandboxes.remove(sandbox)
        return api_pb2.RemovePodSandboxResponse()

    async def UpdatePodSandboxResources(  # noqa: N802
        self, request: api_pb2.UpdatePodSandboxResourcesRequest
    ) -> api_pb2.UpdatePodSandboxResourcesResponse:
        """Record a pod's new resources for verbose status; the caller changes the pod's cgroup itself."""
        sandbox = self._lookup.sandbox(request.pod_sandbox_id)
        validation.resources(request.overhead, "overhead")
        validation.resources(request.resources, "resources")
        await self._sandboxes.update(sandbox, request)
        return api_pb2.UpdatePodSandboxResourcesResponse()

    async def PodSandboxStatus(  # noqa: N802
        self, request: api_pb2.PodSandboxStatusRequest
    ) -> api_pb2.PodSandboxStatusResponse:
        """Return a sandbox in full."""
        sandbox = self._lookup.sandbox(request.pod_sandbox_id)
        await self._lookup.before("PodSandboxStatus", sandbox)
        try:
            return api_pb2.PodSandboxStatusResponse(
                status=statuses.sandbox_status(self._runtime, sandbox),
                info=statuses.sandbox_info(self._runtime, sandbox) if request.verbose else None,
            )
        except FileNotFoundError:
            raise not_found(f'sandbox "{sandbox.id}": not found') from None

    async def ListPodSandbox(self, request: api_pb2.ListPodSandboxRequest) -> bytes:  # noqa: N802
        """List sandboxes."""
        return b"".join(self._sandbox_entries(request.filter))

    async def StreamPodSandboxes(self, request: api_pb2.StreamPodSandboxesRequest) -> AsyncIterator[bytes]:  # noqa: N802
        """List sandboxes, in parts."""
        for part in _parts(self._sandbox_entries(request.filter)):
            yield part

    def _sandbox_entries(self, wanted: api_pb2.PodSandboxFilter) -> Iterator[bytes]:
        state = wanted.state.state if wanted.HasField("state") else None
        _known_state(state, api_pb2.PodSandboxState.values(), "filter.state.state")
        return (
            each.entry
            for each in self._runtime.sandboxes.select(wanted.id, dict(wanted.label_selector))
            if state is None or each.ready == (state == api_pb2.SANDBOX_READY)
        )

    # --- containers ---------------------------------------------------------------------------------------------------

    async def CreateContainer(  # noqa: N802
        self, request: api_pb2.CreateContainerRequest
    ) -> api_pb2.CreateContainerResponse:
        """Make a container."""
        sandbox = self._lookup.sandbox(request.pod_sandbox_id)
        if not request.HasField("config"):
            raise invalid("config", "required")
        validation.container_config(request.config, "config")
        given = request.sandbox_config
        if given.HasField("metadata") and given.metadata != sandbox.metadata:
            raise invalid("sandbox_config.metadata", f'is not that of sandbox "{sandbox.id}"')
        await self._lookup.before("CreateContainer", sandbox, request.config.metadata.name)
        container = self._containers.create(sandbox, request.config)
        return api_pb2.CreateContainerResponse(container_id=container.id)

    async def StartContainer(self, request: api_pb2.StartContainerRequest) -> api_pb2.StartContainerResponse:  # noqa: N802
        """Run a container."""
        container = self._lookup.container(request.container_id)
        await self._lookup.before("StartContainer", container.sandbox, container.short_name)
        await self._containers.start(container)
        return api_pb2.StartContainerResponse()

    async def StopContainer(self, request: api_pb2.StopContainerRequest) -> api_pb2.StopContainerResponse:  # noqa: N802
        """Stop a container; a missing one is success."""
        container = self._runtime.containers.find(request.container_id, "container_id")
        grace = validation.timeout(request.timeout, "timeout")
        if container is not None:
            await self._lookup.before("StopContainer", container.sandbox, container.short_name)
            await self._containers.stop(container, grace)
        return api_pb2.StopContainerResponse()

    async def RemoveContainer(  # noqa: N802
        self, request: api_pb2.RemoveContainerRequest
    ) -> api_pb2.RemoveContainerResponse:
        """Remove a container; a missing one is success."""
        container = self._runtime.containers.find(request.container_id, "container_id")
        if container is not None:
            await self._lookup.before("RemoveContainer", container.sandbox, container.short_name)
            await self._containers.remove(container)
        return api_pb2.RemoveContainerResponse()

    async def ListContainers(self, request: api_pb2.ListContainersRequest) -> bytes:  # noqa: N802
        """List containers."""
        return b"".join(self._container_entries(request.filter))

    async def StreamContainers(self, request: api_pb2.StreamContainersRequest) -> AsyncIterator[bytes]:  # noqa: N802
        """List containers, in parts."""
        for part in _parts(self._container_entries(request.filter)):
            yield part

    def _container_entries(self, wanted: api_pb2.ContainerFilter) -> Iterator[bytes]:
        state = wanted.state.state if wanted.HasField("state") else None
        _known_state(state, api_pb2.ContainerState.values(), "filter.state.state")
        return (
            each.entry
            for each in self._lookup.containers(wanted.id, wanted.pod_sandbox_id, dict(wanted.label_selector))
            if state is None or each.state == state
        )

    async def ContainerStatus(  # noqa: N802
        self, request: api_pb2.ContainerStatusRequest
    ) -> api_pb2.ContainerStatusResponse:
        """Return a container in full."""
        container = self._lookup.container(request.container_id)
        await self._lookup.before("ContainerStatus", container.sandbox, container.short_name)
        try:
            return api_pb2.ContainerStatusResponse(
                status=statuses.container_status(self._runtime, container),
                info=statuses.container_info(self._runtime, container) if request.verbose else None,
            )
        except FileNotFoundError:
            raise not_found(f'container "{container.id}": not found') from None

    async def UpdateContainerResources(  # noqa: N802
        self, request: api_pb2.UpdateContainerResourcesRequest
    ) -> api_pb2.UpdateContainerResourcesResponse:
        """Change a container's limits."""
        container = self._lookup.container(request.container_id)
        if request.HasField("windows"):
            raise invalid("windows", "this is Linux")
        validation.resources(request.linux, "linux")
        await self._lookup.before("UpdateContainerResources", container.sandbox, container.short_name)
        try:
            await self._containers.update(container, request.linux)
        except CgroupRefused as refused:
            raise precondition(f"linux: {refused}") from refused
        return api_pb2.UpdateContainerResourcesResponse()

    async def ReopenContainerLog(  # noqa: N802
        self, request: api_pb2.ReopenContainerLogRequest
    ) -> api_pb2.ReopenContainerLogResponse:
        """Make a running container reopen its log file."""
        container = self._lookup.container(request.container_id)
        await self._lookup.before("ReopenContainerLog", container.sandbox, container.short_name)
        try:
            await running(container).reopen_log()
        except OSError as error:
            raise failed(f'failed to reopen the log of container "{container.id}": {where_and_why(error)}') from error
        return api_pb2.ReopenContainerLogResponse()

    async def GetContainerEvents(  # noqa: N802
        self, request: api_pb2.GetEventsRequest
    ) -> AsyncIterator[api_pb2.ContainerEventResponse]:
        """Stream events from now on."""
        async for event in self._runtime.events.read():
            yield event


def _known_state(state: int | None, known: Sequence[int], path: str) -> None:
    if state is not None and state not in known:
        raise invalid(path, f"there is no state {state}")


def _parts(entries: Iterator[bytes]) -> Iterator[bytes]:
    """Group entries into parts, each a message of its own."""
    part: list[bytes] = []
    for entry in entries:
        part.append(entry)
        if len(part) == _PART:
            yield b"".join(part)
            part = []
    if part:
        yield b"".join(part)
