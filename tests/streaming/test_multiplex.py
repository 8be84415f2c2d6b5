"""Several streams on one connection: data arrives complete and in order, however slowly it is read.

Holds: An unread stream holds up no other stream.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncpod.streaming.multiplex import WINDOW_BYTES, Multiplex, PeerGone

CHUNKS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 300_000)), max_size=12)


@asynccontextmanager
async def two_ends() -> AsyncIterator[tuple[Multiplex, Multiplex]]:
    """Two ends of a connection with the streams 1 and 2 in both directions."""
    one, other = socket.socketpair()
    ends = [Multiplex(*await asyncio.open_connection(sock=each), [1, 2]) for each in (one, other)]
    running = [asyncio.create_task(each.run()) for each in ends]
    try:
        yield ends[0], ends[1]
    finally:
        for end in ends:
            end.close()
        await asyncio.gather(*running)


async def whole(end: Multiplex, stream: int) -> bytes:
    read = bytearray()
    while data := await end.read(stream):
        read += data
    return bytes(read)


@settings(max_examples=30, deadline=None)
@given(chunks=CHUNKS)
def test_each_stream_arrives_whole(chunks: list[tuple[int, int]]) -> None:
    async def run() -> None:
        async with two_ends() as (here, there):

            async def send() -> None:
                for number, (stream, size) in enumerate(chunks):
                    await here.write(stream, bytes([number]) * size)
                for stream in (1, 2):
                    await here.end(stream)

            _, first, second = await asyncio.gather(send(), whole(there, 1), whole(there, 2))
            sent = {1: b"", 2: b""}
            for number, (stream, size) in enumerate(chunks):
                sent[stream] += bytes([number]) * size
            assert (first, second) == (sent[1], sent[2])

    asyncio.run(run())


async def test_nobody_sends_more_than_the_other_end_has_passed_on() -> None:
    async with two_ends() as (here, there):
        writing = asyncio.create_task(here.write(1, bytes(3 * WINDOW_BYTES)))
        await there.tell("anybody there")
        assert await here.message() == b"anybody there"
        taken = 0
        while taken < 3 * WINDOW_BYTES:
            data = await there.read(1)
            assert len(data) <= WINDOW_BYTES
            taken += len(data)
        await writing


async def test_what_came_before_the_end_can_be_read_after_it() -> None:
    async with two_ends() as (here, there):
        await here.write(1, bytes(1000))
        await here.tell("last")
        here.close()
        assert await there.message() == b"last"
        with pytest.raises(PeerGone):
            await there.message()
        assert await whole(there, 1) == bytes(1000)
        with pytest.raises(PeerGone):
            while True:
                await there.write(1, bytes(1000))
