"""Finds nodes that no worker has ever served; ends by force workflows of pods that never ran or whose node is away.

A node's first worker starts the node's workflow, which never ends. So a name that has neither a workflow nor a poller
never was a node: perhaps it is a typing error.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.fetched import FetchedPod
from syncpod.cli.temporal.liveness import lives
from syncpod.cli.temporal.pods import handle_of
from syncpod.messages.identity import node_task_queue
from syncpod.messages.node import node_workflow_id

_RPC: Final = timedelta(seconds=5)


async def never_served(client: Client, nodes: Iterable[str]) -> list[str]:
    """Return the nodes that no worker has ever served, in order of name; none if the server does not answer."""
    return [node for node in sorted(set(nodes)) if node and not await _was_served(client, node)]


async def _was_served(client: Client, node: str) -> bool:
    request = DescribeTaskQueueRequest(namespace=client.namespace)
    request.task_queue.name = node_task_queue(node)
    try:
        await client.get_workflow_handle(node_workflow_id(node)).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            return True
    else:
        return True
    try:
        queue = await client.workflow_service.describe_task_queue(request, retry=True, timeout=_RPC)
    except RPCError:
        return True
    return bool(queue.pollers)


async def end_if_never_run(client: Client, fetched: FetchedPod) -> bool:
    """End the workflow of a pod that has never run; return False for any other pod.

    Once the workflow's first task has been started, its worker may have acted on the pod: from then on, only the pod's
    node can end the pod.
    """
    handle = handle_of(client, *fetched.key)
    try:
        described = await handle.describe(rpc_timeout=_RPC)
        info = described.raw_description.workflow_execution_info
        if info.first_run_id not in ("", described.run_id):
            return False
        run = client.get_workflow_handle(handle.id, run_id=described.run_id)
        async for event in run.fetch_history_events(rpc_timeout=_RPC):
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
                return False
        await run.terminate(reason="deleted by force; no worker has ever run it", rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return True
        raise
    return True


async def end_without_node(client: Client, fetched: FetchedPod) -> bool:
    """End the workflow of a pod whose node is away, so that its name is free; return whether the node is away.

    The pod's processes there keep running. A worker that comes back finds the workflow ended, and kills the pod
    (`syncpod.lifecycle.orphans`), as a kubelet does with a pod that is gone from the API. But a worker that requires
    signed commands does so only if its own records have the pod's tombstone: anybody can end a workflow. Raises
    RPCError.
    """
    if await lives(client, fetched.pod.spec.node_name or ""):
        return False
    reason = "deleted by force while its node was away"
    try:
        await handle_of(client, *fetched.key).terminate(reason=reason, rpc_timeout=_RPC)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
    return True
