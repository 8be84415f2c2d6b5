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
"""For how long an answer counts."""


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
    """Asks ahead whose the server is. All methods belong to one event loop."""

    def __init__(self, require: Callable[[], Awaitable[None]]) -> None:
        """Ask by `require`, which raises RPCError if the server is not the node's."""
        self._require = require
        self._asked: tuple[float, asyncio.Future[None]] | None = None
        """Since when the server is being asked, or has been, and with what result."""

    def expect(self) -> None:
        """Ask already now, since something may have to be sent in a moment."""
        if self._asked is None or time.monotonic() - self._asked[0] > _ASKED_SECONDS / 2:
            asking = asyncio.ensure_future(self._require())
            asking.add_done_callback(_heard)
            self._asked = time.monotonic(), asking

    async def require(self) -> None:
        """Raise RPCError if the server is not the node's; it may have been asked a moment ago."""
        asked = self._asked
        if asked is None or time.monotonic() - asked[0] > _ASKED_SECONDS:
            await self._require()
        else:
            await asyncio.wait({asked[1]})
            asked[1].result()


def _heard(asking: asyncio.Future[None]) -> None:
    """Take note of an error that perhaps nobody asks for, so that asyncio does not report it."""
    if not asking.cancelled():
        asking.exception()


async def _cluster_id(client: Client) -> str:
    """Return the id of the server's cluster, which lies in its database. Raises RPCError.

    A dev server with a database keeps it over restarts; one in memory has a new one each time.
    """
    info = await client.workflow_service.get_cluster_info(GetClusterInfoRequest(), retry=True, timeout=_RPC)
    return str(info.cluster_id)
