"""What one node may have of the gate, and what of it the log says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.gate.bounds import BURST, CALLS, CALLS_PER_SECOND, CONNECTIONS, NodeBounds
from syncpod.gate.refusals import QUIET_SECONDS, Refusals


def test_a_node_has_so_many_connections_and_another_as_many() -> None:
    bounds = NodeBounds()
    assert [bounds.connected("a") for _ in range(CONNECTIONS + 2)] == [True] * CONNECTIONS + [False] * 2
    assert bounds.connected("b")
    bounds.disconnected("a")
    assert bounds.connected("a")


def test_a_node_has_so_many_calls_at_once() -> None:
    bounds = NodeBounds()
    assert not any(bounds.begun("a", 0.0) for _ in range(CALLS))
    assert bounds.begun("a", 1e6) == f"a node may have at most {CALLS} calls at once"
    assert bounds.begun("b", 0.0) == ""
    bounds.ended("a")
    assert bounds.begun("a", 1e6) == ""


@given(st.lists(st.floats(0, 10), max_size=200), st.integers(1, 60))
def test_a_node_makes_no_more_calls_than_its_part(pauses: list[float], at_a_time: int) -> None:
    bounds, now, begun = NodeBounds(), 0.0, 0
    for pause in pauses:
        now += pause
        for _ in range(at_a_time):
            if not bounds.begun("a", now):
                begun += 1
                bounds.ended("a")
    assert begun <= BURST + now * CALLS_PER_SECOND + 1e-6


def test_refusals_are_one_line_in_ten_seconds_and_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    for tick in range(1_000):
        refusals.refused("a", "/x/Start", "no", tick / 1_000)
    refusals.refused("a", "/x/Start\n", "no", 0.0)
    refusals.refused("b", "/x/Start", "no", 0.0)
    refusals.refused("a", "/x/Start", "no", QUIET_SECONDS)
    assert [record.getMessage() for record in caplog.records] == [
        "refused: node a, '/x/Start': no",
        "refused: node a, '/x/Start\\n': no",
        "refused: node b, '/x/Start': no",
        "refused: node a, '/x/Start': no (999 more since the last line)",
    ]
