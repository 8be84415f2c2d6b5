"""How a pod's workflow presents itself: its status, its events, and its answers to queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from syncpod.go_durations import go_duration
from syncpod.lifecycle import backoff
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.container_status import ProbeResults, WaitingReason
from syncpod.lifecycle.phase import TERMINAL_PHASES
from syncpod.lifecycle.plan import something_to_stop
from syncpod.lifecycle.restart_pacing import LIMIT_REACHED
from syncpod.lifecycle.status import StatusDecision, StatusInputs, pod_status, terminated_pod_status
from syncpod.messages.steps import NOT_PULLED, STUCK_FAULTS, Fault, StepInput
from syncpod.pod import Pod
from workflows.pod import facts, resizing
from workflows.pod.decision import Decision, Hold
from workflows.pod.state import PodState

# --- status -----------------------------------------------------------------------------------------------------------


def update_status(
    state: PodState, holds: Sequence[Hold], now: datetime, *, under_way: Sequence[StepInput] = ()
) -> None:
    """Compute the pod's status from the view and the state; `under_way` are the steps that have not ended."""
    hooked = facts.hooked(state, under_way)
    decision = _computed(state, _waiting(state, holds), now, hooked)
    over = decision.phase in TERMINAL_PHASES and not something_to_stop(state.observed, state.stopped_sandboxes)
    waits = state.rejection is not None and not state.ending
    if over and not waits:
        # The phase may be reached only after all kills: a sidecar is killed once the last main container has ended.
        state.terminated = True
        decision = _computed(state, {}, now)  # nothing waits to run any more
    state.status, state.reached = decision.status, "Pending" if waits else decision.phase
    if over or state.removed:
        state.status = terminated_pod_status(state.pod, state.status, now=now)


def _waiting(state: PodState, holds: Sequence[Hold]) -> dict[str, WaitingReason]:
    """Return why each container that should run does not, if that is known."""
    waiting = _without_sandbox(state, holds) | state.waiting
    for hold in holds:
        if hold.subject == backoff.RESTART_ALL:
            spec = state.pod.spec
            why = WaitingReason(reason=hold.reason, message=hold.message)
            waiting |= {container.name: why for container in (*spec.init_containers, *spec.containers)}
        elif hold.reason in ("CrashLoopBackOff", "ImagePullBackOff", LIMIT_REACHED, *NOT_PULLED):
            message = f"{hold.message}{_after_hook(state, hold)}"
            waiting[hold.subject] = WaitingReason(reason=hold.reason, message=message)
    return waiting


def _after_hook(state: PodState, hold: Hold) -> str:
    """Return the output of a failed postStart hook, for a container that waits to start again; "" if none failed.

    Difference: the kubelet shows PostStartHookError with this output only until its next sync, then just the back-off.
    """
    failed = state.waiting.get(hold.subject)
    if failed is None or failed.reason != Fault.POST_START_HOOK_ERROR:
        return ""
    return f": {failed.reason}: {failed.message}"


def _without_sandbox(state: PodState, holds: Sequence[Hold]) -> dict[str, WaitingReason]:
    """Return, for each container, why the pod has no sandbox. The kubelet has only an event for this."""
    held = next((hold for hold in holds if hold.subject == StepName.CREATE_SANDBOX.value), None)
    if held is None:
        return {}
    spec = state.pod.spec
    reason = "PodInitializing" if spec.init_containers else "ContainerCreating"
    why = WaitingReason(reason=reason, message=f"{held.reason}: {held.message}")
    return {container.name: why for container in (*spec.init_containers, *spec.containers)}


def _as_answered(state: PodState) -> Pod:
    """Return the pod with its allocated resources, and with its former generation until the node answers a resize.

    Until then the status has the old resources and no condition of the resize, so the new generation would suggest that
    the resize is done. Mirrors kubelet.go, v1.36, HandlePodUpdates: the kubelet allocates before it reports.
    """
    pod, answered = state.allocated_pod, state.status.observed_generation
    if answered is None or not resizing.is_unanswered(state):
        return pod
    return pod.model_copy(update={"metadata": pod.metadata.model_copy(update={"generation": answered})})


