"""Writes the node's events to the API server, one by one, in the order in which they happened.

Mirrors client-go's tools/record/event.go (v0.36), with the kubelet's limit of 50 writes a second. Differences: an event
that cannot be written waits until the server is back, while the kubelet drops it after two minutes; and after a restart
of the worker no event is written twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from secrets import SystemRandom
from typing import Final

from syncpod.kubernetes.client import MERGE_PATCH, ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.event_correlation import KEPT, EventCorrelator, Recent, TokenBucket
from syncpod.kubernetes.events import Event, event_document, event_patch
from syncpod.kubernetes.reflector import Backoff

log = logging.getLogger(__name__)

MOST_WAITING: Final = 1000
"""The most queued events; if there are more, the oldest is dropped. client-go's queue has the same length."""
WRITES_AT_ONCE: Final = 100
WRITE_SECONDS: Final = 1 / 50
"""The kubelet's eventBurst, and its eventRecordQPS as the time between two writes."""
_TEMPORARY: Final = frozenset((401, 408, 429))
"""Refusals that are retried. Others from 400 to 499 are final, for instance if the namespace is being removed."""

_Name = tuple[str, str]
"""Namespace and name of an Event."""


class EventWriter:
    """The events of one node. All methods belong to one event loop; only `run` waits for the server."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write with `client`, as the kubelet of `node`. `clock` is monotonic, in seconds."""
        self._client, self._node, self._clock = client, node, clock
        self._correlator = EventCorrelator()
        self._waiting: OrderedDict[_Name, Event] = OrderedDict()
        self._known: Recent[_Name, list[bool]] = Recent(KEPT, list)
        """The Events that this worker has written, and that the API server therefore probably has."""
        self._news = asyncio.Event()
        self._rate = TokenBucket(WRITES_AT_ONCE, WRITE_SECONDS)
        self.given_up = 0
        """How many events were dropped because the queue was full, since the last outage of the API server."""
        self.trouble = ""
        """Why events cannot be written now; "" if they can."""
        self._on_written: list[Callable[[], None]] = []

    @property
    def waiting(self) -> int:
        """How many events wait to be written."""
        return len(self._waiting)

    def when_all_are_written(self, call: Callable[[], None]) -> None:
        """Call `call` each time that the queue has become empty."""
        self._on_written.append(call)

    def take(self, event: Event) -> None:
        """Queue an event, or its repetition, to be written soon. An event with too many similar ones is dropped."""
        written = self._correlator.correlate(event, self._clock(), datetime.now(UTC))
        if written is None:
            return
        name = written.namespace, written.name
        self._waiting[name] = written
        self._waiting.move_to_end(name)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)
            self.given_up += 1
        self._news.set()

    async def run(self) -> None:
        """Write queued events until cancelled."""
        backoff = Backoff(self._clock, SystemRandom().random)
        while True:
            if not self._waiting:
                for written in self._on_written:
                    written()
                await self._news.wait()
            self._news.clear()
            while self._waiting:
                name, event = next(iter(self._waiting.items()))
                await asyncio.sleep(self._rate.seconds_until_next(self._clock()))
                self._rate.take(self._clock())
                try:
                    await self._write(name, event)
                except (ClusterError, Unreachable) as error:
                    self._log_trouble(str(error))
                    await asyncio.sleep(backoff.next(error))
                    continue
                self._log_trouble("")
                if self._waiting.get(name) is event:  # else it has happened again meanwhile
                    del self._waiting[name]

    def _log_trouble(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.warning("events cannot be written to the cluster: %s", trouble)
        if self.trouble and not trouble:
            given_up, self.given_up = self.given_up, 0
            log.info("events are written to the cluster again; %d were given up", given_up)
        self.trouble = trouble

    async def _write(self, name: _Name, event: Event) -> None:
        """Write one event. Raises ClusterError, Unreachable if a retry may succeed; a final refusal is only logged."""
        known = self._known.of(name)
        try:
            if known and await self._patched(name, event):
                return
            known.clear()
            if not await self._made(event):
                await self._patched(name, event)
            known[:] = [True]
        except ClusterError as error:
            if error.code >= 500 or error.code in _TEMPORARY:
                raise
            log.warning("the cluster does not take the event %s of %s/%s: %s", event.reason, *name, error)

    async def _made(self, event: Event) -> bool:
        """Create the Event; return False if it exists already. Raises ClusterError, Unreachable."""
        try:
            path = f"/api/v1/namespaces/{event.namespace}/events"
            await self._client.ask("POST", path, body=event_document(event, self._node))
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        return True

    async def _patched(self, name: _Name, event: Event) -> bool:
        """Update the Event; return False if it is gone: the server removes events after an hour.

        Raises ClusterError, Unreachable.
        """
        path = f"/api/v1/namespaces/{name[0]}/events/{name[1]}"
        try:
            await self._client.ask("PATCH", path, body=event_patch(event), content_type=MERGE_PATCH)
        except ClusterError as error:
            if error.code != 404:
                raise
            return False
        return True
