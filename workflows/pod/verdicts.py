"""Verdicts on the whole pod: past its deadline, evicted, failed, or rejected by its node."""

from __future__ import annotations

from datetime import datetime

from syncpod.lifecycle import backoff, conditions, eviction
from syncpod.lifecycle.rejection import rejection_message
from syncpod.lifecycle.status import PodFailure
from syncpod.lifecycle.termination import moment_after
from syncpod.messages.queries import clipped
from syncpod.messages.signals import Evict
from syncpod.messages.steps import (
    CreateSandbox,
    Rejection,
)
from syncpod.pod import PodCondition, PodStatus
from syncpod.pod.origin import is_readmitted
from workflows.pod.decision import Step
from workflows.pod.state import PodState

DEADLINE_EXCEEDED = "DeadlineExceeded"
"""The reason of a pod's failure once its active deadline is over."""

SANDBOX_LOST = "SandboxLost"
"""The reason of the failure of a pod that has lost its sandbox, gets no other, and has not finished."""


def expiry(state: PodState) -> datetime | None:
    """Return when the pod reaches its active deadline; None if it has none, is not admitted, or is ending anyway.

    Mirrors active_deadline.go, v1.36, pastActiveDeadline.
    """
    seconds, since = state.pod.spec.active_deadline_seconds, state.status.start_time
    if seconds is None or since is None or state.ending or state.rejection is not None:
        return None
    return moment_after(since, seconds)


def expire(state: PodState, now: datetime) -> None:
    """Fail the pod if it has reached its active deadline (active_deadline.go, v1.36)."""
    due = expiry(state)
    if due is not None and due <= now:
        message = "Pod was active on the node longer than the specified deadline"
        state.failure, state.ends_sooner = PodFailure(reason=DEADLINE_EXCEEDED, message=message), True
        state.event(now, "Normal", DEADLINE_EXCEEDED, message)
        state.note(now, "signal", "deadline", f"active for {state.pod.spec.active_deadline_seconds} s")


def stranded(state: PodState) -> PodFailure:
    """Return the failure of a pod that can neither go on nor finish: it has no sandbox, and no step is due.

    Such a pod's policy is `Never`, and it lost its sandbox before all its main containers had run. None of its
    containers runs, so no event could lead to another decision. Difference: under a kubelet it stays Pending, or
    Running, until somebody deletes it (kuberuntime_manager.go, v1.36, computePodActions: no sandbox is made).
    """
    never = [each.name for each in state.pod.spec.containers if each.name not in state.restarts]
    who = f" before {', '.join(never)} had started" if never else ""
    policy = state.pod.spec.restart_policy
    return PodFailure(
        reason=SANDBOX_LOST, message=f"The pod lost its sandbox{who}, and its restart policy {policy} allows no other"
    )


def evict(state: PodState, order: Evict, now: datetime) -> bool:
    """Fail the pod, end it within the grace, and return True. If it is ending already, only shorten its grace.

    Mirrors eviction_manager.go, v1.36, evictPod, and pod_workers.go, killPodNow.
    """
    deadline = moment_after(now, order.grace_period_seconds)
    reason, message = clipped(order.reason), clipped(order.message)
    if not state.ending:
        state.failure = PodFailure(reason=reason, message=message)
        if order.disruption:
            _mark_disrupted(state, message, now)
        state.event(now, "Warning", reason, message)
        state.kill_by, state.ends_sooner = deadline, True
        return True
    if state.kill_by is not None:
        state.ends_sooner = state.ends_sooner or deadline < state.kill_by
        state.kill_by = min(state.kill_by, deadline)
    return False


def _mark_disrupted(state: PodState, message: str, now: datetime) -> None:
    """Set the condition DisruptionTarget: the node ends the pod (eviction_manager.go, v1.36, synchronize)."""
    target = PodCondition(
        type=eviction.DISRUPTION_TARGET, status="True", reason=eviction.TERMINATION_BY_KUBELET, message=message
    )
    known, generation = state.status.conditions, state.pod.metadata.generation
    stamped = conditions.stamp(target, known, now=now.replace(microsecond=0), generation=generation)
    state.status = state.status.model_copy(update={"conditions": conditions.with_condition(known, stamped)})


def fail(state: PodState, failure: PodFailure, now: datetime) -> None:
    """Fail the pod: its restarts have reached their limit, or it has lost its sandbox and gets no other."""
    state.failure, state.ends_sooner = failure, True
    state.event(now, "Warning", failure.reason, failure.message)
    state.note(now, "decision", "fail", f"{failure.reason}: {failure.message}")


def reject_pod(state: PodState, step: Step, rejection: Rejection, now: datetime) -> None:
    """Reject a pod that its node does not admit: it fails for good, or until the admission is tried again.

    Mirrors kubelet.go, v1.36, rejectPod. Difference: the kubelet tries again only when it is restarted.
    """
    failure = PodFailure(reason=rejection.reason, message=rejection_message(rejection.message), rejected=True)
    if rejection.final or not is_readmitted(state.pod.metadata):
        state.failure = failure
    else:
        if state.rejection is not None:
            _forget_failed_phase(state)
        state.rejection = failure
        state.backoff = backoff.record_failure(
            state.backoff, step.key, now=now, reason=rejection.reason, message=rejection.message
        )
    state.event(now, "Warning", rejection.reason, rejection.message)


def take_back_rejection(state: PodState, step: Step) -> None:
    """Drop the pod's rejection once a step to make its sandbox has ended in another way: the node has admitted it."""
    if isinstance(step.input, CreateSandbox) and state.rejection is not None:
        state.rejection = None
        _forget_failed_phase(state)


def _forget_failed_phase(state: PodState) -> None:
    """Reset the status to that of a new pod; otherwise its terminal phase and reason would stay."""
    state.status = PodStatus(conditions=state.status.conditions)  # a rejected pod has only conditions set by others


def unblock_end(state: PodState) -> None:
    """Forget the back-offs of stuck kills if something since the last decision ends the pod, or ends it sooner."""
    if state.ends_sooner:
        state.forget_stuck_kills()
    state.ends_sooner = False
