"""Finds out from a node whether it would run a pod that does not exist yet."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from temporalio.client import ActivityFailureError, Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from syncpod.cli.console import waiting
from syncpod.cli.failure import BadInput
from syncpod.cli.temporal.liveness import absence
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.unserved import never_served
from syncpod.cli.temporal.updates import BUSY_PATIENCE_SECONDS, PATIENCE_SECONDS, answer_in_time
from syncpod.messages.identity import node_task_queue
from syncpod.messages.queries import FORESEE_ADMISSION, ComesBefore
from syncpod.node.fit import demand_of
from syncpod.pod import Pod, pod_to_wire
from syncpod.pod.limits import is_of_pod, limits_of
from syncpod.translation.refused_limits import names_a_limit

_RPC: Final = timedelta(seconds=10)


class NodeUnanswered(Exception):
    """A node has not answered whether it would run a pod; the text says why."""


class Foresight:
    """Queries nodes about the pods of some manifests, one after another; each pod counts for the pods after it."""

    def __init__(self, client: Client, patience: float = BUSY_PATIENCE_SECONDS, served: Collection[str] = ()) -> None:
        """Wait at most `patience` seconds for each answer of a busy node, and less for one that is away.

        `served` are nodes that a worker is known to have served; for other nodes, the server is queried.
        """
        self._client, self._patience, self.served = client, patience, set(served)
        self._before: dict[str, list[ComesBefore]] = {}

    async def reasons(self, pod: Pod, node: str) -> list[str]:
        """Return why a node would not run a pod beside the earlier ones, a sentence for each reason; [] if it would.

        The pod counts from now on, unless the node would not run it. Raises NodeUnanswered.
        """
        before = self._before.setdefault(node, [])
        found: list[str] = []
        try:
            if node not in self.served and await never_served(self._client, (node,)):
                raise NodeUnanswered(f"no worker has ever polled for node {node}")
            found = await _foreseen(self._client, pod, node, before, self._patience)
        finally:
            if not found:
                demand = demand_of(pod)
                before.append(ComesBefore(amounts=dict(demand.amounts), ports=demand.ports))
        return found


async def refuse_unenforced(client: Client, pods: Sequence[Pod], node: str, served: Collection[str] = ()) -> None:
    """Raise BadInput if a pod is new and its node cannot enforce its limits, a line for each limit of each pod.

    A pod's node is `node` unless it names one. `served` are nodes that a worker is known to have served. A node that
    does not answer refuses nothing here: it rejects the pod later. A node that enforces the limits of one pod, new or
    existing, is not queried about the same limits of another pod.
    """
    foresight = Foresight(client, PATIENCE_SECONDS, served)
    enforces: set[tuple[str, frozenset[tuple[bool, str]]]] = set()  # one query for each node and set of limits
    refused: list[str] = []
    for pod in pods:
        there, limits = pod.spec.node_name or node, limits_of(pod)
        question = (there, frozenset((is_of_pod(path), name) for path, name in limits))
        if not limits or question in enforces:
            continue
        known = await TemporalPods(client).read(pod.metadata.namespace, pod.metadata.name, at_once=True)
        if known is not None:
            if known.current and known.pod.status.phase != "Failed" and limits_of(known.pod) == limits:
                enforces.add(question)
            continue
        try:
            reasons = [each for each in await foresight.reasons(pod, there) if names_a_limit(each)]
        except NodeUnanswered:
            reasons = []
        if not reasons:
            enforces.add(question)
        refused += [f"pod {pod.metadata.name}: {each}" for each in reasons]
    if refused:
        raise BadInput("\n".join(refused))


async def _foreseen(client: Client, pod: Pod, node: str, before: list[ComesBefore], patience: float) -> list[str]:
    """Return a node's answer, by a standalone activity, which leaves nothing but the server's record of it.

    Raises NodeUnanswered.
    """
    asking = client.execute_activity(
        FORESEE_ADMISSION,
        args=[pod_to_wire(pod), list(before)],
        id=f"foresee/{pod.metadata.namespace}/{pod.metadata.name}/{uuid.uuid4().hex}",
        task_queue=node_task_queue(node),
        result_type=list,
        schedule_to_close_timeout=timedelta(seconds=BUSY_PATIENCE_SECONDS),
        retry_policy=RetryPolicy(maximum_attempts=1),
        rpc_timeout=_RPC,
    )
    name = pod.metadata.name
    late = f"Note: node {node} has not answered yet about {name}; waiting up to half a minute"
    try:
        with waiting(late):
            found: list[str] | None = await answer_in_time(client, node, asking, patience)
        if found is None:
            raise NodeUnanswered(await absence(client, (node,)))
    except ActivityFailureError as error:
        if isinstance(error.cause, ApplicationError):
            raise NodeUnanswered(f"node {node} cannot check the pod: {error.cause.message}") from None
        raise NodeUnanswered(f"node {node} has not answered in time") from None
    except RPCError as error:
        raise NodeUnanswered(f"the server refuses the request to node {node}: {error.message}") from None
    return found
