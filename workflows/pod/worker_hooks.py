"""The data that a pod's run hands to its worker outside the history: its published state, back-offs, metrics and spans.

A call to a function that the worker does not have (`syncpod.messages.worker_functions`) does nothing.

Replay: a replay hands nothing over. So nothing here may give a command or change the pod's state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from syncpod.messages.worker_functions import (
        ARM_BACKOFF,
        DECIDED,
        DECIDING,
        PUBLISH,
        RESIZES,
        RESTED,
        STEP_CANCELLED,
    )
    from syncpod.pod import Pod
    from workflows.entity import worker_function
    from workflows.pod import report, resizing
    from workflows.pod.decision import Decision, Hold
    from workflows.pod.published import PublishedPod
    from workflows.pod.state import PodState


class WorkerHooks:
    """The calls of one run to its worker; none of them costs history."""

    def __init__(self, pod: Pod) -> None:
        """Prepare the calls; `pod` is the pod with which the run begins."""
        self._armed: dict[str, tuple[int, datetime]] = {}
        self._counted = pod

    def publish(self, published: Callable[[], PublishedPod]) -> None:
        """Give the node's agent the pod's state.

        The agent answers reads from this state, and writes the pod's records to the node's journal. If the history
        cannot be replayed, the agent starts a new run from this state.
        """
        if (publish := worker_function(PUBLISH)) is not None:
            publish(workflow.info().run_id, published())

    def arm_backoffs(self, holds: Sequence[Hold]) -> None:
        """Set timers in the node's queue, which signals the end of each hold. A new worker sets these timers again."""
        arm = worker_function(ARM_BACKOFF)
        if arm is None:
            return
        timed = {hold.subject for hold in holds if hold.until is not None}
        for subject in [each for each in self._armed if each not in timed]:
            restart, _ = self._armed.pop(subject)
            arm(workflow.info().workflow_id, subject, restart, None)  # ended by an operator, or with the pod
        for hold in holds:
            if hold.until is None or self._armed.get(hold.subject) == (hold.restart, hold.until):
                continue
            self._armed[hold.subject] = (hold.restart, hold.until)
            delay = max(timedelta(0), hold.until - workflow.now()).total_seconds()
            arm(workflow.info().workflow_id, hold.subject, hold.restart, delay)

    def hasten_cancellation(self) -> None:
        """Make the worker heartbeat at once for its step of this pod, so that the step receives its cancellation."""
        if (cancelled := worker_function(STEP_CANCELLED)) is not None:
            cancelled(workflow.info().workflow_id)

    def count_resizes(self, state: PodState) -> None:
        """Report the state of the pod's resize to telemetry."""
        # Replay: `_counted` is updated during a replay too, so that no change is counted twice.
        before, self._counted = self._counted, state.pod
        if (count := worker_function(RESIZES)) is not None:
            count(workflow.info().workflow_id, *resizing.counted(state, before))

    def deciding(self) -> None:
        """Report to telemetry that a decision begins."""
        if (deciding := worker_function(DECIDING)) is not None:
            deciding()

    def decided(self, decision: Decision) -> None:
        """Report a decision to telemetry."""
        if (decided := worker_function(DECIDED)) is not None:
            decided(report.decision_attributes(decision))

    def rested(self, state: PodState) -> None:
        """Report to telemetry that no step may run until a signal arrives or the timer rings."""
        if (rested := worker_function(RESTED)) is not None:
            rested(report.sync_attributes(state))
