"""What the probes of one pod are still to tell its workflow: the newest of each, until it is acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from temporalio.service import RPCError

from syncpod.messages import PodRef, ProbeChanged

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.1, 5.0)
"""First and longest pause before a signal that the server did not take is sent again."""

Send = Callable[[PodRef, ProbeChanged], Awaitable[bool]]
"""Signals a changed result; returns whether there was a workflow to take it. Raises RPCError while nobody answers."""


class Outbox:
    """Sends what is put into it, one signal at a time."""

    def __init__(
        self, ref: PodRef, send: Send, *, taken: Callable[[ProbeChanged], None], emptied: Callable[[], None]
    ) -> None:
        """Send by `send`; `taken` hears what the workflow has, `emptied` that nothing is left to be sent."""
        self._ref = ref
        self._send = send
        self._taken = taken
        self._emptied = emptied
        self._changes: dict[tuple[str, str, bool], ProbeChanged] = {}
        """By container id and probe; that it could not be asked stands beside the result, which it does not change."""
        self._flight: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        """Say whether something is still to be sent."""
        return bool(self._changes)

    def put(self, change: ProbeChanged) -> None:
        """Send this, instead of what of the same probe is still to be sent."""
        self._changes[change.container_id, change.probe, change.result == "unknown"] = change
        if self._flight is None:
            self._flight = asyncio.create_task(self._deliver(), name=f"probes of {self._ref.name}")

    async def close(self) -> None:
        """Send nothing more."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    async def _deliver(self) -> None:
        pause, longest = _RETRY_SECONDS
        try:
            while self._changes:
                key, change = next(iter(self._changes.items()))
                try:
                    taken = await self._send(self._ref, change)
                except RPCError as error:
                    log.debug("probe signal to %s/%s: %s", self._ref.namespace, self._ref.name, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, longest)
                    continue
                pause, _ = _RETRY_SECONDS
                if self._changes.get(key) is change:
                    del self._changes[key]
                if taken:
                    self._taken(change)
        finally:
            self._flight = None
        self._emptied()
