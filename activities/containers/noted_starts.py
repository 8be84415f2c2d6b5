"""Start marks: a step notes an instance before it starts it, and looks the note up when it finds the instance gone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from activities.step_attempt import StepAttempt
from syncpod.messages.steps import StartContainer
from syncpod.node.start_marks import StartMark, read_start_mark, withdraw_start_mark, write_start_mark


async def note_start(attempt: StepAttempt, request: StartContainer, container_id: str) -> None:
    """Note that an instance is about to be started. Raises OSError."""
    mark = StartMark(
        id=container_id,
        restart=request.restart,
        incarnation=request.ref.incarnation,
        sandbox_id=request.sandbox_id,
        at=datetime.now(UTC),
    )
    await asyncio.to_thread(write_start_mark, attempt.node.context, request.ref.uid, request.container, mark)


async def noted_start(attempt: StepAttempt, request: StartContainer) -> StartMark | None:
    """Return the start mark of the requested instance; None if it was never started.

    The mark of an init container counts only in its own sandbox: in another one it runs again. Raises OSError.
    """
    mark = await asyncio.to_thread(read_start_mark, attempt.node.context, request.ref.uid, request.container)
    if mark is None or (mark.restart, mark.incarnation) != (request.restart, request.ref.incarnation):
        return None
    return mark if request.kind != "init_container" or mark.sandbox_id == request.sandbox_id else None


async def forget_start(attempt: StepAttempt, container_id: str) -> None:
    """Drop the mark of an instance that is known never to have run. Raises OSError."""
    mark = await asyncio.to_thread(withdraw_start_mark, attempt.node.context, attempt.ref.uid, container_id)
    if mark is not None:
        await asyncio.to_thread(mark.drop)
