"""Orders to the workflows of a cluster's pods: as those of any source, and the containers that join a running pod.

A cluster adds ephemeral containers by a subresource (``kubectl debug``), and a pod's workflow by an update of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from syncpod.agent.kubernetes.statuses import NewestPod
from syncpod.agent.node_workflow.desired_pods import Orders
from syncpod.messages.node import ApplyPodWorkflow, DeletePodWorkflow, PodWorkflowResult


class JoiningOrders(Orders, Protocol):
    """Tells pods' workflows: `syncpod.temporal.pod_orders.PodOrders`. All methods raise what goes wrong."""

    async def join(self, namespace: str, name: str, container: Mapping[str, Any]) -> PodWorkflowResult:
        """Add an ephemeral container to a pod."""


class ClusterOrders:
    """Gives the orders of a cluster's pods."""

    def __init__(self, orders: JoiningOrders, known: Callable[[str, str], NewestPod | None]) -> None:
        """Give them by `orders`; `known` returns the newest state of the pod of a namespace and a name, if any."""
        self._orders, self._known = orders, known

    async def apply(self, request: ApplyPodWorkflow, *, require: Callable[[], Awaitable[None]]) -> PodWorkflowResult:
        """Have a pod run, with its ephemeral containers. Nothing is sent before `require` has returned.

        Raises as `orders`.
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
        # Each container has made a generation of its own, and the cluster's is the one that counts.
        return await self._orders.apply(bare, require=require)

    def _missing(self, metadata: Mapping[str, Any], ephemeral: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the ephemeral containers that a pod is not known to have."""
        known = self._known(metadata["namespace"], metadata["name"]) if ephemeral else None
        if known is None or known.uid != metadata["uid"]:
            return ephemeral
        there = {each["name"] for each in known.pod()["spec"].get("ephemeralContainers", ())}
        return [each for each in ephemeral if each["name"] not in there]

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        """Have a pod end. Raises as `orders`."""
        return await self._orders.end(request)
