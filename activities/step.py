"""The frame around every step: turns, heartbeats, cancellation, errors, and the status in its result."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.node.context import Node
from activities.node.fences import StaleFence
from activities.node.metrics import AttemptOutcome, count_attempt
from activities.node.uid_owners import UID_IN_USE
from activities.pipelining import begun_after_first, drop_ahead, pipelined
from activities.step_attempt import Interrupted, NotYet, PodFault, StepAttempt, delay_between
from syncpod.cri.errors import CriError
from syncpod.kernel.os_errors import where_and_why
from syncpod.messages.step_table import Interruption, Stage
from syncpod.messages.steps import (
    STUCK_FAULTS,
    CreateSandbox,
    Fault,
    KillPod,
    Outcome,
    Rejection,
    StartContainer,
    StepInput,
    StepResult,
)
from syncpod.redaction import of_process

Request = TypeVar("Request", bound=StepInput)
Body = Callable[[StepAttempt, Request], Awaitable[StepResult]]
"""A step's own code: it acts and returns its outcome. Status, events and attempt are filled in here."""

Completion = Callable[[StepAttempt, StepResult], Awaitable[StepResult]]

_LONGEST_MESSAGE = 1000
"""The most characters of a defect's text that are reported: it may quote a whole request."""

FIRST_BEAT_SECONDS = 1.0
"""Seconds until a step's first heartbeat, so that the server shows what the step does. Each later pause is doubled."""
HEARTBEAT_SECONDS = 5.0
"""The longest pause between two heartbeats of a step that acts. A cancellation arrives with the answer to a heartbeat,
so once the workflow has requested it, the worker sends a heartbeat each second
(`syncpod.temporal.step_cancellation`)."""
QUEUED_BEAT_SECONDS = 5.0
"""Seconds that a step waits for other pods before its first heartbeat. Most steps get their turn sooner, and their
heartbeats would be of no use."""
WAITING_BEAT_SECONDS = 10.0
"""Seconds between two heartbeats of a step that only waits, after a heartbeat has reported the reason. The heartbeat
timeout is 30 s. Each heartbeat is a write on the server. If many pods start or end at once, nearly all of their steps
wait, and they wait longer if there are more pods: with frequent heartbeats, each pod would cost more in a larger
crowd."""


async def run_step(
    node: Node, body: Body[Request], request: Request, *, interruption: Interruption, stage: Stage | None = None
) -> StepResult:
    """Run one attempt of a step, as the activity in which this is called.

    - One step acts in a pod at a time, by fence; an older step fails with StaleFence.
    - A step with a `stage` waits in that queue of the node until its pod's turn has come.
    - A step with a `lane` makes nothing in the pod, so it runs beside the pod's turn: it neither waits for the steps in
      turn nor holds them up, and its fence is not compared with theirs. Within one lane of a pod only one step runs at
      a time; a newer one supersedes it, and an older one fails with StaleFence. A step with a lane does not read the
      pod, because another step may be changing the pod: its result and its faults carry an empty status (`seq` 0),
      which changes nothing in a view, and the pod's next step still begins with the listing of the last step in turn.
    - A heartbeat every five seconds, at first more often, reports the action of the step. While the step only waits
      (for other pods, another step or an end), the pause is ten seconds. In a queue the first heartbeat comes after
      five seconds.
    - A cancelled step ends where its body lets go, with the outcome of `interruption`. A body that no longer lets go
      ends normally. A step that lets go for another reason (the worker stops, an operator pauses it) fails, and
      Temporal may try it again.
    - PodFault becomes a non-retryable ApplicationError whose type is the kubelet's reason and whose detail is a
      StepResult: the status read back and the events. CriError, NotYet and OSError become a retryable ApplicationError
      whose type is the error's class.
    - A defect (a TypeError, a number out of range) would recur in every attempt. So it becomes a non-retryable
      ApplicationError too: InternalError, or FailedKillPod in a step that ends something. The pod then shows it, backs
      off, and can be deleted meanwhile.
    - The result of a step in turn carries the pod's whole status, read after the body's last call, or by the body.
    """
    info = activity.info()
    attempt = StepAttempt(
        node,
        request,
        number=info.attempt,
        delay_seconds=delay_between(info.scheduled_time, info.started_time),
        name=info.activity_type,
    )
    task = _begun(attempt, request, _try(attempt, body, request, interruption, stage))
    # While a start ahead waits for the first step, that step shows why, so the start's heartbeats may begin late.
    pause, has_said, may_put_off = FIRST_BEAT_SECONDS if attempt.acts.is_set() else WAITING_BEAT_SECONDS, False, True
    while not task.done():
        waited = not attempt.acts.is_set()
        try:
            await _pause(attempt, task, pause)
        except asyncio.CancelledError:
            if (this := asyncio.current_task()) is not None:
                this.uncancel()
            attempt.interrupt()
        else:
            if waited and attempt.acts.is_set():
                pause = HEARTBEAT_SECONDS if has_said else FIRST_BEAT_SECONDS
            elif may_put_off and attempt.is_queued:
                pause, may_put_off = QUEUED_BEAT_SECONDS - FIRST_BEAT_SECONDS, False
            elif not task.done():
                activity.heartbeat(attempt.telling)
                has_said = True
                pause = min(2 * pause, HEARTBEAT_SECONDS) if attempt.acts.is_set() else WAITING_BEAT_SECONDS
    count_attempt(info.activity_type, _outcome(task))
    return task.result()


