"""Temporal's knowledge of the pods on this node: the evidence for a cleanup.

A missing workflow alone proves nothing: the database may be empty, or another cluster's.
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
"""How many workflows the server lists at a time."""
_POD_UID: Final = "PodUID"


class OpenWorkflows(Protocol):
    """Answers which pods have workflows: :class:`PodWorkflows`. Both methods raise RPCError."""

    async def open(self) -> dict[str, str]:
        """Return the pod UIDs of the node's open workflows, by workflow id; from visibility, which may lag."""

    async def standing(self, ref: PodRef) -> Standing:
        """Return the state of the workflow with this pod's name."""


class PodWorkflows:
    """Asks the server. Every method raises RPCError while it does not answer."""

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
            # Not by the client's list_workflows, which decodes all of each workflow: that is most of a round's CPU.
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

        The run that follows a deleted pod starts with the search attributes of the pod before, and corrects them when
        it first reports its state. So a running workflow counts as another pod's only by its run's history.
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
        # A workflow whose history does not say which pod it is may be this pod's.
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
        """Say whether the server knows a closed run of that workflow as this pod's.

        A name has one workflow at a time: once its last one has ended, so have all before. A run that was terminated
        before it wrote its search attributes is known by its history.
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
        """Return the UID of the pod that a run is or was of, by its history; "" if it does not say."""
        try:
            return await pod_uid_of_run(self._client, workflow_id, run_id, timeout=_RPC)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:  # the server has forgotten it meanwhile
                return ""
            raise


_SILENT_RUNS: Final = 20
"""How many closed runs without search attributes are looked at for one pod, newest first."""


def without_workflow(refs: Iterable[PodRef], listed: dict[str, str]) -> tuple[PodRef, ...]:
    """Return the pods to which none of the listed workflows belongs."""
    return tuple(ref for ref in refs if listed.get(pod_workflow_id(ref.namespace, ref.name), " ") not in ("", ref.uid))


def _uid(attributes: SearchAttributes) -> str:
    """Return the pod's UID; "" if the attributes do not say it, or not as one text."""
    if _POD_UID not in attributes.indexed_fields:
        return ""
    with contextlib.suppress(ValueError):
        said = json.loads(attributes.indexed_fields[_POD_UID].data)
        return said if isinstance(said, str) else ""
    return ""
