"""Introduces a node to its fleet at its first poll: the node's workflow in the fleet is started if it does not run.

The start is signed and encrypted with the fleet's keys, as all commands to the fleet are. So every node with a
certificate belongs to the fleet. After a loss of the fleet's database, a node is in the fleet again when it polls.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from temporalio.api.common.v1 import Payload, Payloads, WorkflowType
from temporalio.api.enums.v1 import WorkflowIdConflictPolicy, WorkflowIdReusePolicy
from temporalio.api.sdk.v1 import UserMetadata
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest

from syncpod.gate.calls import POLL, SERVICE
from syncpod.messages.encryption import FLEET, NONCE_BYTES, encrypt
from syncpod.messages.fleet import FLEET_NODE_WORKFLOW, FLEET_QUEUE, fleet_node_id
from syncpod.messages.signature import Keys, PayloadPlace, signed_metadata
from syncpod.messages.signed import START

METHOD: Final = f"/{SERVICE}/StartWorkflowExecution"
AGAIN_SECONDS: Final = 300.0
"""Seconds after which a node is introduced again, in case somebody has ended its workflow."""


class Introductions:
    """The nodes that were introduced to the fleet."""

    def __init__(self, fleet: str, namespace: str, keys: Keys, call: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        """Begin with no nodes. `keys` are the fleet's; `call` makes a call to the server, and raises AioRpcError."""
        self._fleet, self._namespace, self._keys, self._call = fleet, namespace, keys, call
        self._introduced: dict[str, float] = {}
        """For each certificate, when its node was introduced. A node that was removed comes back with another
        certificate."""

    async def introduce(self, node: str, serial: str, method: str, now: float) -> None:
        """Introduce a node before its first poll with a certificate. `now` is in seconds.

        Raises AioRpcError, OSError.
        """
        if method != POLL or now < self._introduced.get(serial, -AGAIN_SECONDS) + AGAIN_SECONDS:
            return
        request = await asyncio.to_thread(start_request, self._fleet, self._namespace, node, self._keys)
        await self._call(METHOD, request.SerializeToString())
        self._introduced[serial] = now

    def forget(self) -> None:
        """Introduce every node again: the server was away, and may have come back without its data."""
        self._introduced.clear()


def start_request(fleet: str, namespace: str, node: str, keys: Keys) -> StartWorkflowExecutionRequest:
    """Return the request that starts a node's workflow in its fleet, and has no effect if the workflow already runs.

    Blocks briefly. Raises OSError.
    """
    key, place = keys.current, PayloadPlace(namespace, fleet_node_id(node))
    start = _payload({"fleet": fleet, "node": node})
    said = signed_metadata(key, place, start.metadata, start.data, purpose=START, number=keys.number())
    summary = _payload(f"node {node} of fleet {fleet}")
    return StartWorkflowExecutionRequest(
        namespace=namespace,
        workflow_id=fleet_node_id(node),
        workflow_type=WorkflowType(name=FLEET_NODE_WORKFLOW),
        task_queue=TaskQueue(name=FLEET_QUEUE),
        input=Payloads(payloads=[_encrypted(fleet, key, place, Payload(metadata=said, data=start.data))]),
        identity="gate",
        request_id=str(uuid.uuid4()),
        workflow_id_reuse_policy=WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
        workflow_id_conflict_policy=WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
        user_metadata=UserMetadata(summary=_encrypted(fleet, key, place, summary)),
    )


def _encrypted(fleet: str, key: bytes, place: PayloadPlace, payload: Payload) -> Payload:
    said, data = encrypt(key, place, payload.SerializeToString(), secrets.token_bytes(NONCE_BYTES))
    return Payload(metadata={**said, FLEET: fleet.encode()}, data=data)


def _payload(value: object) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(value).encode())
