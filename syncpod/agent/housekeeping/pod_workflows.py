"""What Temporal knows of the pods that this node has something of: the evidence for what may be tidied up.

An empty or foreign database is no evidence: that a workflow is not there says nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError, RPCStatusCode

from syncpod.lifecycle.orphans import Standing
from syncpod.messages import POD_WORKFLOW, PodRef, pod_workflow_id

_RPC: Final = timedelta(seconds=5)
_GOES_ON: Final = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)


class PodWorkflows:
    """Asks the server. Every method raises RPCError while it does not answer."""

    def __init__(self, client: Client, task_queue: str) -> None:
        """Ask about the pods whose workflows run on this node's queue."""
        self._client = client
        self._task_queue = task_queue

    async def open(self) -> dict[str, str]:
        """Return the open workflows of this node, each with its pod's UID, "" where that is not told.

        By visibility, which may lag: what it lacks has to be asked for by `standing`.
        """
        query = f"TaskQueue = '{self._task_queue}' AND WorkflowType = '{POD_WORKFLOW}' AND ExecutionStatus = 'Running'"
        return {listed.id: _uid(listed) async for listed in self._client.list_workflows(query, rpc_timeout=_RPC)}

    async def standing(self, ref: PodRef) -> Standing:
        """Say how it stands with the workflow of a pod's name, as the server has it now."""
        handle = self._client.get_workflow_handle(pod_workflow_id(ref.namespace, ref.name))
        try:
            described = await handle.describe(rpc_timeout=_RPC)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return "unknown"
            raise
        if described.status not in _GOES_ON:
            # That the last workflow of its name has ended, and was another pod's, says nothing of this one's.
            return "closed" if (_uid(described) or await _ask_which(handle)) == ref.uid else "unknown"
        # One that does not say which pod it is may be this one.
        return "open" if _uid(described) in ("", ref.uid) else "another"


async def _ask_which(handle: WorkflowHandle[Any, Any]) -> str:
    """Return the UID of the pod that a workflow was of, which its search attributes do not tell; "" = nor does it."""
    try:
        pod: dict[str, Any] = await handle.query("pod", result_type=dict, rpc_timeout=_RPC)
    except (WorkflowQueryFailedError, RPCError):
        return ""
    return str(pod.get("metadata", {}).get("uid", ""))


def unaccounted(refs: Iterable[PodRef], listed: dict[str, str]) -> tuple[PodRef, ...]:
    """Return the pods that no listed workflow is of."""
    return tuple(ref for ref in refs if listed.get(pod_workflow_id(ref.namespace, ref.name), " ") not in ("", ref.uid))


def _uid(execution: WorkflowExecution) -> str:
    return next((str(each.value) for each in execution.typed_search_attributes if each.key.name == "PodUID"), "")
