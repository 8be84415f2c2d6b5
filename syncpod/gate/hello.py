"""The first message of a TLS client, which says before any work is done whom the client may be.

A server has to compute a key and a signature before a client shows its certificate. So whoever shares an address with
honest nodes could use up all that the server does for that address. Therefore a client that knows the serial number of
a certificate asks for a name that only those who know that number can tell. The certificate itself is shown encrypted,
and the name does not reveal the number. Somebody who reads the network can copy the name, which is worth a handshake of
that node's share, and nothing else.
"""

from __future__ import annotations

import asyncio
import socket
from hashlib import sha256
from typing import Final

HELLO_SECONDS: Final = 5.0
"""How long the first message may take to arrive."""
_AGAIN_SECONDS: Final = 0.05
"""Between two looks at a message that has not arrived whole."""
_LABEL_LENGTH: Final = 40
_LARGEST: Final = 16 * 2**10
"""The most bytes of the first message, that are looked at."""
_HANDSHAKE_RECORD, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
"""Numbers of RFC 8446, sections 4.1.2 and 5.1, and RFC 6066, section 3."""


class NotWhole(Exception):
    """The message has not arrived whole."""


def hello_name(serial: int, gate: str) -> str:
    """Return the name that who knows a certificate's serial number asks for; `gate` is that of the fleet's gate."""
    return f"{sha256(f'syncpod hello {serial:x}'.encode()).hexdigest()[:_LABEL_LENGTH]}.{gate}"


async def asked_name(taken: socket.socket) -> str:
    """Return the name that a client asks for, and leave its bytes for TLS; "" if there is none.

    Raises TimeoutError if the client says too little, OSError if it is gone.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(HELLO_SECONDS):
        while True:
            await _readable(loop, taken)
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
    """Return the name in a client's first message; "" if there is none, or this is no such message.

    A message in several records counts as one without a name: no client of ours sends it so. Raises NotWhole.
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
    """Return the name. Raises ValueError for what is no whole message, UnicodeDecodeError."""
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
    """What is still to be read of a message."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises ValueError if there are not so many."""
        if self._at + size > len(self._data):
            raise ValueError("too short")
        self._at += size
        return self._data[self._at - size : self._at]

    def sized(self, width: int) -> bytes:
        """Return the next bytes, before which their number stands. Raises ValueError as above."""
        return self.take(int.from_bytes(self.take(width)))


async def _readable(loop: asyncio.AbstractEventLoop, taken: socket.socket) -> None:
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(taken, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(taken)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
