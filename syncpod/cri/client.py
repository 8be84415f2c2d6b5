"""The port on a real runtime: CRI v1 over a unix socket, with asyncio."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Self, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import Message
from typing_extensions import override

from protos.cri.containerd import (
    containers_pb2,
    containers_pb2_grpc,
    content_pb2,
    content_pb2_grpc,
    tasks_pb2,
    tasks_pb2_grpc,
)
from protos.cri.v1 import api_pb2, api_pb2_grpc
from syncpod.cri import records, telemetry
from syncpod.cri.answers import ReadableAnswers, asked_for, is_id, process_id, word
from syncpod.cri.calls import call_of
from syncpod.cri.endpoint import socket_path
from syncpod.cri.errors import CriError, NotFound, RecordLost, Unimplemented, Unreadable, classify, valid_answer
from syncpod.cri.keyring import Credential
from syncpod.cri.known_items import KnownItems
from syncpod.cri.port import (
    CgroupDriver,
    ContainerAnswer,
    ContainerConfig,
    ContainerEvent,
    ContainerStats,
    ContainerSummary,
    CriRuntime,
    ExecResult,
    ImageFsInfo,
    ImageStatus,
    Ingest,
    LinuxResources,
    RuntimeStatus,
    RuntimeVersion,
    SandboxConfig,
    SandboxStats,
    SandboxStatus,
    SandboxSummary,
)
from syncpod.kernel.listening import grpc_address
from syncpod.redaction import of_process

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_SECONDS: Final = 120.0
"""The kubelet's runtimeRequestTimeout."""

LONGEST_TIMEOUT_SECONDS: Final = 2**31 - 1
"""The longest timeout for StopContainer and ExecSync, 68 years. The kubelet counts seconds in 64 bits, but runtimes
count nanoseconds in 64 bits, and gRPC treats a deadline that it cannot represent as expired."""

_CHANNEL_OPTIONS: Final = (
    # The kubelet's limit. gRPC's default is 4 MiB, and a container takes about 800 bytes in a list.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.max_send_message_length", 16 * 1024 * 1024),
    # The default would be the socket's path, which Go's HTTP/2 servers reject as malformed.
    ("grpc.default_authority", "localhost"),
    # A restarting runtime is back within a second, but gRPC's default back-off grows to minutes. These are the
    # kubelet's values.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 3000),
    # Despite its name, this is the timeout of one attempt to connect.
    ("grpc.min_reconnect_backoff_ms", 5000),
    # Clients in one process share no connection, so none waits for another's back-off.
    ("grpc.use_local_subchannel_pool", 1),
)

_NOTHING: Final[Mapping[str, str]] = {}

