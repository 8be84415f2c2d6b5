"""The CRI calls of a pod with one container, without the project's own client."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import grpc.aio

from protos.cri.v1 import api_pb2 as cri
from protos.cri.v1 import api_pb2_grpc as stubs
from tests.runtimes.images import BUSYBOX


@dataclass(frozen=True)
class BarePod:
    """A pod that was started: the runtime's ids of its sandbox and of its container."""

    sandbox_id: str
    container_id: str


class BareCri:
    """A channel to a runtime, with its two stubs; `async with` closes it."""

    def __init__(self, endpoint: str, *, cgroup_parent: str = "") -> None:
        self._channel = grpc.aio.insecure_channel(endpoint, options=[("grpc.max_receive_message_length", 16 << 20)])
        self._cgroup_parent = cgroup_parent
        self.runtime: stubs.RuntimeServiceAsyncStub = stubs.RuntimeServiceStub(self._channel)
        self.images: stubs.ImageServiceAsyncStub = stubs.ImageServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    def sandbox_config(self, name: str, *, host_network: bool = False, host_port: int = 0) -> cri.PodSandboxConfig:
        """The configuration of a sandbox for a pod of this name; `host_port` is forwarded to the pod's port 80."""
        uid = str(uuid.uuid4())
        network = cri.NamespaceMode.NODE if host_network else cri.NamespaceMode.POD
        namespaces = cri.NamespaceOption(network=network, pid=cri.NamespaceMode.CONTAINER)
        linux = cri.LinuxPodSandboxConfig(
            cgroup_parent=f"{self._cgroup_parent}/pod{uid}" if self._cgroup_parent else "",
            security_context=cri.LinuxSandboxSecurityContext(namespace_options=namespaces),
        )
        ports = [cri.PortMapping(host_port=host_port, container_port=80)] if host_port else []
        metadata = cri.PodSandboxMetadata(name=name, uid=uid, namespace="default")
        return cri.PodSandboxConfig(metadata=metadata, linux=linux, port_mappings=ports)

    async def start_pod(
        self, sandbox: cri.PodSandboxConfig, command: Sequence[str] = ("sleep", "1000"), image: str = BUSYBOX
    ) -> BarePod:
        """Run the sandbox and one container in it: three calls."""
        answer = await self.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=sandbox))
        security = cri.LinuxContainerSecurityContext(namespace_options=sandbox.linux.security_context.namespace_options)
        container = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="main"),
            image=cri.ImageSpec(image=image, user_specified_image=image),
            command=command,
            linux=cri.LinuxContainerConfig(security_context=security),
        )
        created = await self.runtime.CreateContainer(
            cri.CreateContainerRequest(pod_sandbox_id=answer.pod_sandbox_id, config=container, sandbox_config=sandbox)
        )
        await self.runtime.StartContainer(cri.StartContainerRequest(container_id=created.container_id))
        return BarePod(answer.pod_sandbox_id, created.container_id)

    async def remove_pod(self, pod: BarePod) -> None:
        """Stop the sandbox, which kills its container at once, and remove both."""
        await self.runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox_id))
        await self.runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod.sandbox_id))
