"""Reads one pod: as this machine's worker has published it, else by a query, else as the server has recorded it.

Only `syncpod.cli.temporal.pod_source` reads pods with these functions.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api import client as node_api
from syncpod.api.listed import Recorded
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.machine.settings import settings
from syncpod.cli.temporal.pods import require_own
from syncpod.messages.identity import pod_workflow_id
from syncpod.node.recorded_pods import recorded_creation, recorded_pod
from syncpod.pod import Pod
from syncpod.pod.model_errors import first_problem
from syncpod.temporal.pod_search_attributes import attribute, recorded_as
from syncpod.temporal.queries import is_busy_workflow
from syncpod.temporal.workflow_starts import ENDED

QUERY_DEADLINE: Final = timedelta(seconds=2)
"""The timeout of a query: without a timeout, a query to a pod whose worker is away takes half a minute to fail."""
OPEN_SECONDS: Final = 2.0
"""How long a run counts as open after the server has reported it open, while a command waits for its pod."""
_SILENT: Final = frozenset(
    (
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.FAILED_PRECONDITION,
        RPCStatusCode.ABORTED,
    )
)
"""The errors of a query that no worker answers. Other errors are about the caller, or about the server."""
_STUCK: Final = "failed state"
"""Part of the server's message if it does not send the query on, because the workflow's tasks keep failing."""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class PublishedAnswer:
    """The answer of this machine's worker about one workflow."""

    run_id: str
    """The run that has published it."""
    answer: Any
    """The answer of the workflow's query."""

    @property
    def pod(self) -> FetchedPod:
        """The pod, if the query was ``pod``."""
        return FetchedPod(Pod.model_validate(self.answer), self.answer, current=True, run=self.run_id)


async def published_here(workflows: Collection[str], query: str, *args: Any) -> dict[str, PublishedAnswer]:
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


async def query_or_record(
    client: Client, workflow_id: str, execution: WorkflowExecution | None, unserved: str
) -> FetchedPod | None:
    """Query a pod's workflow. If it does not answer, return what Temporal last recorded; None if none is open.

    `execution` is the workflow's entry in a list. Without it, a silent workflow that is not a pod's raises Squatted. A
    workflow of the task queue `unserved` is not queried, since no worker would answer; "" = there is no such queue.
    Raises RPCError if the server refuses, and Failure for a workflow that is neither running nor ended.
    """
    stuck = False
    handle = client.get_workflow_handle(workflow_id)
    if unserved and (recorded := await execution_of(handle, execution)) and recorded.task_queue == unserved:
        return _silent(recorded, is_listed=execution is not None)
    try:
        wire = await query_pod(handle, "pod", result_type=dict, reject_condition=QueryRejectCondition.NOT_OPEN)
    except WorkflowQueryRejectedError as rejected:
        if rejected.status in ENDED:
            return None
    except (WorkflowQueryFailedError, ValueError):  # ValueError: a state unknown to the SDK
        pass
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        if error.status not in _SILENT and not is_busy_workflow(error):
            raise
        stuck = error.status == RPCStatusCode.FAILED_PRECONDITION and _STUCK in error.message
    else:
        if (pod := answered_pod(wire, workflow_id)) is not None:
            return FetchedPod(pod, wire, current=True, run=(execution and execution.run_id) or "")
    recorded = await execution_of(handle, execution)
    return None if recorded is None else _silent(recorded, is_listed=execution is not None, stuck=stuck)


def answered_pod(wire: dict[str, Any], workflow_id: str) -> Pod | None:
    """Return the pod in its workflow's answer; None if it is not this pod: anybody who polls the queue may answer."""
    with contextlib.suppress(ValidationError):
        pod = Pod.model_validate(wire)
        if pod.spec.containers and pod_workflow_id(pod.metadata.namespace, pod.metadata.name) == workflow_id:
            return pod
    return None


def _silent(recorded: WorkflowExecution, *, is_listed: bool, stuck: bool = False) -> FetchedPod | None:
    """Return a pod that did not answer; None if it has ended.

    Raises Squatted if the workflow is not a pod's and does not come from a list.
    """
    if recorded.status in ENDED:
        return None
    if not is_listed:
        require_own(recorded)
    return recorded_state(recorded, stuck=stuck)


async def execution_of(
    handle: WorkflowHandle[Any, Any], execution: WorkflowExecution | None
) -> WorkflowExecution | None:
    """Return `execution`, else what the server has recorded of the workflow; None if there is none.

    Raises RPCError, and Failure for a workflow that is neither running nor ended.
    """
    try:
        return execution or await handle.describe()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise
    except ValueError:
        raise Failure(
            f"the workflow {handle.id} does not answer: it is paused, or otherwise neither running nor ended"
        ) from None


def recorded_state(execution: WorkflowExecution, *, stuck: bool = False) -> FetchedPod:
    """Return a pod that did not answer, with the columns of ``get pods`` as they were recorded last."""
    pod, status, restarts = (
        recorded_as(execution),
        attribute(execution, "PodStatus"),
        attribute(execution, "PodRestarts"),
    )
    return FetchedPod(
        pod,
        {},
        current=False,
        stuck=stuck,
        run=execution.run_id,
        recorded=Recorded(status or "", restarts, _creation(execution.id, pod.metadata.uid)),
    )


def with_last_state(fetched: FetchedPod) -> FetchedPod:
    """Return the pod; if it did not answer and is this machine's, in its last published state."""
    if fetched.current:
        return fetched
    try:
        state_dir = settings().state_dir
    except BadInput:
        return fetched
    wire = recorded_pod(state_dir, pod_workflow_id(*fetched.key), fetched.pod.metadata.uid)
    return fetched if wire is None else replace(fetched, wire=wire)


def _creation(workflow_id: str, uid: str) -> str:
    """Return when a pod of this machine was created; "" if that is not known, or the pod is not this machine's."""
    try:
        return recorded_creation(settings().state_dir, workflow_id, uid)
    except BadInput:
        return ""


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
