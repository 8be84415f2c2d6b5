"""A sync of the pod without its steps: the state is brought up to the present time, and then a decision is made.

The workflow's loop does this before each step. A plan does the same on a copy of the state, so that it shows the loop's
next steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from syncpod.lifecycle.plan import PlannedStep
from syncpod.messages.pod_commands import AppliedPod, Change
from syncpod.messages.steps import StepInput
from workflows.pod import absorb, decide, desired, facts, report, resizing, verdicts
from workflows.pod.decision import Decision, Hold
from workflows.pod.state import PodState
from workflows.rejections import Rejected


def catch_up(state: PodState, now: datetime, holds: Sequence[Hold], *, under_way: Sequence[StepInput] = ()) -> None:
    """Bring the state up to the current time and to everything absorbed, before anything is decided.

    `holds` are those of the last decision, and `under_way` the steps that have not ended.
    """
    absorb.tidy(state, now)
    verdicts.expire(state, now)
    verdicts.unblock_end(state)
    resizing.take_as_applied(state, resizing.as_allocated(state))
    resizing.settle(state, now)
    facts.record_lost(state, now)
    report.update_status(state, holds, now, under_way=under_way)


def plan(
    state: PodState, candidate: Any, now: datetime, *, update: str = "apply", pulling: Collection[str] = ()
) -> dict[str, Any]:
    """Return the steps and holds at `now`, or after `update` with `candidate`; changes nothing.

    A resize is planned as if the node had room for it, which only the node knows. `pulling` names the containers whose
    images are being pulled.
    ``{"steps": [{"step", "container", "why"}], "holds": [{"subject", "until", "reason", "message"}]}``; with an
    ``"error"`` as well if the candidate would be refused, else with its ``"change"``; and with ``"deadline"``, the time
    at which the pod fails, if it has an active deadline ahead. `until` is null if only an operator can end the hold.
    """
    trial, answer = state.model_copy(), dict[str, Any]()
    if candidate is not None:
        try:
            answer["change"] = _change(trial, candidate, update, now)
        except (Rejected, ValueError) as wrong:
            return {"error": str(wrong), "steps": [], "holds": []}
    decision = _decided(trial, now, pulling)
    steps = [
        {"step": step.verb.value, "container": step.container, "why": step.why} for step in _steps(trial, decision, now)
    ]
    holds = [
        {
            "subject": hold.subject,
            "until": hold.until.isoformat() if hold.until is not None else None,
            "reason": hold.reason,
            "message": hold.message,
        }
        for hold in decision.holds
    ]
    if (due := verdicts.expiry(trial)) is not None:
        answer["deadline"] = due.isoformat()
    return {"steps": steps, "holds": holds, **answer}


def _change(trial: PodState, candidate: Any, update: str, now: datetime) -> str:
    """Change the state by an update, and return the `Change`. Raises Rejected and ValueError."""
    if update != "resize":
        desired.require_source(trial, candidate, now)
        return AppliedPod.model_validate(desired.apply(trial, candidate, now)).change.value
    before = trial.pod
    desired.resize(trial, candidate, now)
    return (Change.UNCHANGED if trial.pod is before else Change.CONFIGURED).value


def _decided(trial: PodState, now: datetime, pulling: Collection[str]) -> Decision:
    """Bring the state up to `now`, and decide as the workflow does; a verdict on the pod is carried out."""
    catch_up(trial, now, ())
    decision = decide.next_step(trial, now, pulling=pulling)
    if decision.failure is None:
        return decision
    verdicts.fail(trial, decision.failure, now)
    return _decided(trial, now, pulling)


def _steps(trial: PodState, decision: Decision, now: datetime) -> Iterable[PlannedStep]:
    """Return the steps to come, regardless of back-offs; for an adoption or a pod's end, only the decided step."""
    if not (trial.ending or trial.adopting):
        return decide.coming(trial, now)
    step = decision.step
    return () if step is None else (PlannedStep(step.name, step.container, why=step.why),)
