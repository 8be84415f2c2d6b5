# ruff: noqa: ASYNC240 - a look at a directory is what these tests are about
"""A storage driver (CSI v1) of directories, in this process, with its registrar, and a node's parts to call it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from protos.csi.v1 import csi_pb2, csi_pb2_grpc
from protos.plugin_registration.v1 import api_pb2, api_pb2_grpc
from syncpod.agent.kubernetes.csi_drivers import CsiDrivers
from syncpod.agent.kubernetes.csi_volumes import CsiVolumes
from syncpod.agent.kubernetes.followed_claim import Claims, FollowedClaim
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.events import Event
from syncpod.objects import ClaimedPlace, ClaimNeed, ObjectRef, ObjectStore, claimed_place, values
from syncpod.translation.context import NodeContext
from tests.agent.waiting import until
from tests.translation.translation import NODE

A_NODE: Mapping[str, Any] = {
    "metadata": {"name": NODE.name, "uid": "node-uid", "labels": {"kubernetes.io/hostname": "n1"}}
}
"""The v1 Node of the tests."""
DRIVER = "disk.example"
NEED = ClaimNeed(ObjectRef("ConfigMap", "default", "u1-x", "claim"), "web", "u1", "disk", is_pods_own=False)
OTHER = ClaimNeed(ObjectRef("ConfigMap", "default", "u2-x", "claim"), "other", "u2", "disk", is_pods_own=False)


def claims(client: ApiClient, store: ObjectStore, node: NodeContext = NODE) -> Claims:
    """The claims of a node without registered drivers."""
    drivers = CsiDrivers(client, node.name, node.state_dir, lambda: A_NODE)
    return Claims(client, store, lambda: A_NODE, CsiVolumes(client, store, drivers, node), lambda _: None)


class StorageDriver(csi_pb2_grpc.NodeServicer, api_pb2_grpc.RegistrationServicer):
    """A driver whose volumes are empty directories at the requested paths."""

    def __init__(self, name: str, directory: Path, capabilities: Sequence[str]) -> None:
        self.name, self.directory = name, directory
        self.capabilities = list(capabilities)
        self.kind, self.versions = "CSIPlugin", ["1.0.0"]
        self.calls: list[tuple[str, Any]] = []
        self.refusals: dict[str, tuple[grpc.StatusCode, str]] = {}
        """The errors with which calls are answered, by call."""
        self.hangs: set[str] = set()
        """The calls that get no answer."""
        self.usage = [
            csi_pb2.VolumeUsage(unit="BYTES", total=100, used=30, available=60),
            csi_pb2.VolumeUsage(unit="INODES", total=50, used=5, available=45),
        ]
        """The usage of each of its volumes."""
        self.endpoint = str(directory / "csi.sock")
        """The socket that it announces at its registration."""
        self.statuses: list[tuple[bool, str]] = []
        """The registration statuses that the node has sent."""

    async def _refuse(self, call: str, request: Any, context: Any) -> None:
        self.calls.append((call, request))
        if call in self.hangs:
            await asyncio.Event().wait()
        if call in self.refusals:
            await context.abort(*self.refusals[call])

    def asked(self, call: str) -> list[Any]:
        """The requests of one call."""
        return [request for name, request in self.calls if name == call]

    async def NodeStageVolume(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._refuse("stage", request, context)
        assert Path(request.staging_target_path).is_dir()
        return csi_pb2.NodeStageVolumeResponse()

    async def NodeUnstageVolume(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._refuse("unstage", request, context)
        return csi_pb2.NodeUnstageVolumeResponse()

    async def NodePublishVolume(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._refuse("publish", request, context)
        assert Path(request.target_path).parent.is_dir()
        Path(request.target_path).mkdir(exist_ok=True)
        return csi_pb2.NodePublishVolumeResponse()

    async def NodeExpandVolume(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._refuse("grow", request, context)
        return csi_pb2.NodeExpandVolumeResponse(capacity_bytes=request.capacity_range.required_bytes)

    async def NodeGetVolumeStats(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._refuse("usage", request, context)
        return csi_pb2.NodeGetVolumeStatsResponse(usage=self.usage)

    async def NodeUnpublishVolume(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._refuse("unpublish", request, context)
        shutil.rmtree(request.target_path, ignore_errors=True)
        return csi_pb2.NodeUnpublishVolumeResponse()

    async def NodeGetCapabilities(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._refuse("capabilities", request, context)
        kinds = csi_pb2.NodeServiceCapability
        found = [kinds(rpc=kinds.RPC(type=each)) for each in self.capabilities]
        return csi_pb2.NodeGetCapabilitiesResponse(capabilities=found)

    async def NodeGetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._refuse("info", request, context)
        place = csi_pb2.Topology(segments={"topology.disk.example/node": "machine-1"})
        return csi_pb2.NodeGetInfoResponse(node_id="machine-1", max_volumes_per_node=7, accessible_topology=place)

    async def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return api_pb2.PluginInfo(
            type=self.kind, name=self.name, endpoint=self.endpoint, supported_versions=self.versions
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.statuses.append((request.plugin_registered, request.error))
        return api_pb2.RegistrationStatusResponse()


@asynccontextmanager
async def serving(driver: StorageDriver, registry: Path) -> AsyncIterator[Path]:
    """Serve the driver, with a registration socket in `registry`, whose path this yields."""
    driver.directory.mkdir(parents=True, exist_ok=True)
    registry.mkdir(parents=True, exist_ok=True)
    socket = registry / f"{driver.name}-reg.sock"
    server = grpc.aio.server()
    csi_pb2_grpc.add_NodeServicer_to_server(driver, server)
    api_pb2_grpc.add_RegistrationServicer_to_server(driver, server)
    server.add_insecure_port(f"unix:{driver.directory / 'csi.sock'}")
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield socket
    finally:
        await server.stop(None)
        socket.unlink(missing_ok=True)


def node_in(directory: Path) -> NodeContext:
    """A node with directories of its own."""
    node = replace(NODE, state_dir=directory / "state", memory_dir=directory / "memory")
    node.state_dir.mkdir(mode=0o700)
    return node


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """End tasks."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def a_volume(**csi: Any) -> dict[str, Any]:
    """A volume of the driver, bound to the claim."""
    source = {"driver": DRIVER, "volumeHandle": "vol-1", "volumeAttributes": {"pool": "fast"}, **csi}
    spec = {"claimRef": {"uid": "claim-uid"}, "accessModes": ["ReadWriteOnce"], "mountOptions": ["noatime"]}
    return {"kind": "PersistentVolume", "metadata": {"name": "pv-1"}, "spec": {**spec, "csi": source}}


