"""A queue of one pod's probe results for its workflow. Only the newest result of each probe is kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from temporalio.service import RPCError

from syncpod.agent.background import cancel_all
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import ProbeChanged

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.1, 5.0)
"""The first pause before a failed signal is sent again, and the longest."""

Send = Callable[[PodRef, ProbeChanged], Awaitable[bool]]
"""Signals a changed result; returns whether the pod's workflow is open. Raises RPCError without an answer."""


_Key = tuple[str, str, str]
"""Container id, probe, and kind of change: "result", "cannot be run" or "fails". The last two change no result, so they
are sent in addition to the result."""


def _key(change: ProbeChanged) -> _Key:
    if change.result != "unknown":
        return change.container_id, change.probe, "result"
    return change.container_id, change.probe, "fails" if change.failures else "cannot be run"


def _with_failures(change: ProbeChanged, earlier: ProbeChanged) -> ProbeChanged:
    """Return `change` with the failures and errors of `earlier`, a change that was not sent."""
    if earlier.errors:
        return change.model_copy(update={"errors": change.errors + earlier.errors})
    if not earlier.failures:
        return change
    text = change.failure or (change.message if change.failures else earlier.failure or earlier.message)
    return change.model_copy(update={"failures": change.failures + earlier.failures, "failure": text})


class Outbox:
    """Sends changes, one signal at a time, and retries until the server has accepted each."""

    def __init__(
        self, ref: PodRef, send: Send, *, taken: Callable[[ProbeChanged], None], emptied: Callable[[], None]
    ) -> None:
        """Send with `send`; call `taken` with each change that the workflow received, and `emptied` at the end."""
        self._ref = ref
        self._send = send
        self._taken = taken
        self._emptied = emptied
        self._changes: dict[_Key, ProbeChanged] = {}
        self._sending: ProbeChanged | None = None
        self._flight: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        """Return whether the queue has changes."""
        return bool(self._changes)

    def put(self, change: ProbeChanged) -> None:
        """Queue a change. It replaces an unsent change with the same key, and includes the failures of that change."""
        key = _key(change)
        before = self._changes.get(key)
        # The signal in flight may still arrive, so its failures are added only if the signal does not.
        self._changes[key] = change if before is None or before is self._sending else _with_failures(change, before)
        if self._flight is None:
            self._flight = asyncio.create_task(self._deliver(), name=f"probes of {self._ref.name}")

    async def close(self) -> None:
        """Stop sending."""
        if self._flight is not None:
            await cancel_all((self._flight,))

    async def _deliver(self) -> None:
        pause, longest = _RETRY_SECONDS
        try:
            while self._changes:
                key, change = next(iter(self._changes.items()))
                self._sending = change
                try:
                    taken = await self._send(self._ref, change)
                except RPCError as error:
                    log.debug("probe signal to %s/%s: %s", self._ref.namespace, self._ref.name, error)
                    self._sending = None
                    if (newer := self._changes[key]) is not change:
                        self._changes[key] = _with_failures(newer, change)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, longest)
                    continue
                self._sending = None
                pause, _ = _RETRY_SECONDS
                if self._changes.get(key) is change:
                    del self._changes[key]
                if taken:
                    self._taken(change)
        finally:
            self._flight = None
        self._emptied()
