"""Decides what a pod's workflow does next: take one step, or wait until a deadline.

`compute_pod_actions` computes the pod's actions from the view. This module checks them against what the workflow
remembers (back-offs, images, numbers already used) and returns the first step that may run now. Each step brings a
newer view, from which the next step is decided, so nothing here plans more than one step ahead.

Pure: no clock, no I/O, no Temporal. `next_step` changes nothing; `record_step` notes that its step is being taken.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, assert_never

from syncpod.lifecycle import backoff
from syncpod.lifecycle.compute import compute_pod_actions
from syncpod.lifecycle.conditions import ALL_CONTAINERS_RESTARTING, is_true
from syncpod.lifecycle.eviction import EVICTED
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.observed import ObservedContainer, ObservedSandbox
from syncpod.lifecycle.plan import ENDED_FOR_GOOD, PlannedStep, plan_steps, something_to_stop
from syncpod.lifecycle.restart import restart_policy, restarts_on_failure
from syncpod.lifecycle.sandbox import pod_sandbox_changed
from syncpod.lifecycle.status import PodFailure
from syncpod.lifecycle.step_name import StepName
from syncpod.lifecycle.termination import kill_grace_seconds, moment_after, pod_grace_seconds, termination_order
from syncpod.messages.startup import has_come_to, in_order
from syncpod.messages.steps import (
    AllocateResources,
    ContainerUpdate,
    CreateSandbox,
    KillContainer,
    KillPod,
    KillTarget,
    RemoveContainers,
    ResizePod,
    StartContainer,
    StepInput,
    SyncVolumes,
)
from syncpod.pod import Container, Pod, container_hash
from workflows.pod import facts, resizing, restart_of_all
from workflows.pod.container_start import START_KINDS, start_container
from workflows.pod.decision import Decision, Hold, Step, unless_held
from workflows.pod.state import Kill, PodState
from workflows.summaries import clip

OPERATOR_RESTARTS = "an operator restarts it"
"""The reason for killing and restarting a container that nothing else would kill."""

ALLOCATE = "the pod asks for other resources"
"""The reason for asking the node whether it has room."""


def next_step(state: PodState, now: datetime, *, pulling: Collection[str] = ()) -> Decision:
    """Return the step to take now, or the holds to wait for.

    `pulling` names the containers whose images are being pulled concurrently: only their own starts wait.
    """
    if state.removed:
        return Decision()
    if state.ending:
        return _terminate(state, now)
    if state.adopting:
        return unless_held(state, _adopt(state), now)
    steps = planned(state)
    if not steps and pod_sandbox_changed(state.pod.spec, facts.effective_view(state)).changed:
        return Decision(failure=_stranded(state))
    decision = _first_allowed(state, steps, pulling, now)
    for update in (_volumes(state, now), _allocation(state, now)):
        if update is not None:
            decision = replace(decision, step=update.step or decision.step, holds=(*update.holds, *decision.holds))
    return replace(decision, plan=tuple(f"{step.verb} {step.container}".rstrip() for step in steps))


SANDBOX_LOST = "SandboxLost"
"""The reason of the failure of a pod that has lost its sandbox, gets no other, and has not finished."""


def _stranded(state: PodState) -> PodFailure:
    """Return the failure of a pod that can neither go on nor finish: it has no sandbox, and nothing is to be done.

    Such a pod's policy is `Never`, and it lost its sandbox before each of its main containers had run. Nothing runs of
    it, so nothing could happen that would have anything decided. Difference: under a kubelet it stays Pending, or
    Running, until somebody deletes it (kuberuntime_manager.go, v1.36, computePodActions: no sandbox is to be made).
    """
    never = [each.name for each in state.pod.spec.containers if each.name not in state.restarts]
    who = f" before {', '.join(never)} had started" if never else ""
    policy = state.pod.spec.restart_policy
    return PodFailure(
        reason=SANDBOX_LOST, message=f"The pod lost its sandbox{who}, and its restart policy {policy} allows no other"
    )


def follower(state: PodState, step: Step, now: datetime, *, pulling: Collection[str] = ()) -> Step | None:
    """Return the start that follows `step` for certain if it does what it is to do; None if nothing is certain.

    That is what would be decided if the pod's first sandbox was there and all images were, or if the container ran, or
    if the init container had succeeded. The start can then begin before the step has ended, and waits for it in the
    worker. A pod in which anything else was ever made, or that is held back by anything, takes one step at a time.
    """
    supposed: PodState | None = None
    if isinstance(step.input, CreateSandbox):
        supposed = _with_sandbox(state, step.input, now)
    elif isinstance(step.input, StartContainer) and not pulling:
        supposed = _with_container(state, step.input, now)
    if supposed is None:
        return None
    decision = next_step(supposed, now, pulling=pulling)
    start = decision.step
    if start is None or decision.holds or not isinstance(start.input, StartContainer) or start.follows_restart_of_all:
        return None
    if isinstance(step.input, StartContainer) and not _is_plain(supposed, start):
        return None
    return start


def is_last(state: PodState, start: Step) -> bool:
    """Say whether no other container comes after this one in the pod's start."""
    return start.container == in_order(state.pod)[-1].name