def of_driver(**spec: Any) -> dict[str, Any]:
    """The driver's CSIDriver."""
    return {"kind": "CSIDriver", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": DRIVER}, "spec": spec}


class Node:
    """A node on which drivers register."""

    def __init__(self, client: ApiClient, directory: Path) -> None:
        self.context = node_in(directory)
        self.store = ObjectStore(self.context.state_dir, self.context.memory_dir)
        self.registry = self.context.state_dir / "plugins_registry"
        self.client = client
        self.begin()

    def begin(self) -> None:
        """Start, as a new worker does."""
        self.drivers = CsiDrivers(self.client, self.context.name, self.context.state_dir, lambda: A_NODE)
        self.volumes = CsiVolumes(self.client, self.store, self.drivers, self.context)
        self.events: list[Event] = []
        self.claims = Claims(self.client, self.store, lambda: A_NODE, self.volumes, self.events.append)

    def follow(self, need: ClaimNeed = NEED) -> tuple[FollowedClaim, asyncio.Task[None]]:
        """Follow a claim."""
        follower = self.claims.follow(need, lambda: None)
        return follower, asyncio.ensure_future(follower.run())

    async def brought(self, need: ClaimNeed = NEED) -> ClaimedPlace:
        """Follow a claim until its volume is published."""
        follower, running = self.follow(need)
        await until(lambda: follower.is_known)
        await cancelled(running)
        held = self.store.get(need.ref)
        assert held is not None
        return claimed_place(values(held))
