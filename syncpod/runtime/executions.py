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


async def exec_sync(process: Process, id: str, command: tuple[str, ...], timeout: int) -> api_pb2.ExecSyncResponse:
    """Run a command for at most `timeout` seconds (0: no limit) and return its output, cut at MAX_OUTPUT.

    Raises Refusal: DEADLINE_EXCEEDED when the time is over, in containerd's words; the command is killed then, as it is
    when the caller is cancelled.
    """
    try:
        streams = await process.execute(command)
    except (StartFailed, OSError) as error:
        raise failed(f'failed to exec in container "{id}": {error}') from error
    try:
        async with asyncio.timeout(timeout or None):
            return await _collected(streams)
    except TimeoutError:
        raise Refusal(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f'failed to exec in container "{id}": timeout {timeout}s exceeded: context deadline exceeded',
        ) from None
    finally:
        await streams.close()


async def _collected(streams: Streams) -> api_pb2.ExecSyncResponse:
    """Read the output to its end, however much there is, so that the command is never held up."""
    streams.end_input()
    kept: dict[Stream, list[bytes]] = {Stream.STDOUT: [], Stream.STDERR: []}
    room = MAX_OUTPUT
    async for source, data in streams.output():
        if room > 0:
            kept[source].append(data[:room])
            room -= len(data)
    code = await streams.wait()
    return api_pb2.ExecSyncResponse(
        stdout=b"".join(kept[Stream.STDOUT]), stderr=b"".join(kept[Stream.STDERR]), exit_code=code
    )
