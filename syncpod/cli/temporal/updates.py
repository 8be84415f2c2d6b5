"""Sends an update to a pod's workflow until it is answered, or until the pod's node counts as away."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.temporal.liveness import absence, lives
from syncpod.cli.temporal.pods import handle_of, not_found
from syncpod.pod import Pod

PATIENCE_SECONDS: Final = 5.0
"""How long an update may take; after that the node is reported as away, if no worker serves it."""
BUSY_PATIENCE_SECONDS: Final = 30.0
"""How long an update may take if a worker serves the node: a busy worker is not away."""
PAUSE_SECONDS: Final = 0.2
"""The pause between two attempts."""
AGAIN: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.FAILED_PRECONDITION,
        RPCStatusCode.ABORTED,
        RPCStatusCode.DEADLINE_EXCEEDED,
    }
)
"""Errors of the server after which the call is retried."""
_Answer = TypeVar("_Answer")


async def send_update(client: Client, pod: Pod, update: str, document: dict[str, Any]) -> dict[str, Any]:
    """Send an update to an existing pod, and return the answer. Retries are harmless: all attempts share one id.

    Raises BadInput with the workflow's refusal, and Failure if the pod is gone or its node does not answer in time.
    """
    node = pod.spec.node_name
    answer = await answer_in_time(client, node, _until_answered(client, pod, update, document))
    if answer is None:
        raise Failure(
            f'pod "{pod.metadata.name}": {await absence(client, (node,))}, so it is not known whether the change '
            "will be made; look at the pod when the node is back"
        )
    return answer


async def answer_in_time(
    client: Client, node: str, sending: Coroutine[Any, Any, _Answer], patience: float = math.inf
) -> _Answer | None:
    """Await `sending`, at most `patience` seconds; return None if the node has not answered in time.

    The limit is PATIENCE_SECONDS, or BUSY_PATIENCE_SECONDS if a worker serves the node.
    """
    at_first = min(PATIENCE_SECONDS, patience)
    then = min(BUSY_PATIENCE_SECONDS, patience) - at_first
    task = asyncio.create_task(sending)
    try:
        # The SDK's timeout is for each attempt, and the SDK retries: this limit is for all attempts together.
        answered, _ = await asyncio.wait({task}, timeout=at_first)
        if not answered and then > 0 and await _is_served(client, node):
            answered, _ = await asyncio.wait({task}, timeout=then)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return task.result() if answered else None


def stop_if_cancelled() -> None:
    """Raise CancelledError if the current task is being cancelled; else the server was late, and the caller retries.

    For an update, the SDK raises the same exception in both cases.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def is_gone(error: WorkflowUpdateFailedError) -> bool:
    """Return whether the pod had ended when its workflow received the update."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == "Gone"


def refusal(pod: Pod, error: WorkflowUpdateFailedError) -> str:
    """Return the pod's name, and why its workflow refused an update."""
    return f"pod {pod.metadata.name}: {refused_because(error)}"


def refused_because(error: WorkflowUpdateFailedError) -> str:
    """Return the message with which a workflow refused an update."""
    return error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)


async def _until_answered(client: Client, pod: Pod, update: str, document: dict[str, Any]) -> dict[str, Any]:
    name, namespace, update_id = pod.metadata.name, pod.metadata.namespace, uuid.uuid4().hex
    while True:
        try:
            answer: dict[str, Any] = await handle_of(client, namespace, name).execute_update(
                update, document, id=update_id, result_type=dict
            )
        except WorkflowUpdateFailedError as error:
            if is_gone(error):
                raise not_found(name, namespace) from None
            raise BadInput(refusal(pod, error)) from None
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise not_found(name, namespace) from None
            if error.status not in AGAIN:
                raise
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            stop_if_cancelled()
        else:
            return answer
        await asyncio.sleep(PAUSE_SECONDS)


async def _is_served(client: Client, node: str) -> bool:
    """Return whether a worker serves the node; False if the server does not answer."""
    try:
        return await lives(client, node)
    except RPCError:
        return False
