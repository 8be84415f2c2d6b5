"""The backlog of listening sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

from syncpod.gate.handshakes import listen
from syncpod.kernel.listening import BACKLOG, take_crowds


def backlog_of(listening: socket.socket) -> int:
    """The kernel's own number (struct tcp_info, tcpi_sacked, of a socket that listens)."""
    return int(struct.unpack_from("I", listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64), 28)[0])


def most() -> int:
    return min(BACKLOG, int(Path("/proc/sys/net/core/somaxconn").read_text()))


async def test_a_server_has_the_backlog_that_the_kernel_permits() -> None:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    async with server:
        [listening] = server.sockets
        assert backlog_of(listening) == 100  # asyncio's own
        take_crowds(server)
        assert backlog_of(listening) == most()
    with listen("127.0.0.1", 0) as gate:
        assert backlog_of(gate) == most()
