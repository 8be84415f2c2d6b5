"""Tells when a Temporal server does not answer, for a worker that must not outlive its server's database.

A database is restored while its server is stopped. A worker that kept workflows in memory meanwhile would go on from
a state that the restored database does not know: the server takes its commands, and no worker can replay such a
history any more.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

PROBE_SECONDS: Final = 1.0
"""The time between two questions to the server. To stop a server, restore its database and start it again takes
longer."""
_RPC: Final = timedelta(seconds=10)


async def until_away(client: Client) -> None:
    """Return as soon as the server does not answer, or says that it does not serve."""
    while True:
        if not await _serves(client):
            return
        await asyncio.sleep(PROBE_SECONDS)


async def until_back(client: Client) -> None:
    """Return as soon as the server serves the client's namespace."""
    while True:
        if await _serves(client) and await _has_namespace(client):
            return
        await asyncio.sleep(PROBE_SECONDS)


async def _serves(client: Client) -> bool:
    try:
        return await client.service_client.check_health(timeout=_RPC)
    except RPCError:
        return False


async def _has_namespace(client: Client) -> bool:
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace), timeout=_RPC
        )
    except RPCError:
        return False
    return True
