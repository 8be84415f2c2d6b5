"""Ensures that a worker serves only the Temporal cluster that has the workflows of its node's pods.

Later another server may listen at the same address: somebody else's dev server, or ours with a new database. A worker
that served it would start the node's workflow and the manifests' pods a second time, and treat the pods of the first
server as orphans.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
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

    def __init__(self, client: Client, identity: str, *, node: str, address: str) -> None:
        """Accept only the cluster with this `identity` at the server's `address`."""
        self._client = client
        self._identity = identity
        self._node = node
        self._address = address
        self._watchers: list[Callable[[datetime | None], None]] = []
        self._of_outages: list[Callable[[datetime, datetime | None], None]] = []
        self._silent_since: datetime | None = None

    def watch(self, watcher: Callable[[datetime | None], None]) -> None:
        """Call `watcher` at each check: with None if the server answers, else with the time of its last answer."""
        self._watchers.append(watcher)

    def watch_outages(self, watcher: Callable[[datetime, datetime | None], None]) -> None:
        """Call `watcher` with ``(beginning, None)`` when an outage begins, and with ``(beginning, end)`` when it ends.

        An outage begins with the last answer before it.
        """
        self._of_outages.append(watcher)

    async def require(self) -> None:
        """Raise RPCError if another cluster answers, or none: then nothing may be sent."""
        if await cluster_identity(self._client) != self._identity:
            raise RPCError(f"another Temporal server answers at {self._address}", RPCStatusCode.UNAVAILABLE, b"")

    async def run(self) -> None:
        """Check until cancelled. Raises NotThisNode when another cluster answers."""
        answered = datetime.now(UTC)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            found = await self._answer() or await self._answer()  # the first fails if this process was paused
            if found:
                answered = datetime.now(UTC)
            for watcher in self._watchers:
                watcher(None if found else answered)
            self._note_outage(answered, is_silent=not found)
            if found not in ("", self._identity):
                raise another_cluster(self._node, self._address)

    def _note_outage(self, answered: datetime, *, is_silent: bool) -> None:
        if is_silent == (self._silent_since is not None):
            return
        begun, ended = (answered, None) if self._silent_since is None else (self._silent_since, answered)
        self._silent_since = answered if is_silent else None
        for watcher in self._of_outages:
            watcher(begun, ended)

    async def _answer(self) -> str:
        """Return the identity of the cluster that answers; "" if none does."""
        try:
            return await cluster_identity(self._client)
        except RPCError as error:
            log.debug("the Temporal server does not say which one it is: %s", error)
            return ""


def another_cluster(node: str, address: str) -> NotThisNode:
    """Return the refusal to serve a node on another cluster than its own."""
    return NotThisNode(
        f"the Temporal server at {address} is not the one that has the pods of node {node}: start that one again or "
        "name it in TEMPORAL_ADDRESS, or let this one have the node with --adopt-cluster"
    )
