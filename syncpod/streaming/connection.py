"""A client's connection to a streaming server: an HTTP request that is upgraded to SPDY/3.1."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

from syncpod.streaming.readiness import readable, writable
from syncpod.streaming.spdy import CHUNK

VERSION_HEADER: Final = "X-Stream-Protocol-Version"
MAX_ANSWER: Final = 16 * 1024
"""Maximum bytes of the server's response: its head, and the text of a refusal."""
ANSWER_SECONDS: Final = 30.0


class UpgradeRefused(Exception):
    """The server does not upgrade to SPDY, or there is no server.

    The text is that of the server's answer or of the system's error.
    """


@dataclass(frozen=True)
class UpgradeAnswer:
    """A server's answer to a request for an upgrade."""

    code: int
    lines: tuple[str, ...]
    """The head of the answer: the status line and the headers."""
    text: str
    """Why the server refuses; "" = it accepts."""


def requested(url: SplitResult) -> str:
    """Return a URL's path and query for a request line."""
    return f"{url.path or '/'}{'?' + url.query if url.query else ''}"


class Connection:
    """A TCP connection (a `Wire`).

    Unlike `asyncio`'s streams, it still reads after the peer has stopped reading. So the output of a command that ends
    before it has read its input is not lost.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._ahead = b""
        """Bytes that were read together with the server's response."""
        self._unsent = bytearray()
        self._sending = asyncio.Lock()

    @classmethod
    async def dial(cls, url: str, protocol: str) -> Self:
        """Connect to the URL that a runtime returned, and agree on SPDY/3.1 and the protocol above it.

        Raises UpgradeRefused.
        """
        parts = urlsplit(url)
        head = (
            f"POST {requested(parts)} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Connection: Upgrade",
            "Upgrade: SPDY/3.1",
            f"{VERSION_HEADER}: {protocol}",
            "Content-Length: 0",
        )
        connection, answer = await cls.ask(url, head)
        if answer.code != HTTPStatus.SWITCHING_PROTOCOLS:
            try:
                raise UpgradeRefused(answer.text)
            finally:
                connection.close()
        return connection

    @classmethod
    async def ask(cls, url: str, head: Sequence[str]) -> tuple[Self, UpgradeAnswer]:
        """Connect to the URL that a runtime returned, send the lines of a request, and return its answer.

        If the answer is 101, the connection belongs to the new protocol. Only plain HTTP is supported: a runtime's
        streaming server is on this machine. Raises UpgradeRefused.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise UpgradeRefused(f"its address begins with {parts.scheme}://, and only http:// is supported")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                connection = cls(await _connected(parts.hostname, parts.port or 80))
                try:
                    answer = await connection._asked(head)
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError:
            raise UpgradeRefused(f"no answer within {ANSWER_SECONDS:g} seconds") from None
        except OSError as error:
            # The system's text for the errno: asyncio's own text repeats the address.
            known = error.errno is not None and error.errno > 0
            raise UpgradeRefused(os.strerror(error.errno or 0) if known else str(error)) from error
        return connection, answer

    async def _asked(self, head: Sequence[str]) -> UpgradeAnswer:
        await self.write("\r\n".join((*head, "", "")).encode("latin-1"))
        answer = await self._read_past(b"\r\n\r\n")
        answered, _, self._ahead = answer.partition(b"\r\n\r\n")
        lines = tuple(answered.decode("latin-1").split("\r\n"))
        status = lines[0].split(" ", 2)[1:2]
        code = int(status[0]) if status and status[0].isascii() and status[0].isdigit() else HTTPStatus.BAD_GATEWAY
        is_upgraded = code == HTTPStatus.SWITCHING_PROTOCOLS
        return UpgradeAnswer(code, lines, "" if is_upgraded else await self._refusal(lines))

    async def _read_past(self, mark: bytes) -> bytes:
        answer = b""
        while mark not in answer:
            data = await self.read()
            answer += data
            if not data or len(answer) > MAX_ANSWER:
                raise UpgradeRefused("the answer is not HTTP")
        return answer

    async def _refusal(self, lines: Sequence[str]) -> str:
        """Return why the server refuses: the text of its response, else its status."""
        length = next(
            (line.partition(":")[2].strip() for line in lines if line.lower().startswith("content-length:")), ""
        )
        wanted = min(int(length), MAX_ANSWER) if length.isascii() and length.isdigit() else MAX_ANSWER
        text = b""
        while len(text) < wanted and (data := await self.read()):
            text += data
        said = text.decode(errors="replace").strip()
        return said or lines[0].partition(" ")[2] or HTTPStatus.BAD_GATEWAY.phrase

    async def read(self) -> bytes:
        """Return the next bytes; empty once the connection has ended, for whatever reason."""
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        while True:
            try:
                return self._socket.recv(CHUNK)
            except BlockingIOError:
                await readable(self._socket.fileno())
            except OSError:
                return b""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the server does not read. Raises ConnectionError once the server accepts nothing more.

        After a cancelled call, the next call first sends the rest of its data, so that frames stay whole.
        """
        self._unsent += data
        async with self._sending:
            while self._unsent:
                try:
                    del self._unsent[: self._socket.send(self._unsent)]
                except BlockingIOError:
                    await writable(self._socket.fileno())
                except OSError as error:
                    raise ConnectionResetError("the server accepts no more data") from error

    def close(self) -> None:
        """Close the connection at once."""
        self._socket.close()


async def _connected(host: str, port: int) -> socket.socket:
    """Return a non-blocking socket that is connected to the host's first address that answers. Raises OSError."""
    loop = asyncio.get_running_loop()
    problem = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.setblocking(False)
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connecting, address)
        except OSError as error:
            connecting.close()
            problem = error
        except BaseException:
            connecting.close()
            raise
        else:
            return connecting
    raise problem
