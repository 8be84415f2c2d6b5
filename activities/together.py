"""Steps that began together: the start of a container waits here, in the worker, for the sandbox that it needs.

Both are begun by one workflow task, and they end at the same time, so that one task takes both results. Without that,
each start of a pod would cost one task more, and the start of its container would wait for the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from opentelemetry import trace
from temporalio.exceptions import ApplicationError

from activities.containers.noted_starts import noted_start
from activities.step_attempt import Interrupted, NotYet, StepAttempt
from syncpod.messages import ObservedContainer
from syncpod.messages.steps import CreateSandbox, Outcome, StartContainer, StepInput, StepResult

Request = TypeVar("Request", bound=StepInput)

_tracer = trace.get_tracer("syncpod.activities")

HELD_SECONDS = 1.0
"""How long a finished sandbox is kept back from the workflow, so that its result comes with that of the start."""
COMES_SECONDS = 1.0
"""How long a start waits until the step that it follows begins in this worker. The server sends both at once."""


async def in_company(attempt: StepAttempt, request: StepInput, trying: Coroutine[Any, Any, StepResult]) -> StepResult:
    """Run one attempt of a step. If another step began with it, let the other know how it ends.

    A sandbox that is there is returned once the start that follows it is over, at once if anybody wants the step to let
    go, and in any case after a second: the workflow shows the pod's address. If the worker dies meanwhile, the next
    attempt adopts the sandbox.
    """
    if isinstance(request, CreateSandbox) and request.followed:
        return await _first(attempt, trying)
    if isinstance(request, StartContainer) and request.follows:
        return await _second(attempt, request, trying)
    return await trying


async def _first(attempt: StepAttempt, trying: Coroutine[Any, Any, StepResult]) -> StepResult:
    pair = attempt.node.pairs.of(attempt.ref, attempt.fence)
    end = pair.begin_first()
    try:
        result = await trying
    except BaseException as error:
        end.set_result(error if isinstance(error, Exception) else Interrupted())
        raise
    # A sandbox whose step was asked to let go is there, but nothing may start in it any more.
    end.set_result(result if not attempt.asked else Interrupted())
    since = time.monotonic()
    attempt.doing = "has made the sandbox; a container is being started in it"
    pair.first_is_free.clear()
    try:
        with contextlib.suppress(Interrupted), _span("await_start"):
            await attempt.interruptible(_within(HELD_SECONDS, pair.second_is_over))
    finally:
        pair.first_is_free.set()
    return result.model_copy(update={"idle_ms": int(1000 * (time.monotonic() - since))})


async def _second(attempt: StepAttempt, request: StartContainer, trying: Coroutine[Any, Any, StepResult]) -> StepResult:
    pair = attempt.node.pairs.of(attempt.ref, request.follows)
    pair.second_is_over.clear()
    try:
        result = await trying
    finally:
        pair.second_is_over.set()
        # In a busy loop the first step would else be some turns behind, and its result would come too late.
        await pair.first_is_free.wait()
    attempt.node.pairs.forget(attempt.ref, request.follows)
    return result


async def begun_after_first(attempt: StepAttempt, request: Request) -> Request | None:
    """Return the request as it can be carried out now; None if the step must not begin, because nothing is certain.

    A start that follows the step that makes its sandbox waits for it, and then has the sandbox's id. It does not begin
    if that step has failed, has found something unexpected, or does not run in this worker. Only an earlier attempt of
    the start may have begun by then, in a worker that has died. If there are traces of that, the start goes on. Raises
    Interrupted, NotYet and CriError.
    """
    if not isinstance(request, StartContainer) or not request.follows:
        return request
    began = time.monotonic()
    attempt.doing = "waits for the pod's sandbox"
    with _span("await_sandbox"):
        sandbox_id = await _sandbox_id(attempt, request)
    attempt.idle_seconds = time.monotonic() - began
    attempt.acts.set()
    return None if sandbox_id is None else request.model_copy(update={"sandbox_id": sandbox_id})


async def _sandbox_id(attempt: StepAttempt, request: StartContainer) -> str | None:
    """Return the id of the sandbox in which the start is to begin; None if it must not."""
    pair = attempt.node.pairs.of(attempt.ref, request.follows)
    await attempt.interruptible(_within(COMES_SECONDS, pair.came))
    if pair.first is None:
        return await _sandbox_of_begun(attempt, request) if attempt.number > 1 else None
    while not pair.first.done():  # a further attempt may take its place
        await attempt.interruptible(_until(pair.first))
    first = pair.first.result()
    if isinstance(first, Exception) and attempt.number > 1 and _is_tried_again(first):
        raise NotYet(f"the pod's sandbox is not certain yet: {first}")
    return first.id if isinstance(first, StepResult) and is_as_expected(first, request) else None


async def _sandbox_of_begun(attempt: StepAttempt, request: StartContainer) -> str | None:
    """Return the sandbox in which an earlier attempt of the start has begun; None if there is no trace of that."""
    view = await attempt.read()
    made = [each for each in view.sandboxes if each.incarnation == request.ref.incarnation]
    home = next((each.id for each in made if each.attempt == request.sandbox_attempt), "")
    if any(_is_its(each, request) for each in view.containers):
        return home
    mark = await noted_start(attempt, request.model_copy(update={"sandbox_id": home}))
    return None if mark is None else home or mark.sandbox_id


def is_as_expected(first: StepResult, request: StartContainer) -> bool:
    """Say whether the sandbox is there and nothing is in it but, perhaps, what an earlier attempt of this start made.

    Its decision expected that. If an image is missing, it is pulled first.
    """
    if first.outcome not in (Outcome.DONE, Outcome.ADOPTED) or not first.id:
        return False
    ours = [each for each in first.status.containers if each.incarnation == request.ref.incarnation]
    if not all(_is_its(each, request) for each in ours):
        return False
    return bool(ours) or request.container not in (first.missing_images or ())


def _is_its(instance: ObservedContainer, request: StartContainer) -> bool:
    named = instance.name == request.container and instance.restart_count == request.restart
    return named and instance.incarnation == request.ref.incarnation


def _is_tried_again(error: Exception) -> bool:
    return isinstance(error, ApplicationError) and not error.non_retryable


def _span(name: str) -> AbstractContextManager[trace.Span]:
    """Return a span of the step's. That a step is to let go within it is no error."""
    return _tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False)


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait for an event, so many seconds at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def _until(end: asyncio.Future[Any]) -> None:
    await asyncio.wait({end})
