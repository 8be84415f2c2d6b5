"""A WebSocket on a connection whose request was already read, with the `websockets` library's protocol."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.protocol import State
from websockets.server import ServerProtocol

from syncpod.runtime.streaming.request import Refused
from syncpod.runtime.streaming.wire import Socket
from syncpod.streaming.pipe import Pipe

MAX_MESSAGE: Final = 32 * 1024 * 1024
"""Maximum bytes of a message, as in the kubelet: clients send a file in one message."""


class WebSocket:
    """Messages both ways."""

    def __init__(self, socket: Socket, protocol: ServerProtocol) -> None:
        self._socket = socket
        self._protocol = protocol

    @classmethod
    async def accept(cls, socket: Socket, head: bytes, subprotocol: str | None) -> WebSocket | None:
        """Answer the handshake in `head`. If it is invalid, send the client that answer and return None.

        Raises Refused, and ConnectionError if the client has disconnected.
        """
        protocol = ServerProtocol(max_size=MAX_MESSAGE)
        protocol.receive_data(head)
        match protocol.events_received():
            case [Handshake() as request]:
                pass
            case _:
                raise Refused(HTTPStatus.BAD_REQUEST, "the request is not a WebSocket handshake")
        # The protocol has been chosen already: the library refuses a name with a slash, such as
        # SPDY/3.1+portforward.k8s.io.
        with contextlib.suppress(KeyError):
            del request.headers["Sec-WebSocket-Protocol"]
        response = protocol.accept(request)
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS and subprotocol is not None:
            response.headers["Sec-WebSocket-Protocol"] = subprotocol
        protocol.send_response(response)
        websocket = cls(socket, protocol)
        await websocket._send()
        return websocket if protocol.state is State.OPEN else None

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield whole messages until the client closes the WebSocket or disconnects.

        Raises ConnectionError if the connection broke.
        """
        message = bytearray()
        while data := await self._socket.read():
            self._protocol.receive_data(data)
            events = self._protocol.events_received()
            await self._send()
            for frame in events:
                if not isinstance(frame, Frame) or frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                    continue
                message += frame.data
                if frame.fin:
                    yield bytes(message)
                    message.clear()
            if self._protocol.state is not State.OPEN:
                return

    async def send(self, data: bytes, *, text: bool = False) -> None:
        """Send one message, waiting while the client does not read. Raises ConnectionError once it has disconnected."""
        self._queue(data, text=text)
        await self._send()

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within `seconds`. Raises ConnectionError if the client has disconnected.

        Without space, send a pong: the client considers us dead after a minute without one, and we do not read its
        pings meanwhile.
        """
        if await self._socket.space(pipe, seconds):
            return True
        if self._protocol.state is State.OPEN:
            self._protocol.send_pong(b"")
            self._send_at_once()
        return False

    def send_at_once(self, data: bytes) -> None:
        """Send one message without waiting. Raises ConnectionError once the client has disconnected."""
        self._queue(data, text=False)
        self._send_at_once()

    def _queue(self, data: bytes, *, text: bool) -> None:
        try:
            if text:
                self._protocol.send_text(data)
            else:
                self._protocol.send_binary(data)
        except InvalidState as closed:
            raise ConnectionResetError("the client has closed the WebSocket") from closed

    def _send_at_once(self) -> None:
        self._socket.write_at_once(b"".join(self._protocol.data_to_send()))

    async def _send(self) -> None:
        if data := b"".join(self._protocol.data_to_send()):
            await self._socket.write(data)

    async def flush(self) -> None:
        """Wait until the kernel has all sent data. Raises ConnectionError once the client has disconnected."""
        await self._socket.flush()

    async def send_close(self) -> None:
        """Send a close frame, unless one was sent, and wait until it is sent; the client's answer ends `messages`."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
            with contextlib.suppress(ConnectionError):
                await self._send()
                await self.flush()


class Tunnel:
    """A connection within a WebSocket's binary messages (a `Wire`)."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._messages = websocket.messages()

    async def read(self) -> bytes:
        """Return received data; empty once the client has disconnected, for any reason."""
        try:
            async for message in self._messages:
                if message:
                    return message
        except ConnectionError:
            return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the client does not read. Raises ConnectionError once the client has disconnected."""
        await self._websocket.send(data)

    def write_at_once(self, data: bytes) -> None:
        """Send a few bytes without waiting. Raises ConnectionError once the client has disconnected."""
        self._websocket.send_at_once(data)

    async def flush(self) -> None:
        """Wait until the kernel has all sent data. Raises ConnectionError once the client has disconnected."""
        await self._websocket.flush()

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within `seconds`. Raises ConnectionError if the client has disconnected."""
        return await self._websocket.space(pipe, seconds)
