"""Sends orders to the workflows of a cluster's pods, including ephemeral containers for running pods.

The cluster adds ephemeral containers to a Pod's spec (``kubectl debug``). A pod's workflow receives each of them in a
separate update (`join`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from syncpod.agent.kubernetes.statuses import NewestPod
from syncpod.agent.sources.desired_pods import Orders
from syncpod.messages.node import ApplyPodWorkflow, DeletePodWorkflow, PodWorkflowResult


class JoiningOrders(Orders, Protocol):
    """Sends orders to pods' workflows. Implemented by `syncpod.temporal.pod_orders.PodOrders`.

    All methods raise the client's errors unchanged.
    """

    async def join(self, namespace: str, name: str, container: Mapping[str, Any]) -> PodWorkflowResult:
        """Add an ephemeral container to a pod."""


class ClusterOrders:
    """Sends the orders of a cluster's pods."""

    def __init__(self, orders: JoiningOrders, known: Callable[[str, str], NewestPod | None]) -> None:
        """Send orders with `orders`. `known` takes namespace and name, and returns the pod's newest state or None."""
        self._orders, self._known = orders, known

    async def apply(self, request: ApplyPodWorkflow, *, require: Callable[[], Awaitable[None]]) -> PodWorkflowResult:
        """Start or change a pod's workflow, then add missing ephemeral containers. Awaits `require` first.

        Sends nothing if `require` raises. Raises the errors of `orders`.
        """
        spec = dict(request.pod["spec"])
        ephemeral = spec.pop("ephemeralContainers", ())
        bare = request.model_copy(update={"pod": {**request.pod, "spec": spec}})
        result = await self._orders.apply(bare, require=require)
        missing = self._missing(request.pod["metadata"], ephemeral)
        if result.refused or not missing:
            return result
        name = request.pod["metadata"]["namespace"], request.pod["metadata"]["name"]
        for container in missing:
            joined = await self._orders.join(*name, container)
            if joined.refused:
                return joined
        # Each added container has raised the pod's generation; this order sets it to the cluster's again.
        return await self._orders.apply(bare, require=require)

    def _missing(self, metadata: Mapping[str, Any], ephemeral: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the ephemeral containers that the pod's newest state lacks."""
        known = self._known(metadata["namespace"], metadata["name"]) if ephemeral else None
        if known is None or known.uid != metadata["uid"]:
            return ephemeral
        there = {each["name"] for each in known.pod()["spec"].get("ephemeralContainers", ())}
        return [each for each in ephemeral if each["name"] not in there]

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        """End a pod. Raises the errors of `orders`."""
        return await self._orders.end(request)
