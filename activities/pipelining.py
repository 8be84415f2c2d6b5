"""Starts ahead: a start of a new pod begins while the step before it still runs, and waits for that step in the worker.

That step is called the first step; it makes the sandbox, or starts the container before this one. The start ahead is
certain to come next (`workflows/pod/pipelining.py` has the workflow's half of the picture). So between the two there is
no round trip through the server and the workflow, which would take longer than everything else::

    first   begun ──► waits for the runtime ──► reads the pod ──► ended ··· its result may be kept back ···► over
              │               │ mark_waiting         │ mark_finishing │                                    ▲
              │ came          ▼                      ▼                │                                    │
    ahead   waits ──► prepared, CreateContainer; waits ──────► as expected? ──yes──► acts ──► over ────────┘
              │                                                      │ no
              └── no first step has come, or it has failed ──────────┴──► what was made is removed: NOT_BEGUN

- The start ahead prepares itself at `mark_waiting`; if it looks into volumes, at `mark_finishing`.
- A container is hidden before its turn: it is in no listing of this worker, counts in no metric, and has no start mark.
  If its turn does not come, it is removed, and the pod's next step waits for the removal (`Fences.join`).
- If the worker dies, the next try of the start finds a container that was created but never started, and removes it.
- The last start of a pod and the step before it end at the same time, so that one workflow task takes both results.

`FirstStep` (`activities/node/first_steps.py`) has the state of both.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeVar

from opentelemetry import trace
from temporalio.exceptions import ApplicationError

from activities.containers.noted_starts import noted_start, which_counts
from activities.containers.removal import remove_unstarted
from activities.node.clock import monotonic
from activities.node.fences import FenceClaim
from activities.node.first_steps import Failed
from activities.preparing import Prepared, looks_into_volumes, prepare
from activities.step_attempt import Ahead, Interrupted, NotYet, StepAttempt
from syncpod.cri.errors import CriError, DeadlineExceeded
from syncpod.messages import ObservedContainer
from syncpod.messages.startup import has_come_to, in_order
from syncpod.messages.steps import CreateSandbox, Outcome, StartContainer, StepResult
from syncpod.node.reader import InstanceKey
from syncpod.pod import Pod

Start = TypeVar("Start", bound=StartContainer)

_tracer = trace.get_tracer("syncpod.activities")

HELD_SECONDS = 1.0
"""The most seconds that a first step's result is kept back, to arrive together with the result of the pod's last
start."""
COMES_SECONDS = 1.0
"""How long a start ahead waits for the first step to begin in this worker. The server sends the first step first."""


async def pipelined(
    attempt: StepAttempt, request: CreateSandbox | StartContainer, trying: Coroutine[Any, Any, StepResult]
) -> StepResult:
    """Run one attempt of a step that makes a sandbox or starts a container.

    It runs as a start ahead, as a first step, as both, or as neither.

    A first step passes its result to the start ahead. If that is the pod's last start, the first step's result is also
    kept back from the workflow until the start is over (see `_is_kept_back`). It is returned at once if the step is
    asked to let go, and after HELD_SECONDS at the latest: until then, the pod's status lacks its address, or the end of
    its init container. If the worker dies meanwhile, the next attempt adopts the objects.
    """
    if isinstance(request, StartContainer) and request.follows:
        trying = _ahead(attempt, request, trying)
    if isinstance(request, CreateSandbox):
        may_be_followed = request.followed
    else:
        may_be_followed = any(each.name == request.container for each in in_order(request.pod)[:-1])
    return await (_first(attempt, request.pod, trying) if may_be_followed else trying)


async def _first(attempt: StepAttempt, pod: Pod, trying: Coroutine[Any, Any, StepResult]) -> StepResult:
    step = attempt.node.first_steps.of(attempt.ref, attempt.fence)
    first = attempt.first = step.begin()
    try:
        result = await trying
    except BaseException as error:
        first.end.set_result(Failed(str(error), _is_tried_again(error)))
        raise
    else:
        # A step that was asked to let go has made its objects, but nothing may follow it any more.
        first.end.set_result(result if not attempt.asked else Failed("it was asked to let go", is_tried_again=False))
    finally:
        attempt.node.first_steps.forget_soon(attempt.ref, attempt.fence)
    if not _is_kept_back(step.ahead, pod, result):
        return result
    since = monotonic()
    made = "is done" if attempt.container else "has made the sandbox"
    attempt.doing = f"{made}; the next container is being started"
    step.is_free.clear()
    try:
        with contextlib.suppress(Interrupted), _span("await_start"):
            await attempt.pause(HELD_SECONDS, until=step.ahead_is_over)
    finally:
        step.is_free.set()
    return result.model_copy(update={"idle_ms": result.idle_ms + int(1000 * (monotonic() - since))})


def _is_kept_back(ahead: StartContainer | None, pod: Pod, result: StepResult) -> bool:
    """Return whether the first step's result is kept back until the start ahead is over.

    It is kept back if that start is the pod's last one, or will only return NOT_BEGUN. Otherwise the workflow needs the
    result at once, to begin a further start while this one is under way. `ahead` is None if the start has not begun.
    """
    starts = in_order(pod)
    if ahead is None:
        return len(starts) == 1
    return ahead.container == starts[-1].name or not is_as_expected(result, ahead)


async def _ahead(attempt: StepAttempt, request: StartContainer, trying: Coroutine[Any, Any, StepResult]) -> StepResult:
    first = attempt.node.first_steps.of(attempt.ref, request.follows)
    first.begin_ahead(request)
    try:
        result = await trying
    except BaseException:
        attempt.node.first_steps.forget_soon(attempt.ref, request.follows)  # it may be tried again
        raise
    finally:
        first.ahead_is_over.set()
        # Otherwise, in a busy event loop, the first step's result would be sent too late to join this one's.
        await first.is_free.wait()
    attempt.node.first_steps.forget(attempt.ref, request.follows)
    return result


async def begun_after_first(attempt: StepAttempt, request: Start) -> Start | None:
    """Return the request of a start ahead, with the sandbox's id; None if it must not begin.

    The start waits for the first step here. It must not begin if the first step failed, found something unexpected or
    does not run in this worker, or if that step's init container had not ended when the step did. But if an earlier
    attempt of the start has begun in a worker that died, and left traces, the start goes on. Raises Interrupted, NotYet
    and CriError.
    """
    began = monotonic()
    awaited = "the container before it" if request.sandbox_id else "the pod's sandbox"
    attempt.doing = f"waits for {awaited}"
    with _span("await_container" if request.sandbox_id else "await_sandbox"):
        sandbox_id = await _sandbox_id(attempt, request)
    attempt.idle_seconds = monotonic() - began
    attempt.acts.set()
    return None if sandbox_id is None else request.model_copy(update={"sandbox_id": sandbox_id})


async def _sandbox_id(attempt: StepAttempt, request: StartContainer) -> str | None:
    """Return the id of the sandbox in which the start is to begin; None if it must not."""
    step = attempt.node.first_steps.of(attempt.ref, request.follows)
    await attempt.pause(COMES_SECONDS, until=step.came)
    if step.attempt is None:
        return await _sandbox_of_begun(attempt, request) if attempt.number > 1 else None
    is_late, beside = looks_into_volumes(request), None
    while not step.attempt.end.done():  # a further attempt of the first step replaces `step.attempt`
        awaited = step.attempt
        ready = awaited.finishes if is_late else awaited.waits
        if attempt.number > 1 or awaited is beside:
            await attempt.interruptible(_until(awaited.end))
            continue
        await attempt.interruptible(_until(awaited.end, ready))
        if ready.done() and not awaited.end.done():
            await drop_ahead(attempt)  # an earlier attempt of the first step came this far, and then failed
            attempt.ahead, beside = Preparation(attempt, request, attempt.claim()), awaited
    first = step.attempt.end.result()
    if isinstance(first, Failed) and attempt.number > 1 and first.is_tried_again:
        raise NotYet(f"the result of the step before it is not certain yet: {first.why}")
    if isinstance(first, StepResult) and is_as_expected(first, request):
        return request.sandbox_id or first.id
    # A start in an existing sandbox may have begun before a worker died; the container before it may have ended since.
    is_in_doubt = attempt.number > 1 and request.sandbox_id != ""
    return await _sandbox_of_begun(attempt, request) if is_in_doubt else None


async def _sandbox_of_begun(attempt: StepAttempt, request: StartContainer) -> str | None:
    """Return the sandbox in which an earlier attempt of the start has begun; None if there is no trace of that.

    A container in the state "created" is no such trace, since it may have been created before its turn. It is removed,
    because the workflow has never seen it.
    """
    view = await attempt.read()
    made = [each for each in view.sandboxes if each.incarnation == request.ref.incarnation]
    home = request.sandbox_id or next((each.id for each in made if each.attempt == request.sandbox_attempt), "")
    its = [each for each in view.containers if is_its(each, request)]
    if any(each.state != "created" for each in its):
        return home
    mark = await noted_start(attempt, request.model_copy(update={"sandbox_id": home}))
    if mark is not None:
        return home or mark.sandbox_id
    if its:
        async with attempt.node.fences.acting(attempt.ref, attempt.claim(), attempt):
            await remove_never_started(attempt, request)
    return None


def is_as_expected(first: StepResult, request: StartContainer) -> bool:
    """Return whether the first step left the pod as the workflow assumed when it decided on the start.

    The sandbox must exist, and only the containers before this one, each of them running or succeeded. An instance that
    an earlier attempt of this start made is allowed. If this container's image is missing, the answer is False, since
    the image is pulled first.
    """
    if first.outcome not in (Outcome.DONE, Outcome.ADOPTED) or not first.id:
        return False
    ours = [each for each in first.status.containers if each.incarnation == request.ref.incarnation]
    if request.sandbox_id:
        sandboxes = tuple(each for each in first.status.sandboxes if each.incarnation == request.ref.incarnation)
        view = first.status.model_copy(update={"sandboxes": sandboxes, "containers": tuple(ours)})
        return has_come_to(request.pod, view, request.container, request.sandbox_id) and _is_unused(ours, request)
    if not all(is_its(each, request) for each in ours):
        return False
    return bool(ours) or request.container not in (first.missing_images or ())


def _is_unused(ours: Sequence[ObservedContainer], request: StartContainer) -> bool:
    """Return whether the container was never made, except by an earlier attempt of this start."""
    return all(is_its(each, request) for each in ours if each.name == request.container)


def _is_tried_again(error: BaseException) -> bool:
    return isinstance(error, ApplicationError) and not error.non_retryable


def _span(name: str) -> AbstractContextManager[trace.Span]:
    """Return a span within the step's own. An Interrupted does not mark the span as failed."""
    return _tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False)


