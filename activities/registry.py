"""The registered activities: one method for each step's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from temporalio import activity
from temporalio.client import Client

from activities.allocate_resources import allocate_resources
from activities.create_sandbox import create_sandbox
from activities.kill_container import kill_container
from activities.kill_pod import kill_pod
from activities.node.context import Node
from activities.pod_workflows import PodWorkflowSteps, Recorded, nothing_recorded
from activities.pull_image import pull_image
from activities.remove_container import remove_containers
from activities.remove_pod import remove_pod
from activities.resize_pod import resize_pod
from activities.start_container import start_container
from activities.step import run_step
from activities.sync_volumes import sync_volumes
from syncpod.messages import (
    AllocateResources,
    CreateSandbox,
    KillContainer,
    KillPod,
    NodeFacts,
    Outcome,
    PullImage,
    RemoveContainers,
    RemovePod,
    ResizePod,
    StartContainer,
    StepName,
    StepResult,
    SyncVolumes,
)
from syncpod.messages.node import NodeStepName


class Steps:
    """The steps of one node, as Temporal calls them."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @activity.defn(name=StepName.CREATE_SANDBOX.value)
    async def create_sandbox(self, request: CreateSandbox) -> StepResult:
        """See :mod:`activities.create_sandbox`."""
        return await run_step(self._node, create_sandbox, request, interrupted=Outcome.CANCELLED)

    @activity.defn(name=StepName.SYNC_VOLUMES.value)
    async def sync_volumes(self, request: SyncVolumes) -> StepResult:
        """See :mod:`activities.sync_volumes`."""
        return await run_step(self._node, sync_volumes, request, interrupted=Outcome.CANCELLED)

    @activity.defn(name=StepName.ALLOCATE_RESOURCES.value)
    async def allocate_resources(self, request: AllocateResources) -> StepResult:
        """See :mod:`activities.allocate_resources`."""
        return await run_step(self._node, allocate_resources, request, interrupted=Outcome.CANCELLED)

    @activity.defn(name=StepName.RESIZE_POD.value)
    async def resize_pod(self, request: ResizePod) -> StepResult:
        """See :mod:`activities.resize_pod`."""
        return await run_step(self._node, resize_pod, request, interrupted=Outcome.CANCELLED)

    @activity.defn(name=StepName.PULL_IMAGE.value)
    async def pull_image(self, request: PullImage) -> StepResult:
        """See :mod:`activities.pull_image`."""
        return await run_step(
            self._node, pull_image, request, interrupted=Outcome.CANCELLED, lane=f"pull {request.container}"
        )

    @activity.defn(name=StepName.START_INIT_CONTAINER.value)
    async def start_init_container(self, request: StartContainer) -> StepResult:
        """See :mod:`activities.start_container`."""
        return await run_step(self._node, start_container, request, interrupted=Outcome.CANCELLED)

    @activity.defn(name=StepName.START_EPHEMERAL_CONTAINER.value)
    async def start_ephemeral_container(self, request: StartContainer) -> StepResult:
        """See :mod:`activities.start_container`."""
        return await run_step(self._node, start_container, request, interrupted=Outcome.CANCELLED)

    @activity.defn(name=StepName.START_CONTAINER.value)
    async def start_container(self, request: StartContainer) -> StepResult:
        """See :mod:`activities.start_container`."""
        return await run_step(self._node, start_container, request, interrupted=Outcome.CANCELLED)

    @activity.defn(name=StepName.KILL_CONTAINER.value)
    async def kill_container(self, request: KillContainer) -> StepResult:
        """See :mod:`activities.kill_container`."""
        return await run_step(self._node, kill_container, request, interrupted=Outcome.STOPPING)

    @activity.defn(name=StepName.KILL_POD.value)
    async def kill_pod(self, request: KillPod) -> StepResult:
        """See :mod:`activities.kill_pod`."""
        return await run_step(self._node, kill_pod, request, interrupted=Outcome.STOPPING)

    @activity.defn(name=StepName.REMOVE_CONTAINER.value)
    async def remove_container(self, request: RemoveContainers) -> StepResult:
        """See :mod:`activities.remove_container`."""
        return await run_step(self._node, remove_containers, request, interrupted=Outcome.STOPPING)

    @activity.defn(name=StepName.REMOVE_POD.value)
    async def remove_pod(self, request: RemovePod) -> StepResult:
        """See :mod:`activities.remove_pod`."""
        return await run_step(self._node, remove_pod, request, interrupted=Outcome.CANCELLED)


def steps(node: Node) -> list[Callable[..., Any]]:
    """Return the activities to register with the worker of this node, one for each StepName."""
    registered = Steps(node)
    return [getattr(registered, name.value) for name in StepName]


def node_steps(
    client: Client, facts: Callable[[], NodeFacts], recorded: Recorded = nothing_recorded
) -> list[Callable[..., Any]]:
    """Return the activities of the node's own workflow, one for each NodeStepName."""
    registered = PodWorkflowSteps(client, facts, recorded)
    return [getattr(registered, name.value) for name in NodeStepName]
