"""Connects to containers, on plain sockets without a transport or buffers: most connections are closed at once."""

from __future__ import annotations

import asyncio
import os
import socket
from ipaddress import ip_address


class NotConnected(Exception):
    """No connection; the text says why, worded like Go's dialer, which users of the kubelet know."""


def host_and_port(host: str, port: int) -> str:
    """Return ``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def dial(host: str, port: int) -> socket.socket:
    """Connect to an address, or to a name, whose addresses are tried in turn; the caller closes the socket.

    There is no timeout here: the caller cancels. Raises :class:`NotConnected`.
    """
    failed = f"dial tcp: lookup {host}: no such host"
    for family, address in await _addresses(host, port):
        end = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            await asyncio.get_running_loop().sock_connect(end, address)
        except OSError as error:
            end.close()
            # asyncio's own text says "Connect call failed", whatever the error.
            why = (os.strerror(error.errno) if error.errno else str(error)).lower()
            failed = f"dial tcp {host_and_port(address[0], port)}: connect: {why}"
        except BaseException:
            end.close()
            raise
        else:
            return end
    raise NotConnected(failed)


async def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        pass
    else:
        return [(family, (host, port))]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: an invalid name, with a label that is empty or too long
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise NotConnected(f"dial tcp: lookup {host}: {reason}") from error
    return [(family, address[:2]) for family, _, _, _, address in found if isinstance(address[0], str)]
