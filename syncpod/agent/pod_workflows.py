"""Queries Temporal for the workflows of this node's pods. Cleanups are based on the answers.

A missing workflow alone does not prove that a pod is gone: the database may be empty, or another cluster's.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, Protocol

from temporalio.api.common.v1 import SearchAttributes
from temporalio.api.common.v1 import WorkflowExecution as ExecutionId
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest, ListWorkflowExecutionsRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.lifecycle.orphans import Standing
from syncpod.messages.identity import POD_WORKFLOW, PodRef, pod_workflow_id
from syncpod.temporal.run_history import pod_uid_of_run
from syncpod.temporal.workflow_starts import ENDED

_RPC: Final = timedelta(seconds=5)
_PAGE: Final = 1000
"""How many workflows the server returns in one page."""
_POD_UID: Final = "PodUID"


class OpenWorkflows(Protocol):
    """Finds pods' workflows. Implemented by :class:`PodWorkflows`. Both methods raise RPCError."""

    async def open(self) -> dict[str, str]:
        """Return the pod UIDs of the node's open workflows by workflow id, from visibility, which may lag."""

    async def standing(self, ref: PodRef) -> Standing:
        """Return the state of the workflow with this pod's name."""


class PodWorkflows:
    """Queries the server. Every method raises RPCError while the server does not answer."""

    def __init__(self, client: Client, task_queue: str) -> None:
        """Ask about the pods whose workflows run on this node's task queue."""
        self._client = client
        self._task_queue = task_queue

    async def open(self) -> dict[str, str]:
        """Return the UID of the pod of each open workflow of this node, by workflow id; "" if the UID is unknown.

        Read from visibility, which may lag: ask `standing` about a workflow that is missing here.
        """
        query = f"TaskQueue = '{self._task_queue}' AND WorkflowType = '{POD_WORKFLOW}' AND ExecutionStatus = 'Running'"
        found: dict[str, str] = {}
        page = b""
        while True:
            # The client's list_workflows would decode each workflow whole, which takes most of the CPU of this call.
            request = ListWorkflowExecutionsRequest(
                namespace=self._client.namespace, page_size=_PAGE, query=query, next_page_token=page
            )
            listed = await self._client.workflow_service.list_workflow_executions(request, retry=True, timeout=_RPC)
            found.update((each.execution.workflow_id, _uid(each.search_attributes)) for each in listed.executions)
            page = listed.next_page_token
            if not page:
                return found

    async def standing(self, ref: PodRef) -> Standing:
        """Return the state of the workflow with this pod's name, as the server has it now.

        A run that continues as a new pod, after a deletion, starts with the deleted pod's search attributes, and
        corrects them at its first report. So only its history decides whether an open workflow is another pod's.
        """
        workflow_id = pod_workflow_id(ref.namespace, ref.name)
        try:
            status, said, run_id = await self._described(workflow_id)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return "unknown"
            raise
        if status in ENDED:
            # If the last workflow of this name was another pod's, its end alone proves nothing about this pod's.
            is_its_own = said == ref.uid or await self._recorded(workflow_id, run_id) == ref.uid
            return "closed" if is_its_own or await self._has_had(workflow_id, ref.uid) else "unknown"
        # If the history does not name the workflow's pod either, the workflow may be this pod's.
        if said in ("", ref.uid) or await self._recorded(workflow_id, run_id) in ("", ref.uid):
            return "open"
        return "another"

    async def _described(self, workflow_id: str) -> tuple[int, str, str]:
        """Return a workflow's status (the SDK may not know it), the pod UID in its search attributes, and its run."""
        request = DescribeWorkflowExecutionRequest(
            namespace=self._client.namespace, execution=ExecutionId(workflow_id=workflow_id)
        )
        described = await self._client.workflow_service.describe_workflow_execution(request, retry=True, timeout=_RPC)
        info = described.workflow_execution_info
        return info.status, _uid(info.search_attributes), info.execution.run_id

    async def _has_had(self, workflow_id: str, uid: str) -> bool:
        """Say whether one of the workflow's closed runs was this pod's.

        A name has one open run at a time: if its newest run has ended, all earlier ones have ended too. A run that was
        terminated before it wrote its search attributes is identified by its history.
        """
        closed = f"WorkflowId = '{workflow_id}' AND ExecutionStatus != 'Running'"
        try:
            if (await self._client.count_workflows(f"{closed} AND PodUID = '{uid}'", rpc_timeout=_RPC)).count > 0:
                return True
            silent = self._client.list_workflows(f"{closed} AND PodUID IS NULL", limit=_SILENT_RUNS, rpc_timeout=_RPC)
            return any([await self._recorded(workflow_id, run.run_id) == uid async for run in silent])
        except RPCError as error:
            if error.status == RPCStatusCode.INVALID_ARGUMENT:  # a namespace without our search attributes
                return False
            raise

    async def _recorded(self, workflow_id: str, run_id: str) -> str:
        """Return the UID of a run's pod from its history; "" if the history does not contain it."""
        try:
            return await pod_uid_of_run(self._client, workflow_id, run_id, timeout=_RPC)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:  # its retention has passed meanwhile
                return ""
            raise


_SILENT_RUNS: Final = 20
"""The most closed runs without search attributes whose histories are read for one pod, newest first."""


def without_workflow(refs: Iterable[PodRef], listed: dict[str, str]) -> tuple[PodRef, ...]:
    """Return the pods that have no workflow among `listed`, which has pod UIDs by workflow id."""
    return tuple(ref for ref in refs if listed.get(pod_workflow_id(ref.namespace, ref.name), " ") not in ("", ref.uid))


def _uid(attributes: SearchAttributes) -> str:
    """Return the pod's UID; "" if the attributes lack it, or if it is not a string."""
    if _POD_UID not in attributes.indexed_fields:
        return ""
    with contextlib.suppress(ValueError):
        said = json.loads(attributes.indexed_fields[_POD_UID].data)
        return said if isinstance(said, str) else ""
    return ""
