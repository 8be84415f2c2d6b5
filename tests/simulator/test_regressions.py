"""Schedules that once broke an invariant, reduced."""

from __future__ import annotations

from tests.simulator.faults import Case, Event
from tests.simulator.pods import pod
from tests.simulator.runtime import Life
from tests.simulator.simulation import simulate


def test_the_end_of_a_failed_starts_back_off_does_not_end_the_crash_loop() -> None:
    """The node's queue signalled the former, and the container started 5 s after its exit instead of 20 s."""
    spec = {"restartPolicy": "Always", "containers": [{"name": "a", "image": "busybox:1"}]}
    case = Case(pod(spec), {"a": (Life(4.676, 1),)}, (Event(13.802, "step completed by hand", seconds=0.02),))
    assert simulate(case).violation == ""
