"""Waits until a Temporal server stops answering, or serves again, for a worker that must not outlive its database.

A database is restored while its server is stopped. A worker that kept workflows in its cache meanwhile would go on from
a state that the restored database does not have. The server would accept its commands, and no worker could replay such
a history again.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

PROBE_SECONDS: Final = 1.0
"""The time between two health checks. Stopping a server, restoring its database and starting it again takes longer."""
_RPC: Final = timedelta(seconds=10)


async def until_away(client: Client) -> None:
    """Return as soon as the server does not answer, or answers a health check with "not serving"."""
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
