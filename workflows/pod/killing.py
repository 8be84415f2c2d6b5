"""Decides the kills of a pod, and records each with its reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from syncpod.lifecycle import backoff
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.eviction import EVICTED
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.plan import ENDED_FOR_GOOD, PlannedStep, something_to_stop
from syncpod.lifecycle.restart import restart_policy, restarts_on_failure
from syncpod.lifecycle.termination import kill_grace_seconds, moment_after, pod_grace_seconds, termination_order
from syncpod.messages.steps import (
    KillContainer,
    KillPod,
    KillTarget,
    RemoveContainers,
)
from syncpod.pod import Container, Pod
from workflows.pod.decision import Decision, Step
from workflows.pod.holds import unless_held
from workflows.pod.state import Kill, PodState
from workflows.pod.verdicts import DEADLINE_EXCEEDED

OPERATOR_RESTARTS = "an operator restarts it"
"""The reason for killing and restarting a container that nothing else would kill."""

_CAUSE_BY_FAILURE = {EVICTED: KillCause.EVICTED, DEADLINE_EXCEEDED: KillCause.DEADLINE}
"""By the reason of a pod's failure: the cause of the kill that follows."""


def is_unfinished(state: PodState) -> bool:
    """Say whether the pod is over and has nothing left to stop, but its node has not been notified yet.

    Such a pod failed before it had a sandbox (evicted, past its deadline), or all its containers were stopped before
    the pod counted as over. The kubelet runs SyncTerminatingPod once for every pod (pod_workers.go, v1.36). A pod that
    was never admitted does not need this kill here, since the pod holds no resources of its node.
    """
    if not state.ending or state.finished:
        return False
    let_in = state.failure is None or not state.failure.rejected
    return let_in and not something_to_stop(state.observed, state.stopped_sandboxes)


def terminate(state: PodState, now: datetime) -> Decision:
    """Return the kill that ends the pod, or its hold; neither if all is stopped and the node was notified."""
    if state.deletion is not None:
        why, cause = "deleted", KillCause.DELETED
    elif not (something_to_stop(state.observed, state.stopped_sandboxes) or is_unfinished(state)):
        return Decision()
    elif state.failure is not None:
        why, cause = state.failure.reason, _CAUSE_BY_FAILURE.get(state.failure.reason, KillCause.FAILED)
    else:
        why, cause = f"the pod has {state.reached.lower()}", KillCause.FINISHED
    return unless_held(state, kill_pod(state, why, cause, now), now)


def kill_pod(state: PodState, why: str, cause: KillCause | None, now: datetime) -> Step:
    """Build the kill of the whole pod, with the seconds that are left until its recorded deadline.

    Mirrors kuberuntime_container.go, v1.36, killContainersWithSyncResult: all containers at once, sidecars after the
    main ones.
    """
    left = _left(state, now)
    alive = [container for container in state.observed.containers if container.state != "exited"]
    order = termination_order(state.pod.spec, (container.name for container in alive))
    targets = tuple(
        KillTarget(
            id=container.id,
            name=container.name,
            grace_seconds=left,
            after=tuple(other.id for other in alive if other.name in order[container.name]),
            **(_pre_stop(state.pod, container.name) if grace(state) > 0 else {}),
        )
        for container in alive
    )
    step = KillPod(
        ref=state.ref,
        targets=targets,
        grace_seconds=left,
        message=why,
        final=state.ending,
        evicted=_is_evicted(state),
        deleted=state.deletion is not None,
        stopped=state.stopped_sandboxes,
    )
    key = backoff.step_key("kill_pod")
    return Step(StepName.KILL_POD, step, f"kill pod: {why}", why, key=key, cause=cause)


def kill_container(state: PodState, planned_step: PlannedStep) -> Step:
    """Build the kill of one container, with the grace that its cause allows (kuberuntime_container.go, v1.36)."""
    name, why, cause, container_id = planned_step.container, planned_step.why, planned_step.cause, planned_step.ids[0]
    grace_seconds = kill_grace_seconds(state.pod, _main_or_init(state.pod, name), cause)
    hook = _pre_stop(state.pod, name) if grace_seconds > 0 else {}
    target = KillTarget(id=container_id, name=name, grace_seconds=grace_seconds, **hook)
    return Step(
        StepName.KILL_CONTAINER,
        KillContainer(ref=state.ref, target=target, message=why, reason=cause.reason if cause else ""),
        f"kill {name}: {why}",
        why,
        name,
        backoff.step_key(planned_step.verb, name),
        replaces=container_id if planned_step.follows and _might_rest(state.pod, name) else "",
        cause=cause,
    )


def _is_evicted(state: PodState) -> bool:
    return state.failure is not None and state.failure.reason == EVICTED and not state.failure.rejected


