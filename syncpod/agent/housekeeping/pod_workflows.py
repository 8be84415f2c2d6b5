"""What Temporal knows of the pods that this node has something of: the evidence for what may be tidied up.

An empty or foreign database is no evidence: that a workflow is not there says nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from temporalio.api.common.v1 import WorkflowExecution as ExecutionId
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import Client, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.common import TypedSearchAttributes
from temporalio.converter import decode_typed_search_attributes
from temporalio.service import RPCError, RPCStatusCode

from syncpod.lifecycle.orphans import Standing
from syncpod.messages import POD_WORKFLOW, PodRef, pod_workflow_id
from syncpod.temporal.pod_start import ENDED

_RPC: Final = timedelta(seconds=5)


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
        listed = self._client.list_workflows(query, rpc_timeout=_RPC)
        return {each.id: _uid(each.typed_search_attributes) async for each in listed}

    async def standing(self, ref: PodRef) -> Standing:
        """Say how it stands with the workflow of a pod's name, as the server has it now.

        The run that follows a deleted pod begins with the search attributes of the one before, and corrects them when
        it first shows its state. So that one which goes on is another pod's is believed only if it says so when asked.
        """
        workflow_id = pod_workflow_id(ref.namespace, ref.name)
        try:
            status, said = await self._described(workflow_id)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return "unknown"
            raise
        if status in ENDED:
            # That the last workflow of its name has ended, and was another pod's, says nothing of this one's.
            return "closed" if (said or await self._ask_which(workflow_id)) == ref.uid else "unknown"
        # One that does not say which pod it is may be this one.
        if said in ("", ref.uid) or await self._ask_which(workflow_id) in ("", ref.uid):
            return "open"
        return "another"

    async def _described(self, workflow_id: str) -> tuple[int, str]:
        """Return a workflow's status as the server has it, known to the SDK or not, and the pod that it said it is."""
        request = DescribeWorkflowExecutionRequest(
            namespace=self._client.namespace, execution=ExecutionId(workflow_id=workflow_id)
        )
        described = await self._client.workflow_service.describe_workflow_execution(request, retry=True, timeout=_RPC)
        info = described.workflow_execution_info
        return info.status, _uid(decode_typed_search_attributes(info.search_attributes))

    async def _ask_which(self, workflow_id: str) -> str:
        """Return the UID of the pod that a workflow is or was of, as it says itself; "" = it does not say."""
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            pod: dict[str, Any] = await handle.query("pod", result_type=dict, rpc_timeout=_RPC)
        except (WorkflowQueryFailedError, WorkflowQueryRejectedError, RPCError):
            return ""
        except ValueError:  # one that is paused answers nothing, with a status that the SDK does not know
            return ""
        return str(pod.get("metadata", {}).get("uid", ""))


def unaccounted(refs: Iterable[PodRef], listed: dict[str, str]) -> tuple[PodRef, ...]:
    """Return the pods that no listed workflow is of."""
    return tuple(ref for ref in refs if listed.get(pod_workflow_id(ref.namespace, ref.name), " ") not in ("", ref.uid))


def _uid(attributes: TypedSearchAttributes) -> str:
    return next((str(each.value) for each in attributes if each.key.name == "PodUID"), "")
