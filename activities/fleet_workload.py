"""Activities of a fleet's workloads: survey the nodes, place pods on them, withdraw pods, and announce room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.fleet_step import Steps, fleet_step
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.revisions import revision_in
from syncpod.fleet.workload_traits import is_per_node
from syncpod.messages.fleet import (
    FLEET_NODE_MEMO,
    FLEET_NODE_PREFIX,
    FLEET_NODE_WORKFLOW,
    FleetNodeSummary,
    FleetNodeView,
    Intent,
    PlacedPod,
    PodsChanged,
    fleet_node_id,
)
from syncpod.messages.fleet_offers import offer_of
from syncpod.messages.signed import OVERTAKEN
from syncpod.messages.workload import (
    ANNOUNCE_ROOM,
    PLACE_PODS,
    SURVEY_NODES,
    WITHDRAW_PODS,
    WORKLOAD_MEMO,
    WORKLOAD_WORKFLOW,
    HostedPods,
    PlacePods,
    PodsPlaced,
    PodsWithdrawn,
    Room,
    Survey,
    Surveyed,
    WithdrawPods,
    WorkloadSummary,
)
from syncpod.pod import Pod, readmit
from syncpod.temporal.signing import is_overtaken

_AT_ONCE: Final = 16
"""How many nodes' workflows are queried, or workloads signalled, at the same time."""
_QUERY: Final = timedelta(seconds=5)
"""Timeout of a query to a node's workflow; a stuck workflow never answers."""
_NODES: Final = f"WorkflowType = '{FLEET_NODE_WORKFLOW}' AND ExecutionStatus = 'Running'"
_WORKLOADS: Final = f"WorkflowType = '{WORKLOAD_WORKFLOW}' AND ExecutionStatus = 'Running'"


def fleet_steps(client: Client) -> list[Callable[..., Any]]:
    """Return the activities for a fleet's workloads, to register with the fleet's worker."""

    async def survey_nodes(asked: Survey) -> Surveyed:
        wanted = [readmit(document).pod for document in asked.pods]
        few = asyncio.Semaphore(_AT_ONCE)

        async def look_at(run: WorkflowExecution) -> _Found:
            async with few:
                return await _look_at(client, run, wanted, asked.owner)

        only = {fleet_node_id(name) for name in asked.nodes}
        runs = [run async for run in client.list_workflows(_NODES) if not only or run.id in only]
        return _surveyed(await asyncio.gather(*map(look_at, runs)))

    async def place_pods(asked: PlacePods) -> PodsPlaced:
        body = {"owner": asked.owner, "pods": list(asked.pods), "adopted": asked.adopted}
        try:
            await client.get_workflow_handle(fleet_node_id(asked.node)).execute_update("place", body)
        except WorkflowUpdateFailedError as refused:
            if is_overtaken(refused):
                # Retryable: the next try gets a new signature.
                raise ApplicationError(str(refused.cause), type=OVERTAKEN) from None
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

    async def announce_room(room: Room) -> None:
        await _announce_room(client, room)

    named: Steps = (
        (SURVEY_NODES, survey_nodes),
        (PLACE_PODS, place_pods),
        (WITHDRAW_PODS, withdraw_pods),
        (ANNOUNCE_ROOM, announce_room),
    )
    return [fleet_step(name, step) for name, step in named]


async def _announce_room(client: Client, room: Room) -> None:
    """Signal to each workload with pending pods, and to each DaemonSet, that a node may have room for pods."""
    few, body = asyncio.Semaphore(_AT_ONCE), room.model_dump(mode="json", by_alias=True)

    async def tell(run: WorkflowExecution) -> None:
        async with few:
            try:
                await client.get_workflow_handle(run.id).signal("room", body)
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise

    waiting = [run async for run in client.list_workflows(_WORKLOADS) if await _wants_room(run)]
    await asyncio.gather(*map(tell, waiting))


@dataclass(frozen=True)
class _Found:
    """The result of a survey of one node."""

    offer: NodeOffer | None = None
    own: HostedPods | None = None
    missed: str = ""
    """The node's name if its workflow did not return the states of the workload's pods; else ""."""
    unseen: str = ""
    """The node's name if it is in the fleet and has no offer; else ""."""
    unread: str = ""
    """The node's name if it has joined, but its list could not be read; else ""."""


