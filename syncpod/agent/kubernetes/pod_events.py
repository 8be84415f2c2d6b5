"""Tells the API server what happens to the node's pods: their workflows' events, as ``syncpod events`` has them.

The events that were written are noted on disk, so that a new worker goes on where the last one stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from syncpod.agent.kubernetes.event_writer import EventWriter
from syncpod.api.views.events import field_paths
from syncpod.kernel.atomic_file import replace_file
from syncpod.kubernetes.events import Event, Subject
from syncpod.kubernetes.reflector import ObjectKey
from syncpod.messages.identity import PodRef
from syncpod.messages.node import FILE_SOURCE, KUBERNETES_SOURCE
from syncpod.messages.steps import StepEvent
from syncpod.pod import ObjectMeta
from syncpod.pod.origin import list_of

log = logging.getLogger(__name__)

FILE_NAME: Final = "kubernetes-events.json"
"""The file of the state directory that notes which events of which pods were written."""
KEPT: Final = timedelta(hours=1)
"""How long an API server keeps an event (--event-ttl). An older one is not written any more."""
GATHER_SECONDS: Final = 0.1
"""So many seconds of a pod's news are looked at together."""
OWN_REASONS: Final = frozenset(("Exited", "Adopted"))
"""The reasons that no kubelet has, and that come often: they stay on the node, since the cluster limits how many events
one pod writes, and what people look for there would be left out."""
DECIDED: Final = "Killing"
"""The reason of events that a pod's workflow records with its decision, and that the step tells again as it begins."""
_SOURCES: Final = (KUBERNETES_SOURCE, FILE_SOURCE)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_AGAIN: Final = timedelta(minutes=1)
"""How much later a workflow task that failed, or ran out of its time, may decide the same again."""
_Key = tuple[str, ...]
"""The key of an event: two of a pod's are the same one if type, reason, container and message are."""


class PublishedEvents(Protocol):
    """A pod's newest state: `syncpod.temporal.workflow_watch.Published`."""

    @property
    def metadata(self) -> ObjectMeta:
        """The pod's metadata."""

    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status."""

    def events(self) -> list[dict[str, Any]]:
        """Return the pod's events, oldest first."""


@dataclass
class _Written:
    """An event that was written as soon as it happened, before the pod's workflow recorded it."""

    first: datetime
    times: int = 0
    """How often it was written."""
    waiting: int = 0
    """How many of these its workflow is still expected to record."""


