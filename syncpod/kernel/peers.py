"""Finds the process at the other end of a connection over the loopback."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_SOCK_DIAG: Final = 4
"""``NETLINK_SOCK_DIAG``, see sock_diag(7)."""
_BY_FAMILY: Final = 20
"""``SOCK_DIAG_BY_FAMILY``: both the request's type and the answer's."""
_REQUEST: Final = 1
_ALL_STATES: Final = 0xFFFFFFFF
_ANY_COOKIE: Final = b"\xff" * 8
_HEADER: Final = struct.Struct("=IHHII")
"""``nlmsghdr``: length, type, flags, sequence, port."""
_HEAD: Final = struct.Struct("=BBBBI")
"""``inet_diag_req_v2``: family, protocol, extensions, padding, states; an ``inet_diag_sockid`` follows."""
_SOCKET_ID: Final = 48
_OWNER: Final = struct.Struct("=12xII")
"""The end of ``inet_diag_msg``: the user and the inode."""
_PATIENCE_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Peer:
    """The client's end of a connection."""

    uid: int
    """The user that made the socket."""
    inode: int


Address = Sequence[Any]
"""Host and port of a socket, as Python has them; for IPv6, flow and scope follow."""


def find_peer(client: Address, server: Address) -> Peer | None:
    """Return the process that has connected from `client` to `server`, both of one family; None if it is not known.

    The kernel is queried for this one socket, which takes some microseconds; /proc/net/tcp would take milliseconds.
    """
    ports = struct.pack("!HH", client[1], server[1])
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    hosts = (end[0].partition("%")[0] for end in (client, server))
    addresses = b"".join(socket.inet_pton(family, host).ljust(16, b"\0") for host in hosts)
    wanted = ports + addresses + bytes(4) + _ANY_COOKIE
    body = _HEAD.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + wanted
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as asking:
            asking.settimeout(_PATIENCE_SECONDS)
            asking.sendto(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, 0, 0) + body, (0, 0))
            answer = asking.recv(4096)
    except OSError:  # a kernel without sock_diag, such as gVisor
        return None
    if len(answer) < _HEADER.size or _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    uid, inode = _OWNER.unpack_from(answer, _HEADER.size + 4 + _SOCKET_ID)
    return Peer(uid, inode) if inode else None  # a socket that was closed belongs to nobody


def peer_command(client: Address, server: Address) -> tuple[str, ...]:
    """Return the command line of the process that has connected from `client` to `server`; () = not known.

    Finds only processes of this user, or as root all processes. Blocks for some milliseconds.
    """
    peer = find_peer(client, server)
    if peer is None:
        return ()
    for pid in _pids():
        if f"socket:[{peer.inode}]" in _sockets(pid):
            with contextlib.suppress(OSError):
                said = Path(f"/proc/{pid}/cmdline").read_bytes()
                return tuple(part.decode(errors="replace") for part in said.split(b"\0")[:-1])
    return ()


def _pids() -> Iterator[int]:
    """Return the pids of this user, or as root all pids; newest first, since the command has just been started."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    for pid in sorted(numbers, reverse=True):
        with contextlib.suppress(OSError):
            if os.geteuid() in (0, Path(f"/proc/{pid}").stat().st_uid):
                yield pid


def _sockets(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(descriptor.readlink()))
    return found
