"""The node as its own workflow knows it: since when, whether all sources have reported, and the desired pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.lifecycle.orphans import Coverage
from syncpod.messages.node import NodeView, node_workflow_id

_RPC: Final = timedelta(seconds=5)


class NodeHistory:
    """Queries the node's workflow. Pods are killed because of its answers, so nothing is cached or assumed."""

    def __init__(self, client: Client, node: str, boot: int) -> None:
        """Ask about `node`; `boot` is the number of this worker's life."""
        self._client = client
        self._node = node
        self._boot = boot

    async def coverage(self) -> Coverage:
        """Return what it knows now; nothing if there is no such workflow, or its answer is not valid.

        Sources that were ready in an earlier life of the worker do not count. Raises RPCError while nobody answers.
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
