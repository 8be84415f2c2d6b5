"""A command's streams, through the runtime's streaming endpoint, over SPDY/3.1.

Kubernetes' clients can use WebSocket too, but containerd and CRI-O serve only versions that cannot signal the end of
input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from syncpod.cli.failure import Failure
from syncpod.streaming.client import ClientSession, session_of
from syncpod.streaming.connection import UpgradeRefused
from syncpod.streaming.spdy import SpdyStream, StreamReset

PROTOCOL: Final = "v4.channel.k8s.io"
"""The newest protocol over SPDY: it ends with a structured status."""


class Output(Enum):
    """The output streams of a command."""

    STDOUT = "stdout"
    STDERR = "stderr"


Write = Callable[[Output, bytes], Awaitable[None]]
"""A callback for output. No more of the same output stream is read until the callback returns."""


class StreamBroken(Failure):
    """The command's outcome is not known, or it could not be run; the text says why."""


class NeverRan(StreamBroken):
    """The runtime could not run the command, or could not attach; the text says why."""


async def stream(
    url: str,
    *,
    stdin: AsyncIterator[bytes] | None,
    sizes: AsyncIterator[tuple[int, int]] | None,
    write: Write,
    tty: bool = False,
) -> int:
    """Run the command of a streaming `url`, or attach; connect its streams, and return its exit code.

    `url` was requested with stdin if `stdin` is given, with stdout, and with stderr unless `tty`. `sizes` yields
    columns and rows of our terminal, now and on each change. `write` gets the output; the end of `stdin` is passed on.
    Raises StreamBroken.
    """
    try:
        async with session_of(url, PROTOCOL) as session:
            # The streams are in kubectl's order. A runtime begins once all streams of the URL are open.
            status = await _open(session, "error")
            input = await _open(session, "stdin") if stdin is not None else None
            outputs = {Output.STDOUT: await _open(session, Output.STDOUT.value)}
            if not tty:
                outputs[Output.STDERR] = await _open(session, Output.STDERR.value)
            resizes = await _open(session, "resize") if tty else None
            sending = []
            if stdin is not None and input is not None:
                sending.append(_send_input(input, stdin))
            if sizes is not None and resizes is not None:
                sending.append(_send_sizes(resizes, sizes))
            receiving = [_pass_output(opened, which, write) for which, opened in outputs.items()]
            said, *_ = await _while_sending(sending, status.input.whole(), *receiving)
    except UpgradeRefused as error:
        raise StreamBroken(f"the runtime does not stream from {_place(url)}: {error}") from error
    except StreamReset as error:
        raise StreamBroken(f"the runtime does not stream from {_place(url)} as others do: {error}") from error
    if not said:
        raise StreamBroken("the connection to the runtime broke; the command may still be running")
    return exit_code(said)


def _place(url: str) -> str:
    """Return scheme and host of a URL: the rest is a secret token for the command."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


async def _open(session: ClientSession, kind: str) -> SpdyStream:
    try:
        return await session.open({"streamtype": kind})
    except StreamReset:
        raise
    except ConnectionError as error:
        raise StreamBroken("the connection to the runtime broke before anything ran") from error


async def _while_sending(
    sending: list[Coroutine[Any, Any, None]], *receiving: Coroutine[Any, Any, bytes]
) -> list[bytes]:
    """Await all receivers, return their results in order, and cancel the senders.

    Raises the errors of our own ends of the streams, for example of a terminal that is gone.
    """
    senders = [asyncio.create_task(each) for each in sending]
    receivers = [asyncio.create_task(each) for each in receiving]
    received = asyncio.gather(*receivers)
    pending: set[asyncio.Future[Any]] = {received, *senders}
    try:
        while not received.done():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
        return received.result()
    finally:
        for task in (*senders, *receivers):
            task.cancel()
        await asyncio.gather(received, *senders, *receivers, return_exceptions=True)


async def _pass_output(opened: SpdyStream, which: Output, write: Write) -> bytes:
    while data := await opened.input.get():
        await write(which, data)
    return b""


async def _send_input(opened: SpdyStream, stdin: AsyncIterator[bytes]) -> None:
    """Pass input and its end on. It is no failure if the command has ended or reads no more."""
    with contextlib.suppress(ConnectionError):
        async for data in stdin:
            await opened.write(data)
        await opened.finish()


async def _send_sizes(opened: SpdyStream, sizes: AsyncIterator[tuple[int, int]]) -> None:
    with contextlib.suppress(ConnectionError):
        async for width, height in sizes:
            await opened.write(json.dumps({"Width": width, "Height": height}).encode())


def exit_code(status: bytes) -> int:
    """Return the exit code in a ``metav1.Status``. Raises NeverRan if nothing ran."""
    try:
        said: dict[str, Any] = json.loads(status)
    except ValueError:
        raise NeverRan(status.decode(errors="replace").strip()) from None
    if said.get("status") == "Success":
        return 0
    for cause in (said.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise NeverRan(said.get("message") or "the runtime says that it failed, but not why")
