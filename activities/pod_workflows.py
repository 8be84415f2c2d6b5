"""The steps of a node's workflow: ``apply_pod`` and ``delete_pod``, and each for several pods at once.

They send the orders of the node's lists to pods' workflows (:mod:`syncpod.temporal.pod_orders`). Unlike other steps,
they do not touch the runtime. If an order fails, its step fails, and Temporal retries the step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from temporalio import activity
from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from syncpod.messages.node import (
    ApplyPodWorkflow,
    ApplyPodWorkflows,
    DeletePodWorkflow,
    DeletePodWorkflows,
    NodeStepName,
    PodWorkflowResult,
    PodWorkflowResults,
)
from syncpod.temporal.pod_orders import PodOrders

_TOGETHER_SECONDS: Final = 5.0
"""Timeout of each order when one step sends several: the step returns only once all of them are answered."""


class PodWorkflowSteps:
    """The steps of one node's workflow, as activities."""

    def __init__(self, orders: PodOrders) -> None:
        """Send the node's orders through `orders`."""
        self._orders = orders

    @activity.defn(name=NodeStepName.APPLY_POD.value)
    async def apply_pod(self, request: ApplyPodWorkflow) -> PodWorkflowResult:
        """Send a pod to its workflow (`PodOrders.apply`). Raises a retryable ApplicationError if there is no answer."""
        return await self._orders.apply(request)

    @activity.defn(name=NodeStepName.APPLY_PODS.value)
    async def apply_pods(self, request: ApplyPodWorkflows) -> PodWorkflowResults:
        """Send several pods to their workflows, concurrently, as `apply_pod` does with each.

        One step for many pods spares the server two commits for each of them. An order that fails or takes long does
        not fail the others: its result is None, and the node's workflow then sends it in a step of its own.
        """
        results = await asyncio.gather(
            *(_or_none(_name_in(each), self._orders.apply(each, _TOGETHER_SECONDS)) for each in request.pods)
        )
        return PodWorkflowResults(results=tuple(results))

    @activity.defn(name=NodeStepName.DELETE_POD.value)
    async def delete_pod(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        """Have a pod's workflow end the pod (`PodOrders.end`). Raises a retryable ApplicationError if it is silent."""
        return await self._orders.end(request)

    @activity.defn(name=NodeStepName.DELETE_PODS.value)
    async def delete_pods(self, request: DeletePodWorkflows) -> PodWorkflowResults:
        """Order the workflows of several pods to end their pods, concurrently, as `delete_pod` does with each.

        One step for many pods spares the server two commits for each of them. An order that fails or takes long does
        not fail the others: its result is None, and the node's workflow then sends it in a step of its own.
        """
        results = await asyncio.gather(
            *(
                _or_none(f"{each.namespace}/{each.name}", self._orders.end(each, _TOGETHER_SECONDS))
                for each in request.pods
            )
        )
        return PodWorkflowResults(results=tuple(results))


async def _or_none(pod: str, telling: Awaitable[PodWorkflowResult]) -> PodWorkflowResult | None:
    """Return the answer of one pod's workflow; None after any failure, which is logged."""
    try:
        return await telling
    except (ApplicationError, RPCError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        activity.logger.warning("%s gets its order alone: %s", pod, error)
    except Exception as error:  # noqa: BLE001  # the step for this pod alone reports it
        activity.logger.warning("%s gets its order alone: %s", pod, type(error).__name__)  # its text may have the spec
    return None


def _name_in(request: ApplyPodWorkflow) -> str:
    """Return the name of the pod in a document that may be invalid."""
    metadata = request.pod.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    return f"{known.get('namespace')}/{known.get('name')}"
