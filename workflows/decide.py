"""What a pod's workflow does next: one step, or wait until a deadline.

The pod's actions are decided by `compute_pod_actions` from the view; this module holds them against what the workflow
remembers (back-offs, images, numbers already used) and returns the first step that may run now. After each step the
view is newer and the pod is decided afresh, so nothing here plans more than one step ahead.

Pure: no clock, no I/O, no Temporal. `next_step` changes nothing; `begin` records that its step is being taken.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from syncpod.lifecycle import backoff
from syncpod.lifecycle.backoff import BackoffStore, StartDecision
from syncpod.lifecycle.compute import compute_pod_actions
from syncpod.lifecycle.conditions import ALL_CONTAINERS_RESTARTING, is_true
from syncpod.lifecycle.eviction import EVICTED
from syncpod.lifecycle.observed import ObservedSandbox
from syncpod.lifecycle.plan import PlannedStep, plan_steps, something_to_stop
from syncpod.lifecycle.restart import container_should_restart, restart_policy
from syncpod.lifecycle.termination import kill_grace_seconds, pod_grace_seconds, termination_order
from syncpod.messages import (
    AllocateResources,
    ContainerUpdate,
    CreateSandbox,
    KillContainer,
    KillPod,
    KillTarget,
    PullImage,
    RemoveContainers,
    RemovePod,
    ResizePod,
    StartContainer,
    StepInput,
    StepName,
    SyncVolumes,
)
from syncpod.pod import Container, EphemeralContainer, Pod
from workflows import resizing, rounds
from workflows.state import PodState, Round

START_ERROR_CODE = 128
"""What a runtime gives as exit code of a container whose process could not be started."""

OPERATOR_RESTARTS = "an operator restarts it"
"""Why a container is ended and started again that nothing else is wrong with."""

ALLOCATE = "the pod asks for other resources"
"""Why a node is asked whether it has the room."""

START_KINDS = {
    "start_container": "container",
    "start_init_container": "init_container",
    "start_ephemeral_container": "ephemeral_container",
}


@dataclass(frozen=True)
class Step:
    """One step, ready to be taken."""

    name: StepName
    input: StepInput
    summary: str
    """For the Temporal UI and the history: what and why, at most 200 bytes."""
    why: str
    container: str = ""
    key: str = ""
    """Under which its failures back off."""
    store: BackoffStore | None = None
    """The back-offs as they are once the step begins, where beginning it changes them."""
    cleared: str = ""
    """The exit (runtime id) for which the container's back-off has been passed."""
    resets: bool = False
    """It removes what there is of the pod's containers, so that all of them run anew."""
    begins_anew: bool = False
    """It is the first step of a pod of which all containers run anew."""
    outdated: bool = False
    """What it has asked the node for is no longer what is desired."""
    replaces: str = ""
    """The instance (runtime id) that the step ends only so that another follows, though by its policy it might rest."""


@dataclass(frozen=True)
class Hold:
    """Something that would be done but for a back-off."""

    subject: str
    """Container name, or the step's name where no container is meant."""
    restart: int
    until: datetime
    delay: timedelta
    reason: str
    """`CrashLoopBackOff`, `ImagePullBackOff`, or the fault's reason."""
    message: str


@dataclass(frozen=True)
class Decision:
    """What to do: a step, or nothing until the earliest of the holds."""

    step: Step | None = None
    holds: tuple[Hold, ...] = ()
    plan: tuple[str, ...] = ()
    """All that is to be done, `step` first unless it is held, as `start_container web`; for the history."""

    @property
    def deadline(self) -> datetime | None:
        """When the earliest hold ends; None = nothing to wait for but signals."""
        return min((hold.until for hold in self.holds), default=None)


def next_step(state: PodState, now: datetime, *, pulling: Collection[str] = ()) -> Decision:
    """Return the step to take now, or the holds to wait for.

    `pulling` names the containers whose images are being pulled beside everything else: their start waits, and nobody
    else's does.
    """
    if state.removed:
        return Decision()
    if state.ending:
        return _terminate(state, now)
    steps = planned(state)
    decision = _first_allowed(state, steps, pulling, now)
    for update in (_volumes(state, now), _allocation(state, now)):
        if update is not None:
            decision = replace(decision, step=update.step or decision.step, holds=(*update.holds, *decision.holds))
    return replace(decision, plan=tuple(f"{step.verb} {step.container}".rstrip() for step in steps))


