"""Registers the node with its cluster, and keeps its Node and its Lease up to date.

Mirrors pkg/kubelet/kubelet_node_status.go, v1.36, and component-helpers' lease controller: the lease is renewed every
ten seconds. The status is written when it has changed, and every five minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from secrets import SystemRandom
from typing import Any, Final, Protocol

from syncpod.fleet.offers import Taint
from syncpod.kubernetes import node as documents
from syncpod.kubernetes.client import MERGE_PATCH, ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.json_documents import mapping
from syncpod.kubernetes.node import LEASE_NAMESPACE, LEASE_SECONDS, LOOK_SECONDS, REPORT_SECONDS, Machine
from syncpod.kubernetes.pod_status import versioned_patch
from syncpod.kubernetes.reflector import Backoff, ObjectKey, Reflector, version_of
from syncpod.messages.node import NodeStatus

log = logging.getLogger(__name__)

RENEW_SECONDS: Final = LEASE_SECONDS / 4
_NODES: Final = "/api/v1/nodes"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"


class NodeWatcher(Protocol):
    """Receives changes of the Node. Implemented by `NodeEvents`."""

    def written(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Take a change that the node has made to its own Node object."""

    def seen(self, node: Mapping[str, Any]) -> None:
        """Take the cluster's current Node."""


async def _nothing_more() -> Mapping[str, Any]:
    """Return no further fields of a Node's status."""
    return {}


