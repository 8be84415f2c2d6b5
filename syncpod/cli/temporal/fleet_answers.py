"""Sends updates and queries to a fleet's workflows, and waits for the answers of the fleet's worker.

A late answer does not mean that the worker is dead. So a command waits for as long as a worker of the fleet gives signs
of life. A restarted server has lost these signs: if it has none, the command waits RETURN_SECONDS for a new one. The
error names one of two cases: no worker gives a sign of life, or a worker gives one and has not answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio.api.errordetails.v1 import QueryFailedFailure
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateHandle,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api.views.durations import age
from syncpod.cli.console import remark
from syncpod.cli.failure import Failure
from syncpod.cli.temporal.liveness import liveness_on
from syncpod.cli.temporal.session import address_of, refused
from syncpod.cli.temporal.stuck_fleet import failed_tries, taken_by_another, without_a_key
from syncpod.cli.temporal.updates import AGAIN, PAUSE_SECONDS, refused_because, stop_if_cancelled
from syncpod.messages.fleet import FLEET_NODE_PREFIX, FLEET_QUEUE
from syncpod.temporal.queries import is_busy_workflow
from syncpod.temporal.signing import is_overtaken
from syncpod.temporal.workflow_starts import look_at

RPC: Final = timedelta(seconds=5)
"""How long one call waits for an answer, before the next call."""
BUSY_SECONDS: Final = 60.0
"""How long to wait until a busy worker accepts a request. The result of an accepted update has no time limit."""
RETURN_SECONDS: Final = 10.0
"""How long a worker may be silent after a restart of the server. A worker tries to connect each second."""
_LATE: Final = AGAIN | {RPCStatusCode.CANCELLED}
_ENCODED: Final = "Encoded failure"
"""The placeholder for the message of an encrypted failure."""
_START: Final = "start one with `syncpod fleet up`, or alone with `syncpod fleet serve`"

_Answer = TypeVar("_Answer")


class Unanswered(Failure):
    """The fleet's workers have not answered in time, or none of them gives a sign of life."""


class Declined(Failure):
    """The workflow does not accept an update, and has changed nothing."""


async def query(client: Client, handle: WorkflowHandle[Any, Any], name: str, *args: Any) -> Any:
    """Query a workflow of the fleet, and return its answer. Raises RPCError, and Failure if there is no answer."""
    try:
        return await _patiently(client, handle.id, lambda: handle.query(name, args=args, rpc_timeout=RPC), BUSY_SECONDS)
    except WorkflowQueryFailedError as failed:
        raise Failure(
            f"the workflow of {_called(handle.id)} cannot show it: {await _why(client, handle, failed)}"
        ) from None


async def update(client: Client, handle: WorkflowHandle[Any, Any], name: str, *args: Any) -> Any:
    """Send an update to a workflow of the fleet, and return its answer. Raises Declined, Failure, RPCError."""
    named = uuid.uuid4().hex

    async def send() -> WorkflowUpdateHandle[Any]:
        return await handle.start_update(
            name, args=args, id=named, wait_for_stage=WorkflowUpdateStage.ACCEPTED, rpc_timeout=RPC
        )

    return await _outcome(client, handle.id, send)


async def delete(client: Client, workflow_id: str) -> bool:
    """Send a fleet's workflow the update `delete`; return False if the workflow does not run. Raises Failure."""
    try:
        await update(client, client.get_workflow_handle(workflow_id), "delete")
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False
        raise refused(error, address_of(client)) from None
    return True


async def update_with_start(
    client: Client, workflow: str, workflow_id: str, name: str, argument: Any, *, summary: str
) -> Any:
    """As `update`, but start the workflow first if it is not running. Raises Declined, Failure, RPCError."""
    named = uuid.uuid4().hex

    async def send() -> WorkflowUpdateHandle[Any]:
        starting: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            workflow,
            {},
            id=workflow_id,
            task_queue=FLEET_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=summary,
        )
        try:
            return await client.start_update_with_start_workflow(
                name,
                argument,
                id=named,
                start_workflow_operation=starting,
                wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                rpc_timeout=RPC,
            )
        except BaseException:
            await look_at(starting)
            raise

    return await _outcome(client, workflow_id, send)


async def silence(client: Client, workflow_id: str = "") -> str:
    """Return why an answer is late: a sentence about the fleet's workers, or the workflow. Raises RPCError."""
    life = await liveness_on(client, FLEET_QUEUE)
    if life.lives:
        if workflow_id and (failed := await _failed_tries(client, workflow_id)) > 1:
            return (
                f"the workflow of {_called(workflow_id)} cannot go on, since its last {failed} tries failed: the log "
                "of the fleet's worker says why"
            )
        return f"a worker of the fleet was alive {_ago(life.heard)} ago: it is busy, or this workflow is stuck there"
    if life.heard is None:
        return f"no worker of the fleet has given a sign of life: {_START}"
    return f"no worker of the fleet has given a sign of life for {_ago(life.heard)}: {_START}"


