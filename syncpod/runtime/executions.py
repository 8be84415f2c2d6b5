"""Commands run in a container while the caller waits (ExecSync)."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc

from protos.cri.v1 import api_pb2
from syncpod.runtime.port import Process, StartFailed, Stream, Streams
from syncpod.runtime.refusals import Refusal, failed

MAX_OUTPUT: Final = 16 * 1024 * 1024 - 4096
"""Bytes of both outputs together: so the answer always fits the 16 MiB that the kubelet takes.

containerd cuts each at 16 MiB, and an answer of more than that in all is lost to its caller.
"""
_DRAIN_LOOKS: Final = 10
_DRAIN_PAUSE_SECONDS: Final = 0.05
"""How often, and how far apart, a command's output is looked at after its end: what it wrote itself is there at once,
and more can only come from what it left running. Several looks, so that a server that is late takes it all the same."""


async def exec_sync(process: Process, id: str, command: tuple[str, ...], timeout: int) -> api_pb2.ExecSyncResponse:
    """Run a command for at most `timeout` seconds (0: no limit) and return its output, cut at MAX_OUTPUT.

    Raises Refusal: DEADLINE_EXCEEDED when the time is over, in containerd's words; the command is killed then, as it is
    when the caller is cancelled.

    A command has ended when its own process has, though something that it left running in the background may still have
    its output open: half a second later that is no longer waited for. containerd waits for as long as it takes, or
    fails the call after its `drain_exec_sync_io_timeout`, so that a probe that starts a daemon never succeeds.
    """
    try:
        # Starting counts too: a container that is frozen, or a machine out of breath, may take as long as it likes.
        async with asyncio.timeout(timeout or None) as limit:
            return await _executed(process, id, command)
    except TimeoutError as error:
        if not limit.expired():
            raise failed(f'failed to exec in container "{id}": {error}') from error
        raise Refusal(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f'failed to exec in container "{id}": timeout {timeout}s exceeded: context deadline exceeded',
        ) from None


async def _executed(process: Process, id: str, command: tuple[str, ...]) -> api_pb2.ExecSyncResponse:
    try:
        streams = await process.execute(command)
    except (StartFailed, OSError) as error:
        raise failed(f'failed to exec in container "{id}": {error}') from error
    try:
        return await _collected(streams)
    finally:
        await streams.close()


async def _collected(streams: Streams) -> api_pb2.ExecSyncResponse:
    streams.end_input()
    kept: dict[Stream, list[bytes]] = {Stream.STDOUT: [], Stream.STDERR: []}
    reading = asyncio.create_task(_keep(streams, kept))
    try:
        code = await streams.wait()
        for _ in range(_DRAIN_LOOKS):
            ended, _ = await asyncio.wait({reading}, timeout=_DRAIN_PAUSE_SECONDS)
            if ended:
                reading.result()
                break
    finally:
        reading.cancel()
        await asyncio.wait({reading})
    return api_pb2.ExecSyncResponse(
        stdout=b"".join(kept[Stream.STDOUT]), stderr=b"".join(kept[Stream.STDERR]), exit_code=code
    )


async def _keep(streams: Streams, kept: dict[Stream, list[bytes]]) -> None:
    """Read the output to its end, so that the command is never held up, and keep as much as there is room for."""
    room = MAX_OUTPUT
    async for source, data in streams.output():
        if room > 0:
            kept[source].append(data[:room])
            room -= len(data)
