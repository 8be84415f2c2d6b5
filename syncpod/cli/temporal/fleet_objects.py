"""Applies, lists and deletes a fleet's ConfigMaps and Secrets, sealed so that the fleet's server cannot read them."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.temporal import fleet_answers
from syncpod.cli.temporal.fleet_memos import readable, running
from syncpod.cli.temporal.session import address_of, refused
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.messages.fleet_objects import (
    FLEET_OBJECT_MEMO,
    FLEET_OBJECT_WORKFLOW,
    FleetObjectRef,
    FleetObjectView,
    PutObject,
    SealedObject,
    object_id,
)
from syncpod.objects import values
from syncpod.pod import ConfigMap, Secret
from syncpod.pod.wire import to_wire

_RPC: Final = timedelta(seconds=10)


async def apply(client: Client, sealing: ObjectSealing, given: ConfigMap | Secret) -> str:
    """Put an object into the fleet; return kubectl's word for the change, such as `created`. Raises Failure."""
    put = _sealed(sealing, given)
    body, workflow_id = put.model_dump(mode="json", by_alias=True), object_id(put.kind, put.namespace, put.name)
    try:
        answer = await fleet_answers.update_with_start(
            client, FLEET_OBJECT_WORKFLOW, workflow_id, "put", body, summary=f"{put.kind} {put.name}"
        )
    except RPCError as error:
        raise refused(error, address_of(client)) from None
    return str(answer["change"])


async def forecast(client: Client, sealing: ObjectSealing, given: ConfigMap | Secret) -> str:
    """Return the word that `apply` would return, without applying anything. Raises Failure."""
    put = _sealed(sealing, given)
    kept = await _query(client, put, "sealed")
    if kept is None:
        return "created"
    return "unchanged" if SealedObject.model_validate(kept).version == put.version else "configured"


async def delete(client: Client, kind: str, namespace: str, name: str) -> bool:
    """Delete an object, on the nodes too; return False if there is none. Raises Failure."""
    return await fleet_answers.delete(client, object_id(kind, namespace, name))


async def is_deleting(client: Client, kind: str, namespace: str, name: str) -> bool:
    """Return whether an object is still being deleted; False if it is gone, or was applied again. Raises Failure."""
    return bool(await _query(client, FleetObjectRef(kind=kind, namespace=namespace, name=name), "is_deleting"))


async def views(client: Client, kind: str, namespace: str | None) -> list[FleetObjectView]:
    """Return the objects of a kind as lists show them, sorted by namespace and name; `namespace` None = all.

    A note names each one whose memo cannot be read.
    """
    told = readable(await running(client, FLEET_OBJECT_WORKFLOW, FLEET_OBJECT_MEMO, FleetObjectView))
    chosen = [each for each in told if each.kind == kind and namespace in (None, each.namespace)]
    return sorted(chosen, key=lambda each: (each.namespace, each.name))


async def _query(client: Client, ref: FleetObjectRef, name: str) -> Any:
    """Query an object, and return its answer; None if there is no such object. Raises Failure."""
    handle = client.get_workflow_handle(object_id(ref.kind, ref.namespace, ref.name))
    try:
        described = await handle.describe(rpc_timeout=_RPC)
        return await fleet_answers.query(client, handle, name) if described.close_time is None else None
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise refused(error, address_of(client)) from None


def _sealed(sealing: ObjectSealing, given: ConfigMap | Secret) -> PutObject:
    """Seal an admitted object for the fleet."""
    ref = FleetObjectRef(kind=given.kind, namespace=given.metadata.namespace or "default", name=given.metadata.name)
    content = json.dumps(to_wire(given), sort_keys=True, ensure_ascii=False).encode()
    metadata, data = sealing.keep(ref.key, content)
    return PutObject(
        **ref.model_dump(),
        version=sealing.version(content),
        metadata=metadata,
        sealed=base64.b64encode(data).decode(),
        type=(given.type or "Opaque") if isinstance(given, Secret) else "",
        keys=len(values(given)),
    )
