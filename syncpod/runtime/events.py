"""The stream of container events (GetContainerEvents)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import grpc

from protos.cri.v1 import api_pb2
from syncpod.runtime.refusals import Refusal

_WAITING: Final = 1000
"""How many events may wait for one reader."""


class Events:
    """Passes events on to whoever reads them at the time; nothing is kept for later readers."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[api_pb2.ContainerEventResponse | None]] = set()

    def publish(self, event: Callable[[], api_pb2.ContainerEventResponse]) -> None:
        """Pass on what `event` returns; where nobody reads it is not even made.

        A reader that has fallen behind by a thousand is cut off rather than left with a gap it does not know of.
        """
        if not self._readers:
            return
        happened = event()
        for reader in tuple(self._readers):
            try:
                reader.put_nowait(happened)
            except asyncio.QueueFull:
                self._readers.discard(reader)
                reader.get_nowait()
                reader.put_nowait(None)

    async def read(self) -> AsyncIterator[api_pb2.ContainerEventResponse]:
        """Yield every event from now on. Raises Refusal when the reader is too slow: it has to list and read anew."""
        reader: asyncio.Queue[api_pb2.ContainerEventResponse | None] = asyncio.Queue(_WAITING)
        self._readers.add(reader)
        try:
            while (happened := await reader.get()) is not None:
                yield happened
        finally:
            self._readers.discard(reader)
        raise Refusal(
            grpc.StatusCode.RESOURCE_EXHAUSTED, f"{_WAITING} events were waiting to be read: list, then read anew"
        )
