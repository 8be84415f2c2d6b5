"""Flow control of a client's connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from syncpod.runtime.streaming import wire
from syncpod.runtime.streaming.wire import Socket, deliver
from syncpod.streaming.pipe import Pipe

MUCH = 30_000_000
"""More bytes than the system's buffers of a connection hold."""


@dataclass
class Ends:
    """Both ends of a connection."""

    server: Socket
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    accepted: asyncio.Queue[Socket] = asyncio.Queue()
    async with await asyncio.start_server(
        lambda reader, writer: accepted.put_nowait(Socket(reader, writer)), "127.0.0.1", 0
    ) as listener:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        both = Ends(await accepted.get(), reader, writer)
        yield both
        writer.transport.abort()
        await both.server.close()


async def still_waits(task: asyncio.Task[None]) -> bool:
    await asyncio.wait({task}, timeout=0.2)
    return not task.done()


async def test_a_late_reader_gets_all_flushed_data(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "CLOSING_SECONDS", 0.0)

    async def say_and_close() -> None:
        ends.server.write_at_once(bytes(MUCH))
        await ends.server.flush()
        await ends.server.close()

    saying = asyncio.create_task(say_and_close())
    assert await still_waits(saying)
    assert len(await ends.reader.read()) == MUCH
    await saying


async def test_flushing_ends_when_the_client_disconnects(ends: Ends) -> None:
    ends.server.write_at_once(bytes(MUCH))
    flushing = asyncio.create_task(ends.server.flush())
    assert await still_waits(flushing)
    ends.writer.transport.abort()
    with pytest.raises(ConnectionError):
        await flushing


async def test_writing_waits_for_the_reader(ends: Ends) -> None:
    writing = asyncio.create_task(ends.server.write(bytes(MUCH)))
    assert await still_waits(writing)
    await ends.reader.readexactly(MUCH)
    await writing


async def test_delivery_waits_for_the_reader(ends: Ends) -> None:
    pipe = Pipe(limit=10)
    delivering = asyncio.create_task(deliver(ends.server, pipe, b"more than ten bytes"))
    assert await still_waits(delivering)
    assert await pipe.get() == b"more than ten bytes"
    await delivering


async def test_writing_to_a_discarded_pipe_does_not_wait(ends: Ends) -> None:
    pipe = Pipe(limit=10)
    delivering = asyncio.create_task(deliver(ends.server, pipe, b"more than ten bytes"))
    assert await still_waits(delivering)
    pipe.discard()
    await delivering
    await deliver(ends.server, pipe, b"and what comes later")
    assert await pipe.get() == b""


async def test_data_written_before_the_end_is_read() -> None:
    pipe = Pipe()
    pipe.put(b"some")
    pipe.put(b"thing")
    pipe.end()
    pipe.put(b" late")
    assert [await pipe.get(), await pipe.get()] == [b"something", b""]
