"""The progress of a resize: desired, then allocated or deferred by the node, then applied; and its conditions.

::

    desired ──► allocate_resources ─┬─► resize_pod, or kill and start ──► as desired
       ▲                            └─► Deferred: asked again later, or when there is room · Infeasible: not asked again
       └── update `resize`, `apply`

The kubelet keeps this in two files on the node and in its status manager's memory. Here it is workflow state.
Mirrors allocation_manager.go, status_manager.go and kubelet.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from syncpod.lifecycle import backoff
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.backoff import BackoffEntry
from syncpod.lifecycle.conditions import RESIZE_IN_PROGRESS, RESIZE_PENDING
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.phase import TERMINAL_PHASES
from syncpod.lifecycle.pod_resources import (
    requested_changes,
    resize_summary,
    resources_of,
    same_amounts,
    same_resources,
)
from syncpod.lifecycle.resize import Resize, container_resize
from syncpod.messages.steps import AllocateResources, Allocation, ResizePod, StepInput
from syncpod.pod import Pod, PodCondition, ResourceRequirements, Volume, downward_files
from workflows.pod.state import Kill, PodState, ResizeState

FIRST_RETRY = timedelta(seconds=30)
RETRY = timedelta(minutes=3)
"""Pauses until a deferred resize is requested again: after its first deferral, and after later ones. The agent signals
room that appears earlier (allocation_manager.go)."""

ALLOCATE_KEY = backoff.step_key(StepName.ALLOCATE_RESOURCES.value)
RESIZE_KEY = backoff.step_key(StepName.RESIZE_POD.value)


# --- desired resources ------------------------------------------------------------------------------------------------


def desire(state: PodState, updated: Pod) -> None:
    """Take a pod as the desired one. The old allocation stays until the node has allocated the desired resources.

    A pod that has not taken a step yet is not admitted yet: its node will admit it with its new requests.
    """
    before, state.pod = resources_of(state.pod), updated
    if not state.fence or same_resources(before, resources_of(updated)):
        return
    allocated = state.allocated or before
    state.allocated = None if same_resources(allocated, resources_of(updated)) else allocated
    state.backoff = backoff.forget(backoff.forget(state.backoff, ALLOCATE_KEY), RESIZE_KEY)
    if state.allocated is None:
        state.resize_pending = None


def is_resize_due(state: PodState) -> bool:
    """Say whether to request the desired resources: the node has neither allocated nor finally refused them."""
    if state.allocated is None:
        return False
    pending = state.resize_pending
    return pending is None or not pending.final or pending.generation != _generation(state.pod)


def is_unanswered(state: PodState) -> bool:
    """Say whether other resources are desired and the node has not answered the request for them yet."""
    return state.allocated is not None and state.resize_pending is None and not state.ending and not state.terminated


def retry(state: PodState) -> None:
    """Make a pending resize due to be requested again, regardless of the last answer: the node may have changed."""
    if state.resize_pending is not None:
        state.resize_pending = state.resize_pending.model_copy(update={"final": False})
        state.backoff = backoff.forget(state.backoff, ALLOCATE_KEY)


# --- the node's answers -----------------------------------------------------------------------------------------------


def is_outdated(state: PodState, request: StepInput) -> bool:
    """Say whether a step has requested resources that are no longer desired, or are allocated already."""
    if not isinstance(request, AllocateResources):
        return False
    return state.allocated is None or not same_resources(resources_of(request.pod), resources_of(state.pod))


def answered(
    state: PodState, request: AllocateResources, answer: Allocation, now: datetime, *, outdated: bool = False
) -> None:
    """Take the node's answer to `request`.

    If the request is `outdated`, a refusal is ignored, because something else is desired now. An allocation still
    counts.
    """
    if answer.pending and outdated:
        return
    if answer.pending:
        _put_off(state, request.pod, answer, now)
    else:
        _allocate(state, request.pod, now)


def _put_off(state: PodState, asked: Pod, answer: Allocation, now: datetime) -> None:
    before, generation = state.resize_pending, _generation(asked)
    same = before is not None and before.reason == answer.pending
    was_noted = same and before is not None and before.generation == generation
    state.resize_pending = ResizeState(
        reason=answer.pending,
        message=answer.message,
        generation=generation,
        since=before.since if same and before is not None else now,
        final=answer.pending == "Infeasible",
    )
    if not was_noted:
        text = f"Pod resize {answer.pending}: {resize_summary(asked, generation, answer.message)}"
        state.event(now, "Warning", f"Resize{answer.pending}", text)
    if answer.pending == "Deferred":
        entry = BackoffEntry(
            delay=RETRY if was_noted else FIRST_RETRY, last_update=now, reason=answer.pending, message=answer.message
        )
        state.backoff = state.backoff.with_entry(ALLOCATE_KEY, entry)


def _allocate(state: PodState, asked: Pod, now: datetime) -> None:
    """Record the requested resources as allocated, and which of them have yet to be applied."""
    before, after = state.allocated or resources_of(state.pod), resources_of(asked)
    actuated = dict(state.actuated)
    for name, resources in after.containers.items():
        last = actuated.pop(name, before.containers.get(name, ResourceRequirements()))
        if not same_amounts(last, resources):
            actuated[name] = last
    if not state.cgroup_behind:
        state.actuated_pod = before.pod
    state.actuated, state.cgroup_behind = actuated, True
    state.allocated = None if same_resources(after, resources_of(state.pod)) else after
    state.volumes_behind = state.volumes_behind or any(_shows_resources(volume) for volume in asked.spec.volumes)
    state.resize_pending = None
    state.resize_in_progress = ResizeState(generation=_generation(asked), since=now)
    state.event(now, "Normal", "ResizeStarted", f"Pod resize started: {resize_summary(asked, _generation(asked))}")


def _shows_resources(volume: Volume) -> bool:
    """Say whether a volume has files with a container's requests or limits."""
    return any(file.resource_field_ref is not None for file in downward_files(volume))


