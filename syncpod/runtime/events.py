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

        A reader that has fallen behind by a thousand is cut off rather than left with a gap it does not know of; so is
        every reader when `event` fails, as where the records it tells of cannot be read. Nothing is raised: what has
        happened has happened, whether or not it can be told.
        """
        if not self._readers:
            return
        try:
            happened = event()
        except Exception:  # noqa: BLE001 - whatever it is, the readers are told to list
            for reader in tuple(self._readers):
                self._cut_off(reader)
            return
        for reader in tuple(self._readers):
            try:
                reader.put_nowait(happened)
            except asyncio.QueueFull:
                self._cut_off(reader)

    def _cut_off(self, reader: asyncio.Queue[api_pb2.ContainerEventResponse | None]) -> None:
        self._readers.discard(reader)
        if reader.full():
            reader.get_nowait()
        reader.put_nowait(None)

    async def read(self) -> AsyncIterator[api_pb2.ContainerEventResponse]:
        """Yield every event from now on. Raises Refusal when the reader has lost one: it has to list and read anew."""
        reader: asyncio.Queue[api_pb2.ContainerEventResponse | None] = asyncio.Queue(_WAITING)
        self._readers.add(reader)
        try:
            while (happened := await reader.get()) is not None:
                yield happened
        finally:
            self._readers.discard(reader)
        raise Refusal(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            f"an event is lost, since {_WAITING} were waiting to be read or it could not be made: list, then read anew",
        )