async def _until(*ends: asyncio.Future[Any]) -> None:
    """Wait for the first of these to end."""
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)


# --- before the turn --------------------------------------------------------------------------------------------------


class Preparation(Ahead):
    """Prepares a start while it waits for its turn, and creates its container if possible.

    The owner must call `drop` in the end, which removes the container unless `take` was called.
    """

    def __init__(self, attempt: StepAttempt, request: StartContainer, claim: FenceClaim) -> None:
        self._attempt, self._request, self._claim = attempt, request, claim
        self._instance = InstanceKey(request.ref.uid, request.ref.incarnation, request.container, request.restart)
        self._is_sent = self._is_taken = False
        self._container_id = ""
        self._work = asyncio.create_task(self._make())

    async def take(self) -> Prepared | None:
        """Return the preparation: the turn has come, and the start now owns its objects. Raises Interrupted.

        Returns None if an image was missing or the preparation failed: the start then prepares again, and reports the
        error.
        """
        await self._attempt.interruptible(asyncio.wait({self._work}))
        self._is_taken = True
        self._attempt.node.reader.show(self._instance)
        failed = self._work.cancelled() or self._work.exception() is not None
        return None if failed else self._work.result()

    async def drop(self) -> None:
        """End the work, and remove the created container unless it was taken. Raises CriError, OSError.

        If CreateContainer was sent, it is awaited. If the removal fails, the start's next try removes the container.
        """
        if not self._is_sent:
            self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        try:
            if self._is_sent and not self._is_taken:
                await self._remove()
        finally:
            self._attempt.node.reader.show(self._instance)
            self._attempt.node.fences.leave(self._attempt.ref, self._attempt)

    async def _make(self) -> Prepared | None:
        attempt, request, node = self._attempt, self._request, self._attempt.node
        prepared = await prepare(attempt, request)
        if prepared is None or prepared.configured is None or which_counts(prepared.mark, request) is not None:
            return prepared
        if attempt.asked or not node.fences.join(attempt.ref, self._claim, attempt):
            return prepared
        node.reader.hide(self._instance)
        self._is_sent = True
        asked = prepared.configured
        try:
            made = await node.cri.create_container(request.sandbox_id, asked.container, asked.sandbox)
            node.reader.require_own("create_container", made, request.ref.uid)
            self._container_id = made
        except DeadlineExceeded:
            pass
        except CriError:  # if the turn comes, the start sends the call again, and reports its error
            return prepared
        return replace(prepared, configured=replace(asked, created=self._container_id))

    async def _remove(self) -> None:
        """Remove the container. If CreateContainer timed out, its id is not known, and it is looked up in a listing."""
        if self._container_id:
            await remove_unstarted(self._attempt, self._container_id)
            return
        self._attempt.node.reader.show(self._instance)
        await remove_never_started(self._attempt, self._request)


async def take_ahead(attempt: StepAttempt) -> Prepared | None:
    """Return the preparation of a start ahead; None if there is none. See `Preparation.take`. Raises Interrupted."""
    return await attempt.ahead.take() if isinstance(attempt.ahead, Preparation) else None


async def drop_ahead(attempt: StepAttempt) -> None:
    """Remove the objects that were made for a start ahead, unless it has taken them. Raises CriError, OSError."""
    ahead, attempt.ahead = attempt.ahead, None
    if ahead is not None:
        await ahead.drop()


def is_its(instance: ObservedContainer, request: StartContainer) -> bool:
    """Return whether an instance is the one that a start makes, no matter which try of the start made it."""
    named = instance.name == request.container and instance.restart_count == request.restart
    return named and instance.incarnation == request.ref.incarnation


async def remove_never_started(attempt: StepAttempt, request: StartContainer) -> None:
    """Remove containers that earlier tries of a start created but never started. Raises CriError, OSError."""
    for each in (await attempt.read()).containers:
        if is_its(each, request) and each.state == "created":
            await remove_unstarted(attempt, each.id)
