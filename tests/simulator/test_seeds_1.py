"""A quarter of the seeds: whatever befalls a pod, every invariant holds."""

from tests.simulator.shard import check_quarter


def test_no_schedule_of_faults_breaks_an_invariant() -> None:
    check_quarter(1)
