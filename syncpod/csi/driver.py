"""The client of one storage driver on this machine: CSI v1 over its unix socket.

Mirrors pkg/volume/csi/csi_client.go, v1.36: every call has two minutes, and a connection of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from protos.csi.v1 import csi_pb2, csi_pb2_grpc
from syncpod.csi.volume import DriverNode, Growing, Publishing, Staging, Use, VolumeStats
from syncpod.kernel.listening import grpc_address

CALL_SECONDS: Final = 120.0
"""The kubelet's csiTimeout."""
STAGES: Final = "STAGE_UNSTAGE_VOLUME"
"""The driver stages a volume: it mounts the volume on the machine once, for all pods."""
GROWS: Final = "EXPAND_VOLUME"
"""The driver has work to do on the machine for a volume that has grown."""
REPORTS_USAGE: Final = "GET_VOLUME_STATS"
"""The driver reports how full a volume is."""
GIVES_TO_GROUP: Final = "VOLUME_MOUNT_GROUP"
"""The driver gives a volume to the pod's fsGroup itself."""
KNOWS_SINGLE_WRITERS: Final = "SINGLE_NODE_MULTI_WRITER"
"""The driver distinguishes one writing pod on a machine from several."""
_MODES: Final[Mapping[str, str]] = {
    "ReadWriteOnce": "SINGLE_NODE_WRITER",
    "ReadOnlyMany": "MULTI_NODE_READER_ONLY",
    "ReadWriteMany": "MULTI_NODE_MULTI_WRITER",
    "ReadWriteOncePod": "SINGLE_NODE_WRITER",
}
_SINGLE_WRITER_MODES: Final[Mapping[str, str]] = {
    **_MODES,
    "ReadWriteOnce": "SINGLE_NODE_MULTI_WRITER",
    "ReadWriteOncePod": "SINGLE_NODE_SINGLE_WRITER",
}
OPTIONS: Final = (
    # Go's HTTP/2 servers reject the socket's path, which would be the default.
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.max_metadata_size", 16 * 1024),
)
_LONGEST_TEXT: Final = 1000
_UNITS: Final = (csi_pb2.VolumeUsage.BYTES, csi_pb2.VolumeUsage.INODES)


_UNSURE: Final = frozenset(
    (
        *(None, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE),
        *(grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED),
    )
)
_INFEASIBLE: Final = frozenset(
    (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.NOT_FOUND)
)


class CsiError(Exception):
    """A driver refused a call, or did not answer. The text is a clause that names the call and the status."""

    def __init__(self, text: str, status: grpc.StatusCode | None = None) -> None:
        """`status` is the status of the driver's answer; None if the driver has not answered."""
        super().__init__(text)
        self.is_unsure = status in _UNSURE
        """The driver may still be carrying out the call (csi_client.go, isFinalError)."""
        self.is_infeasible = status in _INFEASIBLE
        """No retry of the call will succeed (expander.go, isInfeasibleError)."""
        self.is_of_use = status is grpc.StatusCode.FAILED_PRECONDITION
        """The driver refuses the call because the volume is in use (expander.go, inUseError)."""


