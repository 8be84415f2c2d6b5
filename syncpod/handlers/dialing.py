"""Connects to containers, on plain sockets without a transport or buffers: most connections are closed at once."""

from __future__ import annotations

import asyncio
import os
import socket
from functools import partial
from ipaddress import ip_address
from typing import Final

from syncpod.handlers.pod_shares import PodShares
from syncpod.kernel.daemon_thread import DaemonThreads

_LOOKUPS: Final = PodShares(4, partial(DaemonThreads().run, name="name lookup"))
"""Threads for name lookups. A name server decides how long a lookup takes, and nothing can interrupt it. The lookups of
one pod wait for one another."""


class NotConnected(Exception):
    """There is no connection. The text gives the reason in the words of Go's dialer, as in the kubelet."""


def host_and_port(host: str, port: int) -> str:
    """Return ``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def dial(host: str, port: int, uid: str) -> socket.socket:
    """Connect to an address, or to a name, whose addresses are tried in turn; the caller closes the socket.

    `uid` is the UID of the pod for which the name is looked up.

    There is no timeout here: the caller cancels. Raises :class:`NotConnected`.
    """
    failed = f"dial tcp: lookup {host}: no such host"
    for family, address in await _addresses(host, port, uid):
        end = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            await asyncio.get_running_loop().sock_connect(end, address)
        except OSError as error:
            end.close()
            # asyncio's own text is "Connect call failed" for every error.
            why = (os.strerror(error.errno) if error.errno else str(error)).lower()
            failed = f"dial tcp {host_and_port(address[0], port)}: connect: {why}"
        except BaseException:
            end.close()
            raise
        else:
            return end
    raise NotConnected(failed)


async def _addresses(host: str, port: int, uid: str) -> list[tuple[int, tuple[str, int]]]:
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        pass
    else:
        return [(family, (host, port))]
    try:
        found = await _LOOKUPS.run(uid, partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    except (OSError, ValueError) as error:  # ValueError: a name with an empty or too long label
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise NotConnected(f"dial tcp: lookup {host}: {reason}") from error
    return [(family, address[:2]) for family, _, _, _, address in found if isinstance(address[0], str)]
