"""Queries the node's workflow: when it began, whether all sources have reported, and which pods are desired."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.lifecycle.orphans import Coverage
from syncpod.messages.node import NodeView, node_workflow_id

_RPC: Final = timedelta(seconds=5)


class NodeHistory:
    """Queries the node's workflow. Its answers decide whether pods are killed, so nothing is cached or assumed."""

    def __init__(self, client: Client, node: str, boot: int) -> None:
        """Query the workflow of `node`; `boot` is the number of this worker's life."""
        self._client = client
        self._node = node
        self._boot = boot

    async def coverage(self) -> Coverage:
        """Return the workflow's state now; an empty one if there is no such workflow, or its answer is invalid.

        Sources that were ready with an earlier worker do not count. Raises RPCError if the query is not answered.
        """
        handle = self._client.get_workflow_handle(node_workflow_id(self._node))
        try:
            answer = await handle.query("node", result_type=dict, rpc_timeout=_RPC)
            view = NodeView.model_validate(answer)
        except (WorkflowQueryFailedError, ValueError):
            return Coverage()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return Coverage()
            raise
        return Coverage(
            sources_ready=view.sources_ready and view.boot == self._boot,
            since=view.since,
            desired=frozenset(pod.uid for pod in view.desired if pod.uid and pod.state != "ending"),
        )
