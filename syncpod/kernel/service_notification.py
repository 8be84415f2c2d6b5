"""A notice to the service manager that has started the process: the process serves (systemd's ``Type=notify``)."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

SOCKET: Final = "NOTIFY_SOCKET"
"""The variable with the manager's socket; a path, or behind an ``@`` a name of the kernel's abstract namespace."""


def notify_ready() -> None:
    """Tell the service manager that this process serves; without one, do nothing. See sd_notify(3).

    A manager that does not listen is none of the process's business: it goes on. Its children are not told of the
    socket, since the manager takes the word of its own service alone.
    """
    address = os.environ.pop(SOCKET, "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.connect("\0" + address[1:] if address.startswith("@") else address)
        sender.sendall(b"READY=1")