def _surveyed(found: Sequence[_Found]) -> Surveyed:
    offers = [each.offer for each in found if each.offer is not None]
    own = [each.own for each in found if each.own is not None]
    return Surveyed(
        nodes=tuple(sorted(offers, key=lambda offer: offer.name)),
        own=tuple(sorted(own, key=lambda each: each.news.node)),
        missed=tuple(sorted(each.missed for each in found if each.missed)),
        unseen=tuple(sorted(each.unseen for each in found if each.unseen)),
        unread=tuple(sorted(each.unread for each in found if each.unread)),
    )


async def _wants_room(run: WorkflowExecution) -> bool:
    """Return whether a workload has pods that wait for a node, or needs a pod on each node."""
    try:
        workload = WorkloadSummary.model_validate(await run.memo_value(WORKLOAD_MEMO, None))
        return bool(workload.pending) or is_per_node(workload.kind)
    except (ValueError, KeyError, RuntimeError):
        return False  # the workflow has just begun and has no memo yet, or is forged


async def _look_at(client: Client, run: WorkflowExecution, wanted: Sequence[Pod], owner: str) -> _Found:
    """Return a node's offer, and the pods of workload `owner` that it has. A failure of one node is not raised."""
    try:
        node = FleetNodeSummary.model_validate(await run.memo_value(FLEET_NODE_MEMO, None))
    except (ValueError, KeyError, RuntimeError):
        # The workflow has just begun and has no memo yet, or is forged.
        return _Found(unseen=run.id.removeprefix(FLEET_NODE_PREFIX))
    unread = "" if node.presence == "Joining" else node.name
    handle = client.get_workflow_handle(run.id)  # it may be a later run than the listed one, or none
    try:
        said = await handle.query("intent", reject_condition=QueryRejectCondition.NOT_OPEN, rpc_timeout=_QUERY)
        offer = offer_of(node, Intent.model_validate(said).pods, wanted, owner)
    except ValueError:
        return _Found(unseen=node.name, unread=unread)
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError) as error:
        return _Found() if _has_left(error) else _Found(missed=node.name, unseen=node.name, unread=unread)
    if offer is None:
        return _Found(unseen=node.name)
    if not any(there.owner == owner for there in offer.pods):
        return _Found(offer)
    try:
        return _Found(offer, await _own(client, offer, owner))
    except (ValueError, RPCError, WorkflowQueryFailedError) as error:
        return _Found(offer) if _has_left(error) else _Found(offer, _without_answer(offer, owner), node.name)


def _has_left(error: Exception) -> bool:
    return isinstance(error, WorkflowQueryRejectedError) or (
        isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND
    )


async def _own(client: Client, offer: NodeOffer, owner: str) -> HostedPods:
    """Return a workload's pods as a node's workflow has recorded them, including those that are ending."""
    handle = client.get_workflow_handle(fleet_node_id(offer.name))
    view = FleetNodeView.model_validate(await handle.query("fleet_node", rpc_timeout=_QUERY))
    return HostedPods(
        news=PodsChanged(
            node=offer.name,
            presence=view.presence,
            draining=view.draining,
            pods=tuple(each.brief() for each in view.placed if each.owner == owner),
        ),
        revisions=_revisions(offer, owner),
    )


def _without_answer(offer: NodeOffer, owner: str) -> HostedPods:
    """Return a workload's pods in a node's list with unknown states, as for a node without contact."""
    own = [there for there in offer.pods if there.owner == owner]
    pods = tuple(PlacedPod(namespace=there.namespace, name=there.name, owner=owner) for there in own)
    return HostedPods(
        news=PodsChanged(node=offer.name, presence="Unknown", pods=pods), revisions=_revisions(offer, owner)
    )


def _revisions(offer: NodeOffer, owner: str) -> dict[str, str]:
    return {there.name: revision_in(there.labels) for there in offer.pods if there.owner == owner}
