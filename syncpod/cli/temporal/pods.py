"""Reads pods: from this machine's node, else by a query, else as Temporal last recorded them, marked as such."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from pydantic import ValidationError
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api.label_selector import Selector
from syncpod.api.listed import Recorded
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.machine.settings import settings
from syncpod.cli.orphan_notes import orphan_of, orphans_here, without_workflow
from syncpod.cli.temporal.liveness import judged, unserved_queue
from syncpod.cli.temporal.pod_reads import OpenRuns, PublishedAnswer, ask_pod, query_pod, told_by_this_node
from syncpod.messages.identity import POD_WORKFLOW, pod_workflow_id
from syncpod.node.recorded_pods import recorded_creation, recorded_pod
from syncpod.pod import Pod
from syncpod.settings.worker_record import serving
from syncpod.temporal.pod_search_attributes import attribute, node_of, open_pods, recorded_as
from syncpod.temporal.queries import is_busy_workflow
from syncpod.temporal.workflow_starts import ENDED

_RPC: Final = timedelta(seconds=5)
_AT_ONCE: Final = 500
"""Maximum number of queries at the same time."""
_AT_ONCE_AGAIN: Final = 50
"""The same for `read_pods` and `orphan_pods`, which a command may call repeatedly."""
_ENOUGH: Final = 50
"""If this many pods of a node have not answered, and none has, the node's other pods are not queried."""
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


def handle_of(client: Client, namespace: str, name: str) -> WorkflowHandle[Any, Any]:
    """Return a handle of the newest run of the pod's workflow."""
    return client.get_workflow_handle(pod_workflow_id(namespace, name))


def not_found(name: str, namespace: str) -> Failure:
    """Return the failure to find a pod's workflow; if the pod runs here without one, with the command that helps."""
    if (orphan := orphan_of(namespace, name)) is not None:
        return Failure(f'pod "{name}" {without_workflow(orphan)}')
    return Failure(no_such_pod(name, namespace))


async def read_pod(client: Client, namespace: str, name: str, open_runs: OpenRuns | None = None) -> FetchedPod | None:
    """Return one pod; None if it does not exist, or has ended. Raises Squatted if its name is not a pod's.

    `open_runs` as in `read_pods`.
    """
    return (await read_pods(client, [(namespace, name)], open_runs))[0]


async def read_pods(
    client: Client, keys: Sequence[tuple[str, str]], open_runs: OpenRuns | None = None
) -> list[FetchedPod | None]:
    """Return the pods of these namespaces and names, in this order; None for one that does not exist, or has ended.

    Pods of this machine's node are read from the node in one request. Only a few pods are queried at the same time: if
    all pods of a large node were, the node could do nothing else. A command that reads pods repeatedly keeps
    `open_runs`. Raises Squatted if one of the names is not a pod's.
    """
    ids, open_runs = [pod_workflow_id(*key) for key in keys], open_runs or OpenRuns(client)
    published = await told_by_this_node(ids, "pod")
    unserved = "" if len(published) == len(ids) else await unserved_queue(client)
    few = asyncio.Semaphore(_AT_ONCE_AGAIN)

    async def read(workflow_id: str) -> FetchedPod | None:
        ours = published.get(workflow_id)
        async with few:
            if ours is not None and await open_runs.has(workflow_id, ours.run_id):
                return _as_published(ours)
            return await _query(client, workflow_id, None, unserved)

    fetched_pods = await asyncio.gather(*map(read, ids))
    found = iter(await judged(client, [one for one in fetched_pods if one is not None]))
    return [None if one is None else next(found) for one in fetched_pods]


class Squatted(Failure):
    """A pod's name is taken by a workflow that is not a pod's. Somebody has to end that workflow."""


async def require_pods_own(client: Client, namespace: str, name: str) -> None:
    """Raise Squatted if the workflow under a pod's id is not a pod's, since somebody else has started one there."""
    try:
        described = await handle_of(client, namespace, name).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return
        raise
    _require_pods_own(described)


def _require_pods_own(execution: WorkflowExecution) -> None:
    queue = execution.task_queue or ""
    if execution.status in ENDED or (execution.workflow_type == POD_WORKFLOW and queue.startswith("node/")):
        return
    name, kind = execution.id.rpartition("/")[2], execution.workflow_type
    raise Squatted(
        f'pod "{name}": workflow {execution.id} is not a pod\'s, but a {kind} on task queue '
        f"{queue}: `temporal workflow terminate -w {execution.id}` frees the name"
    )


async def require_pod(client: Client, namespace: str, name: str) -> FetchedPod:
    """Return one pod from its workflow's answer. Raises Failure if there is no such pod, or it does not answer."""
    fetched = await read_pod(client, namespace, name)
    if fetched is None:
        raise not_found(name, namespace)
    return require_answer(fetched)


def require_answer(fetched: FetchedPod) -> FetchedPod:
    """Return the pod if its workflow answered. Raises Failure with the reason if it did not."""
    if not fetched.current:
        raise does_not_answer(fetched)
    return fetched


def does_not_answer(fetched: FetchedPod) -> Failure:
    """Return the failure of a pod that does not answer."""
    return Failure(f'pod "{fetched.pod.metadata.name}" does not answer: {fetched.why_silent}')


