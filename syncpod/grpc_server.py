"""A gRPC server at a unix socket that only this user may reach."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio

from syncpod.kernel.listening import grpc_address, why_unusable


@asynccontextmanager
async def serving_at(socket: Path, server: grpc.aio.Server) -> AsyncIterator[None]:
    """Serve at `socket`, with mode 0600, until the block is left. Missing directories get the mode 0700.

    Removes the socket of an earlier worker first, and its own in the end. Raises OSError.
    """
    if why := why_unusable(socket):
        raise OSError(f"{socket} {why}")
    await asyncio.to_thread(_make_room, socket)
    try:
        server.add_insecure_port(grpc_address(socket))
    except RuntimeError as error:
        raise OSError(f"{socket}: {error}") from error
    await asyncio.to_thread(socket.chmod, 0o600)
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
        await asyncio.to_thread(socket.unlink, missing_ok=True)


def _make_room(socket: Path) -> None:
    socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
