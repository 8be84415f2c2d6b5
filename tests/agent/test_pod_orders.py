"""Orders to pods' workflows are sent only to the node's own server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.identity import NodeFacts
from syncpod.messages.node import ApplyPodWorkflow
from syncpod.pod import Pod, admit_pod
from syncpod.temporal.pod_orders import PodOrders, PodSoFar


def manifest(name: str) -> dict[str, Any]:
    """A pod with the UID u1."""
    pod: dict[str, Any] = {"metadata": {"name": name, "namespace": "default", "uid": "u1"}}
    return pod | {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "busybox"}]}}


@pytest.mark.parametrize("replaces", [(), ("u0",)])
async def test_no_order_is_sent_to_a_server_that_is_not_the_nodes(replaces: tuple[str, ...]) -> None:
    client = Mock()

    async def another() -> None:
        raise RPCError("another server", RPCStatusCode.UNAVAILABLE, b"")

    orders = PodOrders(cast(Client, client), NodeFacts)
    with pytest.raises(RPCError, match="another server"):
        await orders.apply(ApplyPodWorkflow(node="n1", pod=manifest("web"), replaces=replaces), require=another)
    assert client.start_workflow.mock_calls == client.get_workflow_handle.mock_calls == []


async def test_a_pod_with_the_uid_of_another_name_is_refused_in_a_users_words() -> None:
    """A file that keeps its UID and names another pod was told of the id of a workflow."""
    client = Mock()

    async def recorded(_: Pod) -> PodSoFar:
        return cast(PodSoFar, SimpleNamespace(pod=admit_pod(manifest("before")), incarnation="life-1"))

    orders = PodOrders(cast(Client, client), NodeFacts, recorded)
    result = await orders.apply(ApplyPodWorkflow(node="n1", pod=manifest("web")))
    assert result.refused == "metadata.uid: u1 belongs to pod default/before on this node until that pod has ended"
    assert client.mock_calls == []
