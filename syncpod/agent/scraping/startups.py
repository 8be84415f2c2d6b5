"""How long pods take to start, from what their workflows publish (util/pod_startup_latency_tracker.go, v1.36).

Difference: a pull is counted from its step, which includes the wait for its turn; and where pulls and init containers
overlap, which they do here, the time is left out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from syncpod.journal.records import Line
from syncpod.lifecycle.step_name import StepName

Record = Callable[[float], None]
"""Takes a duration in seconds."""

_STATELESS: Final = frozenset({"secret", "configMap", "downwardAPI", "emptyDir", "projected"})
"""The volumes of pods that the service level for starts is about."""
_NOTHING: Final = timedelta()
_Span = tuple[datetime, datetime]


@dataclass
class _Starting:
    """A pod that was seen before it ran."""

    first_seen: datetime
    runs: bool = False


class Startups:
    """Times the starts of one node's pods; only of those that it has seen before they ran, so none counts twice."""

    def __init__(self, *, running: Record, total: Record, sli: Record) -> None:
        """Time a start up to the phase Running (from when the pod was first seen), and until all containers run.

        The last two are from the pod's creation; `sli` is without pulls and init containers, and of stateless pods.
        """
        self._running, self._total, self._sli = running, total, sli
        self._pods: dict[str, _Starting | None] = {}
        """By UID; None = its start is over, or was never seen."""

    def take(self, pod: Mapping[str, Any], at: datetime, lines: Callable[[], Iterable[Line]]) -> None:
        """Take what a pod has published `at` that time; `lines` are its history, asked for only when it has started."""
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
            self._record_start(pod, at, lines())

    def _record_start(self, pod: Mapping[str, Any], at: datetime, lines: Iterable[Line]) -> None:
        created = _moment(pod["metadata"]["creationTimestamp"])
        self._total(max(_NOTHING, at - created).total_seconds())
        if _is_stateless(pod.get("spec", {})):
            aside = _covered([*_pulls(lines), *_init_containers(pod.get("status", {}))], created, at)
            self._sli(max(_NOTHING, at - created - aside).total_seconds())

    def keep(self, uids: Iterable[str]) -> None:
        """Forget all pods but these."""
        self._pods = {uid: self._pods[uid] for uid in uids if uid in self._pods}


def _has_started(status: Mapping[str, Any]) -> bool:
    """Say whether all main containers run (hasPodStartedSLO)."""
    containers = status.get("containerStatuses", ())
    return bool(containers) and all(each.get("state", {}).get("running", {}).get("startedAt") for each in containers)


def _is_stateless(spec: Mapping[str, Any]) -> bool:
    return all(_STATELESS & volume.keys() for volume in spec.get("volumes", ()))


def _pulls(lines: Iterable[Line]) -> Iterable[_Span]:
    for line in lines:
        if line.kind == "step" and line.subject == StepName.PULL_IMAGE.value:
            yield line.at - timedelta(milliseconds=line.took_ms), line.at


def _init_containers(status: Mapping[str, Any]) -> Iterable[_Span]:
    for container in status.get("initContainerStatuses", ()):
        ended = container.get("state", {}).get("terminated", {})
        if ended.get("startedAt") and ended.get("finishedAt"):
            yield _moment(ended["startedAt"]), _moment(ended["finishedAt"])


def _covered(spans: Iterable[_Span], begin: datetime, end: datetime) -> timedelta:
    """Return how much of the time from `begin` to `end` lies in any of the spans."""
    covered, until = _NOTHING, begin
    for start, stop in sorted(spans):
        start, stop = max(start, until), min(stop, end)
        if stop > start:
            covered, until = covered + stop - start, stop
    return covered


def _moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
