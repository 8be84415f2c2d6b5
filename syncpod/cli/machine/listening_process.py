"""Finds out which process listens at a port of the loopback."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_LISTEN: Final = "0A"
"""TCP_LISTEN in /proc/net/tcp."""


def listens(pid: int, address: str) -> bool | None:
    """Return whether this process listens at ``<IPv4 address>:<port>``; None if no process does.

    The kernel's table has the inode of the listening socket, which is then looked for among the process's descriptors.
    """
    inodes = _listeners(address)
    if not inodes:
        return None
    return not inodes.isdisjoint(_sockets(pid))


def somebody_listens(address: str) -> bool:
    """Return whether ``<host>:<port>`` accepts a connection within a second."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def listening_ports(pid: int) -> list[int]:
    """Return the TCP ports at which a process listens, at any address, in ascending order."""
    sockets = _sockets(pid)
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):  # a kernel without IPv6
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and fields[9] in sockets:
                    found.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(found)


def _listeners(address: str) -> set[str]:
    host, _, port = address.rpartition(":")
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    local = f"{number:08X}:{int(port):04X}"
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == local and fields[3] == _LISTEN:
            found.add(fields[9])
    return found


def _sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets; none if it has ended, or we have no permission."""
    found = set()
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(descriptor.readlink())
            except OSError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    except OSError:
        return set()
    return found
