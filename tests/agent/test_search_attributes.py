from __future__ import annotations

import uuid

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from syncpod.agent.takeover.search_attributes import register_search_attributes
from syncpod.messages.queries import SEARCH_ATTRIBUTES
from tests.agent.waiting import until_asked
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect


@pytest.fixture
async def client(temporal_server: DevServer) -> Client:
    """A client of a new namespace without any search attribute."""
    namespace = f"ns-{uuid.uuid4()}"
    client = await connect(temporal_server.address, namespace=namespace)
    request = RegisterNamespaceRequest(namespace=namespace)
    request.workflow_execution_retention_period.FromSeconds(86_400)
    await client.workflow_service.register_namespace(request)

    async def known() -> bool:
        try:
            await client.count_workflows("")
        except RPCError:
            return False
        return True

    await until_asked(known)
    return client


async def registered(client: Client) -> dict[str, int]:
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    return dict(answer.custom_attributes)


async def test_search_attributes_are_registered_and_can_be_queried_at_once(client: Client) -> None:
    assert await register_search_attributes(client)
    assert set(SEARCH_ATTRIBUTES) <= set(await registered(client))
    counted = await client.count_workflows("PodPhase = 'Running' AND PodReady = true AND PodLabels = 'app=web'")
    assert counted.count == 0


async def test_registering_again_changes_nothing(client: Client) -> None:
    assert await register_search_attributes(client)
    before = await registered(client)
    assert await register_search_attributes(client)
    assert await registered(client) == before


async def test_a_search_attribute_of_another_type_disables_search_attributes(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {"PodReady": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD}
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=client.namespace, search_attributes=wrong)
    )
    assert not await register_search_attributes(client)
    assert "search attributes PodReady have other types; pods do without them" in caplog.text


async def test_a_server_without_room_disables_search_attributes(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    taken = {f"Taken{number}": IndexedValueType.INDEXED_VALUE_TYPE_BOOL for number in range(3)}
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=client.namespace, search_attributes=taken)
    )
    assert not await register_search_attributes(client)
    assert "search attributes cannot be registered" in caplog.text