def _begun(
    attempt: StepAttempt, request: StepInput, trying: Coroutine[Any, Any, StepResult]
) -> asyncio.Task[StepResult]:
    """Begin an attempt, and report it to the agent.

    The attempt has a task of its own, so that a cancellation never cuts off a call to the runtime.
    """
    if isinstance(request, CreateSandbox | StartContainer):
        trying = pipelined(attempt, request, trying)
    task = asyncio.create_task(trying)
    attempt.node.running.add(attempt)
    attempt.node.agent.step_began(request.ref, kills=isinstance(request, KillPod))
    task.add_done_callback(partial(_has_ended, attempt))
    return task


def _has_ended(attempt: StepAttempt, task: asyncio.Task[StepResult]) -> None:
    attempt.node.running.discard(attempt)
    attempt.node.agent.step_ended(attempt.ref, fault=_fault(task))


async def _pause(attempt: StepAttempt, task: asyncio.Task[StepResult], seconds: float) -> None:
    """Wait for `seconds`, or until the step has ended. If the step waits for others, the pause ends when it acts."""
    if attempt.acts.is_set():
        await asyncio.wait({task}, timeout=seconds)
        return
    acts = asyncio.create_task(attempt.acts.wait())
    try:
        await asyncio.wait({task, acts}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        acts.cancel()


def _fault(task: asyncio.Task[StepResult]) -> str:
    """Return the type of an attempt's failure; "" if it succeeded. Its task must be done."""
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    if error is None:
        return ""
    return error.type or "Error" if isinstance(error, ApplicationError) else type(error).__name__


def _outcome(task: asyncio.Task[StepResult]) -> AttemptOutcome:
    """Return how an attempt ended. Its task must be done."""
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    if error is None:
        undone = (Outcome.NOT_BEGUN, Outcome.CANCELLED, Outcome.STOPPING)
        return "cancelled" if task.result().outcome in undone else "done"
    if not isinstance(error, ApplicationError) or not error.non_retryable:
        return "retry"
    return "stale" if error.type == Fault.STALE_FENCE.value else "fault"


async def _try(
    attempt: StepAttempt, body: Body[Request], request: Request, interruption: Interruption, stage: Stage | None
) -> StepResult:
    """Act in the pod's turn or lane, and turn the outcome into a result or a Temporal error."""
    complete = _without_status
    try:
        try:
            if isinstance(request, StartContainer) and request.follows:
                if (certain := await begun_after_first(attempt, request)) is None:
                    return await complete(attempt, StepResult(outcome=Outcome.NOT_BEGUN))
                request = certain
            if refusal := await attempt.node.uids.bind(attempt.ref):
                return await _of_another(attempt, request, interruption, refusal)
            complete = _without_status if request.lane else _with_status
            return await _act(attempt, body, request, stage, complete)
        finally:
            if attempt.ahead is not None:
                await drop_ahead(attempt)
    except StaleFence as stale:
        raise _stale(str(stale)) from stale
    except Interrupted:
        return await _let_go(attempt, interruption, complete)
    except (CriError, NotYet, OSError) as error:
        activity.logger.warning("try %d: %s", attempt.number, error)
        kind = type(error).__name__
        raise ApplicationError(where_and_why(error), type=kind, category=ApplicationErrorCategory.BENIGN) from error
    except ApplicationError:
        raise
    except Exception as defect:  # noqa: BLE001  # any defect is reported
        raise await _unforeseen(attempt, defect, interruption, complete) from None


async def _act(
    attempt: StepAttempt, body: Body[Request], request: Request, stage: Stage | None, complete: Completion
) -> StepResult:
    """Act in the pod's turn or lane."""
    claim = attempt.claim()
    async with attempt.node.fences.acting(attempt.ref, claim, attempt, lane=request.lane), attempt.in_queue(stage):
        attempt.doing = "lists the pod in the runtime"
        try:
            return await complete(attempt, await body(attempt, request))
        except PodFault as fault:
            attempt.events.extend(fault.events)
            detail = StepResult(message=fault.message, rejection=fault.rejection, actuated=fault.actuated)
            if fault.fault in STUCK_FAULTS:
                detail = await _as_far_as_known(attempt, detail, complete)
            else:
                detail = await complete(attempt, detail)
            raise _pod_level(fault, detail) from fault


async def _of_another(attempt: StepAttempt, request: StepInput, interruption: Interruption, message: str) -> StepResult:
    """Fail a step that would make something under another pod's UID. A step that ends something succeeds at once.

    A deleted pod's life is then over: nothing of it was ever made. In both cases the result has no status, because the
    listing of that UID is the other pod's.
    """
    detail = StepResult(message=message)
    if interruption.ends_something:
        over = isinstance(request, KillPod) and request.deleted
        return await _without_status(attempt, detail.model_copy(update={"over": over}))
    rejection = Rejection(reason=UID_IN_USE, message=message)
    fault = PodFault(Fault.POD_REJECTED, message, rejection=rejection)
    raise _pod_level(fault, await _without_status(attempt, detail.model_copy(update={"rejection": rejection})))


async def _let_go(attempt: StepAttempt, interruption: Interruption, complete: Completion) -> StepResult:
    """Return the result of a step that let go, or raise the error to report to Temporal."""
    if attempt.superseded:
        raise _stale(f"a newer step of {attempt.ref.namespace}/{attempt.ref.name} has come")
    details = activity.cancellation_details() or activity.ActivityCancellationDetails()
    if details.paused or details.reset:
        raise asyncio.CancelledError  # the SDK reports to the server whether the step was paused or reset
    if not details.cancel_requested:
        raise _given_up(attempt, details)
    try:
        return await complete(attempt, StepResult(outcome=interruption.outcome))
    except CriError as error:
        activity.logger.warning("cancelled, and the pod cannot be read: %s", error)
        raise asyncio.CancelledError from error


def _given_up(attempt: StepAttempt, details: activity.ActivityCancellationDetails) -> ApplicationError:
    """Build the retryable error of a step that let go although its workflow did not cancel it.

    A CancelledError would not do: the SDK would log its traceback for each step of a busy node.
    """
    if details.timed_out:
        why = "the server received no heartbeat of the step in time"
    elif details.not_found:
        why = "the server no longer waits for the step"
    else:
        why = "the worker stops"
    activity.logger.warning("try %d let go: %s; Temporal tries it again where that is due", attempt.number, why)
    kind, benign = Interrupted.__name__, ApplicationErrorCategory.BENIGN
    return ApplicationError(f"the step let go: {why}", type=kind, category=benign)


async def _unforeseen(
    attempt: StepAttempt, defect: Exception, interruption: Interruption, complete: Completion
) -> ApplicationError:
    """Build the error for a defect. If the step was asked to let go, the error is retryable and has no status.

    Only the worker's log has the traceback.
    """
    activity.logger.error("a defect: %s", "".join(traceback.format_exception(defect)))
    message = of_process.part(f"{type(defect).__name__}: {defect}", 0, _LONGEST_MESSAGE)
    if attempt.asked:
        return ApplicationError(message, type=Fault.INTERNAL_ERROR.value)
    fault = Fault.FAILED_KILL_POD if interruption.ends_something else Fault.INTERNAL_ERROR
    detail = await _as_far_as_known(attempt, StepResult(message=message), complete)
    return ApplicationError(message, detail, type=fault.value, non_retryable=True)


async def _as_far_as_known(attempt: StepAttempt, detail: StepResult, complete: Completion) -> StepResult:
    """Complete the detail of a step that has failed; it has no status if the runtime does not answer."""
    try:
        return await complete(attempt, detail)
    except Exception as error:  # noqa: BLE001  # the first failure is reported in any case
        activity.logger.warning("the pod cannot be read: %s", error)
        return await _without_status(attempt, detail)


async def _with_status(attempt: StepAttempt, result: StepResult) -> StepResult:
    """Complete the result with the pod's status, read now unless the body did; pass that status to the agent."""
    status = result.status if result.status.seq.counter else await attempt.read()
    complete = await _without_status(attempt, result.model_copy(update={"status": status}))
    attempt.node.views.keep(attempt.ref, attempt.fence, status)
    attempt.node.agent.pleg.returned(status)
    return complete


async def _without_status(attempt: StepAttempt, result: StepResult) -> StepResult:
    """Complete the result with all but the pod's status."""
    return result.model_copy(
        update={
            "events": tuple(attempt.events),
            "node": attempt.node.agent.facts(),
            "attempt": attempt.number,
            "idle_ms": int(1000 * attempt.idle_seconds),
        }
    )


def _pod_level(fault: PodFault, detail: StepResult) -> ApplicationError:
    return ApplicationError(
        fault.message,
        detail,
        type=fault.fault.value,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )


def _stale(message: str) -> ApplicationError:
    return ApplicationError(
        message, type=Fault.STALE_FENCE.value, non_retryable=True, category=ApplicationErrorCategory.BENIGN
    )
