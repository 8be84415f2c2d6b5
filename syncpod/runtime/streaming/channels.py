"""Numbered channels in a WebSocket's messages: `channel.k8s.io` and its later versions.

Every message begins with its channel: a byte, or a digit in the base64 variants, whose messages are text. In version 5
a message `255, channel` means that the client sends nothing more on that channel; earlier versions cannot end input.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from syncpod.runtime.port import Stream
from syncpod.runtime.streaming.remote_command import Outcome, RemoteCommand, serve
from syncpod.runtime.streaming.terminal_sizes import TerminalSizes
from syncpod.runtime.streaming.websocket import WebSocket
from syncpod.runtime.streaming.wire import CLOSING_SECONDS, deliver
from syncpod.streaming.pipe import Pipe

CLOSE: Final = 255


class Channel(IntEnum):
    """The channels of exec and attach."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    STATUS = 3
    RESIZE = 4


@dataclass(frozen=True)
class Dialect:
    """The features of one version of the protocol."""

    base64: bool = False
    structured_status: bool = False
    """The status is JSON, and is sent on success too."""
    closes: bool = False
    """The client can end a channel."""


DIALECTS: Final = {
    "v5.channel.k8s.io": Dialect(structured_status=True, closes=True),
    "v4.channel.k8s.io": Dialect(structured_status=True),
    "v4.base64.channel.k8s.io": Dialect(structured_status=True, base64=True),
    "v3.channel.k8s.io": Dialect(),
    "v2.channel.k8s.io": Dialect(),
    "channel.k8s.io": Dialect(),
    "base64.channel.k8s.io": Dialect(base64=True),
}
UNNAMED: Final = Dialect()
"""The version for a client that names none."""


class Channels:
    """A WebSocket's messages, by channel."""

    def __init__(self, websocket: WebSocket, dialect: Dialect) -> None:
        self._websocket = websocket
        self._dialect = dialect

    async def send(self, channel: int, data: bytes) -> None:
        """Send on a channel; wait while the client does not read.

        Raises ConnectionError once the client has disconnected.
        """
        if self._dialect.base64:
            await self._websocket.send(str(channel).encode() + base64.b64encode(data), text=True)
        else:
            await self._websocket.send(bytes((channel,)) + data)

    async def read(self, received: Callable[[int, bytes], Awaitable[None]], ended: Callable[[int], None]) -> None:
        """Pass each message to `received`, and each closed channel to `ended`, until the client has disconnected.

        A message with invalid base64 is dropped, as in the kubelet.
        """
        try:
            async for message in self._websocket.messages():
                if not message:
                    continue
                if self._dialect.closes and message[0] == CLOSE:
                    if len(message) == 2:
                        ended(message[1])
                elif self._dialect.base64:
                    try:
                        await received(message[0] - ord("0"), base64.b64decode(message[1:], validate=True))
                    except binascii.Error:
                        continue
                else:
                    await received(message[0], message[1:])
        except ConnectionError:
            return


class ChannelClient:
    """The client of a command over a WebSocket (a `Client`)."""

    def __init__(self, websocket: WebSocket, dialect: Dialect) -> None:
        self.stdin = Pipe()
        self.sizes = TerminalSizes()
        self.gone = asyncio.Event()
        self._websocket = websocket
        self._dialect = dialect
        self._channels = Channels(websocket, dialect)

    async def read(self) -> None:
        """Receive from the client until it has disconnected."""
        try:
            await self._channels.read(self._received, self._ended)
        finally:
            self.gone.set()

    async def _received(self, channel: int, data: bytes) -> None:
        match channel:
            case Channel.STDIN:
                await deliver(self._websocket, self.stdin, data)
            case Channel.RESIZE:
                self.sizes.feed(data)

    def _ended(self, channel: int) -> None:
        if channel == Channel.STDIN:
            self.stdin.end()

    async def greet(self, command: RemoteCommand) -> None:
        """Send an empty message on the first channel that the client reads, as a sign that it is connected.

        Raises ConnectionError if the client has disconnected.
        """
        first = Channel.STDOUT if command.stdout else Channel.STDERR if command.stderr else Channel.STATUS
        await self._channels.send(first, b"")

    async def send(self, stream: Stream, data: bytes) -> None:
        """Send output, waiting while the client does not read. Raises ConnectionError once it has disconnected."""
        await self._channels.send(Channel.STDOUT if stream is Stream.STDOUT else Channel.STDERR, data)

    async def finish(self, outcome: Outcome) -> None:
        """Send the command's outcome. Raises ConnectionError once the client has disconnected."""
        said = outcome.status() if self._dialect.structured_status else outcome.text()
        if said:
            await self._channels.send(Channel.STATUS, said)


async def serve_over_channels(command: RemoteCommand, websocket: WebSocket, dialect: Dialect) -> None:
    """Run a command for a client on a WebSocket. Raises ConnectionError if the client has disconnected at once."""
    client = ChannelClient(websocket, dialect)
    reading = asyncio.create_task(client.read())
    try:
        await client.greet(command)
        await serve(command, client)
        await part(websocket, reading)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def part(websocket: WebSocket, reading: asyncio.Task[None]) -> None:
    """Close a WebSocket once its client has read everything, and wait a little for the client's own close.

    The client's close ends `reading`.
    """
    closing = asyncio.create_task(websocket.send_close())
    try:
        await asyncio.wait({closing, reading}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({reading}, timeout=CLOSING_SECONDS)
    finally:
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
