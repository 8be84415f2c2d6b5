"""The identity of a Temporal server's namespace, and a cached check that the server is still the node's own."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetClusterInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

_RPC: Final = timedelta(seconds=5)
_REUSED_SECONDS: Final = 0.5
"""A successful check counts for this many seconds from its begin, and a failed one from its end."""


async def cluster_identity(client: Client) -> str:
    """Return the ids of the cluster and of the client's namespace, as ``<cluster>/<namespace>``. Raises RPCError.

    A namespace that was deleted and made again under its name has another id.
    """
    described, cluster = await asyncio.gather(
        client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace), retry=True, timeout=_RPC
        ),
        _cluster_id(client),
    )
    return f"{cluster}/{described.namespace_info.id}"


class OwnServer:
    """Checks before a send that the server is the node's. Call all methods in one event loop."""

    def __init__(self, require: Callable[[], Awaitable[None]]) -> None:
        """`require` makes one check: it raises RPCError if the server is not the node's."""
        self._require = require
        self._turn = asyncio.Lock()
        self._passed_at = -math.inf
        """The monotonic time at which the last successful check began."""
        self._failed: tuple[float, RPCError] | None = None
        """When the last check failed, and why; None if it was successful."""

    async def require(self) -> None:
        """Raise RPCError if the server is not the node's.

        Concurrent sends share a check, whose result is used for `_REUSED_SECONDS`.
        """
        async with self._turn:
            if time.monotonic() - self._passed_at <= _REUSED_SECONDS:
                return
            if self._failed is not None and time.monotonic() - self._failed[0] <= _REUSED_SECONDS:
                raise self._failed[1]
            begun = time.monotonic()
            try:
                await self._require()
            except RPCError as error:
                self._failed = time.monotonic(), error
                raise
            self._passed_at, self._failed = begun, None


async def _cluster_id(client: Client) -> str:
    """Return the id of the server's cluster, which is stored in its database. Raises RPCError.

    A dev server with a database file keeps its id over restarts; one in memory has a new id each time.
    """
    info = await client.workflow_service.get_cluster_info(GetClusterInfoRequest(), retry=True, timeout=_RPC)
    return str(info.cluster_id)
