"""Orders to pods' workflows are sent only to the node's own server."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import Mock

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.identity import NodeFacts
from syncpod.messages.node import ApplyPodWorkflow
from syncpod.temporal.pod_orders import PodOrders


@pytest.mark.parametrize("replaces", [(), ("u0",)])
async def test_no_order_is_sent_to_a_server_that_is_not_the_nodes(replaces: tuple[str, ...]) -> None:
    client = Mock()
    pod: dict[str, Any] = {"metadata": {"name": "web", "namespace": "default", "uid": "u1"}}
    pod |= {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "busybox"}]}}

    async def another() -> None:
        raise RPCError("another server", RPCStatusCode.UNAVAILABLE, b"")

    orders = PodOrders(cast(Client, client), NodeFacts)
    with pytest.raises(RPCError, match="another server"):
        await orders.apply(ApplyPodWorkflow(node="n1", pod=pod, replaces=replaces), require=another)
    assert client.start_workflow.mock_calls == client.get_workflow_handle.mock_calls == []
