"""Makes a fleet use another sealing key, and finds the nodes, objects and workflows that still need an earlier one."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.temporal import fleet_answers
from syncpod.cli.temporal.fleet import summaries
from syncpod.cli.temporal.key_uses import renew_workflows, workflows_with_key
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.messages.fleet import FLEET_NODE_WORKFLOW, FLEET_QUEUE, FleetNodeSummary
from syncpod.messages.fleet_objects import FLEET_OBJECT_WORKFLOW, PutObject, SealedObject
from syncpod.messages.sealing import receiver_ids

_RPC: Final = timedelta(seconds=10)
_PAUSE: Final = 0.5


@dataclass(frozen=True)
class Certified:
    """A node that the fleet's gate still admits."""

    node: str
    invited: datetime
    """When it was last invited."""


@dataclass(frozen=True)
class Needs:
    """The nodes, objects and workflows that still need a sealing key."""

    nodes: tuple[str, ...] = ()
    """Nodes that trust no other key yet."""
    objects: tuple[str, ...] = ()
    """Objects that are sealed for the key, such as ``Secret/default/keys``."""
    workflows: tuple[str, ...] = ()
    """Open workflows whose histories have answers that only this key opens."""
    until: datetime | None = None
    """When a node last began to trust another key in place of an earlier one; None = no node ever has."""


def nodes_without(
    known: Collection[FleetNodeSummary], certified: Collection[Certified], key: str, used: datetime
) -> list[str]:
    """Return the nodes that would reject a fleet without the key of this id, sorted.

    `used` is when the current key was first used: invitations made later name that key. A node that has never reported
    which key it trusts has the key of its invitation.
    """
    trusted = {each.name: each.fleet_key for each in known}
    return sorted(
        each.node
        for each in certified
        if trusted.get(each.node) == key or (not trusted.get(each.node) and each.invited < used)
    )


async def use_everywhere(client: Client, sealing: ObjectSealing) -> None:
    """Announce the key in use to all nodes, seal all objects for it, and make all workflows continue as new.

    May be repeated. Raises RPCError, Failure.
    """
    async for handle in _open(client, FLEET_NODE_WORKFLOW):
        try:
            await handle.signal("key_changed", rpc_timeout=_RPC)
        except RPCError as error:
            _require_gone(error)
    async for handle in _open(client, FLEET_OBJECT_WORKFLOW):
        await _seal_anew(client, sealing, handle)
    await renew_workflows(client, FLEET_QUEUE)


async def without_it(client: Client, key: str, seconds: float) -> list[str]:
    """Wait until all joined nodes trust the key of this id, at most `seconds`; return those that do not, sorted."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        found = [each.name for each in await summaries(client) if each.joined is not None and each.fleet_key != key]
        if not found or loop.time() > end:
            return found
        await asyncio.sleep(_PAUSE)


async def what_needs(client: Client, key: str, certified: Sequence[Certified], used: datetime) -> Needs:
    """Return the users of the sealing key of this id. Each event of each open history is read. Raises RPCError."""
    known = await summaries(client)
    changed = [each.fleet_key_since for each in known if each.fleet_key_since is not None]
    kept = [each async for each in _kept(client)]
    return Needs(
        nodes=tuple(nodes_without(known, certified, key, used)),
        objects=tuple(sorted(each.key for each in kept if key in receiver_ids(_bytes(each)))),
        workflows=tuple(await workflows_with_key(client, FLEET_QUEUE, key)),
        until=max(changed, default=None),
    )


async def _seal_anew(client: Client, sealing: ObjectSealing, handle: WorkflowHandle[Any, Any]) -> None:
    """Seal one object for the key in use, unless it is changed, or gone, at the same time."""
    try:
        kept = await _sealed(client, handle)
        if kept is None:
            return
        anew = await asyncio.to_thread(sealing.keep_anew, kept.key, kept.metadata, base64.b64decode(kept.sealed))
        if anew is None:
            return
        version, metadata, data = anew
        put = PutObject(
            **kept.model_dump(include={"kind", "namespace", "name"}),
            version=version,
            metadata=metadata,
            sealed=base64.b64encode(data).decode(),
            replaces=kept.version,
        )
        await fleet_answers.update(client, handle, "put", put.model_dump(mode="json", by_alias=True))
    except RPCError as error:
        _require_gone(error)


async def _kept(client: Client) -> AsyncIterator[SealedObject]:
    async for handle in _open(client, FLEET_OBJECT_WORKFLOW):
        try:
            if (kept := await _sealed(client, handle)) is not None:
                yield kept
        except RPCError as error:
            _require_gone(error)


async def _sealed(client: Client, handle: WorkflowHandle[Any, Any]) -> SealedObject | None:
    said = await fleet_answers.query(client, handle, "sealed")
    return SealedObject.model_validate(said) if said else None


async def _open(client: Client, kind: str) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    query = f"WorkflowType = '{kind}' AND ExecutionStatus = 'Running'"
    async for run in client.list_workflows(query, rpc_timeout=_RPC):
        yield client.get_workflow_handle(run.id)


def _bytes(kept: SealedObject) -> dict[str, bytes]:
    return {name: text.encode() for name, text in kept.metadata.items()}


def _require_gone(error: RPCError) -> None:
    """Raise an error unless it is NOT_FOUND: then the workflow has ended since it was listed."""
    if error.status != RPCStatusCode.NOT_FOUND:
        raise error
