"""Ports of the loopback for the servers of tests: no two live processes of tests get the same one.

A free port stays free only until a server listens there, and is free again while its server is down. So each port is
also locked: by one byte of a file, until the end of the process that asked. The kernel itself assigns none of them.
"""

import contextlib
import fcntl
import os
import secrets
import socket
from pathlib import Path

from tests.runtimes import claim

_given: set[int] = set()
"""The ports that this process has, since its own locks do not exclude it."""
_locks: list[int] = []
"""The open file of locks. Hazard: if any descriptor of that file is closed here, all its locks are released."""


def free_port() -> int:
    """A port at which nothing listens, and which no other process of tests gets before this one ends."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """`count` different ports, each chosen as by `free_port`."""
    first_assigned = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    lowest = min(10_000, first_assigned // 2)
    ports: list[int] = []
    while len(ports) < count:
        port = lowest + secrets.randbelow(first_assigned - lowest)
        if port not in _given and _locked(port) and _is_free(port):
            _given.add(port)
            ports.append(port)
    return ports


def _locked(port: int) -> bool:
    """Lock the port's byte, and return whether that succeeded: no other process has it."""
    if not _locks:
        claim.HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
        _locks.append(os.open(claim.HOME / "ports", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with contextlib.suppress(BlockingIOError, PermissionError):
        fcntl.lockf(_locks[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        return True
    return False


def _is_free(port: int) -> bool:
    with socket.socket() as listener, contextlib.suppress(OSError):
        listener.bind(("127.0.0.1", port))
        return True
    return False
