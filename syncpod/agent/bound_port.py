"""Binds an address and a port for a server that the node can do without."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

from syncpod.kernel import early_listening

log = logging.getLogger(__name__)

_LISTEN_SECONDS: Final = 5.0
"""Seconds between two tries to bind an address."""


async def bound_port(address: str, port: int, backlog: int, called: str) -> socket.socket:
    """Return a listening socket; it may be inherited, and older than this process.

    While another process has the place, retry. `called` is the server's name in the log.
    """
    early, is_logged = early_listening.taken(address, port), False
    if early is not None:
        early.listen(backlog)
        return early
    while True:
        listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((address, port))
            listening.listen(backlog)
        except OSError as error:
            listening.close()
            if not is_logged:
                log.error("%s cannot be served at %s port %d: %s", called, address, port, error.strerror)
            is_logged = True
        else:
            return listening
        await asyncio.sleep(_LISTEN_SECONDS)
