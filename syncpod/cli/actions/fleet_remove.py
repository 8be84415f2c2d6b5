"""Removes nodes from a fleet for good: ends their pods, if that is forced, and revokes their certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import Failure
from syncpod.cli.machine.fleet_home import issued_by, open_here
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_nodes import is_daemon
from syncpod.gate.authority import now

if TYPE_CHECKING:
    from datetime import timedelta

    from temporalio.client import Client

    from syncpod.gate.authority import Fleet
    from syncpod.messages.fleet import FleetNodeView, PlacedPod

_LOOK_SECONDS = 0.5
_CUT_OFF_SECONDS = 1.0
"""Seconds within which the gate closes the connections of a revoked certificate. Until then the node could rejoin."""
_IN_CONTACT = ("Ready", "NotReady")


def remove_nodes(names: Sequence[str], patience: timedelta | None, state_dir: str, *, force: bool) -> None:
    """Remove nodes one after the other, with `force` also those that are in use. May be repeated.

    `patience` is how long to wait for a node's pods to end; None = as long as it takes. Raises BadInput, and Failure
    before any is removed if one of them is not in the fleet, and for the first that cannot be removed.
    """
    authority = open_here(state_dir)

    async def work(client: Client) -> None:
        there = {each.name for each in await fleet.summaries(client)}
        known = there | {each.node for each in issued_by(authority) if not each.revoked}
        if missing := [name for name in names if name not in known]:
            raise Failure("\n".join(f'nodes "{name}" not found in the fleet' for name in missing))
        for name in names:
            if name in there:
                await remove_node(client, authority, name, patience, force=force)
            else:
                _revoke(authority, name)  # it was invited, and has never joined
            say(f"node/{name} removed")

    fleet.run(work, state_dir=state_dir)


async def remove_node(
    client: Client, authority: Fleet, name: str, patience: timedelta | None = None, *, force: bool
) -> None:
    """Remove one node. Each step may be repeated. Raises Failure."""
    node = await fleet.view(client, name)
    if node.removed:  # by an earlier command; the node's workflow is just ending
        _dismiss(authority, name)
        return
    node = await _cordoned(client, node, force=force)
    if node.placed:
        node = await _end_pods(client, node, patience)
    if _dismiss(authority, name) if node.placed else _revoke(authority, name):
        await asyncio.sleep(_CUT_OFF_SECONDS)
    await fleet.update(client, name, "remove")
    if node.presence in _IN_CONTACT:
        remark(f"run `syncpod leave` on node {name}: until then the node keeps trying to reach the fleet")


async def _cordoned(client: Client, node: FleetNodeView, *, force: bool) -> FleetNodeView:
    """Cordon a node, and return its state after that.

    Without `force`, raises Failure if the node is in use; a cordon made here is then undone.
    """
    if not force:
        _refuse(node)
    await fleet.update(client, node.name, "cordon")
    after = await fleet.view(client, node.name)
    if not force:
        try:
            _refuse(after)
        except Failure:
            if "fleet" not in node.cordons:
                await fleet.update(client, node.name, "uncordon")
            raise
    return after


def _refuse(node: FleetNodeView) -> None:
    """Raise Failure if a node is still in use."""
    reasons = []
    if movable := [each for each in node.placed if not is_daemon(each)]:
        reasons.append(f"it has pods (`syncpod fleet drain {node.name}` moves them elsewhere): {_names(movable)}")
    if node.presence in _IN_CONTACT:
        reasons.append("it can be reached: run `syncpod leave` on the node, and wait until it is Unknown")
    if reasons:
        raise Failure("\n".join([f'unable to remove node "{node.name}" (use --force to override):', *reasons]))


async def _end_pods(client: Client, node: FleetNodeView, patience: timedelta | None) -> FleetNodeView:
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
    end = loop.time() + patience.total_seconds() if patience else None
    while node.presence in _IN_CONTACT and node.placed:
        if end is not None and loop.time() > end:
            raise Failure(
                f"timed out waiting for {_names(node.placed)} to end on {node.name}, which stays in the fleet, cordoned"
            )
        await asyncio.sleep(_LOOK_SECONDS)
        node = await fleet.view(client, node.name)
    if node.presence in _IN_CONTACT:
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


def _revoke(authority: Fleet, name: str) -> list[str]:
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
