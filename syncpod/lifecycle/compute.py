"""The decision of one sync: from a pod's spec and its observed state to the actions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from syncpod.lifecycle.actions import ContainerToKill, PodActions
from syncpod.lifecycle.init_containers import InitActions, compute_init_actions, container_to_kill
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.kubelet_version import KubeletVersion
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.pod_resources import PodResources
from syncpod.lifecycle.resize import (
    RESTART_MESSAGE,
    Resize,
    any_starts_resized,
    container_resize,
    order_updates,
    pod_level_resources_changed,
)
from syncpod.lifecycle.restart import restarts_on_failure, should_container_be_restarted
from syncpod.lifecycle.restart_all import containers_to_reset
from syncpod.lifecycle.sandbox import containers_for_new_sandbox, pod_sandbox_changed
from syncpod.pod import Container, Pod, PodSpec, container_hash

UNKNOWN_MESSAGE: Final = 'Container is in "unknown" state, try killing it before restart'


def compute_pod_actions(
    pod: Pod,
    observed: ObservedPod,
    *,
    liveness: Mapping[str, str],
    startup: Mapping[str, str],
    actuated: PodResources,
    restart_all: bool = False,
    followed: Collection[str] = (),
    kubelet: KubeletVersion,
) -> PodActions:
    """Decide the actions of one sync of a pod.

    1. Compare the sandbox with the spec.
    2. In a RestartAllContainers pass: list the instances to remove, and nothing else.
    3. If the sandbox is gone or wrong: end the pod if it is done, else make its next sandbox.
    4. Start ephemeral containers that were never made: they do not wait for the pod to be initialized.
    5. Bring up init containers and sidecars; go on only once the pod is initialized.
    6. Decide each main container: start, kill, restart, resize or keep it.
    7. If none is kept and none is started, the pod is over: kill it, sidecars too.
    8. Compare the pod-level resources.

    `observed` lists sandboxes and containers newest first. `liveness` and `startup` map container ids to the last
    result of that probe (`success`, `failure`, `unknown`; no key: none yet). `restart_all` is True for a
    RestartAllContainers pass (see `should_restart_all`). `followed` has the ids of instances that were ended only to be
    replaced by another, under any policy. (The kubelet kills and starts in one sync; here each step is decided by
    itself.) `kubelet` is the version whose decision is taken. Back-off and image pulls are left to the caller.

    A pure function: equal inputs give equal actions. It raises only the ValueError of a malformed quantity. Mirrors
    kuberuntime_manager.go, v1.36 and v1.37, computePodActions. Difference: the kubelet also calls PostStopContainer
    there, for containers that have exited.
    """
    spec, statuses = pod.spec, observed.newest_by_name()
    sandbox = pod_sandbox_changed(spec, observed)
    actions = PodActions(
        kill_pod=sandbox.changed, create_sandbox=sandbox.changed, sandbox_id=sandbox.id, attempt=sandbox.attempt
    )
    if restart_all:
        return replace(actions, containers_to_reset=containers_to_reset(spec, observed))
    if sandbox.changed:
        return _with_new_sandbox(actions, spec, statuses, followed)

    never_made = (index for index, each in enumerate(spec.ephemeral_containers) if each.name not in statuses)
    actions = replace(actions, ephemeral_containers_to_start=tuple(never_made))
    init = compute_init_actions(pod, observed, liveness=liveness, startup=startup, actuated=actuated, kubelet=kubelet)
    actions = _with_init_containers(actions, init)
    if not init.failed:
        starting = [spec.init_containers[index] for index in init.to_start]
        actions = _with_resized_starts(actions, starting, spec, actuated, kubelet)
    if init.failed or not init.initialized:
        return actions

    decide = partial(
        _decide_main_container, pod=pod, liveness=liveness, startup=startup, actuated=actuated, followed=followed
    )
    decisions = [decide(container, status=statuses.get(container.name)) for container in spec.containers]
    actions = _with_main_containers(actions, init, decisions)
    actions = replace(actions, update_pod_level_resources=pod_level_resources_changed(spec, actuated))
    starting = [spec.containers[index] for index in actions.containers_to_start]
    return _with_resized_starts(actions, starting, spec, actuated, kubelet)


def _with_resized_starts(
    actions: PodActions,
    starting: Sequence[Container],
    spec: PodSpec,
    actuated: PodResources,
    kubelet: KubeletVersion,
) -> PodActions:
    """Resize the pod's cgroup too if one of the containers `starting` has other resources than it had before."""
    if not kubelet.resizes_before_starts or actions.update_pod_level_resources:
        return actions
    resized = actions.update_pod_resources or any_starts_resized(starting, spec, actuated)
    return replace(actions, update_pod_resources=resized)


