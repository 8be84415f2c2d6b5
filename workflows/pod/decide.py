"""Decides the next action of a pod's workflow: take one step, or wait until a deadline.

`compute_pod_actions` computes the pod's actions from the view. This module checks them against the workflow's own
records (back-offs, images, numbers already used) and returns the first step that may run now. Each step brings a newer
view, from which the next step is decided, so nothing here plans more than one step ahead.

Pure: no clock, no I/O, no Temporal. `next_step` changes nothing; `record_step` notes that its step is being taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, replace
from datetime import datetime
from typing import assert_never

from syncpod.lifecycle import backoff
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.compute import compute_pod_actions
from syncpod.lifecycle.conditions import ALL_CONTAINERS_RESTARTING, is_true
from syncpod.lifecycle.plan import PlannedStep, plan_steps
from syncpod.lifecycle.sandbox import pod_sandbox_changed
from syncpod.lifecycle.termination import moment_after
from syncpod.lifecycle.version import BASELINE
from syncpod.messages.step_table import STEPS, Place
from syncpod.messages.steps import (
    AllocateResources,
    ContainerUpdate,
    CreateSandbox,
    RemoveContainers,
    ResizePod,
    StepInput,
    SyncVolumes,
)
from workflows.pod import facts, holds, killing, resizing, restart_of_all, verdicts
from workflows.pod.container_start import START_KINDS, start_container
from workflows.pod.decision import Decision, Hold, Step
from workflows.pod.holds import unless_held
from workflows.pod.state import PodState
from workflows.summaries import clip

ALLOCATE = "the pod asks for other resources"
"""The reason for requesting resources from the node."""

VOLUMES = "labels, annotations or resources have changed"
"""The reason for rewriting the files of volumes."""


def next_step(state: PodState, now: datetime, *, pulling: Collection[str] = ()) -> Decision:
    """Return the step to take now, or the holds to wait for.

    `pulling` names the containers whose images are being pulled concurrently: only their own starts wait.
    """
    if state.removed:
        return Decision()
    if state.ending:
        return killing.terminate(state, now)
    if state.adopting:
        return unless_held(state, _adopt(state), now)
    steps = planned(state)
    if not steps and pod_sandbox_changed(state.pod.spec, facts.effective_view(state)).changed:
        return Decision(failure=verdicts.stranded(state))
    decision = _first_allowed(state, steps, pulling, now)
    for update in (_volumes(state, now), _allocation(state, now)):
        if update is not None:
            decision = replace(decision, step=update.step or decision.step, holds=(*update.holds, *decision.holds))
    return replace(decision, plan=tuple(f"{step.verb} {step.container}".rstrip() for step in steps))


def planned(state: PodState) -> tuple[PlannedStep, ...]:
    """Return the steps that carry out the pod's actions, regardless of back-offs.

    A run with older decisions takes no step that came with newer ones (`StepSpec.since`).
    """
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
    steps = (*killing.requested_restarts(state, steps), *steps)
    decisions = max(state.decision_version, BASELINE)
    return tuple(step for step in steps if STEPS[step.verb].since <= decisions)


def coming(state: PodState, now: datetime) -> tuple[PlannedStep, ...]:
    """Return the steps that `next_step` leads to, in their order, regardless of back-offs; for plans.

    The node is taken to have room for a resize.
    """
    if resizing.is_resize_due(state):
        ask = PlannedStep(StepName.ALLOCATE_RESOURCES, why=ALLOCATE)
        return (ask, *coming(resizing.as_if_allocated(state, now), now))
    volumes = (PlannedStep(StepName.SYNC_VOLUMES, why=VOLUMES),) if _has_old_volumes(state) else ()
    return (*volumes, *planned(state))


def record_step(state: PodState, step: Step, now: datetime) -> StepInput:
    """Record that `step` is being taken; return its input with the next fence."""
    state.fence += 1
    if step.store is not None:
        state.backoff = step.store
    if step.cleared:
        holds.count(state, step.container, step.cleared)
    if step.follows_restart_of_all and state.restart_all is not None:
        restart_of_all.finish(state, state.restart_all, now)
    holds.use_up(state, step.subject)
    if step.name == StepName.KILL_POD and state.kill_by is None:
        state.kill_by = moment_after(now, killing.grace(state))
    if step.name == StepName.CREATE_SANDBOX and state.own.sandboxes and not state.adopting:
        state.event(now, "Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
    killing.remember_kills(state, step, now)
    if step.resets:
        facts.forget_for_reset(state)
    return step.input.model_copy(update={"fence": state.fence})


def _volumes(state: PodState, now: datetime) -> Decision | None:
    """Return the step that rewrites files with the pod's labels, annotations or resources, if they are out of date."""
    if not _has_old_volumes(state):
        return None
    step = SyncVolumes(ref=state.ref, pod=state.allocated_pod)
    key = backoff.step_key("sync_volumes")
    return unless_held(state, Step(StepName.SYNC_VOLUMES, step, f"update volumes: {VOLUMES}", VOLUMES, key=key), now)


def _has_old_volumes(state: PodState) -> bool:
    return state.volumes_behind and any(sandbox.ready for sandbox in state.own.sandboxes)


def _allocation(state: PodState, now: datetime) -> Decision | None:
    """Return the step that requests the desired resources from the node, unless it has refused them for good."""
    if not resizing.is_resize_due(state):
        return None
    step = AllocateResources(ref=state.ref, pod=state.pod)
    summary = f"allocate resources: {ALLOCATE}"
    return unless_held(
        state, Step(StepName.ALLOCATE_RESOURCES, step, summary, ALLOCATE, key=resizing.ALLOCATE_KEY), now
    )


def _adopt(state: PodState) -> Step:
    """Build the step that adopts a running pod. Until it has run, the pod's past is unknown: nothing may be created."""
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
    held: list[Hold] = []
    for planned_step in steps:
        if planned_step.verb in START_KINDS and planned_step.container in pulling:
            decision = Decision()
        else:
            decision = _as_step(state, planned_step, now)
        if decision.step is not None:
            return Decision(decision.step, tuple(held))
        if decision.failure is not None:
            return decision
        held.extend(hold for hold in decision.holds if hold not in held)
        if STEPS[planned_step.verb].place is Place.PLANNED and not planned_step.sidecar:
            break
    return Decision(None, tuple(held))


def _as_step(state: PodState, planned_step: PlannedStep, now: datetime) -> Decision:
    verb, why, cause = planned_step.verb, planned_step.why, planned_step.cause
    match verb:
        case StepName.KILL_POD:
            return unless_held(state, killing.kill_pod(state, why, planned_step.cause, now), now)
        case StepName.KILL_CONTAINER:
            return unless_held(state, killing.kill_container(state, planned_step), now)
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


def _foreign_attempts(state: PodState) -> int:
    """Return the lowest sandbox attempt above those of other lives; 0 if there are none."""
    foreign = [s.attempt for s in state.observed.sandboxes if s.incarnation not in ("", state.incarnation)]
    return max(foreign) + 1 if foreign else 0
