"""Calls a plugin at the registration socket that it has put into the node's directory (pluginregistration v1)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc.aio

from protos.plugin_registration.v1 import api_pb2, api_pb2_grpc
from syncpod.csi.driver import OPTIONS, CsiError, clause
from syncpod.kernel.listening import grpc_address

CSI: Final = "CSIPlugin"
_CALL_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Plugin:
    """A plugin that registers."""

    kind: str
    """`CSIPlugin`, or a kind that this node does not support."""
    name: str
    socket: Path
    """The socket at which the plugin serves its own API."""
    versions: tuple[str, ...]


async def plugin_at(socket: Path) -> Plugin:
    """Request the plugin's description at a registration socket. Raises CsiError."""
    try:
        async with grpc.aio.insecure_channel(grpc_address(socket), options=OPTIONS) as channel:
            said = await api_pb2_grpc.RegistrationStub(channel).GetInfo(api_pb2.InfoRequest(), timeout=_CALL_SECONDS)
    except grpc.aio.AioRpcError as error:
        raise CsiError(clause("GetInfo", error)) from None
    serving = Path(said.endpoint) if said.endpoint else socket
    if not serving.is_absolute() or "\0" in said.endpoint:
        raise CsiError(f"GetInfo: the plugin's endpoint {said.endpoint!r} is no absolute path of a socket")
    return Plugin(said.type, said.name, serving, tuple(said.supported_versions))


async def notify_plugin(socket: Path, refusal: str = "") -> None:
    """Notify the plugin at a registration socket that it is registered, or of the reason for its `refusal`.

    Raises CsiError.
    """
    status = api_pb2.RegistrationStatus(plugin_registered=not refusal, error=refusal)
    try:
        async with grpc.aio.insecure_channel(grpc_address(socket), options=OPTIONS) as channel:
            await api_pb2_grpc.RegistrationStub(channel).NotifyRegistrationStatus(status, timeout=_CALL_SECONDS)
    except grpc.aio.AioRpcError as error:
        raise CsiError(clause("NotifyRegistrationStatus", error)) from None