def _with_sandbox(state: PodState, step: CreateSandbox, now: datetime) -> PodState | None:
    """Return the state as it is if the pod's first sandbox is there; None if anything was made or happened before."""
    seen = state.observed
    if step.adopt or seen.sandboxes or seen.containers:
        return None
    if state.exits or state.released or state.over or state.vanished:
        return None
    mode = "NODE" if state.pod.spec.host_network else "POD"
    made = ObservedSandbox(
        attempt=step.attempt,
        state="SANDBOX_READY",
        network_mode=mode,
        incarnation=state.incarnation,
        created_at=now,
        ip=None,
    )
    view = seen.model_copy(update={"sandboxes": (made,)})
    return state.model_copy(update={"observed": view, "waiting": {}})


def _with_container(state: PodState, step: StartContainer, now: datetime) -> PodState | None:
    """Return the state as it is if the container runs, or has succeeded if it is an init container.

    None if no other container can follow.
    """
    made = {each.name for each in state.own.containers}
    if step.kind == "ephemeral_container" or all(each.name in made for each in in_order(state.pod)[1:]):
        return None
    is_init = step.kind == "init_container"
    image = state.container(step.container).image
    supposed = ObservedContainer(
        id=f"{step.container} of step {state.fence}",
        name=step.container,
        sandbox_id=step.sandbox_id,
        state="exited" if is_init else "running",
        reason="Completed" if is_init else "",
        hash=container_hash(step.container, image),
        restart_count=step.restart,
        image=image,
        created_at=now,
        started_at=now,
        finished_at=now if is_init else None,
        incarnation=state.incarnation,
    )
    this = (step.container, step.restart)
    others = (each for each in state.observed.containers if (each.name, each.restart_count) != this)
    view = state.observed.model_copy(update={"containers": (supposed, *others)}).ordered()
    return state.model_copy(update={"observed": view, "waiting": {}})


def _is_plain(supposed: PodState, start: Step) -> bool:
    """Say whether a start is the container's first one, in a pod in which nothing but its start has happened."""
    step = start.input
    if not isinstance(step, StartContainer) or step.restart or start.store is not None or start.cleared:
        return False
    return has_come_to(supposed.pod, supposed.own, step.container, step.sandbox_id)


def planned(state: PodState) -> tuple[PlannedStep, ...]:
    """Return the steps that carry out the pod's actions, regardless of back-offs."""
    view = facts.effective_view(state)
    pod = state.allocated_pod
    followed = [container.id for container in view.containers if state.is_followed(container)]
    actions = compute_pod_actions(
        pod,
        view,
        liveness=state.probes.get("liveness", {}),
        startup=state.probes.get("startup", {}),
        actuated=state.applied_resources,
        restart_all=is_true(state.status.conditions, ALL_CONTAINERS_RESTARTING) and not state.pending_restart_of_all,
        followed=followed,
        kubelet=state.kubelet,
    )
    stopped = (*state.stopped_sandboxes, *facts.gone_sandboxes(state))
    recorded = {each.id for each in view.containers} - {each.id for each in state.observed.containers}
    behind = state.cgroup_behind
    steps = plan_steps(pod, view, actions, stopped_sandboxes=stopped, recorded=recorded, cgroup_behind=behind)
    return (*_asked_restarts(state, steps), *steps)


