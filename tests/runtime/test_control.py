"""Clients of supervisors when they are cancelled."""

import asyncio
import os
import socket

import pytest

from syncpod.runtime.port import Stream
from syncpod.runtime.processes.control import Attached, Executed


async def cancelled_while_closing(streams: Executed | Attached) -> asyncio.Task[None]:
    """Close the streams, and cancel the closing while it waits."""
    closing = asyncio.create_task(streams.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait((closing,))
    return closing


async def test_a_cancellation_while_a_commands_streams_close_reaches_the_caller() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    read, write = os.pipe()
    command = Executed(ours, input_end=-1, outputs={read: Stream.STDOUT}, terminal=False)
    await asyncio.sleep(0)  # it waits for the exit code
    closing = await cancelled_while_closing(command)
    assert closing.cancelled()
    assert ours.fileno() == -1
    with pytest.raises(BrokenPipeError):
        os.write(write, b"nobody reads it")
    os.close(write)
    theirs.close()


async def test_a_cancellation_while_an_attachment_closes_reaches_the_caller() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            ours.send(bytes(64 * 1024))
    attached = Attached(ours, asyncio.get_running_loop().create_future())
    attached.end_input()
    await asyncio.sleep(0)  # it waits for the socket, which is full
    closing = await cancelled_while_closing(attached)
    assert closing.cancelled()
    assert ours.fileno() == -1
    theirs.close()
