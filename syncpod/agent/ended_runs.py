"""Caches which runs of workflows have ended. A run that is not in the cache is looked up at the server.

A query is refused while its run has signals that no workflow task has processed, since the next task will process them.
But a run that has ended has no next task. A reset ends a run without a task, and only the server has a record of the
reset.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError

from syncpod.agent.background import cancel_all
from syncpod.temporal.workflow_starts import ENDED

log = logging.getLogger(__name__)

_RPC: Final = timedelta(seconds=5)
_AT_MOST: Final = 1000
"""The most ended runs in the cache. The server is asked again about a run that was dropped."""


class EndedRuns:
    """Asks the server which runs have ended. Belongs to the agent's event loop, except `has_ended`."""

    def __init__(self, client: Client) -> None:
        """Query the server with `client`."""
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._ended: dict[str, None] = {}
        """Ids of ended runs, in the order in which the server reported them."""
        self._asking: dict[str, asyncio.Task[None]] = {}

    def has_ended(self, workflow_id: str, run_id: str) -> bool:
        """Return True if this run is known to have ended. Otherwise return False at once, and ask the server.

        A later call then has the answer. May be called from any thread.
        """
        if run_id in self._ended:
            return True
        self._loop.call_soon_threadsafe(self._ask, workflow_id, run_id)
        return False

    async def close(self) -> None:
        """Cancel the calls to the server."""
        await cancel_all(self._asking.values())

    def _ask(self, workflow_id: str, run_id: str) -> None:
        if run_id not in self._asking:
            asking = asyncio.create_task(self._look(workflow_id, run_id), name=f"whether {run_id} has ended")
            self._asking[run_id] = asking
            asking.add_done_callback(lambda _: self._asking.pop(run_id, None))

    async def _look(self, workflow_id: str, run_id: str) -> None:
        asked = DescribeWorkflowExecutionRequest(
            namespace=self._client.namespace, execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id)
        )
        try:
            described = await self._client.workflow_service.describe_workflow_execution(asked, timeout=_RPC)
        except RPCError as error:
            log.info("the server does not say whether run %s of %s has ended: %s", run_id, workflow_id, error)
            return
        if described.workflow_execution_info.status in ENDED:
            self._ended[run_id] = None
            if len(self._ended) > _AT_MOST:
                del self._ended[next(iter(self._ended))]
