"""Sockets that listen before their process can answer, so that early connections wait and are not refused.

The process that starts first binds the node's ports, and the program that replaces it inherits them. The kernel queues
connections meanwhile. This module keeps the process's one set of these sockets.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final

from syncpod.kernel.listening import BACKLOG

Place = tuple[str, int]
"""An IP address and a port."""

VARIABLE: Final = "_SYNCPOD_LISTENING"
"""The environment variable with the sockets' descriptors, for the program that replaces this one."""

_waiting: Final[dict[Place, socket.socket]] = {}


def listen_first(places: Iterable[Place]) -> None:
    """Listen at these places, except those that cannot be bound, have port 0, or have no IP address.

    Their servers bind or refuse such places. A host name would need a lookup.
    """
    for address, port in places:
        if port and (address, port) not in _waiting:
            try:
                _waiting[address, port] = _listening(address, port)
            except (OSError, OverflowError, ValueError):
                continue


def taken(address: str, port: int) -> socket.socket | None:
    """Return the socket that already listens at this place, and leave it to the caller; None if there is none."""
    return _waiting.pop((address, port), None)


def keep(places: Iterable[Place]) -> None:
    """Close the sockets at all other places: no server will answer there."""
    kept = set(places)
    for place in [each for each in _waiting if each not in kept]:
        _waiting.pop(place).close()


def hand_over() -> Mapping[str, str]:
    """Make the sockets inheritable for the program that replaces this one; return its additional variables."""
    for each in _waiting.values():
        each.set_inheritable(True)
    return {VARIABLE: ",".join(str(each.fileno()) for each in _waiting.values())} if _waiting else {}


def receive(environ: MutableMapping[str, str]) -> None:
    """Take over the sockets of the program before this one. Child processes do not inherit them."""
    for text in environ.pop(VARIABLE, "").split(","):
        try:
            received = socket.socket(fileno=int(text))
        except (OSError, ValueError):
            continue
        received.set_inheritable(False)
        received.setblocking(False)
        _waiting[received.getsockname()[:2]] = received


def _listening(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    socket.inet_pton(family, address)  # raises OSError or ValueError, without a name lookup
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made
