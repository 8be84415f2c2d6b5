"""Ensures that a worker serves only the Temporal cluster that has the workflows of its node's pods.

Later another server may listen at the same address: somebody else's dev server, or ours with a new database. A worker
that served it would start the node's workflow and the manifests' pods a second time, and treat the pods of the first
server as orphans.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.takeover.lock import NotThisNode
from syncpod.temporal.own_server import cluster_identity

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""Seconds between two checks while serving."""


class ClusterGuard:
    """Checks whether the client still reaches the cluster that the node belongs to."""

    def __init__(
        self, client: Client, identity: str, *, node: str, address: str, answered: Callable[[], None] = lambda: None
    ) -> None:
        """Accept only the cluster with this `identity` at the server's `address`.

        `answered` is called at each answer of the server.
        """
        self._client = client
        self._identity = identity
        self._node = node
        self._address = address
        self._answered = answered

    async def require(self) -> None:
        """Raise RPCError if another cluster answers, or none: then nothing may be sent."""
        if await cluster_identity(self._client) != self._identity:
            raise RPCError(f"another Temporal server answers at {self._address}", RPCStatusCode.UNAVAILABLE, b"")

    async def run(self) -> None:
        """Check until cancelled. Raises NotThisNode when another cluster answers."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                found = await cluster_identity(self._client)
            except RPCError as error:
                log.debug("the Temporal server does not say which one it is: %s", error)
                continue
            self._answered()
            if found != self._identity:
                raise another_cluster(self._node, self._address)


def another_cluster(node: str, address: str) -> NotThisNode:
    """Return the refusal to serve a node on another cluster than its own."""
    return NotThisNode(
        f"the Temporal server at {address} is not the one that has the pods of node {node}: start that one again or "
        "name it in TEMPORAL_ADDRESS, or let this one have the node with --adopt-cluster"
    )
