"""Queries pods' workflows: through the node's API if the node is this machine's, else through Temporal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryFailedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api import client as node_api
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.settings import settings
from syncpod.cli.temporal.liveness import unserved_queue
from syncpod.messages.identity import pod_workflow_id
from syncpod.pod.model_errors import first_problem

QUERY_DEADLINE: Final = timedelta(seconds=2)
"""The timeout of a query: without a timeout, a query to a pod whose worker is away takes half a minute to fail."""
OPEN_SECONDS: Final = 2.0
"""How long a run counts as open after the server has reported it open, while a command waits for its pod."""
_AT_ONCE: Final = 50
"""Maximum number of queries at the same time."""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class PublishedAnswer:
    """The answer of this machine's worker about one workflow."""

    run_id: str
    """The run that has published it."""
    answer: Any
    """The answer of the workflow's query."""


async def told_by_this_node(workflows: Collection[str], query: str, *args: Any) -> dict[str, PublishedAnswer]:
    """Return the answers of this machine's worker about these workflows, by id; unknown workflows are missing.

    With arguments, the query is for the plan of one pod. The server receives no query, and schedules no workflow task.
    An answer may be of a terminated run, or of another server's workflow: the caller has to compare the run.
    """
    try:
        state_dir = settings().state_dir
    except BadInput:  # invalid settings here do not concern pods elsewhere
        return {}
    return await asyncio.to_thread(_answers, state_dir, workflows, query, args)


def _answers(
    state_dir: Path, workflows: Collection[str], query: str, args: Sequence[Any]
) -> dict[str, PublishedAnswer]:
    keys = [each.removeprefix("pod/").partition("/") for each in workflows]
    if args:
        found = [node_api.plan(state_dir, namespace, name, *args) for namespace, _, name in keys]
    else:
        names: dict[str, list[str]] = {}
        for namespace, _, name in keys:
            names.setdefault(namespace, []).append(name)
        lists = [node_api.reports(state_dir, each, of, query, at_once=True) for each, of in names.items()]
        found = [one for some in lists for one in some or ()]
    return {
        pod_workflow_id(each["metadata"]["namespace"], each["metadata"]["name"]): PublishedAnswer(
            each["run"], each[query]
        )
        for each in found
        if each is not None
    }


async def is_open(handle: WorkflowHandle[Any, Any], run_id: str) -> bool:
    """Return whether this run is the open one of the workflow; False if the server does not answer."""
    try:
        described = await handle.describe(rpc_timeout=QUERY_DEADLINE)
    except (RPCError, ValueError):  # ValueError: a state unknown to the SDK
        return False
    return described.run_id == run_id and described.status == WorkflowExecutionStatus.RUNNING


class OpenRuns:
    """Caches which runs are open, for a command that reads pods repeatedly.

    A node drops a run that ends by itself. So the cache is late only for a run that somebody has terminated.
    """

    def __init__(self, client: Client) -> None:
        """Query through this client."""
        self._client = client
        self._found: dict[str, tuple[str, float]] = {}
        """The run of each workflow that was open, and when the server was queried, by `time.monotonic`."""

    async def has(self, workflow_id: str, run_id: str) -> bool:
        """Return whether this run is open, or was within OPEN_SECONDS; False if the server does not answer."""
        known, asked = self._found.get(workflow_id, ("", 0.0))
        if known == run_id and time.monotonic() - asked < OPEN_SECONDS:
            return True
        now, found = time.monotonic(), await is_open(self._client.get_workflow_handle(workflow_id), run_id)
        self._found[workflow_id] = (run_id if found else "", now)
        return found


async def ask_pod(client: Client, workflow_id: str, query: str, *args: Any, result_type: type[_Answer]) -> _Answer:
    """Return the answer of a pod's workflow, open or closed. Raises the errors of `query_pod`.

    If no worker serves the workflow's queue, this fails at once, and not after QUERY_DEADLINE.
    """
    handle = client.get_workflow_handle(workflow_id)
    answer = (await told_by_this_node([workflow_id], query, *args)).get(workflow_id)
    if answer is not None and isinstance(answer.answer, result_type) and await is_open(handle, answer.run_id):
        return answer.answer
    if (queue := await unserved_queue(client)) and (await handle.describe()).task_queue == queue:
        raise RPCError(f"no worker serves {queue}", RPCStatusCode.DEADLINE_EXCEEDED, b"")
    return await query_pod(handle, query, *args, result_type=result_type)


async def ask_read_pods(
    client: Client, workflows: Sequence[str], query: str, *, result_type: type[_Answer]
) -> list[_Answer | None]:
    """Return the answers of the workflows of pods that have just been read, in order; None for a missing answer.

    Since the pods have just been read, the server is not queried again for the open runs.
    """
    answers, few = await told_by_this_node(workflows, query), asyncio.Semaphore(_AT_ONCE)

    async def ask(workflow_id: str) -> _Answer | None:
        ours = answers.get(workflow_id)
        if ours is not None and isinstance(ours.answer, result_type):
            return ours.answer
        try:
            async with few:
                return await query_pod(client.get_workflow_handle(workflow_id), query, result_type=result_type)
        except (RPCError, WorkflowQueryFailedError):
            return None

    return await asyncio.gather(*map(ask, workflows))


async def query_pod(
    handle: WorkflowHandle[Any, Any],
    query: str,
    *args: Any,
    result_type: type[_Answer],
    reject_condition: QueryRejectCondition | None = None,
) -> _Answer:
    """Query a pod's workflow. Raises the SDK's errors; an answer that cannot be read counts as a failed query."""
    how: dict[str, Any] = {"result_type": result_type, "rpc_timeout": QUERY_DEADLINE}
    try:
        answer: _Answer = await handle.query(query, args=args, reject_condition=reject_condition, **how)
    except (ValidationError, KeyError, RuntimeError) as wrong:  # anybody who polls the task queue may answer
        raise WorkflowQueryFailedError(f"the answer cannot be read: {wrong}") from None
    return answer


_Record = TypeVar("_Record")


def read_records(read: Callable[[Iterable[Any]], list[_Record]], answer: Iterable[Any], what: str) -> list[_Record]:
    """Return the records of an answer to a query; `what` names them. Raises Failure for an invalid one."""
    try:
        return read(answer)
    except ValidationError as wrong:
        raise Failure(
            f"the pod's {what} cannot be read: {first_problem(wrong)}; perhaps its worker is of another version than "
            "this command"
        ) from None