async def _outcome(client: Client, workflow_id: str, send: Callable[[], Awaitable[WorkflowUpdateHandle[Any]]]) -> Any:
    """Send an update until it is accepted; return its answer. Attempts share an id, so the update is made only once."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        try:
            return await _answer_to_one(client, workflow_id, send)
        except WorkflowUpdateFailedError as failed:
            said = refused_because(failed)
            if not is_overtaken(failed):
                raise Declined(said) from None
            if loop.time() > began + BUSY_SECONDS:
                clocks = "perhaps this machine's clock is behind that of another one that commands the fleet"
                raise Failure(f"{said}; {clocks}") from None
        await asyncio.sleep(PAUSE_SECONDS)  # the next attempt has a new signature


async def _answer_to_one(
    client: Client, workflow_id: str, send: Callable[[], Awaitable[WorkflowUpdateHandle[Any]]]
) -> Any:
    """Send an update until it is accepted or refused; return its answer. Raises WorkflowUpdateFailedError, Failure."""
    asked = "it is not known whether the request will be carried out"
    taken = "the request is accepted, and is carried out as soon as a worker answers"
    handle = await _patiently(client, workflow_id, send, BUSY_SECONDS, but=asked)
    return await _patiently(client, workflow_id, lambda: handle.result(rpc_timeout=RPC), None, but=taken)


async def _patiently(
    client: Client,
    workflow_id: str,
    ask: Callable[[], Awaitable[_Answer]],
    patience: float | None,
    *,
    but: str = "",
) -> _Answer:
    """Repeat a request until it is answered, for as long as a worker gives signs of life.

    If the server has no sign of any worker, the limit is RETURN_SECONDS. Else it is `patience` seconds; None = no
    limit. There is no wait for a workflow that another program has taken, or that lacks a key. Raises Unanswered, whose
    text ends with `but`.
    """
    loop = asyncio.get_running_loop()
    began, is_said = loop.time(), False
    heard = began
    while True:
        try:
            return await ask()
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            stop_if_cancelled()
        except RPCError as error:
            if error.status not in _LATE and not is_busy_workflow(error):
                raise
        life = await liveness_on(client, FLEET_QUEUE)
        heard = loop.time() if life.lives else heard
        may_return = life.heard is None and loop.time() < heard + RETURN_SECONDS
        if not (life.lives or may_return) or (patience is not None and loop.time() > began + patience):
            raise Unanswered("; ".join(filter(None, (await silence(client, workflow_id), but))))
        if life.lives and not is_said and loop.time() > began + RPC.total_seconds():
            if why := await _taken_by_another(client, workflow_id) or await _without_a_key(client, workflow_id):
                raise Unanswered("; ".join(filter(None, (why, but))))
            if but:
                remark("the fleet's worker is busy: waiting for its answer")
            is_said = True
        await asyncio.sleep(PAUSE_SECONDS)


async def _failed_tries(client: Client, workflow_id: str) -> int:
    with contextlib.suppress(RPCError):  # if the workflow has ended, the next call reports that
        return await failed_tries(client, workflow_id)
    return 0


async def _taken_by_another(client: Client, workflow_id: str) -> str:
    with contextlib.suppress(RPCError):
        return await taken_by_another(client, workflow_id)
    return ""


async def _without_a_key(client: Client, workflow_id: str) -> str:
    with contextlib.suppress(RPCError):
        return await without_a_key(client, workflow_id)
    return ""


async def _why(client: Client, handle: WorkflowHandle[Any, Any], failed: WorkflowQueryFailedError) -> str:
    """Return why a query has failed, in a clause. The worker encrypts the reason, and the SDK does not decrypt it."""
    error = failed.__context__
    details = error.grpc_status.details if isinstance(error, RPCError) else ()
    for detail in details:
        said, place = QueryFailedFailure(), WorkflowSerializationContext(client.namespace, handle.id)
        with contextlib.suppress(ValueError, RuntimeError, KeyError):  # written by somebody else, or with other keys
            if detail.Unpack(said) and said.HasField("failure"):
                told = await client.data_converter.with_context(place).decode_failure(said.failure)
                return str(getattr(told, "message", "") or told)
    return "its worker's log says why" if failed.message == _ENCODED else failed.message


def _called(workflow_id: str) -> str:
    """Return the subject of a fleet's workflow, for use in a sentence: ``node n1``, ``deployment web``."""
    kind, *rest = workflow_id.split("/")
    if kind == "workload" and len(rest) == 3:
        return f"{rest[0].lower()} {rest[2]}"
    return f"node {'/'.join(rest)}" if workflow_id.startswith(FLEET_NODE_PREFIX) else workflow_id


def _ago(heard: datetime | None) -> str:
    return age(heard, datetime.now(UTC))