class PodEvents:
    """The events of one node's pods. All methods belong to one event loop."""

    def __init__(self, writer: EventWriter, state_dir: Path) -> None:
        """Give the events to `writer`, and note in `state_dir` what it has written."""
        self._writer, self._path = writer, state_dir / FILE_NAME
        self._news: dict[str, PublishedEvents] = {}
        """By UID: the newest state of each pod that has not been looked at yet."""
        self._wake = asyncio.Event()
        self._seen: dict[str, datetime] = {}
        """By UID: the time of the newest event that was given to the writer."""
        self._first: dict[str, dict[_Key, tuple[datetime, datetime]]] = {}
        """By UID: when each event happened first, by its record and as it was told, which gives its Event the name."""
        self._states: dict[str, PublishedEvents] = {}
        """By UID: the newest state of each pod."""
        self._written: dict[str, dict[_Key, _Written]] = {}
        """By UID: the events that were told when they happened, before the pod's workflow had them."""
        self._decided: dict[str, Counter[_Key]] = {}
        """By UID: the events that were told with a decision whose step has not begun yet, and how often each."""
        self._paths: dict[str, Mapping[str, str]] = {}
        self._gone: set[str] = set()
        self._noted: dict[str, datetime] = {}
        self._saving = asyncio.Event()
        writer.when_all_are_written(self._saving.set)

    def published(self, state: PublishedEvents, *, is_gone: bool = False) -> None:
        """Take a pod's newest state; the last one if it `is_gone`."""
        meta = state.metadata
        if list_of(meta) not in _SOURCES:
            return
        self._news[meta.uid] = self._states[meta.uid] = state
        if is_gone:
            self._gone.add(meta.uid)
        else:
            self._gone.discard(meta.uid)
        self._wake.set()

    def refused(self, key: ObjectKey, uid: str, reason: str, why: str) -> None:
        """Take that a pod has failed since the node cannot run it; it has no workflow, and so no events of its own."""
        at = datetime.now(UTC)
        self._writer.take(Event(Subject("Pod", key.namespace, key.name, uid), "Warning", reason, why, at, at))

    def happens(self, ref: PodRef, event: StepEvent) -> None:
        """Take an event that happens now; the pod's workflow records it after the step's end, and it is written once.

        If the pod has published nothing here yet, its event is told with its first published state. An event that the
        workflow has recorded with its decision may have been told already: the busier the machine, the later a step
        begins.
        """
        state = self._states.get(ref.uid)
        if state is None:
            return
        at = datetime.now(UTC)
        key = event.type, event.reason, event.container, event.message
        decided = self._decided.get(ref.uid, Counter())
        if decided[key]:
            decided[key] -= 1
            return
        written = self._written.setdefault(ref.uid, {}).setdefault(key, _Written(at))
        written.times += 1
        written.waiting += 1
        subject = Subject("Pod", ref.namespace, ref.name, ref.uid, self._field_path(state, event.container))
        self._writer.take(Event(subject, event.type, event.reason, event.message, written.first, at, written.times))

    async def run(self) -> None:
        """Look at what is published until cancelled."""
        self._noted = await asyncio.to_thread(self._read)
        self._seen = dict(self._noted)
        saving = asyncio.create_task(self._keep_saved(), name="which events are written")
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(GATHER_SECONDS)
                self._wake.clear()
                self._look()
        finally:
            saving.cancel()
            await asyncio.gather(saving, return_exceptions=True)

    def _look(self) -> None:
        news, self._news = self._news, {}
        found: list[Event] = []
        for uid, state in news.items():
            found += self._new_events(uid, state)
        for event in sorted(found, key=lambda each: each.last):
            self._writer.take(event)
        if not self._writer.waiting:
            self._saving.set()

    def _new_events(self, uid: str, state: PublishedEvents) -> list[Event]:
        """Return the pod's events that are newer than those that were given to the writer, the newest first.

        A state is published before the server has taken the task that made it. If the server takes another try of that
        task, all its events have happened at another moment, and are the same all the same.
        """
        seen = max(self._seen.get(uid, _LONG_AGO), datetime.now(UTC) - KEPT)
        found = []
        for record in reversed(state.events()):
            last = datetime.fromisoformat(record["last"])
            if last <= seen:
                break
            self._seen[uid] = max(self._seen.get(uid, _LONG_AGO), last)
            if record["reason"] not in OWN_REASONS and not self._was_written(uid, record):
                found.append(self._event(state, record, last))
                if record["reason"] == DECIDED:
                    self._decided.setdefault(uid, Counter())[_key(record)] += 1
        if found:
            kept = {_key(record) for record in state.events()}
            first = self._first[uid]
            self._first[uid] = {
                key: times for key, times in first.items() if key in kept or self._seen[uid] - times[0] < _AGAIN
            }
        return found

    def _was_written(self, uid: str, record: Mapping[str, Any]) -> bool:
        """Say whether an event was written already when it happened; true only once for each writing."""
        written = self._written.get(uid, {}).get(_key(record))
        if written is None or not written.waiting:
            return False
        written.waiting -= 1
        return True

    def _event(self, state: PublishedEvents, record: Mapping[str, Any], last: datetime) -> Event:
        meta = state.metadata
        return Event(
            subject=Subject("Pod", meta.namespace, meta.name, meta.uid, self._field_path(state, record["container"])),
            type=record["type"],
            reason=record["reason"],
            message=record["message"],
            first=self._happened_first(meta.uid, record),
            last=last,
            count=record["count"],
        )

    def _field_path(self, state: PublishedEvents, container: str) -> str:
        """Return the field path of a container; "" of the whole pod."""
        uid = state.metadata.uid
        if container and container not in self._paths.get(uid, {}):
            self._paths[uid] = field_paths(state.pod())
        return self._paths.get(uid, {}).get(container, "")

    def _happened_first(self, uid: str, record: Mapping[str, Any]) -> datetime:
        """Return when an event first happened, even if a task that the server did not take had reported it."""
        first, known = datetime.fromisoformat(record["first"]), self._first.setdefault(uid, {})
        recorded, written = known.get(_key(record), (first, first))
        if abs(first - recorded) >= _AGAIN:
            written = first
        known[_key(record)] = first, written
        return written

    # --- what was written ---------------------------------------------------------------------------------------------

    async def _keep_saved(self) -> None:
        while True:
            await self._saving.wait()
            self._saving.clear()
            if self._writer.waiting or self._news:
                continue
            for uid in self._gone:
                self._seen.pop(uid, None)
                self._paths.pop(uid, None)
                self._first.pop(uid, None)
                self._written.pop(uid, None)
                self._decided.pop(uid, None)
                self._states.pop(uid, None)
            self._gone.clear()
            if self._seen != self._noted:
                self._noted = dict(self._seen)
                await self._save()
            await asyncio.sleep(1)

    async def _save(self) -> None:
        oldest = datetime.now(UTC) - KEPT
        noted = {uid: at.isoformat() for uid, at in self._noted.items() if at > oldest}
        try:
            await asyncio.to_thread(partial(replace_file, self._path, json.dumps(noted), durable=False))
        except OSError as error:
            log.warning("cannot note which events the cluster has: %s", error.strerror)

    def _read(self) -> dict[str, datetime]:
        """Return the noted events; none if the note cannot be read, since a repeated write changes nothing."""
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            noted = json.loads(self._path.read_bytes())
            return {str(uid): datetime.fromisoformat(at) for uid, at in noted.items()}
        return {}


def _key(record: Mapping[str, Any]) -> _Key:
    return record["type"], record["reason"], record["container"], record["message"]
