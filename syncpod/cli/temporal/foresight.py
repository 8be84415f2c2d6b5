"""Asking a node whether it would run a pod that does not exist yet."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Final

from temporalio.client import ActivityFailureError, Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError

from syncpod.cli.temporal.unserved import never_served
from syncpod.messages.identity import node_task_queue
from syncpod.messages.queries import FORESEE_ADMISSION, ComesBefore
from syncpod.node.fit import demand_of
from syncpod.pod import Pod, pod_to_wire

_PATIENCE: Final = timedelta(seconds=5)


class Foresight:
    """Asks nodes about the pods of some manifests one after another; each counts where a later one is asked about."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._before: dict[str, list[ComesBefore]] = {}

    async def reasons(self, pod: Pod, node: str) -> list[str] | None:
        """Return why a node would not run a pod beside those before it; None if it does not say in time.

        A pod that it would run counts from now on.
        """
        before = self._before.setdefault(node, [])
        found = await _foreseen(self._client, pod, node, before)
        if not found:
            demand = demand_of(pod)
            before.append(ComesBefore(amounts=dict(demand.amounts), ports=demand.ports))
        return found


async def _foreseen(client: Client, pod: Pod, node: str, before: list[ComesBefore]) -> list[str] | None:
    """Return why a node would not run a pod, a sentence for each reason; None if it does not say in time.

    This runs an activity without a workflow. It leaves nothing but the server's record of that activity.
    """
    if await never_served(client, (node,)):
        return None
    try:
        found: list[str] = await client.execute_activity(
            FORESEE_ADMISSION,
            args=[pod_to_wire(pod), before],
            id=f"foresee/{pod.metadata.namespace}/{pod.metadata.name}/{uuid.uuid4().hex}",
            task_queue=node_task_queue(node),
            result_type=list,
            schedule_to_close_timeout=_PATIENCE,
            retry_policy=RetryPolicy(maximum_attempts=1),
            rpc_timeout=2 * _PATIENCE,
        )
    except (ActivityFailureError, RPCError):
        return None
    return found
