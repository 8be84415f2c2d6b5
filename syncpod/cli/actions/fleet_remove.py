"""The work of ``syncpod fleet remove``: nodes leave the fleet for good."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_nodes import is_daemon
from syncpod.gate.authority import now

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.gate.authority import Fleet
    from syncpod.messages.fleet import FleetNodeView, PlacedPod


_LOOK_SECONDS = 0.5
_CUT_OFF_SECONDS = 1.0
"""Seconds within which the gate closes the connections of a revoked certificate. Until then the node could rejoin."""
_HEARD = ("Ready", "NotReady")


@dataclass(frozen=True)
class How:
    """How nodes are removed."""

    force: bool
    patience: timedelta | None


async def remove_node(client: Client, authority: Fleet, name: str, how: How) -> None:
    """Remove one node. Each step may be repeated. Raises Failure."""
    node = await fleet.view(client, name)
    if node.removed:  # by an earlier command; the node's workflow is just ending
        _dismiss(authority, name)
        return
    node = await _cordoned(client, node, how)
    if node.placed:
        node = await _end_pods(client, node, how)
    if _dismiss(authority, name) if node.placed else revoke(authority, name):
        await asyncio.sleep(_CUT_OFF_SECONDS)
    await fleet.update(client, name, "remove")
    if node.presence in _HEARD:
        remark(f"run `syncpod leave` on node {name}: until then the node keeps trying to reach the fleet")


async def _cordoned(client: Client, node: FleetNodeView, how: How) -> FleetNodeView:
    """Cordon a node, and return its state after that.

    Without --force, raises Failure if the node is in use; a cordon made here is then undone.
    """
    if not how.force:
        _refuse(node)
    await fleet.update(client, node.name, "cordon")
    after = await fleet.view(client, node.name)
    if not how.force:
        try:
            _refuse(after)
        except Failure:
            if not node.unschedulable:
                await fleet.update(client, node.name, "uncordon")
            raise
    return after


def _refuse(node: FleetNodeView) -> None:
    """Raise Failure if a node is still in use."""
    reasons = []
    if movable := [each for each in node.placed if not is_daemon(each)]:
        reasons.append(f"it has pods (`syncpod fleet drain {node.name}` moves them elsewhere): {_names(movable)}")
    if node.presence in _HEARD:
        reasons.append("it can be reached: run `syncpod leave` on the node, and wait until it is Unknown")
    if reasons:
        raise Failure("\n".join([f'unable to remove node "{node.name}" (use --force to override):', *reasons]))


async def _end_pods(client: Client, node: FleetNodeView, how: How) -> FleetNodeView:
    """Order the node to end its pods, and wait until they have ended or it is out of reach; return its state then.

    Raises Failure on a timeout.
    """
    daemons = [each for each in node.placed if is_daemon(each)]
    if daemons:
        say(f"ending with the node, as pods of DaemonSets: {_names(daemons)}")
    if replaced := [each for each in node.placed if each.owner and each not in daemons]:
        say(f"replaced elsewhere by their workloads: {_names(replaced)}")
    if bare := [each for each in node.placed if not each.owner]:
        warn(f"deleting Pods that declare no controller: {_names(bare)}")
    keys = [{"namespace": each.namespace, "name": each.name} for each in node.placed]
    change = {"pods": keys, "reason": f"{node.name} is removed from the fleet"}
    await fleet.update(client, node.name, "withdraw", change)
    loop = asyncio.get_running_loop()
    end = loop.time() + how.patience.total_seconds() if how.patience else None
    while node.presence in _HEARD and node.placed:
        if end is not None and loop.time() > end:
            raise Failure(
                f"timed out waiting for {_names(node.placed)} to end on {node.name}, which stays in the fleet, cordoned"
            )
        await asyncio.sleep(_LOOK_SECONDS)
        node = await fleet.view(client, node.name)
    if node.presence in _HEARD:
        return node
    if replaced:
        warn(
            f"node {node.name} cannot be reached: if it is running, its pods run there beside their replacements until "
            "it is back and ends them; a replacement may have to wait for a lock or a volume that its pod holds"
        )
    elif node.placed:
        warn(
            f"node {node.name} cannot be reached: if it is running, its pods run there until it is back and ends them, "
            "or until a user ends them there with `syncpod delete pod`"
        )
    return node


def revoke(authority: Fleet, name: str) -> list[str]:
    """Revoke the certificates of a node; return the serials of those that were valid."""
    revoked = authority.revoke(name, now())
    for serial in revoked:
        say(f"certificate/{serial} of node/{name} revoked")
    return revoked


def _dismiss(authority: Fleet, name: str) -> list[str]:
    """Mark the certificates of a node that is away as dismissed, and return their serials.

    With them, the node can only receive the news of its removal when it is back.
    """
    dismissed = authority.dismiss(name)
    for serial in dismissed:
        say(f"certificate/{serial} of node/{name} now only lets the node learn of its removal when it is back")
    return dismissed


def _names(pods: Iterable[PlacedPod]) -> str:
    return ", ".join(sorted(f"{each.namespace}/{each.name}" for each in pods))
