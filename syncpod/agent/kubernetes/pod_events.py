"""Passes the events of the node's pods, which their workflows record, on to the API server.

The events that were written are noted on disk, so that a new worker continues where the previous one stopped.
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

from syncpod.agent.background import cancel_all
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
"""The file in the state directory that records how far each pod's events were written."""
KEPT: Final = timedelta(hours=1)
"""How long an API server keeps an event (--event-ttl). Older events are not written."""
GATHER_SECONDS: Final = 0.1
"""Seconds for which pods' new states are gathered and then processed together."""
OWN_REASONS: Final = frozenset(("Exited", "Adopted"))
"""Reasons of frequent events that a kubelet does not have. They are not written: the cluster limits a pod's events, and
would drop others instead."""
DECIDED: Final = "Killing"
"""The reason of events that a pod's workflow records with a decision, and that the decision's step reports again
later."""
_SOURCES: Final = (KUBERNETES_SOURCE, FILE_SOURCE)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_AGAIN: Final = timedelta(minutes=1)
"""The longest time until a repeated workflow task records the same event again."""
_Key = tuple[str, ...]
"""Type, reason, container and message: two events of a pod with the same key are the same event."""


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
    """An event that was passed to the writer when it happened, before the pod's workflow recorded it."""

    first: datetime
    times: int = 0
    """How often the event was passed to the writer before the workflow recorded it."""
    waiting: int = 0
    """How many of these the workflow has not recorded yet."""


class PodEvents:
    """The events of one node's pods. All methods belong to one event loop."""

    def __init__(self, writer: EventWriter, state_dir: Path) -> None:
        """Pass the events to `writer`, and record in `state_dir` which events it has written."""
        self._writer, self._path = writer, state_dir / FILE_NAME
        self._news: dict[str, PublishedEvents] = {}
        """By UID: the pods' states that have not been processed yet."""
        self._wake = asyncio.Event()
        self._seen: dict[str, datetime] = {}
        """By UID: the time of the newest event that was passed to the writer."""
        self._first: dict[str, dict[_Key, tuple[datetime, datetime]]] = {}
        """By UID and key: the event's first time in the workflow's record, and its first time as written. The time as
        written determines the Event's name."""
        self._states: dict[str, PublishedEvents] = {}
        """By UID: the newest state of each pod."""
        self._written: dict[str, dict[_Key, _Written]] = {}
        """By UID: the events that were passed on when they happened."""
        self._decided: dict[str, Counter[_Key]] = {}
        """By UID: how often each event was passed on with a decision whose step has not begun yet."""
        self._paths: dict[str, Mapping[str, str]] = {}
        self._gone: set[str] = set()
        self._noted: dict[str, datetime] = {}
        self._saving = asyncio.Event()
        writer.when_all_are_written(self._saving.set)

    def published(self, state: PublishedEvents, *, is_gone: bool = False) -> None:
        """Take a pod's newest state. `is_gone` is True if it is the pod's last one."""
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
        """Write the event of a pod that the node cannot run: it has no workflow, and so no recorded events."""
        at = datetime.now(UTC)
        self._writer.take(Event(Subject("Pod", key.namespace, key.name, uid), "Warning", reason, why, at, at))

    def happens(self, ref: PodRef, event: StepEvent) -> None:
        """Pass on an event that happens now. Its pod's workflow records the event later, after the step.

        The event is written only once. If the pod has no published state here yet, the event is passed on with the
        first one. If the workflow has recorded the event with its decision, the event may already be passed on: then
        nothing is done.
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
        """Process published states until cancelled."""
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
            await cancel_all((saving,))

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
        """Return the pod's events that are newer than those passed to the writer, the newest first.

        A state is published before the server has accepted its workflow task. If the task is repeated, its events are
        recorded again with other times, and must count as the same events.
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
        """Say whether an event was passed on when it happened. If it was passed on twice, two calls return True."""
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
        """Return the field path of a container; "" for the whole pod."""
        uid = state.metadata.uid
        if container and container not in self._paths.get(uid, {}):
            self._paths[uid] = field_paths(state.pod())
        return self._paths.get(uid, {}).get(container, "")

    def _happened_first(self, uid: str, record: Mapping[str, Any]) -> datetime:
        """Return the event's first time as it was written, even if a repeated task has recorded another one."""
        first, known = datetime.fromisoformat(record["first"]), self._first.setdefault(uid, {})
        recorded, written = known.get(_key(record), (first, first))
        if abs(first - recorded) >= _AGAIN:
            written = first
        known[_key(record)] = first, written
        return written

    # --- the record of written events ---------------------------------------------------------------------------------

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
        """Return the time of the newest written event of each pod, by UID.

        Empty if the file cannot be read: then events are written again, which does no harm.
        """
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            noted = json.loads(self._path.read_bytes())
            return {str(uid): datetime.fromisoformat(at) for uid, at in noted.items()}
        return {}


def _key(record: Mapping[str, Any]) -> _Key:
    return record["type"], record["reason"], record["container"], record["message"]