# --- applied resources ------------------------------------------------------------------------------------------------


def applied(state: PodState, request: ResizePod) -> None:
    """Record that the step has applied all resources in its input."""
    for update in (*request.memory, *request.cpu):
        state.actuated = {name: last for name, last in state.actuated.items() if name != update.name}
    state.cgroup_behind, state.actuated_pod = False, None


def partly_applied(state: PodState, given: dict[str, ResourceRequirements]) -> None:
    """Record that a step had applied the resources `given` before it failed."""
    allocated = resources_of(state.allocated_pod).containers
    for name, resources in given.items():
        if name in state.actuated:
            state.actuated = {**state.actuated, name: resources}
        if name in allocated and same_amounts(allocated[name], resources):
            state.actuated = {other: last for other, last in state.actuated.items() if other != name}


def started(state: PodState, container: str) -> None:
    """Record that a container was started with its allocated resources."""
    if container in state.actuated:
        state.actuated = {name: last for name, last in state.actuated.items() if name != container}


def sandbox_made(state: PodState) -> None:
    """Record that the pod has a new sandbox, whose cgroup has the allocated resources."""
    state.actuated, state.cgroup_behind, state.actuated_pod = {}, False, None


def failed(state: PodState, message: str, now: datetime) -> None:
    """Record that a resize could not be applied. It is tried again, and a condition gives the error.

    Mirrors kubelet.go, v1.36, SyncPod, and status_manager.go, SetPodResizeInProgressCondition.
    """
    before = state.resize_in_progress
    generation = before.generation if before is not None else _generation(state.pod)
    since = before.since if before is not None and before.reason == "Error" else now
    state.resize_in_progress = ResizeState(reason="Error", message=message, generation=generation, since=since)
    if before is None or (before.reason, before.message) != ("Error", message):
        text = f"Pod resize error: {resize_summary(state.allocated_pod, generation, message)}"
        state.event(now, "Warning", "ResizeError", text)


def as_allocated(state: PodState) -> tuple[str, ...]:
    """Return the containers of `actuated` for which a resize would change nothing.

    Their last resources are only written differently, such as a limit that equals the pod's. None are returned while
    the pod's cgroup does not have the allocated resources, since the comparison depends on them.
    """
    if not state.actuated or state.cgroup_behind:
        return ()
    spec, last, newest = state.allocated_pod.spec, state.applied_resources, state.own.newest_by_name()
    return tuple(
        container.name
        for container in (*spec.init_containers, *spec.containers)
        if container.name in state.actuated
        and (instance := newest.get(container.name)) is not None
        and instance.state == "running"
        and container_resize(container, spec, last, instance.id) == Resize()
    )


def take_as_applied(state: PodState, containers: Collection[str]) -> None:
    """Record that these containers have their allocated resources."""
    state.actuated = {name: last for name, last in state.actuated.items() if name not in containers}


def settle(state: PodState, now: datetime) -> None:
    """Drop containers that need no resize any more, and record an event once the pod's resize is complete.

    A container that does not run needs none: it will be started with the allocated resources. A container that was
    killed for the resize is part of it until it runs again. Mirrors kuberuntime_manager.go, v1.36,
    IsPodResizeInProgress.
    """
    if state.actuated:
        newest = state.own.newest_by_name()
        concerned = [
            each.name
            for each in newest.values()
            if each.state == "running" or state.killed.get(each.id, Kill()).cause == KillCause.RESIZE
        ]
        state.actuated = {name: last for name, last in state.actuated.items() if name in concerned}
    progress = state.resize_in_progress
    if progress is not None and not (state.actuated or state.cgroup_behind):
        state.resize_in_progress = None
        text = f"Pod resize completed: {resize_summary(state.allocated_pod, progress.generation)}"
        state.event(now, "Normal", "ResizeCompleted", text)


# --- conditions, telemetry and plans ----------------------------------------------------------------------------------


def conditions(state: PodState) -> tuple[PodCondition, ...]:
    """Return the conditions about a resize; none for a pod that is over.

    Mirrors kubelet_pods.go, v1.36, determinePodResizeStatus.
    """
    if state.terminated or state.reached in TERMINAL_PHASES:
        return ()
    said = ((RESIZE_PENDING, state.resize_pending), (RESIZE_IN_PROGRESS, state.resize_in_progress))
    return tuple(
        PodCondition(
            type=type_,
            status="True",
            reason=each.reason,
            message=each.message,
            observed_generation=each.generation,
            last_transition_time=each.since,
        )
        for type_, each in said
        if each is not None
    )


def counted(state: PodState, before: Pod) -> tuple[str, bool, tuple[tuple[str, str, str], ...]]:
    """Return a resize's figures for telemetry: why it is pending, whether it is in progress, and the new changes.

    The reason is "" if no resize is pending. Changes are counted since `before`. A pod that is over has nothing pending
    or in progress.
    """
    said = {each.type: each.reason or "" for each in conditions(state)}
    changes = () if state.pod is before else requested_changes(resources_of(before), resources_of(state.pod))
    return said.get(RESIZE_PENDING, ""), RESIZE_IN_PROGRESS in said, changes


def as_if_allocated(state: PodState, now: datetime) -> PodState:
    """Return a copy of the state in which the node has allocated the desired resources; for plans."""
    trial = state.model_copy()
    _allocate(trial, trial.pod, now)
    return trial


def _generation(pod: Pod) -> int:
    return pod.metadata.generation or 0
