"""The preparation of a start before it creates its container: images, start mark, files, and the request to CRI.

A start ahead prepares while the runtime is busy with the first step, which it follows (`activities.pipelining`). Things
that the first step may still change are looked up only when that step reads the pod for the last time. At that
point the sandbox exists, the init container has succeeded, or the container runs. So each lookup is as late as in a
kubelet, and still takes no time between the two starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from activities.containers.noted_starts import noted_mark
from activities.containers.sources import sub_paths_of, variables_of
from activities.images.presence import FoundImages, container_of, look_at_images
from activities.step_attempt import StepAttempt
from syncpod.cri import ContainerConfig, SandboxConfig
from syncpod.messages.steps import StartContainer
from syncpod.node.directories import ContainerPlan, plan_container, prepare_container
from syncpod.node.pod_threads import DiskWork
from syncpod.node.pod_volumes import make_mount_points, share_volumes
from syncpod.node.start_marks import StartMark
from syncpod.pod import Container, EphemeralContainer, Pod
from syncpod.translation.container_config import container_config
from syncpod.translation.context import NodeContext, ordered_pod_ips
from syncpod.translation.env import wanted_files
from syncpod.translation.sandbox_config import sandbox_config


@dataclass(frozen=True)
class Configured:
    """The request that creates a container whose files are already made."""

    pod_ips: tuple[str, ...]
    """The pod's addresses that the container's files and environment contain."""
    container: ContainerConfig
    sandbox: SandboxConfig
    created: str | None = None
    """The id of the container, if its creation was requested before its turn; "" if the runtime did not answer in time:
    the container may still appear."""


@dataclass(frozen=True)
class Prepared:
    """The result of a start's preparation before its turn."""

    images: FoundImages
    mark: StartMark | None
    """The container's start mark, of any instance."""
    configured: Configured | None
    """None if the pod's addresses were not known yet, or a part of a volume has to be mounted (subPath)."""


async def prepare(attempt: StepAttempt, request: StartContainer) -> Prepared | None:
    """Prepare a start whose turn is about to come; None if an image is missing. Makes nothing in the runtime.

    Safe to repeat, and harmless if the start does not take place after all. Raises any error that occurs. Then the
    start prepares again, and reports the error of its second preparation.
    """
    pod, container, context = request.pod, container_of(request.pod, request.container), attempt.node.context
    home = attempt.node.reader.known_sandbox(request.sandbox_id)
    making: asyncio.Task[_Made] | None = None
    if home is not None and not _mounts_parts(container):
        pod_ips = ordered_pod_ips(home.ip, home.additional_ips, context.host.addresses)
        making = asyncio.create_task(_make(attempt, request, pod_ips))
    try:
        images, mark = await asyncio.gather(
            look_at_images(attempt, pod, container, pulled=request.pulled), noted_mark(attempt, request)
        )
        if images is None:
            return None
        configured = _configured(attempt, request, images, await making) if making is not None else None
    finally:
        if making is not None:
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)
    return Prepared(images, mark, configured)


def looks_into_volumes(request: StartContainer) -> bool:
    """Return whether a start looks into the pod's volumes, where the containers before it may still be writing."""
    container = container_of(request.pod, request.container)
    return _mounts_parts(container) or bool(wanted_files(container))


def _mounts_parts(container: Container | EphemeralContainer) -> bool:
    return any(mount.sub_path or mount.sub_path_expr for mount in container.volume_mounts)


async def configure(
    attempt: StepAttempt, request: StartContainer, images: FoundImages, pod_ips: tuple[str, ...], target_id: str = ""
) -> Configured:
    """Make the files of a container, and return the request to the runtime.

    `target_id` is the container whose processes an ephemeral container is to see. Raises
    :class:`~syncpod.translation.ContainerConfigError`, SandboxConfigError, MountFailure, UnsafeName,
    OSError.
    """
    return _configured(attempt, request, images, await _make(attempt, request, pod_ips), target_id)


@dataclass(frozen=True)
class _Made:
    """The environment and the subPaths of a container whose files are made."""

    pod_ips: tuple[str, ...]
    variables: Mapping[str, str]
    sub_paths: Mapping[int, str]


async def _make(attempt: StepAttempt, request: StartContainer, pod_ips: tuple[str, ...]) -> _Made:
    pod, container, context = request.pod, container_of(request.pod, request.container), attempt.node.context
    variables = await variables_of(attempt, pod, container, request.kind, pod_ips)
    plan = plan_container(pod, container, context, pod_ips, restart_count=request.restart)
    await attempt.on_disk(DiskWork.MAKE, partial(_make_files, plan, pod, container, context))
    return _Made(pod_ips, variables, await sub_paths_of(attempt, pod, container, request.kind, variables))


def _configured(
    attempt: StepAttempt, request: StartContainer, images: FoundImages, made: _Made, target_id: str = ""
) -> Configured:
    pod, context, incarnation = request.pod, attempt.node.context, request.ref.incarnation
    config = container_config(
        pod,
        container_of(pod, request.container),
        kind=request.kind,
        restart_count=request.restart,
        observed_image=images.own,
        pod_ips=made.pod_ips,
        node=context,
        incarnation=incarnation,
        variables=made.variables,
        sub_paths=made.sub_paths,
        images=images.volumes,
        target_id=target_id,
    )
    sandbox = sandbox_config(pod, attempt=request.sandbox_attempt, node=context, incarnation=incarnation)
    return Configured(made.pod_ips, config, sandbox)


def _make_files(plan: ContainerPlan, pod: Pod, container: Container | EphemeralContainer, node: NodeContext) -> None:
    """Make a container's files on disk. Blocks. Raises MountFailure, OSError."""
    prepare_container(plan)
    if isinstance(container, EphemeralContainer):
        make_mount_points(pod, container, node)
    share_volumes(pod, container, node)
