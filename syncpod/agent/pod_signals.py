"""The agent's signals to the pods' workflows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.command_table import Payload, SignalSpec
from syncpod.messages.identity import NodeFacts, PodRef, pod_workflow_id
from syncpod.messages.pod_commands import BACKOFF_QUEUE, DELETE_POD, EVICT, PLEG, PROBE, SET_CONDITION
from syncpod.messages.signals import BackoffExpired, DeletePod, Evict, Pleg, PlegEvent, ProbeChanged, SetCondition

_RPC = timedelta(seconds=5)
"""The SDK's client retries within this time; after that the caller must retry."""


class PodSignals:
    """Sends signals. Each method returns whether the workflow is open, and raises RPCError if that is not known."""

    def __init__(self, client: Client, facts: Callable[[], NodeFacts]) -> None:
        """Send with `client`; signals carry `facts` about the node."""
        self._client = client
        self._facts = facts

    async def pleg(self, ref: PodRef, events: tuple[PlegEvent, ...], status: ObservedPod) -> bool:
        """Send a pod the runtime's listing of it, and the changes as events."""
        signal = Pleg(events=events, status=status, node=self._facts())
        return await self._send(pod_workflow_id(ref.namespace, ref.name), PLEG, signal)

    async def backoff_over(self, workflow_id: str, subject: str, restart: int) -> bool:
        """Signal a pod that the back-off of a container, or of a step of the whole pod, is over.

        The signal is `backoff_queue`. The signal `backoff_expired` is for operators, who end a back-off early.
        """
        return await self._send(workflow_id, BACKOFF_QUEUE, BackoffExpired(container=subject, restart=restart))

    async def end_backoff(self, workflow_id: str, subject: str, appeared: str) -> bool:
        """Signal a pod that an object has appeared: a container, or a step of the whole pod, has waited for it."""
        signal = BackoffExpired(container=subject, appeared=appeared)
        return await self._send(workflow_id, BACKOFF_QUEUE, signal)

    async def probe(self, ref: PodRef, change: ProbeChanged) -> bool:
        """Signal a pod that the result of a probe of one of its containers has changed."""
        return await self._send(pod_workflow_id(ref.namespace, ref.name), PROBE, change)

    async def set_condition(self, ref: PodRef, condition: SetCondition) -> bool:
        """Send a pod a condition that another client has set in the Kubernetes cluster."""
        return await self._send(pod_workflow_id(ref.namespace, ref.name), SET_CONDITION, condition)

    async def evict(self, ref: PodRef, order: Evict) -> bool:
        """Order a pod to end because its node evicts it."""
        return await self._send(pod_workflow_id(ref.namespace, ref.name), EVICT, order)

    async def delete(self, ref: PodRef) -> bool:
        """Order a pod's workflow to end the pod without a grace period."""
        order = DeletePod(grace_period_seconds=0, uid=ref.uid)
        return await self._send(pod_workflow_id(ref.namespace, ref.name), DELETE_POD, order)

    async def _send(self, workflow_id: str, signal: SignalSpec[Payload], payload: Payload) -> bool:
        try:
            await self._client.get_workflow_handle(workflow_id).signal(signal.name, payload, rpc_timeout=_RPC)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False
            raise
        return True