def _left(state: PodState, now: datetime) -> int:
    """Return the whole seconds left of the pod's grace."""
    if state.kill_by is not None:
        return max(0, math.ceil((state.kill_by - now).total_seconds()))
    return grace(state)


def grace(state: PodState) -> int:
    """Return the grace of a kill of the whole pod, in whole seconds: at least 1 for a pod that ends.

    A kill within a sync, as after the loss of the sandbox, has the grace that each container would get. A grace of 0
    leaves no time for hooks or for an order of termination. Mirrors kuberuntime_manager.go, v1.36, SyncPod, which
    kills without a grace of its own.
    """
    if state.ending:
        return pod_grace_seconds(state.pod)
    return kill_grace_seconds(state.pod, None)


def _pre_stop(pod: Pod, name: str) -> dict[str, Any]:
    """Return the fields of a `KillTarget` about the container's preStop hook; empty if it has none."""
    container = _main_or_init(pod, name)
    if container is None or container.lifecycle is None or container.lifecycle.pre_stop is None:
        return {}
    ports = {port.name: port.container_port for port in container.ports if port.name}
    return {"pre_stop": container.lifecycle.pre_stop, "ports": ports}


def _might_rest(pod: Pod, name: str) -> bool:
    """Say whether there are exits after which the container's policy does not restart it."""
    container = _main_or_init(pod, name)
    return container is not None and restart_policy(container, pod.spec) != "Always"


def _main_or_init(pod: Pod, name: str) -> Container | None:
    return next((c for c in (*pod.spec.containers, *pod.spec.init_containers) if c.name == name), None)


def remember_kills(state: PodState, step: Step, now: datetime) -> None:
    """Remember what the step kills and why, to distinguish its exits from crashes, and record `Killing`.

    That event is recorded when a kill begins, before preStop and grace, which may take hours (kuberuntime_container.go,
    v1.36, killContainer). If the step finds a further container, its result has the event for that one.
    """
    match step.input:
        case KillPod(targets=targets, final=final):
            victims, words = [target.id for target in targets], ""
            if not final:
                state.replacing = dict.fromkeys(_moving(state), False) | state.replacing
        case KillContainer(target=target, message=words):
            victims = [target.id]
            if step.cause in (KillCause.LIVENESS, KillCause.STARTUP):
                state.probe_graces = {target.id: moment_after(now, target.grace_seconds)} | state.probe_graces
        case RemoveContainers(kill=kill, message=words):
            victims = list(kill)
        case _:
            return
    state.killed = {**state.killed, **{id_: _kill(state, id_, step, now) for id_ in victims}}
    for container in state.observed.containers:
        if container.id in victims and container.state == "running":
            state.event(now, "Normal", "Killing", words or f"Stopping container {container.name}", container.name)


def _kill(state: PodState, id_: str, step: Step, now: datetime) -> Kill:
    """Return the reason for killing an instance; it is recorded with the instance's exit."""
    spec = state.pod.spec
    lost = {each.name for each in state.own.containers if each.id == id_ and each.state == "unknown"}
    once = {each.name for each in (*spec.init_containers, *spec.containers) if not restarts_on_failure(each, spec)}
    if not state.ending and lost & once:
        return Kill(why=ENDED_FOR_GOOD, cause=KillCause.LOST_FOR_GOOD)
    return Kill(why=step.why, cause=step.cause or "", at=now, again=id_ in state.killed)


def _moving(state: PodState) -> list[str]:
    """Return the main containers (runtime ids) that end with their sandbox and start again in the pod's next one.

    The kubelet decides before the kill which containers it starts there: those that have not succeeded
    (kuberuntime_manager.go, v1.36, SyncPod). A pod that never restarts gets no other sandbox.
    """
    if state.pod.spec.restart_policy == "Never":
        return []
    newest = state.own.newest_by_name()
    mains = [newest[name] for each in state.pod.spec.containers if (name := each.name) in newest]
    return [each.id for each in mains if each.state in ("running", "unknown") and _might_rest(state.pod, each.name)]


def requested_restarts(state: PodState, steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    """Return the kills of running containers that an operator restarts, unless another step ends them anyway."""
    doomed = {id_ for step in steps for id_ in (*step.ids, *step.kill)}
    if not state.replacing or any(step.verb == StepName.KILL_POD for step in steps):
        return []
    return [
        PlannedStep(
            StepName.KILL_CONTAINER,
            container.name,
            ids=(container.id,),
            follows=True,
            cause=KillCause.OPERATOR,
            why=OPERATOR_RESTARTS,
        )
        for container in state.own.newest_by_name().values()
        if container.state == "running" and state.replacing.get(container.id) and container.id not in doomed
    ]
