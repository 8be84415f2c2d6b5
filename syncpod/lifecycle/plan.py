"""The order in which the actions of one sync are carried out, each with its reason.

`compute_pod_actions` decides *what* to do; this module adds *in which order* and *why*. The order is that of the
kubelet's SyncPod: kill the pod or single containers, prune, make the sandbox, resize, then start ephemeral, init and
normal containers. ``syncpod plan`` prints that list. The pod's workflow takes its first step that may run, and then
decides anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from syncpod.lifecycle.actions import ContainersToUpdate, ContainerToUpdate, PodActions, StepName
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.restart import is_sidecar, restarts_on_failure
from syncpod.pod import Pod, parse_quantity, quantity_text

ENDED_FOR_GOOD: Final = "The runtime has lost its state: it may still run, must not run twice, and is ended"
"""The message of the kill of a container with the policy `Never` after the runtime has lost its state."""


@dataclass(frozen=True)
class PlannedStep:
    """One step of a sync: its action, its container, and the reason."""

    verb: StepName
    container: str = ""
    """Name of the container; "" if the step is about the whole pod."""
    ids: tuple[str, ...] = ()
    """Runtime ids that the step stops or removes, in order."""
    kill: tuple[str, ...] = ()
    """Those of `ids` that are stopped first (remove_container only)."""
    keep_logs: bool = False
    """Whether the logs of removed containers stay."""
    attempt: int = 0
    """The sandbox's attempt (create_sandbox only)."""
    cause: KillCause | None = None
    """The cause of the kills in this step; None if it kills nothing."""
    follows: bool = False
    """Whether the container is killed only so that another instance of it follows (kill_container only)."""
    why: str = ""
    """One phrase for people, shown in the step's summary and in the plan."""
    update: ContainersToUpdate = field(default_factory=ContainersToUpdate)
    """Containers to resize in place (resize_pod only)."""
    sidecar: bool = False
    """Whether the init container to start is a sidecar: if its start fails, the next step is still tried."""


def plan_steps(
    pod: Pod,
    observed: ObservedPod,
    actions: PodActions,
    *,
    stopped_sandboxes: tuple[str, ...] = (),
    recorded: Collection[str] = (),
    cgroup_behind: bool = False,
) -> tuple[PlannedStep, ...]:
    """Return the steps that carry `actions` out, in the kubelet's order.

    `stopped_sandboxes` are ids of sandboxes that a kill has already stopped: a pod with nothing left to stop has no
    kill step. `recorded` are ids of containers in `observed` that come only from the workflow's records, since the
    runtime does not list them any more. `cgroup_behind` is True if the pod's cgroup does not have the allocated
    resources yet, whether or not a running container has them. A pod that is killed for good starts nothing, not even
    the ephemeral containers that `compute_pod_actions` leaves in its result.

    Mirrors kuberuntime_manager.go, v1.36, SyncPod. Differences: dead instances of one name are removed by the start
    that replaces them, not by a step of their own. A pod is resized before anything is started in it, so that no
    container is given more than its pod's cgroup still allows; the kubelet starts init containers first. A container
    with the policy `Never` does not start again after the runtime has lost its state (:data:`ENDED_FOR_GOOD`).
    """
    actions = _without_second_runs(pod, actions)
    steps: list[PlannedStep] = []
    if actions.kill_pod:
        if something_to_stop(observed, stopped_sandboxes):
            lost = actions.create_sandbox or _lost_its_sandbox(observed)
            cause = KillCause.SANDBOX if lost else KillCause.FINISHED
            steps.append(PlannedStep(StepName.KILL_POD, cause=cause, why=_why_kill_pod(observed, actions)))
        if not actions.create_sandbox:
            return tuple(steps)
        steps.extend(_purge_init_containers(pod, observed, recorded))
    else:
        steps.extend(_kills(pod, actions))
        steps.extend(_resets(actions))
    if actions.create_sandbox:
        steps.append(PlannedStep(StepName.CREATE_SANDBOX, attempt=actions.attempt, why=_why_sandbox(observed)))
    elif _has_to_resize(actions, cgroup_behind=cgroup_behind):
        why = _why_resize(actions.containers_to_update)
        steps.append(PlannedStep(StepName.RESIZE_POD, update=actions.containers_to_update, why=why))
    newest = observed.newest_by_name()
    for index in actions.ephemeral_containers_to_start:
        name = pod.spec.ephemeral_containers[index].name
        steps.append(PlannedStep(StepName.START_EPHEMERAL_CONTAINER, name, why="added to the running pod"))
    for index in actions.init_containers_to_start:
        container = pod.spec.init_containers[index]
        why = why_start(newest.get(container.name))
        steps.append(PlannedStep(StepName.START_INIT_CONTAINER, container.name, why=why, sidecar=is_sidecar(container)))
    for index in actions.containers_to_start:
        name = pod.spec.containers[index].name
        steps.append(PlannedStep(StepName.START_CONTAINER, name, why=why_start(newest.get(name))))
    return tuple(steps)


def _without_second_runs(pod: Pod, actions: PodActions) -> PodActions:
    """Return the actions without the starts of containers whose state is lost and whose policy is `Never`.

    Such a container has run, and may still run. It is killed, so nobody can know how it would have ended. The kubelet
    starts it again, with any policy (kubecontainer.ShouldContainerBeRestarted, v1.36), unless it is an init container.
    """
    containers = {each.name: each for each in pod.spec.containers}
    lost = {kill.name for kill in actions.containers_to_kill if kill.cause == KillCause.STATE_LOST}
    over = {name for name in lost & containers.keys() if not restarts_on_failure(containers[name], pod.spec)}
    if not over:
        return actions
    return replace(
        actions,
        containers_to_kill=tuple(
            replace(kill, message=ENDED_FOR_GOOD, cause=KillCause.LOST_FOR_GOOD) if kill.name in over else kill
            for kill in actions.containers_to_kill
        ),
        containers_to_start=tuple(
            index for index in actions.containers_to_start if pod.spec.containers[index].name not in over
        ),
    )


