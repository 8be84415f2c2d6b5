"""Reads from the Temporal server how a pod's workflow has ended, and whether it is open on a node."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.service import RPCError

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import session
from syncpod.messages.identity import node_task_queue, pod_workflow_id
from syncpod.temporal.run_history import how_ended
from syncpod.temporal.workflow_starts import ENDED

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.temporal.run_history import RunEnd

_RPC: Final = timedelta(seconds=5)


def end_of(namespace: str, name: str) -> RunEnd | None:
    """Return how the last workflow of a pod's name has ended; None if it is open, or the server does not answer."""

    async def work(client: Client) -> RunEnd | None:
        try:
            return await how_ended(client, pod_workflow_id(namespace, name), timeout=_RPC)
        except RPCError:
            return None

    try:
        return session.run(work)
    except Failure:
        return None


def is_open_on(node: str, namespace: str, name: str) -> bool:
    """Return whether a pod's workflow is open and belongs to this node; False if the server does not answer."""

    async def work(client: Client) -> bool:
        described = await client.get_workflow_handle(pod_workflow_id(namespace, name)).describe(rpc_timeout=_RPC)
        return described.status not in ENDED and described.task_queue == node_task_queue(node)

    try:
        return session.run(work)
    except (Failure, RPCError):
        return False