def _with_new_sandbox(
    actions: PodActions, spec: PodSpec, statuses: Mapping[str, ObservedContainer], followed: Collection[str]
) -> PodActions:
    """Make the pod's first or next sandbox, or none if the pod is done."""
    to_start = containers_for_new_sandbox(spec, actions.attempt, statuses, followed)
    if to_start is None:
        return replace(actions, create_sandbox=False)
    if spec.init_containers:
        return replace(actions, init_containers_to_start=(0,))
    return replace(actions, containers_to_start=to_start)


@dataclass(frozen=True, slots=True)
class _MainDecision:
    """The action for one main container. By default, the container has ended and does not start again."""

    keep: bool = False
    start: bool = False
    kill: ContainerToKill | None = None
    resize: Resize | None = None


def _with_init_containers(actions: PodActions, init: InitActions) -> PodActions:
    return replace(
        actions,
        kill_pod=init.failed,
        init_containers_to_start=init.to_start,
        containers_to_kill=init.to_kill,
        containers_to_update=order_updates(init.resizes),
        update_pod_resources=any(resize.restart for resize in init.resizes),
    )


def _with_main_containers(actions: PodActions, init: InitActions, decisions: Sequence[_MainDecision]) -> PodActions:
    """Add the main containers' decisions. If none of them is kept or started, the pod is over."""
    resizes = (*init.resizes, *(decision.resize for decision in decisions if decision.resize is not None))
    actions = replace(
        actions,
        containers_to_start=tuple(index for index, decision in enumerate(decisions) if decision.start),
        containers_to_kill=(*init.to_kill, *(decision.kill for decision in decisions if decision.kill is not None)),
        containers_to_update=order_updates(resizes),
        update_pod_resources=actions.update_pod_resources or any(resize.restart for resize in resizes),
    )
    if any(decision.keep or decision.start for decision in decisions):
        return actions
    # Ephemeral containers stay listed, as in the kubelet; see PodActions.
    return replace(actions, kill_pod=True, init_containers_to_start=())


def _decide_main_container(
    container: Container,
    *,
    pod: Pod,
    status: ObservedContainer | None,
    liveness: Mapping[str, str],
    startup: Mapping[str, str],
    actuated: PodResources,
    followed: Collection[str],
) -> _MainDecision:
    if status is None or status.state != "running":
        if status is not None and status.id in followed:
            return _MainDecision(start=True)
        if not should_container_be_restarted(container, pod, status):
            return _MainDecision()
        if status is not None and status.state == "unknown":
            # It may still be running. Kill it first, so that there are never two.
            return _MainDecision(start=True, kill=container_to_kill(status, UNKNOWN_MESSAGE, KillCause.STATE_LOST))
        return _MainDecision(start=True)

    if status.hash != container_hash(container.name, container.image):
        # Its definition is new, so it starts under any restart policy.
        return _kill_running(status, f"Container {container.name} definition changed", KillCause.UPDATE, restart=True)
    # A container killed here has no exit code yet, so no restart rule can apply.
    restart = restarts_on_failure(container, pod.spec)
    if liveness.get(status.id) == "failure":
        message = f"Container {container.name} failed liveness probe"
        return _kill_running(status, message, KillCause.LIVENESS, restart=restart)
    if startup.get(status.id) == "failure":
        message = f"Container {container.name} failed startup probe"
        return _kill_running(status, message, KillCause.STARTUP, restart=restart)

    resize = container_resize(container, pod.spec, actuated, status.id)
    if resize.restart:
        kill = container_to_kill(status, f"Container {container.name} {RESTART_MESSAGE}", KillCause.RESIZE)
        return _MainDecision(start=True, kill=kill, resize=resize)
    return _MainDecision(keep=True, resize=resize)


def _kill_running(status: ObservedContainer, message: str, cause: KillCause, *, restart: bool) -> _MainDecision:
    if restart:
        message = f"{message}, will be restarted"
    return _MainDecision(start=restart, kill=container_to_kill(status, message, cause))