class CsiDriver:
    """One driver. It holds no connection."""

    def __init__(self, socket: Path) -> None:
        """Call the driver that serves at `socket`."""
        self._socket = socket

    async def node(self) -> DriverNode:
        """Return the driver's answer about the machine. Raises CsiError."""
        async with self._stub("NodeGetInfo") as stub:
            said = await stub.NodeGetInfo(csi_pb2.NodeGetInfoRequest(), timeout=CALL_SECONDS)
        if not said.node_id:
            raise CsiError("NodeGetInfo: the driver names no node")
        return DriverNode(said.node_id, max(0, said.max_volumes_per_node), dict(said.accessible_topology.segments))

    async def capabilities(self) -> frozenset[str]:
        """Return the names of the driver's optional calls, as CSI spells them. Raises CsiError."""
        async with self._stub("NodeGetCapabilities") as stub:
            said = await stub.NodeGetCapabilities(csi_pb2.NodeGetCapabilitiesRequest(), timeout=CALL_SECONDS)
        kinds = csi_pb2.NodeServiceCapability.RPC.Type
        return frozenset(kinds.Name(each.rpc.type) for each in said.capabilities if each.rpc.type in kinds.values())

    async def usage(self, handle: str, path: Path) -> VolumeStats:
        """Return the usage of the volume that is published at `path` (NodeGetVolumeStats). Raises CsiError."""
        asked = csi_pb2.NodeGetVolumeStatsRequest(volume_id=handle, volume_path=str(path))
        async with self._stub("NodeGetVolumeStats") as stub:
            said = await stub.NodeGetVolumeStats(asked, timeout=CALL_SECONDS)
        if not said.usage:
            raise CsiError("NodeGetVolumeStats: the driver returns no usage")
        by_unit = {each.unit: each for each in said.usage}
        in_bytes, inodes = (by_unit.get(unit, csi_pb2.VolumeUsage()) for unit in _UNITS)
        amounts = (in_bytes.total, in_bytes.available, in_bytes.used, inodes.total, inodes.available, inodes.used)
        return VolumeStats(*(max(0, each) for each in amounts))

    async def stage(self, volume: Staging, capabilities: frozenset[str]) -> None:
        """Mount a volume on the machine, for all of its pods (NodeStageVolume). Safe to repeat. Raises CsiError."""
        asked = csi_pb2.NodeStageVolumeRequest(
            volume_id=volume.handle,
            publish_context=volume.publish_context,
            staging_target_path=str(volume.path),
            volume_capability=_capability(volume.use, capabilities),
            secrets=volume.secrets,
            volume_context=volume.context,
        )
        async with self._stub("NodeStageVolume") as stub:
            await stub.NodeStageVolume(asked, timeout=CALL_SECONDS)

    async def publish(self, volume: Publishing, capabilities: frozenset[str]) -> None:
        """Mount a volume for one pod (NodePublishVolume). Safe to repeat. Raises CsiError."""
        asked = csi_pb2.NodePublishVolumeRequest(
            volume_id=volume.handle,
            publish_context=volume.publish_context,
            staging_target_path=str(volume.staging) if volume.staging is not None else "",
            target_path=str(volume.path),
            volume_capability=_capability(volume.use, capabilities),
            readonly=volume.is_read_only,
            secrets=volume.secrets,
            volume_context=volume.context,
        )
        async with self._stub("NodePublishVolume") as stub:
            await stub.NodePublishVolume(asked, timeout=CALL_SECONDS)

    async def grow(self, volume: Growing, capabilities: frozenset[str]) -> None:
        """Grow a volume on the machine (NodeExpandVolume). Safe to repeat. Raises CsiError."""
        asked = csi_pb2.NodeExpandVolumeRequest(
            volume_id=volume.handle,
            volume_path=str(volume.path),
            capacity_range=csi_pb2.CapacityRange(required_bytes=volume.size),
            staging_target_path=str(volume.staging) if volume.staging is not None else "",
            volume_capability=_capability(volume.use, capabilities),
            secrets=volume.secrets,
        )
        async with self._stub("NodeExpandVolume") as stub:
            await stub.NodeExpandVolume(asked, timeout=CALL_SECONDS)

    async def unpublish(self, handle: str, path: Path) -> None:
        """Undo `publish`. NotFound is success. Safe to repeat. Raises CsiError."""
        asked = csi_pb2.NodeUnpublishVolumeRequest(volume_id=handle, target_path=str(path))
        async with self._stub("NodeUnpublishVolume", absent_is_fine=True) as stub:
            await stub.NodeUnpublishVolume(asked, timeout=CALL_SECONDS)

    async def unstage(self, handle: str, path: Path) -> None:
        """Undo `stage`. NotFound is success. Safe to repeat. Raises CsiError."""
        asked = csi_pb2.NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=str(path))
        async with self._stub("NodeUnstageVolume", absent_is_fine=True) as stub:
            await stub.NodeUnstageVolume(asked, timeout=CALL_SECONDS)

    @asynccontextmanager
    async def _stub(self, call: str, *, absent_is_fine: bool = False) -> AsyncIterator[csi_pb2_grpc.NodeAsyncStub]:
        try:
            async with grpc.aio.insecure_channel(grpc_address(self._socket), options=OPTIONS) as channel:
                yield csi_pb2_grpc.NodeStub(channel)
        except grpc.aio.AioRpcError as error:
            if absent_is_fine and error.code() is grpc.StatusCode.NOT_FOUND:
                return
            raise CsiError(clause(call, error), error.code()) from None


def clause(call: str, error: grpc.aio.AioRpcError) -> str:
    """Return a clause on one line that describes a call's error."""
    said = " ".join((error.details() or "").split())[:_LONGEST_TEXT]
    return f"{call}: {error.code().name}{said and ': '}{said}"


def _capability(use: Use, capabilities: frozenset[str]) -> csi_pb2.VolumeCapability:
    modes = _SINGLE_WRITER_MODES if KNOWS_SINGLE_WRITERS in capabilities else _MODES
    group = str(use.group) if use.group is not None and GIVES_TO_GROUP in capabilities else ""
    mode = modes.get(use.access_mode, "UNKNOWN")
    if use.is_block:
        return csi_pb2.VolumeCapability(
            block=csi_pb2.VolumeCapability.BlockVolume(), access_mode=csi_pb2.VolumeCapability.AccessMode(mode=mode)
        )
    return csi_pb2.VolumeCapability(
        mount=csi_pb2.VolumeCapability.MountVolume(
            fs_type=use.fs_type, mount_flags=use.mount_flags, volume_mount_group=group
        ),
        access_mode=csi_pb2.VolumeCapability.AccessMode(mode=mode),
    )
