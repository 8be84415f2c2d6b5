"""A pod's workflow on the Temporal server: its handle, and the failures if it is missing, silent or not a pod's.

The pods themselves are read by `syncpod.cli.temporal.pod_source`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowExecution, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import Failure
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.orphan_notes import orphan_of, without_workflow
from syncpod.messages.identity import POD_WORKFLOW, pod_workflow_id
from syncpod.temporal.workflow_starts import ENDED

_RPC: Final = timedelta(seconds=5)


def handle_of(client: Client, namespace: str, name: str) -> WorkflowHandle[Any, Any]:
    """Return a handle of the newest run of the pod's workflow."""
    return client.get_workflow_handle(pod_workflow_id(namespace, name))


def not_found(name: str, namespace: str) -> Failure:
    """Return the failure to find a pod's workflow; if the pod runs here without one, with the command that helps."""
    if (orphan := orphan_of(namespace, name)) is not None:
        return Failure(f'pod "{name}" {without_workflow(orphan)}')
    return Failure(no_such_pod(name, namespace))


def require_answer(fetched: FetchedPod) -> FetchedPod:
    """Return the pod if its workflow answered. Raises Failure with the reason if it did not."""
    if not fetched.current:
        raise Failure(f'pod "{fetched.pod.metadata.name}" does not answer: {fetched.why_silent}')
    return fetched


class Squatted(Failure):
    """A workflow of another kind has a pod's name. Somebody has to end that workflow."""


async def require_pods_own(client: Client, namespace: str, name: str) -> None:
    """Raise Squatted if a workflow of another kind has a pod's id, since somebody else has started one there."""
    try:
        described = await handle_of(client, namespace, name).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return
        raise
    require_own(described)


def require_own(execution: WorkflowExecution) -> None:
    """Raise Squatted if an open workflow of another kind has a pod's id."""
    queue = execution.task_queue or ""
    if execution.status in ENDED or (execution.workflow_type == POD_WORKFLOW and queue.startswith("node/")):
        return
    name, kind = execution.id.rpartition("/")[2], execution.workflow_type
    raise Squatted(
        f'pod "{name}": workflow {execution.id} is not a pod\'s, but a {kind} on task queue '
        f"{queue}: `temporal workflow terminate -w {execution.id}` frees the name"
    )
