"""The stream of container events (GetContainerEvents)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import grpc

from protos.cri.v1 import api_pb2
from syncpod.runtime.refusals import Refusal

_WAITING: Final = 1000
"""Maximum number of events that wait for one reader."""


class Events:
    """Passes events to present readers; nothing is kept for later ones."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[api_pb2.ContainerEventResponse | None]] = set()

    def publish(self, event: Callable[[], api_pb2.ContainerEventResponse]) -> None:
        """Send the result of `event` to all readers; `event` is not called if there are none.

        A reader that is a thousand events behind is cut off: otherwise it would not notice a gap. If `event` fails, for
        example because a record cannot be read, every reader is cut off. Raises nothing: the change has happened, even
        if it cannot be reported.
        """
        if not self._readers:
            return
        try:
            happened = event()
        except Exception:  # noqa: BLE001 - after any failure the readers must list again
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
        """Yield every event from now on. Raises Refusal if an event was lost: the reader must list again."""
        reader: asyncio.Queue[api_pb2.ContainerEventResponse | None] = asyncio.Queue(_WAITING)
        self._readers.add(reader)
        try:
            while (happened := await reader.get()) is not None:
                yield happened
        finally:
            self._readers.discard(reader)
        raise Refusal(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            f"an event is lost: {_WAITING} were waiting to be read, or it could not be made; list, then read again",
        )