async def list_pods(
    client: Client, namespace: str | None, selector: Selector, *, nodes: Collection[str] | None = None
) -> list[FetchedPod]:
    """Return the pods of a namespace (None = all) that the selector selects, in order of namespace and name.

    With `nodes`, only pods of these nodes. The list comes from visibility, which may lag by a moment. Pods of this
    machine's node are read from the node in one request; the workflows of others are queried. Without `nodes`, pods
    that run on this machine's node without a workflow are included, marked.
    """
    executions = await _open_executions(client, namespace)
    if nodes is not None:
        executions = {id_: one for id_, one in executions.items() if node_of(one) in nodes}
    published = await told_by_this_node(executions.keys(), "pod")
    unserved = "" if len(published) == len(executions) else await unserved_queue(client)
    some = asyncio.Semaphore(_AT_ONCE)
    silent, heard = Counter[str](), set[str]()

    async def read(execution: WorkflowExecution) -> FetchedPod | None:
        if (ours := published.get(execution.id)) is not None and ours.run_id == execution.run_id:
            return _as_published(ours)
        queue = execution.task_queue or ""
        async with some:
            if queue not in heard and silent[queue] >= _ENOUGH:
                return _recorded(execution)
            fetched = await _query(client, execution.id, execution, unserved)
        if fetched is not None and fetched.current:
            heard.add(queue)
        elif fetched is not None:
            silent[queue] += 1
        return fetched

    found = await judged(client, [one for one in await asyncio.gather(*map(read, executions.values())) if one])
    if nodes is None:
        found = [*found, *await orphan_pods(client, namespace)]
    fetched_pods = [fetched for fetched in found if selector.matches(fetched.pod.metadata.labels)]
    return sorted(fetched_pods, key=lambda fetched: fetched.key)


async def orphan_pods(client: Client, namespace: str | None, names: Sequence[str] = ()) -> list[FetchedPod]:
    """Return the pods that run on this machine's node without a workflow, marked; with `names`, only these."""
    found = await asyncio.to_thread(orphans_here, namespace, names)
    if found and serving(settings().state_dir) is None:  # these pods run; some of them may have a workflow
        some = asyncio.Semaphore(_AT_ONCE_AGAIN)
        attended = await asyncio.gather(*(_has_workflow(client, wire["metadata"], some) for wire in found))
        found = [wire for wire, has_one in zip(found, attended, strict=True) if not has_one]
    return [FetchedPod(Pod.model_validate(wire), wire, current=True) for wire in found]


async def _has_workflow(client: Client, metadata: Mapping[str, Any], some: asyncio.Semaphore) -> bool:
    """Return whether a workflow of a pod's name is open, or may be."""
    handle = handle_of(client, str(metadata.get("namespace") or "default"), str(metadata["name"]))
    try:
        async with some:
            return (await handle.describe(rpc_timeout=_RPC)).status not in ENDED
    except RPCError as error:
        return error.status != RPCStatusCode.NOT_FOUND
    except ValueError:  # a state unknown to the SDK
        return True


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


async def list_recorded(client: Client, namespace: str | None) -> list[Pod]:
    """Return the open pods of a namespace (None = all) as Temporal last recorded them: names, UIDs, phases."""
    executions = await _open_executions(client, namespace)
    pods = [recorded_as(execution) for execution in executions.values()]
    return sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))


async def read_ended(client: Client, namespace: str, name: str) -> FetchedPod | None:
    """Return the last run of a pod that has ended, as far as the server keeps it; None if there is none.

    The closed workflow is queried, for which a worker replays the workflow's history.
    """
    handle = handle_of(client, namespace, name)
    execution = await _execution(handle, None)
    if execution is None or execution.workflow_type != POD_WORKFLOW:
        return None
    try:
        wire = await ask_pod(client, handle.id, "pod", result_type=dict)
    except (RPCError, WorkflowQueryFailedError):
        return (await judged(client, [_recorded(execution)]))[0]
    pod = _answered(wire, handle.id)
    return None if pod is None else FetchedPod(pod, wire, current=True, run=execution.run_id)


async def _open_executions(client: Client, namespace: str | None) -> dict[str, WorkflowExecution]:
    return {execution.id: execution async for execution in client.list_workflows(open_pods(namespace))}


def _as_published(published: PublishedAnswer) -> FetchedPod:
    return FetchedPod(Pod.model_validate(published.answer), published.answer, current=True, run=published.run_id)


async def _query(
    client: Client, workflow_id: str, execution: WorkflowExecution | None, unserved: str
) -> FetchedPod | None:
    """Query a pod's workflow. If it does not answer, return what Temporal last recorded; None if none is open.

    `execution` is the workflow's entry in a list. Without it, a silent workflow that is not a pod's raises Squatted. A
    workflow of the task queue `unserved` is not queried, since no worker would answer; "" = there is no such queue.
    Raises RPCError if the server refuses, and Failure for a workflow that is neither running nor ended.
    """
    stuck = False
    handle = client.get_workflow_handle(workflow_id)
    if unserved and (recorded := await _execution(handle, execution)) and recorded.task_queue == unserved:
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
        if (pod := _answered(wire, workflow_id)) is not None:
            return FetchedPod(pod, wire, current=True, run=(execution and execution.run_id) or "")
    recorded = await _execution(handle, execution)
    return None if recorded is None else _silent(recorded, is_listed=execution is not None, stuck=stuck)


def _answered(wire: dict[str, Any], workflow_id: str) -> Pod | None:
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
        _require_pods_own(recorded)
    return _recorded(recorded, stuck=stuck)


async def _execution(handle: WorkflowHandle[Any, Any], execution: WorkflowExecution | None) -> WorkflowExecution | None:
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


def _recorded(execution: WorkflowExecution, *, stuck: bool = False) -> FetchedPod:
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


def _creation(workflow_id: str, uid: str) -> str:
    """Return when a pod of this machine was created; "" if that is not known, or the pod is not this machine's."""
    try:
        return recorded_creation(settings().state_dir, workflow_id, uid)
    except BadInput:
        return ""
