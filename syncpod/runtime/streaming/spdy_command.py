"""Exec and attach over SPDY, with one stream each for error, stdin, stdout, stderr and resize."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from syncpod.runtime.port import Stream
from syncpod.runtime.streaming.remote_command import Outcome, RemoteCommand, serve
from syncpod.runtime.streaming.spdy_session import ServerSession
from syncpod.runtime.streaming.terminal_sizes import TerminalSizes
from syncpod.runtime.streaming.wire import CLOSING_SECONDS, Wire
from syncpod.streaming.pipe import Pipe
from syncpod.streaming.spdy import SpdyStream, StreamReset

STREAM_CREATION_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Version:
    """The features of one version of the protocol."""

    structured_status: bool = False
    """The status is JSON, and is sent on success too."""
    resizes: bool = False
    """True if a client with a terminal opens a stream for the terminal's sizes."""


VERSIONS: Final = {
    "v4.channel.k8s.io": Version(structured_status=True, resizes=True),
    "v3.channel.k8s.io": Version(resizes=True),
    "v2.channel.k8s.io": Version(),
    "channel.k8s.io": Version(),
}


class SpdyClient:
    """The client of a command over SPDY (a `Client`)."""

    def __init__(self, command: RemoteCommand, wire: Wire, version: Version) -> None:
        self.session = ServerSession(wire, self._accept)
        self.sizes = TerminalSizes()
        self.gone = asyncio.Event()
        self._version = version
        self._streams: dict[str, SpdyStream] = {}
        self._missing = {"error"}
        for name, expected in (
            ("stdin", command.stdin),
            ("stdout", command.stdout),
            ("stderr", command.stderr and not command.tty),
            ("resize", command.tty and version.resizes),
        ):
            if expected:
                self._missing.add(name)
        self._complete = asyncio.Event()
        self._no_stdin = Pipe()

    def _accept(self, stream: SpdyStream) -> bool:
        """Accept a stream that the client opens, if the command has such a stream."""
        name = stream.headers.get("streamtype", "")
        if name not in self._missing:
            return False
        self._missing.remove(name)
        self._streams[name] = stream
        if not self._missing:
            self._complete.set()
        return True

    async def opened(self) -> str:
        """Wait for the client to open all its streams; return an error if some are not opened in time, else "".

        Also returns "" if the client has disconnected.
        """
        complete, gone = asyncio.create_task(self._complete.wait()), asyncio.create_task(self.gone.wait())
        try:
            await asyncio.wait({complete, gone}, timeout=STREAM_CREATION_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            complete.cancel()
            gone.cancel()
        if self._complete.is_set() or self.gone.is_set():
            return ""
        missing = ", ".join(sorted(self._missing))
        return f"the client did not open its streams within {STREAM_CREATION_SECONDS:g} seconds: {missing}"

    async def read(self) -> None:
        """Receive from the client until it has disconnected."""
        try:
            await self.session.run()
        finally:
            self.gone.set()

    async def read_sizes(self) -> None:
        """Read the sizes of the client's terminal."""
        while (stream := self._streams.get("resize")) is not None and (data := await stream.input.get()):
            self.sizes.feed(data)

    @property
    def stdin(self) -> Pipe:
        """The client's input."""
        stream = self._streams.get("stdin")
        return self._no_stdin if stream is None else stream.input

    async def send(self, stream: Stream, data: bytes) -> None:
        """Send output, waiting while the client does not read. Raises ConnectionError once it has disconnected."""
        open_stream = self._streams.get(stream.value)
        if open_stream is None:
            return
        try:
            await open_stream.write(data)
        except StreamReset:
            return  # the client has abandoned this stream

    async def finish(self, outcome: Outcome) -> None:
        """Send the command's outcome, and end all streams. Raises ConnectionError once the client has disconnected.

        The status is sent before the ends of the streams. The client closes the connection: if we did, its library
        might drop undelivered data.
        """
        said = outcome.status() if self._version.structured_status else outcome.text()
        error = self._streams.get("error")
        if said and error is not None:
            await error.write(said)
        for stream in self._streams.values():
            await stream.finish()
        await self.session.flush()


async def serve_over_spdy(command: RemoteCommand, wire: Wire, version: Version) -> None:
    """Run a command for a client that uses SPDY. Raises ConnectionError if the client leaves early."""
    client = SpdyClient(command, wire, version)
    reading = asyncio.create_task(client.read())
    sizing = None
    try:
        problem = await client.opened()
        if problem:
            await client.finish(Outcome(failure=problem))
        elif not client.gone.is_set():
            sizing = asyncio.create_task(client.read_sizes())
            await serve(command, client)
        await asyncio.wait({reading}, timeout=CLOSING_SECONDS)
        await client.session.go_away()
    finally:
        tasks = [task for task in (reading, sizing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
