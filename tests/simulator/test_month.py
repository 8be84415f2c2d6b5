"""The state of a pod that crash-loops for a month does not grow after the first days.

Holds: No state of a crash-looping pod grows without limit.
"""

from tests.nightly import NIGHTLY
from tests.simulator.month import DAYS, SUGGESTED_AT, crash_loop, table

SIMULATED = DAYS if NIGHTLY else 5
"""The number of simulated days. A whole month takes most of a minute; growth is visible in the first days."""


def test_no_state_grows_without_bound_in_a_month_of_crashes() -> None:
    readings = crash_loop(SIMULATED)
    shown = table(readings)
    last = readings[-1]
    assert last.restarts > 280 * SIMULATED, shown
    assert last.runs > 1, shown
    assert last.longest < SUGGESTED_AT + 100, shown
    settled = [reading.snapshot for reading in readings if reading.day > 3]
    assert max(settled) < 1.02 * min(settled), shown
    assert max(reading.containers for reading in readings) <= 3, shown
