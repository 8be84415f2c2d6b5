"""Sockets that listen: when a crowd connects at once, the kernel must not drop somebody else's connection."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

BACKLOG: Final = 4096
"""Connections that wait until they are accepted. The kernel lowers it to net.core.somaxconn, whose default it is."""

SOCKET_PATH_BYTES: Final = 107
"""The longest path of a unix socket that Linux takes."""


def take_crowds(server: asyncio.Server) -> asyncio.Server:
    """Have a server that listens already do so with this backlog, and return it.

    asyncio has one number for the backlog and for how many connections it accepts before others have their turn, and a
    hundred is right for the latter alone.
    """
    for listening in server.sockets:
        with socket.socket(fileno=os.dup(listening.fileno())) as same:
            same.listen(BACKLOG)
    return server
