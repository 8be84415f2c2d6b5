"""The client side of a session, with a scripted server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from syncpod.streaming import client
from syncpod.streaming.client import ClientSession, session_of
from syncpod.streaming.connection import Connection, UpgradeRefused
from syncpod.streaming.spdy import StreamReset
from syncpod.streaming.spdy_frames import (
    Data,
    Decoder,
    Encoder,
    Frame,
    GoAwayStatus,
    Ping,
    ResetStatus,
    RstStream,
    SynStream,
)

SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"


class Server:
    """The server of one client, after the handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.says = Encoder()
        self._decoder = Decoder()
        self._frames: list[Frame] = []

    async def frame(self) -> Frame:
        while not self._frames:
            data = await self._reader.read(65536)
            assert data, "the client has closed"
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    async def opened(self) -> SynStream:
        frame = await self.frame()
        assert isinstance(frame, SynStream), frame
        return frame


Script = Callable[[Server], Awaitable[None]]


@contextlib.asynccontextmanager
async def served(script: Script, answer: bytes = SWITCHING) -> AsyncIterator[str]:
    """Yield the URL of a server that follows the script; an error in the script fails the test."""
    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        try:
            await script(Server(reader, writer))
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/exec/secret"
    await asyncio.gather(*serving)


async def test_a_stream_is_open_once_the_server_has_accepted_it() -> None:
    taken = asyncio.Event()

    async def script(server: Server) -> None:
        assert (await server.opened()).headers == {"streamtype": "error"}
        await taken.wait()
        server.writer.write(server.says.syn_reply(1) + server.says.data(1, b"all of it", fin=True))

    async with served(script) as url, session_of(url, "x") as session:
        opening = asyncio.create_task(session.open({"streamtype": "error"}))
        await asyncio.wait({opening}, timeout=0.1)
        assert not opening.done()
        taken.set()
        stream = await opening
        assert await stream.input.get() == b"all of it" and await stream.input.get() == b""
        assert not stream.cut_off


async def test_a_refused_stream_raises_an_error() -> None:
    async def script(server: Server) -> None:
        await server.opened()
        server.writer.write(server.says.rst_stream(1, ResetStatus.REFUSED_STREAM))

    async with served(script) as url, session_of(url, "x") as session:
        with pytest.raises(StreamReset, match="refuses"):
            await session.open({})


async def test_data_sent_before_a_goaway_is_still_read() -> None:
    async def script(server: Server) -> None:
        await server.opened()
        server.writer.write(server.says.syn_reply(1) + server.says.go_away(1, GoAwayStatus.OK))
        await server.writer.drain()
        server.writer.write(server.says.data(1, b"late", fin=True))

    async with served(script) as url, session_of(url, "x") as session:
        stream = await session.open({})
        assert await stream.input.get() == b"late"


async def test_a_broken_stream_is_distinguished_from_one_that_ends() -> None:
    async def script(server: Server) -> None:
        await server.opened()
        server.writer.write(server.says.syn_reply(1) + server.says.data(1, b"half"))

    async with served(script) as url, session_of(url, "x") as session:
        stream = await session.open({})
        said = b""
        while data := await stream.input.get():
            said += data
        assert said == b"half" and stream.cut_off
        with pytest.raises(ConnectionError):
            await stream.write(b"anybody there?")
        with pytest.raises(ConnectionResetError, match="gone"):
            await session.open({})


async def test_the_session_sends_pings_and_answers_those_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 124: the runtime closes a session that is idle for 4 hours; one with a client is never idle."""
    monkeypatch.setattr(client, "PING_SECONDS", 0.02)

    async def script(server: Server) -> None:
        assert [await server.frame(), await server.frame()] == [Ping(1), Ping(3)]
        server.writer.write(server.says.ping(1) + server.says.ping(2))
        while await server.frame() != Ping(2):
            pass
        server.writer.write(server.says.syn_stream(2, {"streamtype": "of the server's own"}))
        while await server.frame() != RstStream(2):
            pass

    async with served(script) as url:
        connection = await Connection.dial(url, "x")
        await ClientSession(connection).run()
        connection.close()


async def test_a_cancelled_write_does_not_split_a_frame() -> None:
    large = bytes(30_000_000)
    given_up = asyncio.Event()

    async def script(server: Server) -> None:
        await server.opened()
        server.writer.write(server.says.syn_reply(1))
        await given_up.wait()
        size, last = 0, b""
        while last != b"after":
            frame = await server.frame()
            assert isinstance(frame, Data)
            size, last = size + len(frame.data), (last + frame.data)[-5:]
        assert (size - len("after")) % 65536 == 0, "of what was given up, only whole frames"

    async with served(script) as url, session_of(url, "x") as session:
        stream = await session.open({})
        writing = asyncio.create_task(stream.write(large))
        await asyncio.wait({writing}, timeout=0.2)
        assert not writing.done()
        writing.cancel()
        given_up.set()
        await stream.write(b"after")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 11\r\n\r\nnot for you", "not for you"),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", "500 Internal Server Error"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
        (b"x" * 100_000, "not HTTP"),
    ],
)
async def test_a_server_that_does_not_upgrade_to_spdy_is_reported_with_its_reason(answer: bytes, said: str) -> None:
    async def script(_server: Server) -> None:
        return

    async with served(script, answer) as url:
        with pytest.raises(UpgradeRefused, match=said):
            await Connection.dial(url, "x")


async def test_urls_other_than_plain_http_are_refused() -> None:
    with pytest.raises(UpgradeRefused, match="begins with https://"):
        await Connection.dial("https://127.0.0.1/exec/x", "x")
