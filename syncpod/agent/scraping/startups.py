"""Measures how long pods take to start, from their published states (util/pod_startup_latency_tracker.go, v1.36).

Differences: the time of a pull is that of its step, which includes the wait for the step's turn. Pulls and init
containers may overlap here, and then the common time is subtracted only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from syncpod.journal.records import HistoryEntry
from syncpod.lifecycle.actions import StepName

Record = Callable[[float], None]
"""A function that records a duration in seconds."""

_STATELESS: Final = frozenset({"secret", "configMap", "downwardAPI", "emptyDir", "projected"})
"""The kinds of volumes that a stateless pod may have, as the service level indicator for starts defines it."""
_NOTHING: Final = timedelta()
_Span = tuple[datetime, datetime]


@dataclass
class _Starting:
    """A pod that was first seen before it ran."""

    first_seen: datetime
    runs: bool = False


class Startups:
    """Measures the starts of one node's pods. A pod counts only if it was seen before it ran, so none counts twice."""

    def __init__(self, *, running: Record, total: Record, sli: Record) -> None:
        """Record the times of a start.

        `running` is the time from when the pod was first seen until its phase is Running. `total` and `sli` are the
        times from its creation until all containers run; `sli` leaves out pulls and init containers, and is only for
        stateless pods.
        """
        self._running, self._total, self._sli = running, total, sli
        self._pods: dict[str, _Starting | None] = {}
        """Pods by UID; None = the start has ended, or its begin was not seen."""

    def take(self, pod: Mapping[str, Any], at: datetime, entries: Callable[[], Iterable[HistoryEntry]]) -> None:
        """Take a state that a pod has published at the time `at`.

        `entries` returns the pod's history. It is called once the pod has started.
        """
        uid, status = str(pod.get("metadata", {}).get("uid", "")), pod.get("status", {})
        phase, has_started = status.get("phase", ""), _has_started(status)
        if uid not in self._pods:
            self._pods[uid] = _Starting(at) if phase == "Pending" and not has_started else None
        starting = self._pods[uid]
        if starting is None:
            return
        if phase == "Running" and not starting.runs:
            starting.runs = True
            self._running((at - starting.first_seen).total_seconds())
        if phase in ("Succeeded", "Failed"):
            self._pods[uid] = None
        elif has_started:
            self._pods[uid] = None
            self._record_start(pod, at, entries())

    def _record_start(self, pod: Mapping[str, Any], at: datetime, entries: Iterable[HistoryEntry]) -> None:
        created = _moment(pod["metadata"]["creationTimestamp"])
        self._total(max(_NOTHING, at - created).total_seconds())
        if _is_stateless(pod.get("spec", {})):
            aside = _covered([*_pulls(entries), *_init_containers(pod.get("status", {}))], created, at)
            self._sli(max(_NOTHING, at - created - aside).total_seconds())

    def forget_others(self, uids: Iterable[str]) -> None:
        """Drop all other pods."""
        self._pods = {uid: self._pods[uid] for uid in uids if uid in self._pods}


def _has_started(status: Mapping[str, Any]) -> bool:
    """Say whether all main containers are running (hasPodStartedSLO)."""
    containers = status.get("containerStatuses", ())
    return bool(containers) and all(each.get("state", {}).get("running", {}).get("startedAt") for each in containers)


def _is_stateless(spec: Mapping[str, Any]) -> bool:
    return all(_STATELESS & volume.keys() for volume in spec.get("volumes", ()))


def _pulls(entries: Iterable[HistoryEntry]) -> Iterable[_Span]:
    for entry in entries:
        if entry.kind == "step" and entry.subject == StepName.PULL_IMAGE.value:
            yield entry.at - timedelta(milliseconds=entry.took_ms), entry.at


def _init_containers(status: Mapping[str, Any]) -> Iterable[_Span]:
    for container in status.get("initContainerStatuses", ()):
        ended = container.get("state", {}).get("terminated", {})
        if ended.get("startedAt") and ended.get("finishedAt"):
            yield _moment(ended["startedAt"]), _moment(ended["finishedAt"])


def _covered(spans: Iterable[_Span], begin: datetime, end: datetime) -> timedelta:
    """Return the part of the time from `begin` to `end` that the spans cover; overlaps count once."""
    covered, until = _NOTHING, begin
    for start, stop in sorted(spans):
        start, stop = max(start, until), min(stop, end)
        if stop > start:
            covered, until = covered + stop - start, stop
    return covered


def _moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