_RPC: Final = {
    method.input_type.name: f"{service.full_name}/{method.name}"
    for file in (api_pb2.DESCRIPTOR, tasks_pb2.DESCRIPTOR, content_pb2.DESCRIPTOR, containers_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
}
"""Full method names by request type; no two methods share one."""

_ANY_RUNTIME: Final = containers_pb2.Runtime(name="io.containerd.runc.v2")
_ANY_SPEC: Final = containers_pb2.Spec(type_url="types.containerd.io/opencontainers/runtime-spec/1/Spec", value=b"{}")
"""containerd refuses a record without a runtime or a spec, but a container that has run needs neither."""

_Headers = tuple[tuple[str, str], ...]
_CONTAINERD: Final[_Headers] = (("containerd-namespace", "k8s.io"),)
"""containerd's own API needs the namespace in which its CRI plugin makes everything."""

_Request = TypeVar("_Request", bound=Message)
_Answer = TypeVar("_Answer", bound=Message)
_About = Mapping[str, str | int]


class CriClient(CriRuntime):
    """A CRI v1 client. Make it inside a running event loop, and close it there. `CriRuntime` documents the calls.

    `endpoint` is `unix:///path` or a path. The client connects with the first call, and later calls restore a lost
    connection. Timeouts are those of the kubelet (cri-client/pkg/remote_runtime.go, v1.36): `timeout_seconds` for most
    calls, and twice as long for RunPodSandbox. StopContainer has the grace in addition, and ExecSync the command's own
    timeout. PullImage, and ExecSync of a command without a timeout, have no timeout. No timeout is longer than 68
    years.
    """

    def __init__(self, endpoint: str, *, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._timeout = timeout_seconds
        self._sandboxes = KnownItems(records.sandbox_summary)
        self._containers = KnownItems(records.container_summary)
        self._channel = grpc.aio.insecure_channel(grpc_address(socket_path(endpoint)), options=_CHANNEL_OPTIONS)
        answers = cast(grpc.aio.Channel, ReadableAnswers(self._channel))
        self._runtime = api_pb2_grpc.RuntimeServiceStub(answers)
        self._images = api_pb2_grpc.ImageServiceStub(answers)
        self._tasks = tasks_pb2_grpc.TasksStub(answers)
        self._content = content_pb2_grpc.ContentStub(answers)
        self._records = containers_pb2_grpc.ContainersStub(answers)

    async def close(self) -> None:
        """Close the connection, and cancel the calls under way."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- the runtime itself -------------------------------------------------------------------------------------------

    @override
    async def version(self) -> RuntimeVersion:
        answer = await self._call(self._runtime.Version, api_pb2.VersionRequest(version="0.1.0"))
        return RuntimeVersion(name=word(answer.runtime_name), version=word(answer.runtime_version))

    @override
    async def status(self, *, verbose: bool = False) -> RuntimeStatus:
        request = api_pb2.StatusRequest(verbose=verbose)
        return records.runtime_status(await self._call(self._runtime.Status, request))

    @override
    async def runtime_config(self, *, default: CgroupDriver = "cgroupfs") -> CgroupDriver:
        try:
            answer = await self._call(self._runtime.RuntimeConfig, api_pb2.RuntimeConfigRequest())
        except Unimplemented:
            telemetry.without_runtime_config()
            answer = api_pb2.RuntimeConfigResponse()
        if answer.HasField("linux"):
            return "systemd" if answer.linux.cgroup_driver == api_pb2.SYSTEMD else "cgroupfs"
        status = await self.status(verbose=True)
        return records.cgroup_driver(status.info) or default

    @override
    async def update_runtime_config(self, *, pod_cidr: str) -> None:
        network = api_pb2.NetworkConfig(pod_cidr=pod_cidr)
        request = api_pb2.UpdateRuntimeConfigRequest(runtime_config=api_pb2.RuntimeConfig(network_config=network))
        await self._call(self._runtime.UpdateRuntimeConfig, request)

    # --- sandboxes ----------------------------------------------------------------------------------------------------

    @override
    async def run_pod_sandbox(self, config: SandboxConfig, *, runtime_handler: str = "") -> str:
        request = api_pb2.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        with telemetry.sandbox_run(runtime_handler):
            answer = await self._call_within(
                2 * self._timeout,
                self._runtime.RunPodSandbox,
                request,
                about={**_pod(config), "syncpod.sandbox.attempt": config.metadata.attempt},
            )
        return _id("run_podsandbox", answer.pod_sandbox_id)

    @override
    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        request = api_pb2.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._call(self._runtime.StopPodSandbox, request, about=_sandbox(sandbox_id))

    @override
    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        request = api_pb2.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        remove = partial(self._call, self._runtime.RemovePodSandbox, request, about=_sandbox(sandbox_id))
        try:
            await self._with_records(remove)
        except NotFound:
            if await self.list_pod_sandboxes(id=sandbox_id):
                raise

    @override
    async def pod_sandbox_status(self, sandbox_id: str, *, verbose: bool = False) -> SandboxStatus:
        request = api_pb2.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=verbose)
        answer = await self._call(self._runtime.PodSandboxStatus, request, about=_sandbox(sandbox_id))
        _is_about("podsandbox_status", answer.status.id, sandbox_id)
        return records.sandbox_status(answer)

    @override
    async def list_pod_sandboxes(
        self, *, labels: Mapping[str, str] = _NOTHING, id: str = ""
    ) -> tuple[SandboxSummary, ...]:
        selection = api_pb2.PodSandboxFilter(id=id, label_selector=labels)
        request = api_pb2.ListPodSandboxRequest(filter=selection)
        answer = await self._call(self._runtime.ListPodSandbox, request)
        return asked_for(self._sandboxes.records(answer.items), labels, id=id)

    # --- containers ---------------------------------------------------------------------------------------------------

    @override
    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox_config: SandboxConfig) -> str:
        request = api_pb2.CreateContainerRequest(
            pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config
        )
        about: dict[str, str | int] = {
            **_pod(sandbox_config),
            **_sandbox(sandbox_id),
            "k8s.container.name": config.metadata.name,
            "k8s.container.restart_count": config.metadata.attempt,
            "container.image.name": config.image.image,
        }
        answer = await self._call(self._runtime.CreateContainer, request, about=about)
        return _id("create_container", answer.container_id)

    @override
    async def start_container(self, container_id: str) -> None:
        request = api_pb2.StartContainerRequest(container_id=container_id)
        await self._call(self._runtime.StartContainer, request, about=_container(container_id))

    @override
    async def stop_container(self, container_id: str, *, timeout_seconds: int) -> None:
        seconds = min(timeout_seconds, LONGEST_TIMEOUT_SECONDS)
        request = api_pb2.StopContainerRequest(container_id=container_id, timeout=seconds)
        about: _About = {**_container(container_id), "syncpod.grace_period_seconds": seconds}
        timeout = self._timeout + seconds
        await self._with_records(partial(self._call_within, timeout, self._runtime.StopContainer, request, about=about))

    @override
    async def remove_container(self, container_id: str) -> None:
        request = api_pb2.RemoveContainerRequest(container_id=container_id)
        remove = partial(self._call, self._runtime.RemoveContainer, request, about=_container(container_id))
        try:
            await self._with_records(remove)
        except NotFound:
            if await self.list_containers(id=container_id):
                raise

    async def _with_records(self, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call that stops or removes. After each RecordLost, make the missing record and repeat the call.

        With the record, containerd finds a task that is left, and then refuses to remove the container (TaskLeft).
        """
        made = set[str]()
        while True:
            try:
                await call()
            except RecordLost as lost:
                if lost.container_id in made:
                    raise
                await self._make_record(lost)
                made.add(lost.container_id)
            else:
                return

    async def _make_record(self, lost: RecordLost) -> None:
        """Make the record of a container in containerd. Raises CriError, and `lost` if the runtime lacks that call."""
        record = containers_pb2.Record(id=lost.container_id, runtime=_ANY_RUNTIME, spec=_ANY_SPEC)
        request = containers_pb2.CreateRecordRequest(container=record)
        try:
            await self._call(self._records.Create, request, about=_container(lost.container_id), headers=_CONTAINERD)
        except Unimplemented:
            raise lost from None
        except CriError as error:
            if error.code != grpc.StatusCode.ALREADY_EXISTS.name:
                raise
        log.warning("containerd had lost the record of container %s; it has one again", lost.container_id)

    @override
    async def discard_task(self, container_id: str) -> None:
        about = _container(container_id)
        kill = tasks_pb2.KillRequest(container_id=container_id, signal=signal.SIGKILL, all=True)
        with contextlib.suppress(NotFound):  # the task has ended; or there is none, and the next call raises NotFound
            await self._call(self._tasks.Kill, kill, about=about, headers=_CONTAINERD)
        wait = tasks_pb2.WaitRequest(container_id=container_id)
        await self._call(self._tasks.Wait, wait, about=about, headers=_CONTAINERD)
        delete = tasks_pb2.DeleteTaskRequest(container_id=container_id)
        await self._call(self._tasks.Delete, delete, about=about, headers=_CONTAINERD)

    @override
    async def list_containers(
        self, *, labels: Mapping[str, str] = _NOTHING, id: str = "", sandbox_id: str = ""
    ) -> tuple[ContainerSummary, ...]:
        selection = api_pb2.ContainerFilter(id=id, pod_sandbox_id=sandbox_id, label_selector=labels)
        request = api_pb2.ListContainersRequest(filter=selection)
        answer = await self._call(self._runtime.ListContainers, request)
        return asked_for(self._containers.records(answer.containers), labels, id=id, sandbox_id=sandbox_id)

    @override
    async def container_status(self, container_id: str, *, verbose: bool = False) -> ContainerAnswer:
        request = api_pb2.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        about = _container(container_id)
        try:
            answer = await self._call(self._runtime.ContainerStatus, request, about=about)
        except CriError as error:
            if not verbose or error.code != grpc.StatusCode.RESOURCE_EXHAUSTED.name:
                raise
            # containerd's answer has the environment twice, as JSON. An environment of 1.4 MiB may exceed the largest
            # message.
            known = await self.container_status(container_id)
            pid = await self._pid_of_task(container_id) if known.container.state == "running" else 0
            return replace(known, container=known.container.model_copy(update={"pid": pid}))
        _is_about("container_status", answer.status.id, container_id)
        with valid_answer("container_status"):
            return records.container_status(answer)

    async def _pid_of_task(self, container_id: str) -> int:
        """Return the pid of a container's process by containerd's own API; 0 if containerd reports none."""
        request = tasks_pb2.GetRequest(container_id=container_id)
        try:
            found = await self._call(self._tasks.Get, request, about=_container(container_id), headers=_CONTAINERD)
        except (NotFound, Unimplemented):  # the process has just ended; or the runtime is not containerd
            return 0
        return process_id(found.process.pid)

    @override
    async def container_events(self) -> AsyncGenerator[ContainerEvent, None]:
        call = self._runtime.GetContainerEvents(api_pb2.GetEventsRequest())
        try:
            async for event in call:
                if event is None:
                    raise Unreadable("get_container_events", "INTERNAL", "the runtime's event is not a CRI message")
                yield ContainerEvent(
                    id=word(event.container_id),
                    labels=dict(event.pod_sandbox_status.labels),
                    is_end=event.container_event_type == api_pb2.CONTAINER_STOPPED_EVENT,
                )
        except grpc.aio.AioRpcError as error:
            raise classify("get_container_events", error.code(), error.details() or "") from None
        finally:
            call.cancel()

    @override
    async def update_pod_sandbox_resources(
        self, sandbox_id: str, *, overhead: LinuxResources, resources: LinuxResources
    ) -> None:
        request = api_pb2.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=sandbox_id, overhead=overhead, resources=resources
        )
        await self._call(
            self._runtime.UpdatePodSandboxResources,
            request,
            about=_sandbox(sandbox_id),
        )

    @override
    async def update_container_resources(self, container_id: str, resources: LinuxResources) -> None:
        request = api_pb2.UpdateContainerResourcesRequest(container_id=container_id, linux=resources)
        await self._call(self._runtime.UpdateContainerResources, request, about=_container(container_id))

    @override
    async def list_sandbox_stats(
        self, *, labels: Mapping[str, str], timeout_seconds: float
    ) -> tuple[SandboxStats, ...]:
        selection = api_pb2.PodSandboxStatsFilter(label_selector=labels)
        answer = await self._call_within(
            timeout_seconds,
            self._runtime.ListPodSandboxStats,
            api_pb2.ListPodSandboxStatsRequest(filter=selection),
        )
        return tuple(records.sandbox_stats(stats) for stats in answer.stats)

    @override
    async def list_container_stats(self, *, sandbox_id: str, timeout_seconds: float) -> tuple[ContainerStats, ...]:
        selection = api_pb2.ContainerStatsFilter(pod_sandbox_id=sandbox_id)
        answer = await self._call_within(
            timeout_seconds,
            self._runtime.ListContainerStats,
            api_pb2.ListContainerStatsRequest(filter=selection),
            about=_sandbox(sandbox_id),
        )
        return tuple(records.container_stats(stats) for stats in answer.stats)

    @override
    async def reopen_container_log(self, container_id: str) -> None:
        request = api_pb2.ReopenContainerLogRequest(container_id=container_id)
        await self._call(self._runtime.ReopenContainerLog, request, about=_container(container_id))

    @override
    async def exec_sync(self, container_id: str, command: tuple[str, ...], *, timeout_seconds: int) -> ExecResult:
        seconds = min(timeout_seconds, LONGEST_TIMEOUT_SECONDS)
        request = api_pb2.ExecSyncRequest(container_id=container_id, cmd=command, timeout=seconds)
        answer = await self._call_within(
            self._timeout + seconds if seconds else None,
            self._runtime.ExecSync,
            request,
            about=_container(container_id),
        )
        return ExecResult(stdout=answer.stdout, stderr=answer.stderr, exit_code=answer.exit_code)

    @override
    async def exec(
        self, container_id: str, command: tuple[str, ...], *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        request = api_pb2.ExecRequest(
            container_id=container_id, cmd=command, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr
        )
        return (await self._call(self._runtime.Exec, request, about=_container(container_id))).url

    @override
    async def attach(self, container_id: str, *, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str:
        request = api_pb2.AttachRequest(container_id=container_id, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr)
        return (await self._call(self._runtime.Attach, request, about=_container(container_id))).url

    @override
    async def port_forward(self, sandbox_id: str, ports: Sequence[int] = ()) -> str:
        request = api_pb2.PortForwardRequest(pod_sandbox_id=sandbox_id, port=ports)
        return (await self._call(self._runtime.PortForward, request, about=_sandbox(sandbox_id))).url

    # --- images -------------------------------------------------------------------------------------------------------

    @override
    async def image_status(self, image: str) -> ImageStatus | None:
        request = api_pb2.ImageStatusRequest(image=api_pb2.ImageSpec(image=image))
        answer = await self._call(self._images.ImageStatus, request, about=_image(image))
        return records.image_status(answer.image) if answer.HasField("image") else None

    @override
    async def pull_image(
        self, image: str, *, credential: Credential | None = None, sandbox_config: SandboxConfig | None = None
    ) -> str:
        request = api_pb2.PullImageRequest(image=api_pb2.ImageSpec(image=image), sandbox_config=sandbox_config)
        if credential is not None:
            of_process.add(credential.secrets)
            request.auth.username, request.auth.password = credential.username, credential.password
        answer = await self._call_within(None, self._images.PullImage, request, about=_image(image))
        return word(answer.image_ref)

    @override
    async def ingests(self) -> tuple[Ingest, ...] | None:
        try:
            answer = await self._call(
                self._content.ListStatuses, content_pb2.ListStatusesRequest(), headers=_CONTAINERD
            )
        except Unimplemented:
            return None
        return tuple(Ingest(status.ref, status.offset, max(0, status.total)) for status in answer.statuses)

    @override
    async def list_images(self) -> tuple[ImageStatus, ...]:
        answer = await self._call(self._images.ListImages, api_pb2.ListImagesRequest())
        return tuple(records.image_status(image) for image in answer.images)

    @override
    async def remove_image(self, image: str) -> None:
        request = api_pb2.RemoveImageRequest(image=api_pb2.ImageSpec(image=image))
        await self._call(self._images.RemoveImage, request, about=_image(image))

    @override
    async def image_fs_info(self) -> ImageFsInfo:
        answer = await self._call(self._images.ImageFsInfo, api_pb2.ImageFsInfoRequest())
        return ImageFsInfo(
            image_filesystems=tuple(records.filesystem_usage(usage) for usage in answer.image_filesystems),
            container_filesystems=tuple(records.filesystem_usage(usage) for usage in answer.container_filesystems),
        )

    async def _call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Answer],
        request: _Request,
        *,
        about: _About = _NOTHING,
        headers: _Headers = (),
    ) -> _Answer:
        return await self._call_within(self._timeout, method, request, about=about, headers=headers)

    async def _call_within(
        self,
        timeout: float | None,
        method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Answer],
        request: _Request,
        *,
        about: _About = _NOTHING,
        headers: _Headers = (),
    ) -> _Answer:
        """Make one call; `timeout` is in seconds, or None = no timeout. `about` holds the span's attributes.

        Raises CriError; :class:`Unreadable` if the answer cannot be parsed, as gRPC then returns None.
        """
        operation = call_of(request.DESCRIPTOR.name).operation
        with telemetry.operation(operation, rpc=_RPC[request.DESCRIPTOR.name], attributes=about):
            try:
                answer = await method(request, timeout=timeout, metadata=headers)
            except grpc.aio.AioRpcError as error:
                raise classify(operation, error.code(), error.details() or "") from None
            if answer is None:
                raise Unreadable(operation, "INTERNAL", "the runtime's answer is not a CRI message")
            return answer


def _id(operation: str, text: str) -> str:
    """Return the id of a new object if it is valid. Raises Unreadable."""
    if not is_id(text):
        raise Unreadable(operation, "INTERNAL", f"the runtime answered with {text[:100]!r}, which is not an id")
    return text


def _is_about(operation: str, answered: str, asked: str) -> None:
    """Raise Unreadable if an answer is about another object than the request."""
    if answered != asked:
        raise Unreadable(operation, "INTERNAL", f"the runtime answered about {answered[:100]!r}, not about {asked}")


def _pod(config: SandboxConfig) -> _About:
    pod = config.metadata
    return {"k8s.namespace.name": pod.namespace, "k8s.pod.name": pod.name, "k8s.pod.uid": pod.uid}


def _sandbox(sandbox_id: str) -> _About:
    return {"syncpod.sandbox.id": sandbox_id}


def _container(container_id: str) -> _About:
    return {"container.id": container_id}


def _image(image: str) -> _About:
    return {"container.image.name": image}
