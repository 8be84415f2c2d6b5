"""That a container is told to start, noted by the step that does it and looked up by the one that finds it gone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from activities.attempt import Attempt
from syncpod.messages import StartContainer
from syncpod.node.start_marks import StartMark, read_start_mark, withdraw_start_mark, write_start_mark


async def note_start(attempt: Attempt, request: StartContainer, container_id: str) -> None:
    """Note that an instance is told to start; to be done just before that. Raises OSError."""
    mark = StartMark(
        id=container_id,
        restart=request.restart,
        incarnation=request.ref.incarnation,
        sandbox_id=request.sandbox_id,
        at=datetime.now(UTC),
    )
    await asyncio.to_thread(write_start_mark, attempt.node.context, request.ref.uid, request.container, mark)


async def noted_start(attempt: Attempt, request: StartContainer) -> StartMark | None:
    """Return the mark by which the very instance that is asked for was told to start; None where it was not.

    That of an init container says nothing of another sandbox than its own: there it runs anew. Raises OSError.
    """
    mark = await asyncio.to_thread(read_start_mark, attempt.node.context, request.ref.uid, request.container)
    if mark is None or (mark.restart, mark.incarnation) != (request.restart, request.ref.incarnation):
        return None
    return mark if request.kind != "init_container" or mark.sandbox_id == request.sandbox_id else None


async def forget_start(attempt: Attempt, container_id: str) -> None:
    """Forget that an instance was told to start, which is known never to have run. Raises OSError."""
    mark = await asyncio.to_thread(withdraw_start_mark, attempt.node.context, attempt.ref.uid, container_id)
    if mark is not None:
        await asyncio.to_thread(mark.drop)
