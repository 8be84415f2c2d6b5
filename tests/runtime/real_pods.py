"""A pod of real processes on a real server, by raw CRI calls."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from protos.cri.v1 import api_pb2 as cri
from tests.agent.waiting import until_asked
from tests.runtimes.bare import BareCri
from tests.runtimes.images import BUSYBOX


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Pod:
    """One pod, by CRI calls that wait until the server is reachable."""

    def __init__(self, calls: BareCri, *, logs: Path | None = None) -> None:
        self.calls = calls.runtime
        self.config = calls.sandbox_config(f"p-{uuid.uuid4().hex[:8]}")
        self.config.log_directory = str(logs) if logs else ""
        self.sandbox = ""

    async def run(self) -> str:
        request = cri.RunPodSandboxRequest(config=self.config)
        self.sandbox = (await self.calls.RunPodSandbox(request, wait_for_ready=True)).pod_sandbox_id
        return self.sandbox

    def container(self, *command: str, name: str = "main") -> cri.ContainerConfig:
        return cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name), image=cri.ImageSpec(image=BUSYBOX), command=command
        )

    async def create(self, config: cri.ContainerConfig) -> str:
        request = cri.CreateContainerRequest(pod_sandbox_id=self.sandbox, config=config, sandbox_config=self.config)
        return (await self.calls.CreateContainer(request, wait_for_ready=True)).container_id

    async def start(self, container: str) -> None:
        await self.calls.StartContainer(cri.StartContainerRequest(container_id=container), wait_for_ready=True)

    async def started(self, *command: str, name: str = "main") -> str:
        container = await self.create(self.container(*command, name=name))
        await self.start(container)
        return container

    async def stop(self, container: str, grace: int) -> None:
        request = cri.StopContainerRequest(container_id=container, timeout=grace)
        await self.calls.StopContainer(request, wait_for_ready=True)

    async def status(self, container: str) -> cri.ContainerStatus:
        request = cri.ContainerStatusRequest(container_id=container)
        return (await self.calls.ContainerStatus(request, wait_for_ready=True)).status

    async def pid(self, container: str) -> int:
        request = cri.ContainerStatusRequest(container_id=container, verbose=True)
        pid: int = json.loads((await self.calls.ContainerStatus(request, wait_for_ready=True)).info["info"])["pid"]
        return pid

    async def ended(self, container: str) -> cri.ContainerStatus:
        async def has() -> bool:
            return (await self.status(container)).state == cri.CONTAINER_EXITED

        await until_asked(has)
        return await self.status(container)

    async def remove(self) -> None:
        request = cri.RemovePodSandboxRequest(pod_sandbox_id=self.sandbox)
        await self.calls.RemovePodSandbox(request, wait_for_ready=True)
