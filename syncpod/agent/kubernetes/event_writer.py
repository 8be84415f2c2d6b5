"""Writes the node's events to the API server, one after the other, in the order in which they happened.

Mirrors client-go's tools/record/event.go (v0.36), with the kubelet's limit of 50 writes a second. Differences: an event
that cannot be written waits until the server is back, where the kubelet gives it up after two minutes; and after a
restart of the worker none is written twice.
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
"""How many events wait to be written, at most: then the oldest is given up (client-go's queue has as many places)."""
WRITES_AT_ONCE: Final = 100
WRITE_SECONDS: Final = 1 / 50
"""The kubelet's eventBurst, and its eventRecordQPS as the time between two writes."""
_TEMPORARY: Final = frozenset((401, 408, 429))
"""Refusals that are repeated. Any other of 400 to 499 is for good, as a namespace that is being removed."""

_Name = tuple[str, str]
"""Namespace and name of an Event."""


class EventWriter:
    """The events of one node. All methods belong to one event loop; none but `run` waits for the server."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write by `client`, as the kubelet of `node`; `clock` is steady, in seconds."""
        self._client, self._node, self._clock = client, node, clock
        self._correlator = EventCorrelator()
        self._waiting: OrderedDict[_Name, Event] = OrderedDict()
        self._known: Recent[_Name, list[bool]] = Recent(KEPT, list)
        """The Events that the API server has, as far as is known."""
        self._news = asyncio.Event()
        self._rate = TokenBucket(WRITES_AT_ONCE, WRITE_SECONDS)
        self.given_up = 0
        """How many events were given up since too many waited."""
        self.trouble = ""
        """Why events cannot be written now; "" if they can."""
        self._on_written: list[Callable[[], None]] = []

    @property
    def waiting(self) -> int:
        """How many events wait to be written."""
        return len(self._waiting)

    def when_all_are_written(self, call: Callable[[], None]) -> None:
        """Call `call` each time that no event waits any more."""
        self._on_written.append(call)

    def take(self, event: Event) -> None:
        """Take that an event has happened, perhaps once more: it is written soon, unless there are too many like it."""
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
        """Write what waits until cancelled."""
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
                    self._tell(str(error))
                    await asyncio.sleep(backoff.next(error))
                    continue
                self._tell("")
                if self._waiting.get(name) is event:  # or it has happened again meanwhile
                    del self._waiting[name]

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.warning("events cannot be written to the cluster: %s", trouble)
        if self.trouble and not trouble:
            given_up, self.given_up = self.given_up, 0
            log.info("events are written to the cluster again; %d were given up", given_up)
        self.trouble = trouble

    async def _write(self, name: _Name, event: Event) -> None:
        """Write one event. Raises ClusterError and Unreachable for what may succeed later."""
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
        """Make the Event; return whether there was none. Raises ClusterError, Unreachable."""
        try:
            path = f"/api/v1/namespaces/{event.namespace}/events"
            await self._client.ask("POST", path, body=event_document(event, self._node))
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        return True

    async def _patched(self, name: _Name, event: Event) -> bool:
        """Bring the Event up to date; return False if it is gone, as events are after an hour.

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