def something_to_stop(observed: ObservedPod, stopped_sandboxes: tuple[str, ...] = ()) -> bool:
    """Say whether a kill of the pod would stop anything: a container that has not exited, or a sandbox."""
    if any(container.state != "exited" for container in observed.containers):
        return True
    return any(sandbox.ready or sandbox.id not in stopped_sandboxes for sandbox in observed.sandboxes)


def why_start(last: ObservedContainer | None) -> str:
    """Return why a container is started, given its newest instance: `first start`, `exited 1 (Error)`, and so on."""
    if last is None:
        return "first start"
    if last.state == "exited":
        return f"exited {last.exit_code} ({last.reason})" if last.reason else f"exited {last.exit_code}"
    if last.state == "unknown":
        return "its state was lost"
    if last.state == "created":
        return "created but never started"
    return "to be restarted"


def _kills(pod: Pod, actions: PodActions) -> list[PlannedStep]:
    starts = {pod.spec.containers[index].name for index in actions.containers_to_start}
    starts |= {pod.spec.init_containers[index].name for index in actions.init_containers_to_start}
    return [
        PlannedStep(
            StepName.KILL_CONTAINER,
            kill.name,
            ids=(kill.id,),
            cause=kill.cause,
            follows=kill.name in starts,
            why=kill.message,
        )
        for kill in actions.containers_to_kill
    ]


def _resets(actions: PodActions) -> list[PlannedStep]:
    """Return the step that removes all instances to reset, even those that exist only in the workflow's records.

    The exit of a recorded instance may be the trigger. Removed instances no longer count (`PodState.reset`), so the
    step is not repeated.
    """
    if not actions.containers_to_reset:
        return []
    ids = tuple(reset.id for reset in actions.containers_to_reset)
    kill = tuple(reset.id for reset in actions.containers_to_reset if reset.kill)
    why = "a restart rule asks for all containers to be restarted"
    return [PlannedStep(StepName.REMOVE_CONTAINER, ids=ids, kill=kill, keep_logs=True, cause=KillCause.RULE, why=why)]


def _purge_init_containers(pod: Pod, observed: ObservedPod, recorded: Collection[str]) -> list[PlannedStep]:
    """Return the step that removes the init containers of the old sandbox, since all of them run again in the new one.

    Instances that exist only in records are left out: a removal does not change a record, and would be repeated for
    ever.

    Mirrors kuberuntime_container.go, v1.36, purgeInitContainers.
    """
    names = {container.name for container in pod.spec.init_containers}
    ids = tuple(each.id for each in observed.containers if each.name in names and each.id not in recorded)
    if not ids:
        return []
    return [PlannedStep(StepName.REMOVE_CONTAINER, ids=ids, why="init containers run again in the new sandbox")]


def _lost_its_sandbox(observed: ObservedPod) -> bool:
    """Say whether a container has outlived the pod's sandbox."""
    has_ended = not observed.sandboxes or not observed.sandboxes[0].ready
    return has_ended and any(container.state != "exited" for container in observed.containers)


def _why_kill_pod(observed: ObservedPod, actions: PodActions) -> str:
    if not actions.create_sandbox:
        if _lost_its_sandbox(observed):
            return "the sandbox is no longer ready, and the pod gets no other"
        return "no container is left to run"
    ready = [sandbox for sandbox in observed.sandboxes if sandbox.ready]
    if not observed.sandboxes:
        return "containers without a sandbox"
    if len(ready) > 1:
        return f"{len(ready)} sandboxes are ready, one is wanted"
    if not observed.sandboxes[0].ready:
        return "the sandbox is no longer ready"
    return "the sandbox's network is not as the pod wants it"


def _has_to_resize(actions: PodActions, *, cgroup_behind: bool) -> bool:
    update = actions.containers_to_update
    return bool(update.memory or update.cpu or actions.update_pod_level_resources or cgroup_behind)


def _why_resize(update: ContainersToUpdate) -> str:
    """Return the change: `memory limit of web 64Mi -> 128Mi`; the request is named only if the limit stays."""
    memory = [_change(each, "memory", _in_bytes) for each in update.memory]
    cpu = [_change(each, "cpu", _in_millicores) for each in update.cpu]
    return ", ".join((*memory, *cpu)) or "the pod's cgroup follows its resources"


def _change(update: ContainerToUpdate, resource: str, written: Callable[[int], str]) -> str:
    limits, requests = (
        tuple(getattr(each, f"{resource}_{kind}") for each in (update.current, update.desired))
        for kind in ("limit", "request")
    )
    kind, (before, after) = ("limit", limits) if limits[0] != limits[1] else ("request", requests)
    return f"{resource} {kind} of {update.name} {written(before) if before else 'none'} -> {written(after)}"


def _in_bytes(amount: int) -> str:
    return quantity_text(parse_quantity(str(amount)), like="1Ki")


def _in_millicores(amount: int) -> str:
    return quantity_text(parse_quantity(f"{amount}m"), like="1")


def _why_sandbox(observed: ObservedPod) -> str:
    return "sandbox changed" if observed.sandboxes else "first sandbox"
