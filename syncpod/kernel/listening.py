"""Listening sockets: their backlog, and the log lines while no connection can be accepted."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from syncpod.rare_lines import RareLines

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)

BACKLOG: Final = 4096
"""Maximum number of connections that wait to be accepted. The kernel's limit is net.core.somaxconn, 4096 by default."""

SOCKET_PATH_BYTES: Final = 107
"""The longest path of a unix socket that Linux accepts, in bytes."""
ACCEPT_WARNING_SECONDS: Final = 60.0
"""Seconds between two warnings while connections cannot be accepted."""
_ASYNCIO_MESSAGE: Final = "socket.accept() out of system resource"


def grpc_address(socket_path: str | Path) -> str:
    """Return the address of a unix socket for gRPC, which decodes it as a URI: without encoding, %41 would be an A."""
    return f"unix:{quote(str(socket_path))}"


def why_unusable(socket_path: str | Path) -> str:
    """Return why gRPC cannot listen or connect at this path, as the end of a sentence about it; "" if it can."""
    if (size := len(os.fsencode(socket_path))) > SOCKET_PATH_BYTES:
        return f"has {size} bytes, and a socket's path at most {SOCKET_PATH_BYTES}: name a shorter one"
    if "," in str(socket_path):
        return "has a comma, at which gRPC would divide it: name one without"
    return ""


def take_crowds(server: asyncio.Server) -> asyncio.Server:
    """Set the backlog of a server that listens already, and return the server.

    asyncio uses one number both for the backlog and for the connections that it accepts in one turn of the loop. Its
    default of 100 is right only for the latter.
    """
    for listening in server.sockets:
        with socket.socket(fileno=os.dup(listening.fileno())) as same:
            same.listen(BACKLOG)
    return server


def log_failed_accepts(loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.monotonic) -> None:
    """Make an event loop log one warning a minute while it cannot accept connections for lack of descriptors.

    asyncio tries a hundred times each second, and would log a traceback for each try. The loop's other errors are
    logged as before.
    """
    lines = RareLines(ACCEPT_WARNING_SECONDS, clock)

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if context.get("message") != _ASYNCIO_MESSAGE or not isinstance(error, OSError):
            loop.default_exception_handler(context)
        elif lines.left_out() is not None:
            log.warning("no new connection is accepted, and each second it is tried again: %s", error.strerror)

    loop.set_exception_handler(handle)
