"""Registers the node's storage drivers, and reports them in the cluster's CSINode and Node.

A driver's registrar creates a socket in the node's directory `plugins_registry`. Mirrors pluginmanager/pluginwatcher,
pkg/volume/csi/csi_plugin.go and nodeinfomanager.go, v1.36: the node calls the driver for its name and the machine's id,
and notifies the registrar of the registration. Plugins of other kinds are refused with a message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncpod.agent.background import cancel_all
from syncpod.csi.driver import CsiDriver, CsiError
from syncpod.csi.registration import CSI, notify_plugin, plugin_at
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.client import MERGE_PATCH, ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.csi import GROUP, RegisteredDriver, csi_node, has_drivers, node_patch, node_path
from syncpod.kubernetes.json_documents import mapping
from syncpod.translation.paths import PLUGINS_REGISTRY

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Seconds between two checks of the directory."""
RETRY_SECONDS: Final = 5.0
"""Seconds between two tries to register a driver, or to write to the cluster."""
PATIENCE_SECONDS: Final = 10.0
"""Seconds that a check waits for registrations. A slower one continues during the next checks."""
_VERSIONS: Final = ("v1", "1.0.0")
_MODE: Final = 0o750


@dataclass(frozen=True)
class Driver:
    """A registered driver."""

    calls: CsiDriver
    capabilities: frozenset[str]
    registered: RegisteredDriver


class CsiDrivers:
    """The drivers of one node. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        state_dir: Path,
        newest: Callable[[], Mapping[str, Any] | None],
    ) -> None:
        """Register drivers from sockets below `state_dir`. `newest` returns the newest v1 Node; None = unknown."""
        self._client, self._node, self._newest = client, node, newest
        self._directory = state_dir / PLUGINS_REGISTRY
        self._seen: dict[Path, tuple[int, int]] = {}
        self._drivers: dict[Path, Driver] = {}
        self._registering: dict[Path, asyncio.Task[None]] = {}
        self._retry_at: dict[Path, float] = {}
        self._published: Mapping[str, RegisteredDriver] | None = None
        self._cluster_at = 0.0
        self._complaints: dict[str, str] = {}

    def get(self, name: str) -> Driver | None:
        """Return a driver by its name; None if it is not registered."""
        return next((each for each in self._drivers.values() if each.registered.name == name), None)

    async def run(self) -> None:
        """Register drivers, and report them to the cluster, until cancelled."""
        self._published = None
        try:
            while True:
                try:
                    await self.round()
                except OSError as error:
                    self._complain("the directory of plugins", where_and_why(error))
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await cancel_all(self._registering.values())
            self._registering.clear()

    async def round(self) -> None:
        """Check once for new and removed sockets. Raises OSError."""
        sockets = await asyncio.to_thread(_sockets, self._directory)
        for path in [each for each in self._drivers if sockets.get(each) != self._seen.get(each)]:
            gone = self._drivers.pop(path)
            log.info("storage driver %s has gone", gone.registered.name)
        for path in [each for each in self._seen if sockets.get(each) != self._seen[each]]:
            del self._seen[path]
            self._retry_at.pop(path, None)
        now = asyncio.get_running_loop().time()
        for path, identity in sockets.items():
            is_due = path not in self._seen and now >= self._retry_at.get(path, 0.0)
            if is_due and path not in self._registering:
                self._registering[path] = asyncio.create_task(self._register(path, identity), name=f"plugin {path}")
        if self._registering:
            await asyncio.wait(self._registering.values(), timeout=PATIENCE_SECONDS)
        for path in [each for each, task in self._registering.items() if task.done()]:
            self._registering.pop(path).result()
        await self._publish_drivers(now)

    async def _register(self, path: Path, identity: tuple[int, int]) -> None:
        try:
            plugin = await plugin_at(path)
            if plugin.kind != CSI or not set(plugin.versions) & set(_VERSIONS):
                versions = ", ".join(plugin.versions) or "none"
                why = f"this node takes plugins of type {CSI} with version 1.0.0, not {plugin.kind} with {versions}"
                self._complain(str(path), why)
                await notify_plugin(path, why)
                self._seen[path] = identity
                return
            calls = CsiDriver(plugin.socket)
            node, capabilities = await calls.node(), await calls.capabilities()
            registered = RegisteredDriver(plugin.name, node.node_id, node.topology, node.most_volumes)
            await notify_plugin(path)
        except CsiError as error:
            self._complain(str(path), str(error))
            self._retry_at[path] = asyncio.get_running_loop().time() + RETRY_SECONDS
            return
        self._complaints.pop(str(path), None)
        self._drivers[path], self._seen[path] = Driver(calls, capabilities, registered), identity
        log.info("storage driver %s has registered, at %s", plugin.name, plugin.socket)

    async def _publish_drivers(self, now: float) -> None:
        """Write the drivers into the cluster's CSINode and Node, if they have changed."""
        drivers = {each.registered.name: each.registered for each in self._drivers.values()}
        node = self._newest()
        if node is None or not mapping(node.get("metadata")).get("uid"):  # the Node is not registered yet
            return
        if drivers == self._published or now < self._cluster_at:
            return
        try:
            await self._write(drivers, node)
        except (ClusterError, Unreachable) as error:
            self._complain("CSINode", f"the storage drivers cannot be written to the cluster: {error}")
            self._cluster_at = now + RETRY_SECONDS
        else:
            self._complaints.pop("CSINode", None)
            self._published = drivers

    async def _write(self, drivers: Mapping[str, RegisteredDriver], node: Mapping[str, Any]) -> None:
        uid, path = str(mapping(node.get("metadata")).get("uid") or ""), node_path(self._node)
        before: Mapping[str, Any] | None
        try:
            before = await self._client.ask("GET", path)
        except ClusterError as error:
            if error.reason != "NotFound":
                raise
            before = None
        if before is None:
            await self._client.ask("POST", f"{GROUP}/csinodes", body=csi_node(self._node, uid, None, drivers))
        elif not has_drivers(before, drivers):
            await self._client.ask("PUT", path, body=csi_node(self._node, uid, before, drivers))
        if patch := node_patch(node, drivers):
            await self._client.ask("PATCH", f"/api/v1/nodes/{self._node}", body=patch, content_type=MERGE_PATCH)

    def _complain(self, about: str, why: str) -> None:
        if self._complaints.get(about) != why:
            self._complaints[about] = why
            log.warning("%s: %s", about, why)


def _sockets(directory: Path) -> dict[Path, tuple[int, int]]:
    """Return the sockets below a directory with inode and change time, which identify a socket even if it is replaced.

    Creates the directory if it is missing. Blocks. Raises OSError.
    """
    directory.mkdir(mode=_MODE, exist_ok=True)
    found = {}
    for path, _, files in os.walk(directory):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                status = Path(path, name).lstat()
                if stat.S_ISSOCK(status.st_mode) and not name.startswith("."):
                    found[Path(path, name)] = (status.st_ino, status.st_ctime_ns)
    return found