def _asked_restarts(state: PodState, steps: Sequence[PlannedStep]) -> list[PlannedStep]:
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


def expiry(state: PodState) -> datetime | None:
    """Return when the pod reaches its active deadline; None if it has none, is not admitted, or is ending anyway.

    Mirrors active_deadline.go, v1.36, pastActiveDeadline.
    """
    seconds, since = state.pod.spec.active_deadline_seconds, state.status.start_time
    if seconds is None or since is None or state.ending or state.rejection is not None:
        return None
    return moment_after(since, seconds)


def record_step(state: PodState, step: Step, now: datetime) -> StepInput:
    """Record that `step` is being taken; return its input with the next fence."""
    state.fence += 1
    if step.store is not None:
        state.backoff = step.store
    if step.cleared:
        state.cleared = {**state.cleared, step.container: step.cleared}
    if step.follows_restart_of_all and state.restart_all is not None:
        restart_of_all.finish(state, state.restart_all, now)
    subject = step.container or step.name.value
    state.released = {name: restart for name, restart in state.released.items() if name != subject}
    state.over = {name: at for name, at in state.over.items() if name != subject}
    if step.name == StepName.KILL_POD and state.kill_by is None:
        state.kill_by = moment_after(now, _grace(state))
    if step.name == StepName.CREATE_SANDBOX and state.own.sandboxes and not state.adopting:
        state.event(now, "Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
    _remember_kills(state, step, now)
    if step.resets:
        facts.forget_for_reset(state)
    return step.input.model_copy(update={"fence": state.fence})


def _remember_kills(state: PodState, step: Step, now: datetime) -> None:
    """Remember what the step kills and why, to distinguish its exits from crashes, and record `Killing`.

    That event is recorded when a kill begins, before preStop and grace, which may take hours
    (kuberuntime_container.go, v1.36, killContainer). For a container that only the step finds, the step records it.
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
    """Return why an instance is killed, as its exit will say."""
    spec = state.pod.spec
    lost = {each.name for each in state.own.containers if each.id == id_ and each.state == "unknown"}
    once = {each.name for each in (*spec.init_containers, *spec.containers) if not restarts_on_failure(each, spec)}
    if not state.ending and lost & once:
        return Kill(why=ENDED_FOR_GOOD, cause=KillCause.LOST_FOR_GOOD)
    return Kill(why=step.why, cause=step.cause or "", at=now, again=id_ in state.killed)


def _moving(state: PodState) -> list[str]:
    """Return the main containers (runtime ids) that end with their sandbox and start again in the pod's next one.

    The kubelet decides before the kill which containers it starts there: those that have not succeeded by then
    (kuberuntime_manager.go, v1.36, SyncPod). A pod that never restarts gets no other sandbox.
    """
    if state.pod.spec.restart_policy == "Never":
        return []
    newest = state.own.newest_by_name()
    mains = [newest[name] for each in state.pod.spec.containers if (name := each.name) in newest]
    return [each.id for each in mains if each.state in ("running", "unknown") and _might_rest(state.pod, each.name)]


# --- terminating ------------------------------------------------------------------------------------------------------


DEADLINE_EXCEEDED = "DeadlineExceeded"
"""The reason of a pod's failure once its active deadline is over."""

_CAUSE_BY_FAILURE = {EVICTED: KillCause.EVICTED, DEADLINE_EXCEEDED: KillCause.DEADLINE}
"""By the reason of a pod's failure: the cause of the kill that follows."""


def is_unfinished(state: PodState) -> bool:
    """Say whether the pod is over and has nothing left to stop, but its node does not know yet.

    Such a pod failed before it had a sandbox (evicted, past its deadline), or all its containers were stopped before
    the pod counted as over. The kubelet runs SyncTerminatingPod once for every pod (pod_workers.go, v1.36). A pod that
    was never admitted does not need it here, since it holds no resources of its node.
    """
    if not state.ending or state.finished:
        return False
    let_in = state.failure is None or not state.failure.rejected
    return let_in and not something_to_stop(state.observed, state.stopped_sandboxes)


def _terminate(state: PodState, now: datetime) -> Decision:
    if state.deletion is not None:
        why, cause = "deleted", KillCause.DELETED
    elif not (something_to_stop(state.observed, state.stopped_sandboxes) or is_unfinished(state)):
        return Decision()
    elif state.failure is not None:
        why, cause = state.failure.reason, _CAUSE_BY_FAILURE.get(state.failure.reason, KillCause.FAILED)
    else:
        why, cause = f"the pod has {state.reached.lower()}", KillCause.FINISHED
    return unless_held(state, _kill_pod(state, why, cause, now), now)


def _kill_pod(state: PodState, why: str, cause: KillCause | None, now: datetime) -> Step:
    """Build the kill of the whole pod, with the time that is left until its durable deadline.

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
            **(_pre_stop(state.pod, container.name) if _grace(state) > 0 else {}),
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


def _is_evicted(state: PodState) -> bool:
    return state.failure is not None and state.failure.reason == EVICTED and not state.failure.rejected


def _left(state: PodState, now: datetime) -> int:
    """Return the whole seconds left of the pod's grace."""
    if state.kill_by is not None:
        return max(0, math.ceil((state.kill_by - now).total_seconds()))
    return _grace(state)


def _grace(state: PodState) -> int:
    """Return the grace of a kill of the whole pod, in whole seconds: at least 1 for a pod that ends.

    Within a sync (after the loss of its sandbox, say) it is the grace that each container would get. A grace of 0
    leaves no time for hooks or for an order of termination. Mirrors kuberuntime_manager.go, v1.36, SyncPod, which
    kills without a grace of its own.
    """
    if state.ending:
        return pod_grace_seconds(state.pod)
    return kill_grace_seconds(state.pod, None)


# --- syncing ----------------------------------------------------------------------------------------------------------


def _volumes(state: PodState, now: datetime) -> Decision | None:
    """Return the step that rewrites files with the pod's labels, annotations or resources, if they are out of date."""
    if not (state.volumes_behind and any(sandbox.ready for sandbox in state.own.sandboxes)):
        return None
    why = "labels, annotations or resources have changed"
    step = SyncVolumes(ref=state.ref, pod=state.allocated_pod)
    key = backoff.step_key("sync_volumes")
    return unless_held(state, Step(StepName.SYNC_VOLUMES, step, f"update volumes: {why}", why, key=key), now)


def _allocation(state: PodState, now: datetime) -> Decision | None:
    """Return the step that asks the node for the desired resources, unless the node has refused them for good."""
    if not resizing.is_to_be_asked(state):
        return None
    step = AllocateResources(ref=state.ref, pod=state.pod)
    summary = f"allocate resources: {ALLOCATE}"
    return unless_held(
        state, Step(StepName.ALLOCATE_RESOURCES, step, summary, ALLOCATE, key=resizing.ALLOCATE_KEY), now
    )


def _adopt(state: PodState) -> Step:
    """Build the step that adopts a running pod. Its past is unknown before that, so nothing may be created."""
    why = "what runs of the pod is taken over"
    step = CreateSandbox(ref=state.ref, pod=state.allocated_pod, adopt=True)
    return Step(StepName.CREATE_SANDBOX, step, f"adopt pod: {why}", why, key=backoff.step_key("create_sandbox"))


def _resize(state: PodState, planned_step: PlannedStep) -> Step:
    """Build the step that applies the allocated resources."""
    memory, cpu = (
        tuple(ContainerUpdate.model_validate(asdict(each)) for each in updates)
        for updates in (planned_step.update.memory, planned_step.update.cpu)
    )
    step = ResizePod(
        ref=state.ref, pod=state.allocated_pod, sandbox_id=state.own.sandboxes[0].id, memory=memory, cpu=cpu
    )
    why = planned_step.why
    return Step(StepName.RESIZE_POD, step, clip(f"resize pod: {why}"), why, key=resizing.RESIZE_KEY)


def _first_allowed(state: PodState, steps: Iterable[PlannedStep], pulling: Collection[str], now: datetime) -> Decision:
    """Walk the plan as SyncPod does: some failures stop the sync, others only their own container's start.

    Difference: a concurrent pull delays only its own container. The kubelet's SyncPod waits for it.
    """
    holds: list[Hold] = []
    for planned_step in steps:
        if planned_step.verb in START_KINDS and planned_step.container in pulling:
            decision = Decision()
        else:
            decision = _as_step(state, planned_step, now)
        if decision.step is not None:
            return Decision(decision.step, tuple(holds))
        if decision.failure is not None:
            return decision
        holds.extend(hold for hold in decision.holds if hold not in holds)
        alone = (StepName.RESIZE_POD, StepName.START_CONTAINER, StepName.START_EPHEMERAL_CONTAINER)
        goes_on = planned_step.verb in alone or planned_step.sidecar
        if not goes_on:
            break
    return Decision(None, tuple(holds))


def _as_step(state: PodState, planned_step: PlannedStep, now: datetime) -> Decision:
    verb, name, why, cause = planned_step.verb, planned_step.container, planned_step.why, planned_step.cause
    match verb:
        case StepName.KILL_POD:
            return unless_held(state, _kill_pod(state, why, planned_step.cause, now), now)
        case StepName.KILL_CONTAINER:
            container_id = planned_step.ids[0]
            grace = kill_grace_seconds(state.pod, _main_or_init(state.pod, name), cause)
            hook = _pre_stop(state.pod, name) if grace > 0 else {}
            target = KillTarget(id=container_id, name=name, grace_seconds=grace, **hook)
            kill = KillContainer(ref=state.ref, target=target, message=why, reason=cause.reason if cause else "")
            replaces = container_id if planned_step.follows and _might_rest(state.pod, name) else ""
            step = Step(
                StepName.KILL_CONTAINER,
                kill,
                f"kill {name}: {why}",
                why,
                name,
                backoff.step_key(verb, name),
                replaces=replaces,
                cause=cause,
            )
            return unless_held(state, step, now)
        case StepName.REMOVE_CONTAINER:
            removal = RemoveContainers(
                ref=state.ref,
                ids=planned_step.ids,
                kill=planned_step.kill,
                keep_logs=planned_step.keep_logs,
                message=why,
                cause=cause or "",
            )
            count = len(planned_step.ids)
            summary = f"remove {count} container{'s' if count != 1 else ''}: {why}"
            step = Step(
                StepName.REMOVE_CONTAINER,
                removal,
                summary,
                why,
                key=backoff.step_key(verb),
                resets=planned_step.keep_logs,
                cause=cause,
            )
            return unless_held(state, step, now)
        case StepName.CREATE_SANDBOX:
            attempt = max(planned_step.attempt, state.sandbox_floor, _foreign_attempts(state))
            create = CreateSandbox(ref=state.ref, pod=state.allocated_pod, attempt=attempt)
            summary = f"create sandbox, attempt {attempt}: {why}" if attempt else f"create sandbox: {why}"
            step = Step(StepName.CREATE_SANDBOX, create, summary, why, key=backoff.step_key(verb))
            return unless_held(state, step, now)
        case StepName.RESIZE_POD:
            return unless_held(state, _resize(state, planned_step), now)
        case StepName.START_INIT_CONTAINER | StepName.START_EPHEMERAL_CONTAINER | StepName.START_CONTAINER:
            return start_container(state, planned_step, now)
        case StepName.SYNC_VOLUMES | StepName.ALLOCATE_RESOURCES | StepName.PULL_IMAGE:
            raise ValueError(f"{verb}: is not part of a plan, because the workflow decides it elsewhere")
        case _:
            assert_never(verb)


def _pre_stop(pod: Pod, name: str) -> dict[str, Any]:
    """Return what a kill needs to know about the container's preStop hook; empty if there is none."""
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


def _foreign_attempts(state: PodState) -> int:
    """Return the lowest sandbox attempt above those of other incarnations; 0 if there are none."""
    foreign = [s.attempt for s in state.observed.sandboxes if s.incarnation not in ("", state.incarnation)]
    return max(foreign) + 1 if foreign else 0
