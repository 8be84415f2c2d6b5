"""Runs a command in a container while the caller waits (ExecSync)."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc

from protos.cri.v1 import api_pb2
from syncpod.kernel.os_errors import where_and_why
from syncpod.runtime.port import Process, StartFailed, Stream, Streams
from syncpod.runtime.refusals import Refusal, failed

MAX_OUTPUT: Final = 16 * 1024 * 1024 - 4096
"""Maximum bytes of both outputs together, so that the answer always fits the kubelet's 16 MiB.

containerd truncates each output at 16 MiB, so both together may not fit, and the answer is lost.
"""
_DRAIN_LOOKS: Final = 10
_DRAIN_PAUSE_SECONDS: Final = 0.05
"""Seconds between two reads of a command's output after its end; `_DRAIN_LOOKS` is the number of reads. The command's
own output is available at once; only processes that it left running can add more. Several reads make sure that a slow
server misses nothing."""


async def exec_sync(process: Process, id: str, command: tuple[str, ...], timeout: int) -> api_pb2.ExecSyncResponse:
    """Run a command for at most `timeout` seconds (0 = unlimited) and return its output, truncated at MAX_OUTPUT.

    Raises Refusal: DEADLINE_EXCEEDED, in containerd's words, after the timeout. The command is killed then, and also if
    the caller is cancelled.

    A command ends with its own process. Background processes that still have its output open get only half a second.
    Difference: containerd waits for ever, or fails the call after its `drain_exec_sync_io_timeout`, so a probe that
    starts a daemon never succeeds.
    """
    try:
        # The timeout includes the start, which may take long in a frozen container or on an overloaded machine.
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
        raise failed(f'failed to exec in container "{id}": {where_and_why(error)}') from error
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
    """Read the output to its end, so that the command never blocks; keep the part that fits."""
    room = MAX_OUTPUT
    async for source, data in streams.output():
        if room > 0:
            kept[source].append(data[:room])
            room -= len(data)
