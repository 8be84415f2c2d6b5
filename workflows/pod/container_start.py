"""A container's start, one step at a time: wait for the back-off, pull the image, start.

Mirrors kuberuntime_manager.go, v1.36, the start in SyncPod with doBackOff, and image_manager.go, EnsureImageExists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from syncpod.lifecycle import backoff, restart_pacing
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.backoff import BackoffStore
from syncpod.lifecycle.observed import ObservedSandbox
from syncpod.lifecycle.plan import PlannedStep
from syncpod.lifecycle.restart_pacing import RestartPermission
from syncpod.lifecycle.status import PodFailure
from syncpod.messages.steps import NOT_PULLED, PullImage, StartContainer
from syncpod.pod import Container, ContainerKind, EphemeralContainer, Pod
from workflows.pod import facts, holds
from workflows.pod.decision import Decision, Hold, Step
from workflows.pod.state import PodState, RestartOfAll
from workflows.summaries import clip

START_KINDS: dict[StepName, ContainerKind] = {
    StepName.START_CONTAINER: "container",
    StepName.START_INIT_CONTAINER: "init_container",
    StepName.START_EPHEMERAL_CONTAINER: "ephemeral_container",
}


def start_container(state: PodState, planned_step: PlannedStep, now: datetime) -> Decision:
    """Return the next step towards a container's start: a hold, a pull, or the start."""
    name = planned_step.container
    container = state.container(name)
    restart = state.next_restart(name)
    key = backoff.step_key("start", name)

    held = holds.failure_hold(state, key, name, restart, now)
    if held:
        return Decision(holds=(held,))
    apart = planned_step.verb == StepName.START_EPHEMERAL_CONTAINER
    if (last := state.pending_restart_of_all) is not None and not apart:
        return _first_of_all(state, last, planned_step, now)
    allowed, store, exit_id = _crash_loop(state, name, restart, now)
    if not allowed.allowed:
        return _held_back(name, restart, allowed)

    policies = _pull_policies(state.pod, container)
    absent = name in state.missing_images and policies != {"Never"}
    if absent or ("Always" in policies and state.pulled.get(name) != restart):
        image_key = backoff.image_key(state.pod.metadata.uid, container.image)
        held = holds.failure_hold(state, image_key, name, restart, now)
        if held and held.reason in NOT_PULLED:
            return Decision(holds=(held,))
        if held:
            message = backoff.image_backoff_message(container.image, f"{held.reason}: {held.message}")
            hold = Hold(name, restart, held.until, held.delay, "ImagePullBackOff", message)
            return Decision(holds=(hold,))
        why = "the node has no such image" if absent else "pull policy Always"
        attempt = _sandbox(state).attempt
        pull = PullImage(ref=state.ref, pod=state.allocated_pod, container=name, sandbox_attempt=attempt)
        summary = f"pull {container.image} for {name}: {why}"
        return Decision(Step(StepName.PULL_IMAGE, pull, clip(summary), why, name, image_key, store, exit_id))

    sandbox = _sandbox(state)
    start = StartContainer(
        ref=state.ref,
        pod=state.allocated_pod,
        container=name,
        kind=START_KINDS[planned_step.verb],
        restart=restart,
        sandbox_id=sandbox.id,
        sandbox_attempt=sandbox.attempt,
        prune=_superseded(state, name),
        pulled=state.pulled.get(name) == restart,
    )
    why = _why_start(state, planned_step, restart)
    which = f"start {name}, restart {restart}" if restart else f"start {name}"
    return Decision(Step(planned_step.verb, start, clip(f"{which}{_reason(why)}"), why, name, key, store, exit_id))


def _reason(why: str) -> str:
    """Return the reason in a start's summary, worded so that an earlier exit does not read as the start's outcome."""
    how = why.removeprefix("exited ")
    return f": {why}" if how == why else f", after exit {how}"


