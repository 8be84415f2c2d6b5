"""Small pods made through the client, with the labels of a node's own pods."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from protos.cri.v1 import api_pb2 as cri
from syncpod.cri import ContainerConfig, CriRuntime, SandboxConfig
from syncpod.cri.errors import NotFound
from syncpod.translation import names
from tests.runtimes.images import BUSYBOX

OWNER = "node-a"
SLEEP = ("sleep", "1000")


@dataclass
class OwnedPod:
    """A pod that has only configurations until a test makes its sandbox and containers."""

    runtime: CriRuntime
    sandbox: SandboxConfig
    sandbox_id: str = ""

    @property
    def uid(self) -> str:
        return self.sandbox.metadata.uid

    async def run(self, *, attempt: int = 0) -> str:
        """Run its sandbox."""
        self.sandbox.metadata.attempt = attempt
        self.sandbox_id = await self.runtime.run_pod_sandbox(self.sandbox)
        return self.sandbox_id

    def container(
        self,
        name: str = "main",
        command: Sequence[str] = SLEEP,
        *,
        restart: int = 0,
        image: str = BUSYBOX,
        env: tuple[tuple[str, str], ...] = (),
    ) -> ContainerConfig:
        """The configuration for CreateContainer of a container of this pod."""
        identity = {name: self.sandbox.labels[name] for name in self.sandbox.labels}
        return cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name, attempt=restart),
            image=cri.ImageSpec(image=image, user_specified_image=image),
            command=command,
            envs=[cri.KeyValue(key=key, value=value.encode()) for key, value in env],
            log_path=f"{name}/{restart}.log",
            labels=identity | {names.CONTAINER_NAME_LABEL: name},
            annotations={names.CONTAINER_HASH_ANNOTATION: "11a6d6d6", names.INCARNATION_ANNOTATION: "life-1"},
            linux=cri.LinuxContainerConfig(
                security_context=cri.LinuxContainerSecurityContext(
                    namespace_options=self.sandbox.linux.security_context.namespace_options
                )
            ),
        )

    async def create(self, config: ContainerConfig | None = None) -> str:
        """Create a container in its sandbox, and the directory of its log, as a kubelet does."""
        config = config or self.container()
        log = Path(self.sandbox.log_directory, config.log_path)
        await asyncio.to_thread(log.parent.mkdir, parents=True, exist_ok=True)
        return await self.runtime.create_container(self.sandbox_id, config, self.sandbox)

    async def start(self, config: ContainerConfig | None = None) -> str:
        """Create and start a container in its sandbox."""
        container_id = await self.create(config)
        await self.runtime.start_container(container_id)
        return container_id


@contextlib.asynccontextmanager
async def owned_pod(
    runtime: CriRuntime,
    *,
    cgroup_parent: str,
    logs: Path,
    name: str = "web",
    host_network: bool = True,
    owner: str = OWNER,
) -> AsyncIterator[OwnedPod]:
    """A pod with a unique UID; everything of it in the runtime is removed at the end."""
    uid = str(uuid.uuid4())
    namespaces = cri.NamespaceOption(
        network=cri.NamespaceMode.NODE if host_network else cri.NamespaceMode.POD, pid=cri.NamespaceMode.CONTAINER
    )
    sandbox = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, uid=uid, namespace="default"),
        log_directory=str(logs),
        labels={
            names.POD_NAME_LABEL: name,
            names.POD_NAMESPACE_LABEL: "default",
            names.POD_UID_LABEL: uid,
            names.NODE_LABEL: owner,
        },
        annotations={names.INCARNATION_ANNOTATION: "life-1"},
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=f"{cgroup_parent}/pod{uid}",
            security_context=cri.LinuxSandboxSecurityContext(namespace_options=namespaces),
        ),
    )
    try:
        yield OwnedPod(runtime, sandbox)
    finally:
        for container in await runtime.list_containers(labels={names.POD_UID_LABEL: uid}):
            with contextlib.suppress(NotFound):  # CRI-O would give it the time of the sandbox' call as its grace.
                await runtime.stop_container(container.id, timeout_seconds=0)
        for left in await runtime.list_pod_sandboxes(labels={names.POD_UID_LABEL: uid}):
            with contextlib.suppress(NotFound):
                await runtime.stop_pod_sandbox(left.id)
                await runtime.remove_pod_sandbox(left.id)
