"""Activities for a fleet's ConfigMaps and Secrets: seal them for nodes whose pods need them, and announce changes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.fleet_step import Steps, fleet_step
from syncpod.messages.fleet import FLEET_NODE_WORKFLOW, Intent, fleet_node_id
from syncpod.messages.fleet_objects import (
    ANNOUNCE_OBJECT,
    SEAL_OBJECTS,
    SEALED_LIMIT,
    FleetObjectRef,
    ObjectsSealed,
    SealedKey,
    SealedObject,
    SealObjects,
    object_id,
)
from syncpod.objects import ObjectRef, references
from syncpod.pod import PodInvalid, readmit

_NODES: Final = f"WorkflowType = '{FLEET_NODE_WORKFLOW}' AND ExecutionStatus = 'Running'"


class Sealing(Protocol):
    """Seals two things for a node: an object that the fleet keeps, and the fleet's own public key."""

    @property
    def current(self) -> str:
        """The id of the fleet's key in use."""
        ...

    def seal_key(self, node: str) -> tuple[dict[str, str], bytes]:
        """Return the metadata and the data of the fleet's current public key, sealed for a node. Raises OSError."""

    def give(self, key: str, node: str, metadata: Mapping[str, str], kept: bytes) -> tuple[dict[str, str], bytes]:
        """Return the metadata and the data of an object, sealed for a node. Raises ValueError if that is impossible."""


def object_steps(client: Client, sealing: Sealing) -> list[Callable[..., Any]]:
    """Return the activities for a fleet's objects, to register with the fleet's worker."""

    async def seal_objects(asked: SealObjects) -> ObjectsSealed:
        intent = Intent.model_validate(await client.get_workflow_handle(fleet_node_id(asked.node)).query("intent"))
        found, left_out, size = [], [], 0
        needed, claimed = _needed(intent, asked.unproven)
        for ref in needed:
            kept = await _kept(client, ref)
            if kept is None:
                continue
            given = await asyncio.to_thread(_given, sealing, asked.node, kept)
            if size + len(given.sealed) > SEALED_LIMIT:
                left_out.append(ref.key)
                continue
            size += len(given.sealed)
            found.append(given)
        found += [SealedObject(kind=ref.kind, namespace=ref.namespace, name=ref.name) for ref in claimed]
        referred = tuple(ref.key for ref in (*needed, *claimed))
        current = await asyncio.to_thread(lambda: sealing.current)
        sends_key = asked.trusted not in ("", current)
        return ObjectsSealed(
            objects=tuple(found),
            referred=referred,
            left_out=tuple(left_out),
            current=current,
            key=await asyncio.to_thread(_sealed_key, sealing, asked.node) if sends_key else None,
        )

    async def announce_object(changed: FleetObjectRef) -> None:
        body = changed.model_dump(mode="json", by_alias=True)
        async for run in client.list_workflows(_NODES):
            try:
                await client.get_workflow_handle(run.id).signal("object_changed", body)
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise

    named: Steps = (
        (SEAL_OBJECTS, seal_objects),
        (ANNOUNCE_OBJECT, announce_object),
    )
    return [fleet_step(name, step) for name, step in named]


def _needed(intent: Intent, unproven: Collection[str]) -> tuple[list[FleetObjectRef], list[FleetObjectRef]]:
    """Return the objects that a node's pods refer to, and those that only its `unproven` pods refer to.

    Only the node itself claims that the fleet gave it an unproven pod. It must not get a Secret by such a claim.
    """
    proven: set[ObjectRef] = set()
    claimed: set[ObjectRef] = set()
    for document in intent.pods:
        with contextlib.suppress(PodInvalid):
            pod = readmit(document).pod
            key = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
            (claimed if key in unproven else proven).update(each.ref for each in references(pod))
    return _refs(proven), _refs(claimed - proven)


def _refs(found: Iterable[ObjectRef]) -> list[FleetObjectRef]:
    return [FleetObjectRef(kind=each.kind, namespace=each.namespace, name=each.name) for each in sorted(found)]


async def _kept(client: Client, ref: FleetObjectRef) -> SealedObject | None:
    """Return an object as the fleet keeps it; None if there is no such object."""
    handle = client.get_workflow_handle(object_id(ref.kind, ref.namespace, ref.name))
    try:
        if (await handle.describe()).close_time is not None:
            return None
        said = await handle.query("sealed")
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return None
    return SealedObject.model_validate(said) if said else None


def _sealed_key(sealing: Sealing, node: str) -> SealedKey:
    metadata, data = sealing.seal_key(node)
    return SealedKey(metadata=metadata, sealed=base64.b64encode(data).decode())


def _given(sealing: Sealing, node: str, kept: SealedObject) -> SealedObject:
    metadata, data = sealing.give(kept.key, node, kept.metadata, base64.b64decode(kept.sealed))
    return kept.model_copy(update={"metadata": metadata, "sealed": base64.b64encode(data).decode()})
