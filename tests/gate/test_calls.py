"""Whatever bytes a node sends, the gate passes on only calls of this node."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import request_response_pb2 as wire

from syncpod.gate.calls import HEALTH, CallRefused, CallUnreadable, NodeCalls
from syncpod.gate.tokens import TaskTokens
from tests.gate.conftest import NAMESPACE, SERVICE
from tests.gate.test_attacks import METHODS, OF_A_NODE

CALLS = NodeCalls(NAMESPACE, TaskTokens(bytes(32)))
POLL = SERVICE + "PollActivityTaskQueue"


@given(st.sampled_from(sorted(OF_A_NODE)), st.binary(max_size=200))
def test_no_bytes_break_it(name: str, said: bytes) -> None:
    with contextlib.suppress(CallRefused, CallUnreadable):
        CALLS.forwarded("a", SERVICE + name, said)


@given(
    st.text("-/adefnlot", max_size=14) | st.just("fleet-node/a"),
    st.integers(0, 4),
    st.sampled_from([NAMESPACE, "", "other"]),
)
def test_a_poll_is_of_the_nodes_own_queue_or_none(queue: str, kind: int, namespace: str) -> None:
    named = TaskQueue(name=queue, kind=TaskQueueKind.ValueType(kind), normal_name="fleet-node/b")
    asked = wire.PollActivityTaskQueueRequest(namespace=namespace, task_queue=named, identity="x")
    try:
        passed = wire.PollActivityTaskQueueRequest.FromString(
            CALLS.forwarded("a", POLL, asked.SerializeToString()).request
        )
    except CallRefused:
        assert (queue, namespace) != ("fleet-node/a", NAMESPACE) or kind > 1
        return
    assert (queue, namespace) == ("fleet-node/a", NAMESPACE)
    assert passed.task_queue.name == passed.identity == "fleet-node/a"
    assert not passed.task_queue.normal_name


@pytest.mark.parametrize("method", [*(SERVICE + name for name in METHODS), HEALTH, "", "/", SERVICE])
def test_only_the_calls_of_a_node_are_known(method: str) -> None:
    assert CALLS.knows(method) == (method.removeprefix(SERVICE) in OF_A_NODE or method == HEALTH)


def test_fields_that_nobody_knows_are_not_passed_on() -> None:
    unknown = b"\xfa\xff\x7f\x06secret"
    asked = wire.PollActivityTaskQueueRequest(namespace=NAMESPACE, task_queue=TaskQueue(name="fleet-node/a"))
    assert b"secret" not in CALLS.forwarded("a", POLL, asked.SerializeToString() + unknown).request
