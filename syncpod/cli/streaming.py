"""Running a command in a container through the runtime's streaming endpoint, over WebSocket.

Each message begins with a byte that names its channel. Version 4 cannot say that standard input has ended; version 5
can, and the embedded runtime speaks it, but containerd refuses it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from enum import IntEnum
from http import HTTPStatus
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, NegotiationError
from websockets.typing import Subprotocol

from syncpod.cli.console import remark

V4: Final = Subprotocol("v4.channel.k8s.io")
V5: Final = Subprotocol("v5.channel.k8s.io")


class Channel(IntEnum):
    """What a message carries."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    STATUS = 3
    RESIZE = 4
    CLOSE = 255
    """Version 5: the channel that the second byte names has ended."""


class StreamBroken(Exception):
    """The command's outcome is not known, or it could not be run; the text says why."""


class NoEndOfInput(StreamBroken):
    """The runtime cannot be told that input has ended; the command has not been run."""


async def stream(
    url: str,
    *,
    stdin: AsyncIterator[bytes] | None,
    sizes: AsyncIterator[tuple[int, int]] | None,
    write: Callable[[Channel, bytes], None],
    input_ends: bool = False,
) -> int:
    """Run the command that `url` was made for, pass its streams, and return its exit code.

    With `input_ends` the command waits for the end of its input: then only version 5 will do, and a runtime without it
    refuses before anything is run (NoEndOfInput). `sizes` yields the terminal's columns and rows, now and whenever they
    change. `write` is given what comes on stdout and stderr. Raises StreamBroken.
    """
    address = url.replace("http", "ws", 1)
    protocols = [V5] if input_ends else [V5, V4]
    try:
        async with connect(
            address, subprotocols=protocols, compression=None, max_size=None, proxy=None, ping_interval=None
        ) as connection:
            senders = [
                asyncio.create_task(sender)
                for sender in (
                    _send_input(connection, stdin) if stdin is not None else None,
                    _send_sizes(connection, sizes) if sizes is not None else None,
                )
                if sender is not None
            ]
            try:
                return await _receive(connection, write)
            finally:
                for sender in senders:
                    sender.cancel()
                await asyncio.gather(*senders, return_exceptions=True)
    except BrokenPipeError:
        raise  # ours: whoever read our output has seen enough
    except (OSError, InvalidHandshake) as error:
        if input_ends and _is_refusal(error):
            raise NoEndOfInput("this runtime cannot be told that input has ended") from error
        raise StreamBroken(f"the runtime does not stream from {url.partition('/exec')[0]}: {error}") from error


def _is_refusal(error: Exception) -> bool:
    """Say whether the runtime answered that it does not speak what it was offered; kubelet's streaming server: 403."""
    return isinstance(error, NegotiationError) or (
        isinstance(error, InvalidStatus) and error.response.status_code == HTTPStatus.FORBIDDEN
    )


async def _receive(connection: ClientConnection, write: Callable[[Channel, bytes], None]) -> int:
    """Pass output on until the status comes; whatever is still under way comes before the runtime closes."""
    code: int | None = None
    try:
        async for message in connection:
            data = message.encode() if isinstance(message, str) else message
            match data[:1]:
                case b"\x01" | b"\x02":
                    write(Channel(data[0]), data[1:])
                case b"\x03" if len(data) > 1:
                    code = exit_code(data[1:])
    except ConnectionClosed as closed:
        if code is None:
            raise StreamBroken("the connection to the runtime broke; the command may still run") from closed
    if code is None:
        raise StreamBroken("the runtime closed the connection without a status")
    return code


async def _send_input(connection: ClientConnection, stdin: AsyncIterator[bytes]) -> None:
    async for data in stdin:
        await connection.send(bytes((Channel.STDIN,)) + data)
    if connection.subprotocol == V5:
        await connection.send(bytes((Channel.CLOSE, Channel.STDIN)))
    else:
        remark("Note: this runtime cannot be told that input has ended; Ctrl-C leaves the command")


async def _send_sizes(connection: ClientConnection, sizes: AsyncIterator[tuple[int, int]]) -> None:
    async for width, height in sizes:
        await connection.send(bytes((Channel.RESIZE,)) + json.dumps({"Width": width, "Height": height}).encode())


def exit_code(status: bytes) -> int:
    """Return the exit code that a ``metav1.Status`` tells of. Raises StreamBroken where the command never ran."""
    try:
        said: dict[str, Any] = json.loads(status)
    except ValueError:
        raise StreamBroken(status.decode(errors="replace").strip()) from None
    if said.get("status") == "Success":
        return 0
    for cause in (said.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise StreamBroken(said.get("message") or "the runtime says that it failed, and not why")
