"""The identity of a Temporal server's namespace, and a cached check that the server is still the node's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetClusterInfoRequest
from temporalio.client import Client

_RPC: Final = timedelta(seconds=5)
_ASKED_SECONDS: Final = 0.5
"""Seconds for which the result of a check is reused."""


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
        self._asked: tuple[float, asyncio.Future[None]] | None = None
        """When the last check began, and its result or pending result; None before the first check."""

    async def require(self) -> None:
        """Raise RPCError if the server is not the node's. A check that began at most `_ASKED_SECONDS` ago is reused."""
        if self._asked is None or time.monotonic() - self._asked[0] > _ASKED_SECONDS:
            asking = asyncio.ensure_future(self._require())
            asking.add_done_callback(_retrieve_error)
            self._asked = time.monotonic(), asking
        _, asked = self._asked
        await asyncio.wait({asked})
        asked.result()


def _retrieve_error(asking: asyncio.Future[None]) -> None:
    """Retrieve the error of a check whose result may never be awaited, so that asyncio does not log it."""
    if not asking.cancelled():
        asking.exception()


async def _cluster_id(client: Client) -> str:
    """Return the id of the server's cluster, which is stored in its database. Raises RPCError.

    A dev server with a database file keeps its id over restarts; one in memory has a new id each time.
    """
    info = await client.workflow_service.get_cluster_info(GetClusterInfoRequest(), retry=True, timeout=_RPC)
    return str(info.cluster_id)
