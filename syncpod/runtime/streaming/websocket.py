"""A WebSocket on a connection whose request was read already, by the protocol of the `websockets` library."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from syncpod.runtime.streaming.pipe import Pipe
from syncpod.runtime.streaming.request import Refused
from syncpod.runtime.streaming.wire import Socket

MAX_MESSAGE: Final = 32 * 1024 * 1024
"""As the kubelet's: clients that send a file send it in one message."""


class WebSocket:
    """Messages both ways."""

    def __init__(self, socket: Socket, protocol: ServerProtocol) -> None:
        self._socket = socket
        self._protocol = protocol

    @classmethod
    async def accept(cls, socket: Socket, head: bytes, subprotocol: str | None) -> WebSocket | None:
        """Answer a handshake, whose bytes are `head`; None if it is a wrong one, which the client has been told.

        Raises Refused, and ConnectionError if the client is gone.
        """
        chosen = None if subprotocol is None else Subprotocol(subprotocol)
        protocol = ServerProtocol(select_subprotocol=lambda _protocol, _offered: chosen, max_size=MAX_MESSAGE)
        protocol.receive_data(head)
        match protocol.events_received():
            case [Handshake() as request]:
                protocol.send_response(protocol.accept(request))
            case _:
                raise Refused(HTTPStatus.BAD_REQUEST, "the request is no WebSocket handshake")
        websocket = cls(socket, protocol)
        await websocket._flush()
        return websocket if protocol.state is State.OPEN else None

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages, whole, until the client is gone or closes. Raises ConnectionError where it broke."""
        message = bytearray()
        while data := await self._socket.read():
            self._protocol.receive_data(data)
            events = self._protocol.events_received()
            await self._flush()
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
        """Send one message, waiting while the client does not read. Raises ConnectionError once it is gone."""
        try:
            if text:
                self._protocol.send_text(data)
            else:
                self._protocol.send_binary(data)
        except InvalidState as closed:
            raise ConnectionResetError("the client has closed the WebSocket") from closed
        await self._flush()

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within so many seconds. Raises ConnectionError if the client is gone.

        The client hears a pong if not: it takes us for dead when none comes for a minute, and its pings are not read
        meanwhile.
        """
        if await self._socket.space(pipe, seconds):
            return True
        if self._protocol.state is State.OPEN:
            self._protocol.send_pong(b"")
            for data in self._protocol.data_to_send():
                self._socket.write_at_once(data)
        return False

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                await self._socket.write(data)

    async def say_goodbye(self) -> None:
        """Send a close frame, unless one was; the client's answer ends `messages`."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
            try:
                await self._flush()
            except ConnectionError:
                return


class Tunnel:
    """A connection within a WebSocket's binary messages (a `Wire`)."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._messages = websocket.messages()

    async def read(self) -> bytes:
        """Return what has come; empty once the client is gone, however it went."""
        try:
            async for message in self._messages:
                if message:
                    return message
        except ConnectionError:
            return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the client does not read. Raises ConnectionError once it is gone."""
        await self._websocket.send(data)

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within so many seconds. Raises ConnectionError if the client is gone."""
        return await self._websocket.space(pipe, seconds)
