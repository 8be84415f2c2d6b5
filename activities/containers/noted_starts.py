"""Start marks: a step writes one just before it starts an instance, and later steps read it if the state is unclear.

The state is unclear if the instance is no longer listed, or is listed as created.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from typing import Final

from activities.step_attempt import StepAttempt
from syncpod.cri.errors import NotFound
from syncpod.messages import ObservedPod
from syncpod.messages.steps import StartContainer
from syncpod.node.pod_threads import DiskWork
from syncpod.node.start_marks import (
    StartMark,
    as_ended,
    has_start_mark,
    read_start_mark,
    withdraw_start_mark,
    write_start_mark,
)
from syncpod.pod import Container, EphemeralContainer, Pod


async def note_start(attempt: StepAttempt, request: StartContainer, container_id: str, *, hook_pending: bool) -> None:
    """Write the start mark of an instance; the mark also shows whether a postStart hook follows. Raises OSError."""
    mark = StartMark(
        id=container_id,
        restart=request.restart,
        incarnation=request.ref.incarnation,
        sandbox_id=request.sandbox_id,
        at=attempt.node.reader.now(),
        hook_pending=hook_pending,
    )
    await asyncio.to_thread(write_start_mark, attempt.node.context, request.ref.uid, request.container, mark)


async def note_hook_ended(attempt: StepAttempt, request: StartContainer, container_id: str) -> None:
    """Note that an instance's postStart hook has ended. Raises OSError."""

    def note() -> None:
        mark = read_start_mark(attempt.node.context, request.ref.uid, request.container)
        if mark is not None and mark.id == container_id and mark.hook_pending:
            ended = mark.model_copy(update={"hook_pending": False})
            write_start_mark(attempt.node.context, request.ref.uid, request.container, ended)

    await asyncio.to_thread(note)


async def noted_start(attempt: StepAttempt, request: StartContainer) -> StartMark | None:
    """Return the start mark of the requested instance, or of a later one; None if no such instance was ever started.

    Raises OSError.
    """
    return which_counts(await noted_mark(attempt, request), request)


async def noted_mark(attempt: StepAttempt, request: StartContainer) -> StartMark | None:
    """Return the container's start mark, of any instance. Raises OSError."""
    return await asyncio.to_thread(read_start_mark, attempt.node.context, request.ref.uid, request.container)


def which_counts(mark: StartMark | None, request: StartContainer) -> StartMark | None:
    """Return a container's mark if it belongs to the requested instance or to a later one; else None.

    The mark of an init container counts only in its own sandbox: in another one, the container runs again.
    """
    if mark is None or mark.incarnation != request.ref.incarnation or mark.restart < request.restart:
        return None
    return mark if request.kind != "init_container" or mark.sandbox_id == request.sandbox_id else None


NotedStarts = Sequence[tuple[Container | EphemeralContainer, StartMark]]
"""The containers of a pod that have start marks of this life of the pod, each with its mark."""


def with_noted_starts(attempt: StepAttempt, starts: NotedStarts, view: ObservedPod) -> ObservedPod:
    """Return the listing, and add as ended the instances that were started and are no longer listed.

    If the runtime loses an instance whose step was cancelled, only its start mark shows that the instance ran. Without
    the mark the container would count one restart too few, and an init container would run again with the same number.
    An end that the workflow has already recorded stays as recorded. `starts` are the pod's (`noted_starts_of`).
    """
    listed, exits = {each.id for each in view.containers}, attempt.node.reader.exits
    gone = [
        as_ended(mark, container, exits.of(mark.id) if exits is not None else None)
        for container, mark in starts
        if mark.id not in listed
    ]
    return view.model_copy(update={"containers": (*gone, *view.containers)}).ordered() if gone else view


def noted_starts_of(attempt: StepAttempt, pod: Pod) -> NotedStarts:
    """Return each container that has a start mark of this life of the pod, with its mark. Blocks. Raises OSError."""
    found: list[tuple[Container | EphemeralContainer, StartMark]] = []
    for container in (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers):
        mark = read_start_mark(attempt.node.context, attempt.ref.uid, container.name)
        if mark is not None and mark.incarnation == attempt.ref.incarnation:
            found.append((container, mark))
    return found


async def forget_start(attempt: StepAttempt, container_id: str) -> None:
    """Remove the mark of an instance that never ran, or whose end the workflow has recorded. Raises OSError."""
    mark = await asyncio.to_thread(withdraw_start_mark, attempt.node.context, attempt.ref.uid, container_id)
    if mark is not None:
        await asyncio.to_thread(mark.drop)


_FORGETS_STARTS: Final = "containerd"
"""The runtime that may list a container as created after it has run. Other runtimes look at the process itself."""


async def may_have_begun(attempt: StepAttempt, container_id: str) -> bool:
    """Return whether the process of a created container may have run.

    A containerd that is killed while it starts a container has no record of that start afterwards: it kills the process
    that it finds, and lists the container as created (restart.go, 1.6 to 2.4, loadContainer). Trusting that state would
    run the container a second time. But the node has the start mark, and the runtime opens the container's log before
    it creates the process: without a mark or a log nothing has run. Raises CriError, OSError.
    """
    cri, context = attempt.node.cri, attempt.node.context
    if not await asyncio.to_thread(has_start_mark, context, attempt.ref.uid, container_id):
        return False
    if (await cri.version()).name != _FORGETS_STARTS:
        return False
    try:
        log = (await cri.container_status(container_id)).container.log_path
    except NotFound:
        return True
    return bool(log) and await attempt.on_disk(DiskWork.LOGS, partial(os.path.lexists, log))
