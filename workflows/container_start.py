"""A container's start: waited for, its image pulled, or begun, one step at a time.

Mirrors kuberuntime_manager.go, v1.36, the start in SyncPod with doBackOff, and image_manager.go, EnsureImageExists.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from syncpod.lifecycle import backoff
from syncpod.lifecycle.backoff import BackoffStore, StartDecision
from syncpod.lifecycle.observed import ObservedSandbox
from syncpod.lifecycle.plan import PlannedStep
from syncpod.lifecycle.restart import container_should_restart
from syncpod.messages import PullImage, StartContainer, StepName
from syncpod.pod import Container, EphemeralContainer, Pod
from workflows.decision import Decision, Hold, Step, clip, failure_hold
from workflows.state import PodState, Round

START_ERROR_CODE = 128
"""What a runtime gives as exit code of a container whose process could not be started."""

START_KINDS = {
    "start_container": "container",
    "start_init_container": "init_container",
    "start_ephemeral_container": "ephemeral_container",
}


def start_container(state: PodState, planned_step: PlannedStep, now: datetime) -> Decision:
    """Take the next step towards a container's start: wait, pull, or start."""
    name = planned_step.container
    container = state.container(name)
    restart = state.next_restart(name)
    key = backoff.step_key("start", name)

    held = failure_hold(state, key, name, restart, now)
    if held:
        return Decision(holds=(held,))
    apart = planned_step.verb == "start_ephemeral_container"
    if (last := state.between_rounds) is not None and not (apart and last.lenient):
        return _begin_anew(state, last, planned_step, now)
    allowed, store, exit_id = _crash_loop(state, name, restart, now)
    if not allowed.allowed and allowed.retry_at is not None:
        hold = Hold(name, restart, allowed.retry_at, allowed.delay, "CrashLoopBackOff", allowed.message)
        return Decision(holds=(hold,))

    policies = _pull_policies(state.pod, container)
    absent = name in state.missing_images and policies != {"Never"}
    if absent or ("Always" in policies and state.pulled.get(name) != restart):
        image_key = backoff.image_key(state.pod.metadata.uid, container.image)
        held = failure_hold(state, image_key, name, restart, now)
        if held:
            message = backoff.image_backoff_message(container.image, f"{held.reason}: {held.message}")
            hold = Hold(name, restart, held.until, held.delay, "ImagePullBackOff", message)
            return Decision(holds=(hold,))
        why = "absent" if absent else "pull policy Always"
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
        final=_is_final(state.pod, container),
    )
    why = _why_start(state, planned_step, restart)
    which = f"start {name}, restart {restart}" if restart else f"start {name}"
    return Decision(Step(StepName(planned_step.verb), start, clip(f"{which}: {why}"), why, name, key, store, exit_id))


def _begin_anew(state: PodState, last: Round, planned_step: PlannedStep, now: datetime) -> Decision:
    """Begin a pod anew of which all containers were removed, or wait out its back-off: one for all of them."""
    anew = state.model_copy(update={"restart_all": last.model_copy(update={"begun": True})})
    decision, store = backoff.restart_all_decision(
        state.backoff, state.pod.metadata, last.cause, finished_at=last.at, now=now
    )
    if not decision.allowed and decision.retry_at is not None:
        if state.released.get(backoff.RESTART_ALL) != last.number:
            hold = Hold(
                backoff.RESTART_ALL,
                last.number,
                decision.retry_at,
                decision.delay,
                "CrashLoopBackOff",
                decision.message,
            )
            return Decision(holds=(hold,))
        _, store = backoff.restart_all_decision(
            state.backoff, state.pod.metadata, last.cause, finished_at=last.at, now=decision.retry_at
        )
    first = start_container(anew, planned_step, now)
    if first.step is None:
        return first
    return Decision(replace(first.step, store=store, begins_anew=True))


def _pull_policies(pod: Pod, container: Container | EphemeralContainer) -> set[str]:
    """Return by which policies a container's images are pulled: its own, and those of the image volumes it mounts."""
    volumes = {volume.name: volume.image for volume in pod.spec.volumes if volume.image is not None}
    mounted = (volumes[mount.name] for mount in container.volume_mounts if mount.name in volumes)
    return {image.pull_policy or "IfNotPresent" for image in mounted} | {container.image_pull_policy or "IfNotPresent"}


def _why_start(state: PodState, planned_step: PlannedStep, restart: int) -> str:
    """Say why a container starts: why we ended the last one, if we did; else how it ended, as the plan says."""
    newest, last = state.own.newest(planned_step.container), state.last_exit(planned_step.container)
    if last is not None and last.cause and (newest is None or newest.id == last.id):
        return last.cause
    return planned_step.why if newest is not None or not restart else "runs again"


def _is_final(pod: Pod, container: Container | EphemeralContainer) -> bool:
    """Say whether a start that the runtime cannot carry out is the container's end, by its policy and rules.

    It ends with code 128 then (`StartError`), like any other exit.
    """
    if isinstance(container, EphemeralContainer):
        return True
    return not container_should_restart(container, pod.spec, START_ERROR_CODE)


def _sandbox(state: PodState) -> ObservedSandbox:
    """Return the newest sandbox; a start is planned only where there is one."""
    return state.own.sandboxes[0]


def _superseded(state: PodState, name: str) -> tuple[str, ...]:
    """Return the dead instances of a container that its next start makes superfluous: all but the newest dead one.

    Mirrors pod_container_deletor.go, v1.36, which keeps one exited instance of a name.
    """
    dead = [c.id for c in state.own.containers if c.name == name and c.state == "exited"]
    return tuple(dead[1:])


def _crash_loop(
    state: PodState, name: str, restart: int, now: datetime
) -> tuple[StartDecision, BackoffStore | None, str]:
    """Ask the crash-loop back-off, by the newest exited instance, or by the recorded exit where it was removed.

    A start that has passed it once (and is now past its pull) is not asked again for the same exit. A start released by
    a signal passes at the moment at which it would have been allowed.
    """
    last = state.last_exit(name)
    free = StartDecision(allowed=True, delay=backoff.NO_DELAY)
    if last is None or state.cleared.get(name) == last.id or state.replacing.get(last.id):
        return free, None, ""
    if state.restart_all is not None and last.id in state.restart_all.removed:
        return free, None, ""
    container = state.container(name)
    meta = state.pod.metadata
    decision, store = backoff.start_decision(state.backoff, meta, container, finished_at=last.at, now=now)
    if not decision.allowed and state.released.get(name) == restart and decision.retry_at is not None:
        decision, store = backoff.start_decision(
            state.backoff, meta, container, finished_at=last.at, now=decision.retry_at
        )
    return decision, store if decision.allowed else None, last.id