def _computed(
    state: PodState, waiting: Mapping[str, WaitingReason], now: datetime, hooked: Collection[str] = ()
) -> StatusDecision:
    return pod_status(
        StatusInputs(
            pod=_as_answered(state),
            observed=facts.without(facts.effective_view(state), hooked),
            now=now,
            previous=state.status,
            runtime=state.node.runtime,
            host_ips=state.node.host_ips,
            recursive_read_only=(state.pod.spec.runtime_class_name or "") in state.node.recursive_read_only_handlers,
            waiting=waiting,
            exits={exit_.name: exit_ for exit_ in state.exits},
            probes=ProbeResults(startup=state.probes.get("startup", {}), readiness=state.probes.get("readiness", {})),
            terminal=state.terminated or state.rejection is not None,
            failure=state.failure or state.rejection,
            actuated=state.applied_resources if state.actuated or state.cgroup_behind else None,
            resize=resizing.conditions(state),
            followed=facts.followed(state),
            overdue=_overdue(state),
            restarts_all_later=state.pending_restart_of_all is not None,
            kubelet=state.kubelet,
        )
    )


def _overdue(state: PodState) -> WaitingReason | None:
    """Return why a kill takes too long; if several do, the reason of the first."""
    stuck = (entry for entry in state.backoff.entries.values() if entry.reason in STUCK_FAULTS)
    entry = next(stuck, None)
    return WaitingReason(reason=entry.reason, message=entry.message) if entry is not None else None


def note_decision(state: PodState, plan: Sequence[str], before: Sequence[str], now: datetime) -> None:
    """Record a decision that takes several steps, unless it only continues the plan `before`.

    A decision with one step needs no record: the step has the reason.
    """
    if len(plan) > 1 and tuple(plan) != tuple(before)[-len(plan) :]:
        state.note(now, "decision", "sync", ", ".join(plan))


def note_holds(state: PodState, holds: Sequence[Hold], now: datetime) -> None:
    """Record holds that have just begun: an event in the kubelet's words, and a line of history."""
    for hold in holds:
        for_how_long = f" {go_duration(hold.delay)}" if hold.until is not None else ""
        seconds = hold.delay.total_seconds() if hold.until is not None else None
        why = f"{hold.reason}{for_how_long}: {hold.message}"
        state.note(now, "hold", hold.subject, why, fact=hold.reason, seconds=seconds)
        meta = state.pod.metadata
        if hold.reason == LIMIT_REACHED:
            container = hold.subject if hold.subject != backoff.RESTART_ALL else ""
            state.event(now, "Warning", LIMIT_REACHED, hold.message, container)
        elif hold.subject == backoff.RESTART_ALL:
            text = f"Back-off restarting all containers in pod {meta.name}_{meta.namespace}({meta.uid})"
            state.event(now, "Warning", "BackOff", text)
        elif hold.reason == "CrashLoopBackOff":
            text = (
                f"Back-off restarting failed container {hold.subject} in pod {meta.name}_{meta.namespace}({meta.uid})"
            )
            state.event(now, "Warning", "BackOff", text, hold.subject)
        elif hold.reason == "ImagePullBackOff":
            image = state.container(hold.subject).image
            state.event(now, "Normal", "BackOff", f'Back-off pulling image "{image}"', hold.subject)
            state.event(now, "Warning", "Failed", f"Error: {hold.reason}", hold.subject)


# --- traces -----------------------------------------------------------------------------------------------------------


def decision_attributes(decision: Decision) -> dict[str, str | list[str]]:
    """Return the span attributes of a decision: its action and reason, its plan, and its holds."""
    about: dict[str, str | list[str]] = {}
    if decision.failure is not None:
        about["syncpod.failure"] = f"{decision.failure.reason}: {decision.failure.message}"
    if decision.step is not None:
        about["syncpod.step"] = f"{decision.step.name.value} {decision.step.container}".rstrip()
        about["syncpod.why"] = decision.step.why
    if decision.plan:
        about["syncpod.plan"] = list(decision.plan)
    if decision.holds:
        about["syncpod.holds"] = [f"{hold.subject}: {hold.reason} {go_duration(hold.delay)}" for hold in decision.holds]
    return about


def sync_attributes(state: PodState) -> dict[str, str | int]:
    """Return the span attributes of a whole sync; no environment, no arguments."""
    ref = state.ref
    return {
        "k8s.namespace.name": ref.namespace,
        "k8s.pod.name": ref.name,
        "k8s.pod.uid": ref.uid,
        "syncpod.phase": state.status.phase or "Pending",
        "syncpod.fence": state.fence,
    }
