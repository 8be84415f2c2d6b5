"""Notifies the service manager (systemd, ``Type=notify``) that this process is ready."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

SOCKET: Final = "NOTIFY_SOCKET"
"""The variable with the manager's socket: a path, or after an ``@`` a name in the kernel's abstract namespace."""


def notify_ready() -> None:
    """Notify the service manager that this process serves; do nothing without a manager. See sd_notify(3).

    A failure to send is ignored. The variable is removed, so that children do not inherit it: the manager would not
    accept their notices.
    """
    address = os.environ.pop(SOCKET, "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.connect("\0" + address[1:] if address.startswith("@") else address)
        sender.sendall(b"READY=1")
