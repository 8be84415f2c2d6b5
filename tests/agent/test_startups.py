"""The duration of pods' starts, measured like the kubelet's metric."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from syncpod.agent.scraping.startups import Startups
from syncpod.journal.records import HistoryEntry

CREATED = datetime(2026, 11, 23, 10, tzinfo=UTC)
RUNS = {"running": {"startedAt": "2026-11-23T10:00:09Z"}}
WAITS = {"waiting": {"reason": "ContainerCreating"}}


class Timed:
    """Records the durations, in seconds."""

    def __init__(self) -> None:
        self.running: list[float] = []
        self.total: list[float] = []
        self.sli: list[float] = []
        self.startups = Startups(running=self.running.append, total=self.total.append, sli=self.sli.append)

    def take(self, seconds: float, pod: dict[str, Any], lines: Iterable[HistoryEntry] = ()) -> None:
        self.startups.take(pod, CREATED + timedelta(seconds=seconds), lambda: lines)

    @property
    def all(self) -> tuple[list[float], list[float], list[float]]:
        return self.running, self.total, self.sli


def pod(phase: str, *states: dict[str, Any], uid: str = "u", **more: Any) -> dict[str, Any]:
    statuses = [{"name": f"c{number}", "state": state} for number, state in enumerate(states)]
    return {
        "metadata": {"uid": uid, "creationTimestamp": "2026-11-23T10:00:00Z"},
        "spec": {"volumes": more.pop("volumes", [])},
        "status": {"phase": phase, "containerStatuses": statuses, **more},
    }


def pulled(at: float, seconds: float) -> HistoryEntry:
    return HistoryEntry(CREATED + timedelta(seconds=at), "step", "pull_image", took_ms=int(seconds * 1000))


def test_a_start_is_timed_once_when_all_containers_run() -> None:
    timed = Timed()
    timed.take(1, pod("Pending", WAITS, WAITS))
    timed.take(4, pod("Running", RUNS, WAITS))
    assert timed.all == ([3.0], [], [])
    for seconds in (10, 20):
        timed.take(seconds, pod("Running", RUNS, RUNS))
    assert timed.all == ([3.0], [10.0], [10.0])


def test_pulls_and_init_containers_do_not_count_for_the_service_level() -> None:
    """An init container from 2 s to 6 s, and pulls from 1 s to 3 s and from 5 s to 8 s: 7 of 10 s are theirs."""
    timed = Timed()
    init = {"startedAt": "2026-11-23T10:00:02Z", "finishedAt": "2026-11-23T10:00:06Z"}
    started = pod("Running", RUNS, initContainerStatuses=[{"name": "i", "state": {"terminated": init}}])
    timed.take(1, pod("Pending", WAITS))
    timed.take(10, started, [pulled(3, 2), pulled(8, 3), HistoryEntry(CREATED, "step", "create_sandbox", took_ms=9000)])
    assert timed.all == ([9.0], [10.0], [3.0])


def test_a_stateful_pod_does_not_count_for_the_service_level() -> None:
    timed = Timed()
    for seconds, phase, state in ((1, "Pending", WAITS), (2, "Running", RUNS)):
        timed.take(seconds, pod(phase, state, volumes=[{"name": "v", "hostPath": {"path": "/data"}}]))
    assert timed.all == ([1.0], [2.0], [])


def test_what_already_ran_or_never_runs_is_not_timed() -> None:
    timed = Timed()
    timed.take(1, pod("Running", WAITS, uid="older"))
    timed.take(2, pod("Running", RUNS, uid="older"))
    timed.take(1, pod("Pending", WAITS, uid="fails"))
    timed.take(2, pod("Failed", WAITS, uid="fails"))
    timed.take(3, pod("Running", RUNS, uid="fails"))
    assert timed.all == ([], [], [])


def test_a_pod_that_has_gone_is_forgotten() -> None:
    timed = Timed()
    timed.take(1, pod("Pending", WAITS))
    timed.startups.forget_others(())
    timed.take(2, pod("Running", RUNS))
    assert timed.all == ([], [], [])
