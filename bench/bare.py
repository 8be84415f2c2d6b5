"""The floor: the CRI calls that the engine makes for a pod, with the same configurations, one after the other."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass

from bench.watch import Watch
from protos.cri.v1 import api_pb2 as cri
from syncpod.cri import ContainerConfig, SandboxConfig
from syncpod.node.directories import plan_container, plan_pod, prepare_container, prepare_pod, remove_pod_files
from syncpod.objects import ObjectStore
from syncpod.pod import Container, ContainerKind, Pod
from syncpod.translation.container_config import container_config, container_variables
from syncpod.translation.context import NodeContext
from syncpod.translation.sandbox_config import sandbox_config
from tests.runtimes.bare import BareCri

_ADDRESS = ("192.0.2.1",)
"""A placeholder for the pod's address, known only once its sandbox runs; only /etc/hosts uses it."""


@dataclass
class BarePod:
    """A pod whose configurations and directories are prepared, before any CRI call."""

    pod: Pod
    sandbox: SandboxConfig
    init_containers: tuple[ContainerConfig, ...]
    main: ContainerConfig
    again: ContainerConfig
    """The same container, restart 1."""
    others: tuple[ContainerConfig, ...] = ()
    """The containers beside the main one."""
    sandbox_id: str = ""
    container_id: str = ""
    other_ids: tuple[str, ...] = ()


class BareNode:
    """Creates pods with nothing but CRI calls. Its pods carry another owner label than the worker's."""

    def __init__(self, cri_calls: BareCri, watch: Watch, context: NodeContext) -> None:
        """Call through `cri_calls`; `watch` returns when containers have ended."""
        self._runtime = cri_calls.runtime
        self._watch = watch
        self._context = context

    def prepare(self, pod: Pod) -> BarePod:
        """Prepare everything that is not a CRI call."""
        metadata = pod.metadata.model_copy(update={"uid": str(uuid.uuid4())})
        pod = pod.model_copy(update={"metadata": metadata})
        prepare_pod(plan_pod(pod, self._context), ObjectStore(self._context.state_dir, self._context.memory_dir))
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            prepare_container(plan_container(pod, container, self._context, _ADDRESS))
        main, *others = pod.spec.containers
        return BarePod(
            pod,
            sandbox_config(pod, attempt=0, node=self._context, incarnation="bare"),
            tuple(self._config(pod, each, "init_container") for each in pod.spec.init_containers),
            self._config(pod, main, "container"),
            self._config(pod, main, "container", restart_count=1),
            tuple(self._config(pod, each, "container") for each in others),
        )

    def _config(
        self, pod: Pod, container: Container, kind: ContainerKind, *, restart_count: int = 0
    ) -> ContainerConfig:
        return container_config(
            pod,
            container,
            kind=kind,
            restart_count=restart_count,
            observed_image=None,
            pod_ips=_ADDRESS,
            node=self._context,
            incarnation="bare",
            variables=container_variables(pod, container, kind=kind, pod_ips=_ADDRESS, node=self._context),
        )

    async def start(self, made: BarePod) -> None:
        """Run the sandbox, each init container to its end, and the containers, one after the other."""
        answer = await self._runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=made.sandbox))
        made.sandbox_id = answer.pod_sandbox_id
        name = made.pod.metadata.name
        for config in made.init_containers:
            container = config.metadata.name
            container_id = await self._start(made, config)
            await self._watch.until(lambda listing, container=container: bool(listing.exited(name, container)))  # type: ignore[misc]
            answer_status = await self._runtime.ContainerStatus(cri.ContainerStatusRequest(container_id=container_id))
            if answer_status.status.exit_code != 0:
                raise RuntimeError(f"{container} of {name} exited {answer_status.status.exit_code}")
        made.container_id = await self._start(made, made.main)
        made.other_ids = tuple([await self._start(made, other) for other in made.others])

    async def restart(self, made: BarePod) -> None:
        """Create and start the container again, as restart 1."""
        made.container_id = await self._start(made, made.again)

    async def stop(self, made: BarePod) -> None:
        """Stop the containers with grace, all at once, then the sandbox."""
        grace = made.pod.spec.termination_grace_period_seconds or 0
        stops = (
            self._runtime.StopContainer(cri.StopContainerRequest(container_id=each, timeout=grace))
            for each in (made.container_id, *made.other_ids)
        )
        await asyncio.gather(*stops)
        await self._runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=made.sandbox_id))

    async def remove(self, made: BarePod) -> None:
        """Remove the containers and the sandbox, in the engine's order."""
        listed = await self._runtime.ListContainers(
            cri.ListContainersRequest(filter=cri.ContainerFilter(pod_sandbox_id=made.sandbox_id))
        )
        for container in listed.containers:
            await self._runtime.RemoveContainer(cri.RemoveContainerRequest(container_id=container.id))
        await self._runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=made.sandbox_id))

    async def clear(self, made: BarePod) -> None:
        """Remove everything of the pod, in the runtime and on disk."""
        await self._runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=made.sandbox_id))
        await self._runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=made.sandbox_id))
        await asyncio.to_thread(self.clear_disk, made)

    def clear_disk(self, made: BarePod) -> None:
        """Remove everything of the pod outside the runtime: its cgroups, directories and logs."""
        meta = made.pod.metadata
        remove_pod_files(self._context, namespace=meta.namespace, name=meta.name, uid=meta.uid)

    async def _start(self, made: BarePod, config: ContainerConfig) -> str:
        created = await self._runtime.CreateContainer(
            cri.CreateContainerRequest(pod_sandbox_id=made.sandbox_id, config=config, sandbox_config=made.sandbox)
        )
        await self._runtime.StartContainer(cri.StartContainerRequest(container_id=created.container_id))
        return created.container_id