def _first_of_all(state: PodState, last: RestartOfAll, planned_step: PlannedStep, now: datetime) -> Decision:
    """Return the first step after a restart of all has removed the containers, or the one hold of the whole pod."""
    over = state.model_copy(update={"restart_all": last.model_copy(update={"begun": True})})

    def ask(store: BackoffStore, at: datetime) -> tuple[RestartPermission, BackoffStore]:
        meta = state.pod.metadata
        return restart_pacing.restart_all(store, state.restart_settings, meta, last.cause, last.exit, now=at)

    allowed, store = ask(state.backoff, now)
    if not allowed.allowed:
        if not holds.is_ended(state, backoff.RESTART_ALL, last.number, allowed.retry_at):
            return _held_back(backoff.RESTART_ALL, last.number, allowed)
        store = _released(state.backoff, backoff.step_key(backoff.RESTART_ALL), allowed, ask, now)
    first = start_container(over, planned_step, now)
    if first.step is None:
        return first
    return Decision(replace(first.step, store=store, follows_restart_of_all=True))


def _held_back(subject: str, restart: int, held: RestartPermission) -> Decision:
    """Return the hold of a start that is not allowed yet, or the pod's failure if it never will be."""
    if held.fails:
        return Decision(failure=PodFailure(reason=held.reason, message=held.message))
    return Decision(holds=(Hold(subject, restart, held.retry_at, held.delay, held.reason, held.message),))


def _released(
    store: BackoffStore,
    key: str,
    held: RestartPermission,
    ask: Callable[[BackoffStore, datetime], tuple[RestartPermission, BackoffStore]],
    now: datetime,
) -> BackoffStore:
    """Return the back-offs after a signal has allowed a start that was held.

    The start counts as made at the time when it would have been allowed. If only an operator could allow it, it counts
    as the first restart of a new series.
    """
    if held.retry_at is not None:
        return ask(store, held.retry_at)[1]
    return backoff.started_by_operator(store, key, now=now)


def _pull_policies(pod: Pod, container: Container | EphemeralContainer) -> set[str]:
    """Return the pull policies of a container's images: its own, and those of the image volumes that it mounts."""
    volumes = {volume.name: volume.image for volume in pod.spec.volumes if volume.image is not None}
    mounted = (volumes[mount.name] for mount in container.volume_mounts if mount.name in volumes)
    return {image.pull_policy or "IfNotPresent" for image in mounted} | {container.image_pull_policy or "IfNotPresent"}


def _why_start(state: PodState, planned_step: PlannedStep, restart: int) -> str:
    """Return why a container starts: the reason for killing its last instance, else the reason in the plan."""
    newest, last = facts.effective_view(state).newest(planned_step.container), state.last_exit(planned_step.container)
    if last is not None and last.cause and (newest is None or newest.id == last.id):
        return last.cause
    return planned_step.why if newest is not None or not restart else "runs again"


def _sandbox(state: PodState) -> ObservedSandbox:
    """Return the newest sandbox; a start is planned only if there is one."""
    return state.own.sandboxes[0]


def _superseded(state: PodState, name: str) -> tuple[str, ...]:
    """Return the dead instances of a container that its next start may remove: all but the newest dead one.

    Mirrors pod_container_deletor.go, v1.36, which keeps one exited instance of a name.
    """
    dead = [c.id for c in state.own.containers if c.name == name and c.state == "exited"]
    return tuple(dead[1:])


def _crash_loop(
    state: PodState, name: str, restart: int, now: datetime
) -> tuple[RestartPermission, BackoffStore | None, str]:
    """Check a container's next start against the crash-loop back-off and the limit of restarts, by its last exit.

    Returns the permission, the back-offs if the start changes them, and the exit (runtime id) that they count. A start
    that was allowed before, and then waited for its pull, is not checked again for the same exit. A start that a signal
    has released counts as made at the time when it would have been allowed.
    """
    last = state.last_exit(name)
    free = RestartPermission(allowed=True)
    if last is None or holds.is_counted(state, last):
        return free, None, ""
    container = state.container(name)
    meta = state.pod.metadata
    key = backoff.crash_loop_key(meta, container)
    if state.replacing.get(last.id):
        counts = state.restart_settings.limit is not None
        return free, backoff.uncounted(state.backoff, key) if counts else None, ""
    if state.restart_all is not None and last.id in state.restart_all.removed:
        return free, None, ""

    def ask(store: BackoffStore, at: datetime) -> tuple[RestartPermission, BackoffStore]:
        return restart_pacing.restart_container(store, state.restart_settings, meta, container, last, now=at)

    allowed, store = ask(state.backoff, now)
    if allowed.allowed:
        return allowed, store, last.id
    if holds.is_ended(state, name, restart, allowed.retry_at):
        return free, _released(state.backoff, key, allowed, ask, now), last.id
    return allowed, None, last.id
