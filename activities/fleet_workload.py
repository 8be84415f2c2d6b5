"""A workload's requests to its fleet: survey the nodes, place pods on them, and withdraw pods from them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from temporalio import activity
from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.workload_pods import revision_in
from syncpod.messages.fleet import (
    FLEET_NODE_MEMO,
    FLEET_NODE_WORKFLOW,
    FleetNodeSummary,
    FleetNodeView,
    Intent,
    PodsChanged,
    fleet_node_id,
)
from syncpod.messages.fleet_offers import offer_of
from syncpod.messages.workload import (
    PLACE_PODS,
    SURVEY_NODES,
    WITHDRAW_PODS,
    OwnPods,
    PlacePods,
    PodsPlaced,
    PodsWithdrawn,
    Survey,
    Surveyed,
    WithdrawPods,
)
from syncpod.pod import Pod, readmit

_AT_ONCE: Final = 16
"""The most nodes that are asked at the same time."""
_NODES: Final = f"WorkflowType = '{FLEET_NODE_WORKFLOW}' AND ExecutionStatus = 'Running'"


def fleet_steps(client: Client) -> list[Callable[..., Any]]:
    """Return the activities for a fleet's workloads, to register with the fleet's worker."""

    async def survey_nodes(asked: Survey) -> Surveyed:
        wanted = [readmit(document).pod for document in asked.pods]
        few = asyncio.Semaphore(_AT_ONCE)

        async def look_at(run: WorkflowExecution) -> NodeOffer | None:
            async with few:
                return await _offer(client, run, wanted, asked.owner)

        found = [look_at(run) async for run in client.list_workflows(_NODES)]
        offers = [offer for offer in await asyncio.gather(*found) if offer is not None]
        offers.sort(key=lambda offer: offer.name)
        own = [await _own(client, offer, asked.owner) for offer in offers if _has(offer, asked.owner)]
        return Surveyed(nodes=tuple(offers), own=tuple(own))

    async def place_pods(asked: PlacePods) -> PodsPlaced:
        body = {"owner": asked.owner, "pods": list(asked.pods), "adopted": asked.adopted}
        try:
            await client.get_workflow_handle(fleet_node_id(asked.node)).execute_update("place", body)
        except WorkflowUpdateFailedError as refused:
            return PodsPlaced(refused=str(refused.cause))
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return PodsPlaced(refused=f"node {asked.node} is not in the fleet")
        return PodsPlaced()

    async def withdraw_pods(asked: WithdrawPods) -> PodsWithdrawn:
        handle = client.get_workflow_handle(fleet_node_id(asked.node))
        pods = [key.model_dump(mode="json", by_alias=True) for key in asked.pods]
        try:
            await handle.execute_update("withdraw", {"pods": pods, "reason": asked.reason})
            view = FleetNodeView.model_validate(await handle.query("fleet_node"))
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return PodsWithdrawn()
        there = {(each.namespace, each.name) for each in view.placed}
        return PodsWithdrawn(ending=tuple(key for key in asked.pods if (key.namespace, key.name) in there))

    named = ((SURVEY_NODES, survey_nodes), (PLACE_PODS, place_pods), (WITHDRAW_PODS, withdraw_pods))
    return [activity.defn(name=name)(step) for name, step in named]


async def _offer(client: Client, run: WorkflowExecution, wanted: list[Pod], owner: str) -> NodeOffer | None:
    """Return a node's offer, from its memo and its list of pods; None if the node has not reported yet."""
    try:
        node = FleetNodeSummary.model_validate(await run.memo_value(FLEET_NODE_MEMO, None))
        said = await client.get_workflow_handle(run.id, run_id=run.run_id).query("intent")
        return offer_of(node, Intent.model_validate(said).pods, wanted, owner)
    except (ValueError, RPCError, WorkflowQueryFailedError):
        return None  # it has just left the fleet, or is beginning a new run: the next survey will find it


def _has(offer: NodeOffer, owner: str) -> bool:
    return any(there.owner == owner for there in offer.pods)


async def _own(client: Client, offer: NodeOffer, owner: str) -> OwnPods:
    """Return the pods of a workload that a node's workflow knows, including those that are ending."""
    handle = client.get_workflow_handle(fleet_node_id(offer.name))
    view = FleetNodeView.model_validate(await handle.query("fleet_node"))
    return OwnPods(
        news=PodsChanged(
            node=offer.name,
            presence=view.presence,
            draining=view.draining,
            pods=tuple(each for each in view.placed if each.owner == owner),
        ),
        revisions={there.name: revision_in(there.labels) for there in offer.pods if there.owner == owner},
    )
