"""The user, socket and command line at the other end of a loopback connection."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from syncpod.kernel.peers import find_peer, peer_command

Address = tuple[str, int]


@contextmanager
def connection(host: str = "127.0.0.1") -> Iterator[tuple[socket.socket, Address]]:
    """A client's socket, and the server's address."""
    server = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    with server, socket.create_connection(server.getsockname()[:2]) as client, server.accept()[0]:
        yield client, server.getsockname()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_peer_is_known_by_its_user_and_its_socket(host: str) -> None:
    with connection(host) as (client, server):
        found = find_peer(client.getsockname(), server)
        assert found is not None
        assert (found.uid, found.inode) == (os.geteuid(), os.fstat(client.fileno()).st_ino)
        assert find_peer((host, 1), server) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_socket_is_its_makers() -> None:
    os.seteuid(20001)
    try:
        with connection() as (client, server):
            found = find_peer(client.getsockname(), server)
    finally:
        os.seteuid(0)
    assert found is not None and found.uid == 20001


def test_a_peers_command_line_is_found_by_its_socket() -> None:
    with connection() as (client, server):
        said = Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
        assert [part.encode() for part in peer_command(client.getsockname(), server)] == said
        assert peer_command(("127.0.0.1", 1), server) == ()
