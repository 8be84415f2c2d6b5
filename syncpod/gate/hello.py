"""Reads the first message of a TLS client, which names the client's node before the server computes anything.

A server has to compute a key and a signature before a client shows its certificate. So a client that shares an address
with honest nodes could use up the server's whole budget for that address. Therefore a node requests a server name that
is a hash of its certificate's serial number: only the fleet and the node know that number. The certificate itself is
sent encrypted, and the name does not reveal the number. Somebody who reads the network can copy the name, and then use
up that node's own share of handshakes, but nothing else.
"""

from __future__ import annotations

import asyncio
import socket
from hashlib import sha256
from typing import Final

from syncpod.streaming.readiness import readable

HELLO_SECONDS: Final = 5.0
"""Seconds within which the first message must arrive."""
_AGAIN_SECONDS: Final = 0.05
"""Seconds between two reads of a message that has not arrived whole."""
_LABEL_LENGTH: Final = 40
_LARGEST: Final = 16 * 2**10
"""Maximum bytes of the first message."""
_HANDSHAKE_RECORD, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
"""Numbers of RFC 8446, sections 4.1.2 and 5.1, and RFC 6066, section 3."""


class NotWhole(Exception):
    """The message has not arrived completely."""


def hello_name(serial: int, gate: str) -> str:
    """Return the server name that a node requests by its certificate's serial; `gate` is the name of the gate."""
    return f"{sha256(f'syncpod hello {serial:x}'.encode()).hexdigest()[:_LABEL_LENGTH]}.{gate}"


async def requested_name(taken: socket.socket) -> str:
    """Return the server name that a client requests; "" if there is none. The bytes stay unread for TLS.

    Raises TimeoutError if the message does not arrive in time, OSError if the connection has ended.
    """
    async with asyncio.timeout(HELLO_SECONDS):
        while True:
            await readable(taken.fileno())
            said = taken.recv(_LARGEST, socket.MSG_PEEK)
            if not said:
                raise ConnectionResetError("it ended")
            try:
                return server_name(said)
            except NotWhole:
                if len(said) == _LARGEST:
                    return ""
            await asyncio.sleep(_AGAIN_SECONDS)


def server_name(said: bytes) -> str:
    """Return the name in a client's first message; "" if there is none, or if the message is no TLS hello.

    A message in several records counts as one without a name: no client of ours splits it. Raises NotWhole.
    """
    if said[:1] != bytes([_HANDSHAKE_RECORD]):
        return ""
    body = _Bytes(said)
    try:
        body.take(3)
        hello = _Bytes(body.sized(2))
    except ValueError:
        raise NotWhole from None
    try:
        return _name_in(hello)
    except (ValueError, UnicodeDecodeError):
        return ""


def _name_in(hello: _Bytes) -> str:
    """Return the name; "" if there is none. Raises ValueError for an invalid message, UnicodeDecodeError."""
    if hello.take(1)[0] != _CLIENT_HELLO:
        return ""
    hello = _Bytes(hello.sized(3))
    hello.take(2 + 32)  # version and random
    hello.sized(1)  # session
    hello.sized(2)  # ciphers
    hello.sized(1)  # compression
    extensions = _Bytes(hello.sized(2))
    while not extensions.is_empty:
        kind, content = int.from_bytes(extensions.take(2)), extensions.sized(2)
        if kind == _SERVER_NAME:
            names = _Bytes(_Bytes(content).sized(2))
            return names.sized(2).decode("ascii").lower() if names.take(1)[0] == _HOST_NAME else ""
    return ""


class _Bytes:
    """Reads the parts of a message in order."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises ValueError if fewer are left."""
        if self._at + size > len(self._data):
            raise ValueError("too short")
        self._at += size
        return self._data[self._at - size : self._at]

    def sized(self, width: int) -> bytes:
        """Return the next bytes, which follow their number in `width` bytes. Raises ValueError as `take`."""
        return self.take(int.from_bytes(self.take(width)))
