"""`python -m qa.fleet_chaos.thief INVITATION NODE POD`: try to attack a node with another node's certificate.

Run this in the network namespace of the node that owns the invitation. It prints how many calls were refused, and names
each call that was not. The exit code is 1 if any was not refused.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import grpc
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import request_response_pb2 as wire

from syncpod.messages.fleet import FLEET_QUEUE, fleet_node_id
from syncpod.settings.invitation import Invitation, read_invitation
from tests.gate.conftest import NAMESPACE
from tests.gate.test_attacks import METHODS, OF_A_NODE, OTHERS, call


def attempts(victim: str) -> list[tuple[str, str, bytes]]:
    """The calls to try: a name, the method and the serialized request of each."""
    it = WorkflowExecution(workflow_id=fleet_node_id(victim))

    def poll(queue: str, kind: TaskQueueKind.ValueType = TaskQueueKind.TASK_QUEUE_KIND_NORMAL) -> bytes:
        request = wire.PollActivityTaskQueueRequest(namespace=NAMESPACE, task_queue=TaskQueue(name=queue, kind=kind))
        return request.SerializeToString()

    return [
        ("poll the other node's queue", "PollActivityTaskQueue", poll(fleet_node_id(victim))),
        ("poll a partition of it", "PollActivityTaskQueue", poll(f"/_sys/{fleet_node_id(victim)}/1")),
        ("poll the fleet's queue", "PollActivityTaskQueue", poll(FLEET_QUEUE)),
        (
            "ask what the other node runs",
            "QueryWorkflow",
            wire.QueryWorkflowRequest(
                namespace=NAMESPACE, execution=it, query=WorkflowQuery(query_type="fleet_node")
            ).SerializeToString(),
        ),
        (
            "end the other node's workflow",
            "TerminateWorkflowExecution",
            wire.TerminateWorkflowExecutionRequest(namespace=NAMESPACE, workflow_execution=it).SerializeToString(),
        ),
        (
            "signal it",
            "SignalWorkflowExecution",
            wire.SignalWorkflowExecutionRequest(
                namespace=NAMESPACE, workflow_execution=it, signal_name="renew"
            ).SerializeToString(),
        ),
        (
            "read its history",
            "GetWorkflowExecutionHistory",
            wire.GetWorkflowExecutionHistoryRequest(namespace=NAMESPACE, execution=it).SerializeToString(),
        ),
        *((f"call {method}", method, b"") for method in (*METHODS, *OTHERS) if method not in OF_A_NODE),
    ]


async def steal(invitation: Invitation, victim: str) -> int:
    """Make all these calls, and print those that were not refused; return their number. Raises `AioRpcError`."""
    credentials = grpc.ssl_channel_credentials(
        invitation.authorities.encode(), invitation.key.encode(), invitation.certificate.encode()
    )
    options = [("grpc.ssl_target_name_override", invitation.server_name)]
    refused = granted = 0
    async with grpc.aio.secure_channel(invitation.address, credentials, options=options) as channel:
        await call(channel, "GetSystemInfo", b"", 60)  # allowed: proves that the gate answers
        for what, method, request in attempts(victim):
            try:
                await call(channel, method, request, 60)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.PERMISSION_DENIED:
                    refused += 1
                    continue
                sys.stdout.write(f"{what}: {error.code().name}: {error.details()}\n")
            else:
                sys.stdout.write(f"{what}: GRANTED\n")
            granted += 1
    sys.stdout.write(f"{refused} calls refused, {granted} not\n")
    return granted


if __name__ == "__main__":
    sys.exit(int(asyncio.run(steal(read_invitation(Path(sys.argv[1])), sys.argv[2])) > 0))