class Registration:
    """One node's Node and Lease. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        name: str,
        status: Callable[[], Awaitable[NodeStatus]],
        machine: Machine,
        *,
        port: int = 0,
        taints: Sequence[Taint] = (),
        runtime: Callable[[], Awaitable[Mapping[str, Any]]] = _nothing_more,
        events: NodeWatcher | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write the status that `status` returns, and the kubelet's `port` (0 = none); a new Node gets `taints`.

        `runtime` returns further fields of the Node's status. `events` receives changes of the Node. `clock` is
        monotonic, in seconds.
        """
        self._runtime, self._events = runtime, events
        self._watched = Reflector(
            client, _NODES, "Node", params={"fieldSelector": f"metadata.name={name}"}, level=logging.DEBUG, clock=clock
        )
        self._port, self._taints = port, taints
        self._client, self._name, self._status, self._machine, self._clock = client, name, status, machine, clock
        self._node: Mapping[str, Any] = {}
        self._lists = 0
        """The number of the last list that had begun when the server answered with `_node`."""
        self._lease: Mapping[str, Any] | None = None
        self._sent: Mapping[str, Any] = {}
        self._taken: Mapping[str, Any] = {}
        """`_sent` is the status in the last write, `_taken` the status in the server's answer to that write."""
        self._reported_at = 0.0
        self._is_deleted = False
        self.registered = asyncio.Event()
        """Set once the cluster has the Node."""

    async def follow(self) -> None:
        """Watch the Node from the registration on, until cancelled, since other clients write it too.

        A controller may set conditions to Unknown while the node was silent; the node must correct them at once.
        """
        await self.registered.wait()
        await self._watched.run()

    @property
    def uid(self) -> str:
        """The Node's UID; "" before the registration."""
        return str(mapping(self._node.get("metadata")).get("uid") or "")

    async def run(self) -> None:
        """Register, and keep the Node up to date until cancelled."""
        await self._repeat("the node", self.register)
        self.registered.set()
        while True:
            await self._repeat("the node's status", self.report)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._watched.news.wait()
            self._watched.news.clear()

    async def renew_lease(self) -> None:
        """Renew the lease until cancelled, from the registration on."""
        await self.registered.wait()
        while True:
            await self._repeat("the node's lease", self.renew)
            await asyncio.sleep(RENEW_SECONDS)

    async def _repeat(self, what: str, write: Callable[[], Awaitable[None]]) -> None:
        """Write until it succeeds; log each new reason for a failure, and the success after it."""
        backoff, logged = Backoff(self._clock, SystemRandom().random), ""
        while True:
            try:
                await write()
            except (ClusterError, Unreachable) as error:
                if str(error) != logged:
                    logged = str(error)
                    log.warning("%s cannot be written to the cluster: %s", what, error)
                await asyncio.sleep(backoff.next(error))
            else:
                if logged:
                    log.info("%s is written to the cluster again", what)
                return

    async def register(self) -> None:
        """Create the node's Node; if it exists already, update its labels.

        Raises ClusterError, Unreachable.
        """
        status, runtime = await self._status(), await self._runtime()
        try:
            now = datetime.now(UTC)
            node = documents.new_node(self._name, status, self._machine, now, self._port, self._taints)
            node["status"] = {**node["status"], **runtime}
            self._take(await self._client.ask("POST", _NODES, body=node))
            if self._events is not None:
                self._events.written({}, self._node)
            log.info("node %s is registered with the cluster", self._name)
            return
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise
        self._take(await self._client.ask("GET", self._path))
        if patch := documents.labels_patch(self._node, self._name, status):
            self._take(await self._client.ask("PATCH", self._path, body=patch, content_type=MERGE_PATCH))

    async def report(self) -> None:
        """Write the node's status, if it has changed or is due.

        A deleted Node is created again only at the next start of the worker. Otherwise a machine that is removed from
        the cluster would receive pods again (kubelet_node_status.go, v1.36, registerWithAPIServer). Raises
        ClusterError, Unreachable.
        """
        status, runtime = await self._status(), await self._runtime()
        is_due, now = self._clock() - self._reported_at >= REPORT_SECONDS, datetime.now(UTC)
        node = self.newest()
        if node is not None:
            before = mapping(node.get("status"))
            new = {**documents.node_status(before, status, self._machine, now, self._port), **runtime}
            if self._events is not None:
                self._events.seen(node)
            if not is_due and not self._is_news(before, new):
                return
        try:
            before = self._take(await self._client.ask("GET", self._path))
            new = documents.node_status(mapping(before.get("status")), status, self._machine, now, self._port)
            sent = {**new, **runtime}
            path = f"{self._path}/status"
            patch = versioned_patch(before, sent)
            self._take(await self._client.ask("PATCH", path, body=patch, content_type=MERGE_PATCH))
            self._sent, self._taken = sent, mapping(self._node.get("status"))
            if self._events is not None:
                self._events.written(before, self._node)
        except ClusterError as error:
            if error.code == 404:
                self._note_deletion()
            elif error.code != 409:  # another client has written meanwhile: the next call writes again
                raise
        else:
            self._reported_at = self._clock()

    def _note_deletion(self) -> None:
        """Log once that this node's Node was deleted."""
        if not self._is_deleted:
            log.warning(
                "node %s was deleted from the cluster: a new start of its worker registers it again", self._name
            )
        self._is_deleted = True

    def _is_news(self, before: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Say whether the status must be written. A field that the server has dropped does not cause further writes."""
        if not documents.has_changed(before, new):
            return False
        return documents.has_changed(self._sent, new) or documents.has_changed(self._taken, before)

    def _take(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keep the Node of the server's answer, and return it."""
        self._node, self._lists, self._is_deleted = answer, self._watched.lists.begun, False
        return answer

    def newest(self) -> Mapping[str, Any] | None:
        """Return the newest received version of the Node; None if it is gone."""
        watched = self._watched.objects.get(ObjectKey("", self._name))
        if watched is None:
            return None if self._watched.is_complete else self._node
        if self._watched.lists.outdates(self._lists):
            return watched
        return watched if version_of(watched) >= version_of(self._node) else self._node

    async def renew(self) -> None:
        """Renew the lease, or create it if the Node exists. Raises ClusterError, Unreachable."""
        try:
            if self._lease is None:
                self._lease = await self._client.ask("GET", f"{_LEASES}/{self._name}")
            new = documents.lease(self._name, self.uid, self._lease, datetime.now(UTC))
            self._lease = await self._client.ask("PUT", f"{_LEASES}/{self._name}", body=new)
        except ClusterError as error:
            self._lease = None
            if error.code != 404:
                raise
            await self._make_lease()

    async def _make_lease(self) -> None:
        """Create the Node's lease if the Node exists: without the Node, the lease would have no owner.

        The server is asked for the Node, since the watched version may be some seconds old (kubelet's
        util/nodelease.go, v1.36, SetNodeOwnerFunc). Raises ClusterError, Unreachable.
        """
        try:
            node = await self._client.ask("GET", self._path)
        except ClusterError as error:
            if error.code != 404:
                raise
            self._note_deletion()
            return
        uid = str(mapping(node.get("metadata")).get("uid") or "")
        new = documents.lease(self._name, uid, None, datetime.now(UTC))
        self._lease = await self._client.ask("POST", _LEASES, body=new)

    @property
    def _path(self) -> str:
        return f"{_NODES}/{self._name}"


def machine(root: Path = Path("/")) -> Machine:
    """Return this machine's ids; "" for an unknown one. Blocks.

    If the firmware has no UUID, the machine id is used instead (cadvisor's machine/info.go, GetSystemUUID).
    """
    machine_id = _text(root / "etc/machine-id")
    return Machine(
        machine_id=machine_id,
        system_uuid=_text(root / "sys/class/dmi/id/product_uuid") or machine_id,
        boot_id=_text(root / "proc/sys/kernel/random/boot_id"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