def planned(state: PodState) -> tuple[PlannedStep, ...]:
    """Return the steps that the pod's actions stand for, regardless of back-offs."""
    view = state.own
    pod = state.allocated_pod
    actions = compute_pod_actions(
        pod,
        view,
        liveness=state.probes.get("liveness", {}),
        startup=state.probes.get("startup", {}),
        actuated=state.applied_resources,
        restart_all=is_true(state.status.conditions, ALL_CONTAINERS_RESTARTING) and state.between_rounds is None,
        followed=[container.id for container in view.containers if state.is_followed(container)],
    )
    steps = plan_steps(pod, view, actions, stopped_sandboxes=state.stopped_sandboxes, cgroup_behind=state.cgroup_behind)
    return (*_asked_restarts(state, steps), *steps)


def _asked_restarts(state: PodState, steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    """Return the kills of running containers that an operator restarts, of those that nothing else ends anyway."""
    doomed = {id_ for step in steps for id_ in (*step.ids, *step.kill)}
    if not state.replacing or any(step.verb == "kill_pod" for step in steps):
        return []
    return [
        PlannedStep("kill_container", container.name, ids=(container.id,), follows=True, why=OPERATOR_RESTARTS)
        for container in state.own.newest_by_name().values()
        if container.state == "running" and state.replacing.get(container.id) and container.id not in doomed
    ]


def expiry(state: PodState) -> datetime | None:
    """Return when the pod has been active for as long as it may, None where it may for ever or is ending anyway.

    Mirrors active_deadline.go, v1.36, pastActiveDeadline.
    """
    seconds, since = state.pod.spec.active_deadline_seconds, state.status.start_time
    if seconds is None or since is None or state.ending:
        return None
    return since + timedelta(seconds=seconds)


def begin(state: PodState, step: Step, now: datetime) -> StepInput:
    """Record that `step` is being taken and return its input with the next fence."""
    state.fence += 1
    if step.store is not None:
        state.backoff = step.store
    if step.cleared:
        state.cleared = {**state.cleared, step.container: step.cleared}
    if step.begins_anew and state.restart_all is not None:
        rounds.begin_anew(state, state.restart_all, now)
    subject = step.container or step.name.value
    state.released = {name: restart for name, restart in state.released.items() if name != subject}
    if step.name == StepName.KILL_POD and state.kill_by is None:
        state.kill_by = now + timedelta(seconds=pod_grace_seconds(state.pod))
    if step.name == StepName.CREATE_SANDBOX and state.own.sandboxes:
        state.event(now, "Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
    _remember_kills(state, step)
    return step.input.model_copy(update={"fence": state.fence})


def _remember_kills(state: PodState, step: Step) -> None:
    """Remember whom the step kills and why, so that the exits that follow are told from crashes."""
    match step.input:
        case KillPod(targets=targets):
            victims = [target.id for target in targets]
        case KillContainer(target=target):
            victims = [target.id]
        case RemoveContainers(kill=kill):
            victims = list(kill)
        case _:
            return
    state.killed = {**state.killed, **dict.fromkeys(victims, step.why)}


# --- terminating ------------------------------------------------------------------------------------------------------


def is_unfinished(state: PodState) -> bool:
    """Say whether the pod is over, nothing of it is left to stop, and its node has not been told so yet.

    It failed before it had a sandbox (put out, past its deadline), or all that it had was ended before that amounted to
    its end. As pod_workers.go, v1.36, has it, SyncTerminatingPod is run for every pod once; but one that was never let
    in has nothing of its node, and one that is being deleted gives everything back when it is removed.
    """
    if not state.ending or state.deletion is not None or state.finished:
        return False
    let_in = state.failure is None or not state.failure.rejected
    return let_in and not something_to_stop(state.observed, state.stopped_sandboxes)


def _terminate(state: PodState, now: datetime) -> Decision:
    if something_to_stop(state.observed, state.stopped_sandboxes) or is_unfinished(state):
        if state.deletion is None and state.failure is not None:
            why = state.failure.reason
        else:
            why = "deleted" if state.deletion else f"the pod has {state.reached.lower()}"
        return _unless_held(state, _kill_pod(state, why, now), now)
    if state.deletion is None:
        return Decision()
    removal = Step(
        StepName.REMOVE_POD, RemovePod(ref=state.ref), "remove what is left: deleted", "deleted", key="step/remove_pod"
    )
    return _unless_held(state, removal, now)


def _kill_pod(state: PodState, why: str, now: datetime) -> Step:
    """Build the kill of the whole pod, with what is left of its durable deadline.

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
            **_pre_stop(state.pod, container.name),
        )
        for container in alive
    )
    step = KillPod(
        ref=state.ref, targets=targets, grace_seconds=left, message=why, final=state.ending, evicted=_is_put_out(state)
    )
    return Step(StepName.KILL_POD, step, f"kill pod: {why}", why, key=backoff.step_key("kill_pod"))


def _is_put_out(state: PodState) -> bool:
    return state.failure is not None and state.failure.reason == EVICTED and not state.failure.rejected


def _left(state: PodState, now: datetime) -> int:
    """Return the whole seconds left of the pod's grace."""
    if state.kill_by is not None:
        return max(0, math.ceil((state.kill_by - now).total_seconds()))
    return pod_grace_seconds(state.pod)


# --- syncing ----------------------------------------------------------------------------------------------------------


def _volumes(state: PodState, now: datetime) -> Decision | None:
    """Return the rewriting of files that show the pod's labels or annotations, where they are behind."""
    if not (state.volumes_behind and any(sandbox.ready for sandbox in state.own.sandboxes)):
        return None
    why = "labels or annotations have changed"
    step = SyncVolumes(ref=state.ref, pod=state.allocated_pod)
    key = backoff.step_key("sync_volumes")
    return _unless_held(state, Step(StepName.SYNC_VOLUMES, step, f"update volumes: {why}", why, key=key), now)


def _allocation(state: PodState, now: datetime) -> Decision | None:
    """Return the question whether the node has the room for what is desired, where it has not said no for good."""
    if not resizing.is_to_be_asked(state):
        return None
    step = AllocateResources(ref=state.ref, pod=state.pod)
    summary = f"allocate resources: {ALLOCATE}"
    return _unless_held(
        state, Step(StepName.ALLOCATE_RESOURCES, step, summary, ALLOCATE, key=resizing.ALLOCATE_KEY), now
    )


def _resize(state: PodState, planned_step: PlannedStep) -> Step:
    """Build the step that applies what is allocated."""
    memory, cpu = (
        tuple(ContainerUpdate.model_validate(asdict(each)) for each in updates)
        for updates in (planned_step.update.memory, planned_step.update.cpu)
    )
    step = ResizePod(ref=state.ref, pod=state.allocated_pod, sandbox_id=_sandbox(state).id, memory=memory, cpu=cpu)
    why = planned_step.why
    return Step(StepName.RESIZE_POD, step, _clip(f"resize pod: {why}"), why, key=resizing.RESIZE_KEY)


def _first_allowed(state: PodState, steps: Iterable[PlannedStep], pulling: Collection[str], now: datetime) -> Decision:
    """Walk the plan as SyncPod does: some failures stop the sync, others only their own container's start.

    Difference: what is pulled beside holds up its own container alone, where the kubelet's SyncPod waits for it.
    """
    holds: list[Hold] = []
    for planned_step in steps:
        if planned_step.verb in START_KINDS and planned_step.container in pulling:
            decision = Decision()
        else:
            decision = _as_step(state, planned_step, now)
        if decision.step is not None:
            return Decision(decision.step, tuple(holds))
        holds.extend(hold for hold in decision.holds if hold not in holds)
        alone = ("resize_pod", "start_container", "start_ephemeral_container")
        goes_on = planned_step.verb in alone or planned_step.sidecar
        if not goes_on:
            break
    return Decision(None, tuple(holds))


def _as_step(state: PodState, planned_step: PlannedStep, now: datetime) -> Decision:
    verb, name, why = planned_step.verb, planned_step.container, planned_step.why
    match verb:
        case "kill_pod":
            return _unless_held(state, _kill_pod(state, why, now), now)
        case "kill_container":
            container_id = planned_step.ids[0]
            grace = kill_grace_seconds(state.pod, _main_or_init(state.pod, name), planned_step.reason)
            target = KillTarget(id=container_id, name=name, grace_seconds=grace, **_pre_stop(state.pod, name))
            kill = KillContainer(ref=state.ref, target=target, message=why, reason=planned_step.reason)
            replaces = container_id if planned_step.follows and _might_rest(state.pod, name) else ""
            step = Step(
                StepName.KILL_CONTAINER,
                kill,
                f"kill {name}: {why}",
                why,
                name,
                backoff.step_key(verb, name),
                replaces=replaces,
            )
            return _unless_held(state, step, now)
        case "remove_container":
            removal = RemoveContainers(
                ref=state.ref,
                ids=planned_step.ids,
                kill=planned_step.kill,
                keep_logs=planned_step.keep_logs,
                message=why,
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
            )
            return _unless_held(state, step, now)
        case "create_sandbox":
            attempt = max(planned_step.attempt, state.sandbox_floor, _foreign_attempts(state))
            create = CreateSandbox(ref=state.ref, pod=state.allocated_pod, attempt=attempt)
            summary = f"create sandbox, attempt {attempt}: {why}" if attempt else f"create sandbox: {why}"
            step = Step(StepName.CREATE_SANDBOX, create, summary, why, key=backoff.step_key(verb))
            return _unless_held(state, step, now)
        case "resize_pod":
            return _unless_held(state, _resize(state, planned_step), now)
        case _:
            return _start(state, planned_step, now)


def _pre_stop(pod: Pod, name: str) -> dict[str, Any]:
    """Return what a kill needs to know of the container's preStop hook; nothing where there is none."""
    container = _main_or_init(pod, name)
    if container is None or container.lifecycle is None or container.lifecycle.pre_stop is None:
        return {}
    ports = {port.name: port.container_port for port in container.ports if port.name}
    return {"pre_stop": container.lifecycle.pre_stop, "ports": ports}


def _might_rest(pod: Pod, name: str) -> bool:
    """Say whether the container's policy lets it rest after some exit."""
    container = _main_or_init(pod, name)
    return container is not None and restart_policy(container, pod.spec) != "Always"


def _main_or_init(pod: Pod, name: str) -> Container | None:
    return next((c for c in (*pod.spec.containers, *pod.spec.init_containers) if c.name == name), None)


def _foreign_attempts(state: PodState) -> int:
    """Return the first sandbox attempt above those that other incarnations hold."""
    foreign = [s.attempt for s in state.observed.sandboxes if s.incarnation not in ("", state.incarnation)]
    return max(foreign) + 1 if foreign else 0


def _start(state: PodState, planned_step: PlannedStep, now: datetime) -> Decision:
    """Take the next step towards a container's start: wait, pull, or start."""
    name = planned_step.container
    container = state.container(name)
    restart = state.next_restart(name)
    key = backoff.step_key("start", name)

    held = _failure_hold(state, key, name, restart, now)
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
        held = _failure_hold(state, image_key, name, restart, now)
        if held:
            message = backoff.image_backoff_message(container.image, f"{held.reason}: {held.message}")
            hold = Hold(name, restart, held.until, held.delay, "ImagePullBackOff", message)
            return Decision(holds=(hold,))
        why = "absent" if absent else "pull policy Always"
        attempt = _sandbox(state).attempt
        pull = PullImage(ref=state.ref, pod=state.allocated_pod, container=name, sandbox_attempt=attempt)
        summary = f"pull {container.image} for {name}: {why}"
        return Decision(Step(StepName.PULL_IMAGE, pull, _clip(summary), why, name, image_key, store, exit_id))

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
    return Decision(Step(StepName(planned_step.verb), start, _clip(f"{which}: {why}"), why, name, key, store, exit_id))


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
    first = _start(anew, planned_step, now)
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


def _unless_held(state: PodState, step: Step, now: datetime) -> Decision:
    subject = step.container or step.name.value
    restart = state.next_restart(step.container) if step.container else 0
    held = _failure_hold(state, step.key, subject, restart, now)
    return Decision(holds=(held,)) if held else Decision(step)


def _failure_hold(state: PodState, key: str, subject: str, restart: int, now: datetime) -> Hold | None:
    """Return the hold that an earlier failure under `key` still imposes, unless a signal has released it."""
    until = backoff.held_until(state.backoff, key, now=now)
    if until is None or state.released.get(subject) == restart:
        return None
    entry = state.backoff.entries[key]
    return Hold(subject, restart, until, entry.delay, entry.reason, entry.message)


def _clip(text: str) -> str:
    """Cut a summary at 200 bytes: the server keeps no more."""
    raw = text.encode()
    return text if len(raw) <= 200 else raw[:197].decode(errors="ignore") + "…"
