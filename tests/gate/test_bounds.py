"""The limits of one node's connections and calls at the gate, and of its log lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.gate.bounds import (
    BURST,
    CALLS,
    CALLS_PER_SECOND,
    CONNECTIONS,
    CONNECTIONS_BURST,
    REFUSED_BURST,
    NodeBounds,
)
from syncpod.gate.refusals import QUIET_SECONDS, Refusals
from syncpod.kernel.http2_frames import Counted


def test_a_node_has_so_many_connections_and_another_as_many() -> None:
    bounds = NodeBounds()
    assert [bounds.connected("a", 0) == "" for _ in range(CONNECTIONS + 2)] == [True] * CONNECTIONS + [False] * 2
    assert bounds.connected("b", 0) == ""
    bounds.disconnected("a")
    assert bounds.connected("a", 0) == ""


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
    now = 0.0
    refusals = Refusals(lambda: now)
    for tick in range(1_000):
        now = tick / 1_000
        refusals.refused("a", "/x/Start", "no")
    refusals.refused("a", "/x/Start\n", "no")
    refusals.refused("b", "/x/Start", "no")
    now = QUIET_SECONDS
    refusals.refused("a", "/x/Start", "no")
    assert [record.getMessage() for record in caplog.records] == [
        "refused: node a, '/x/Start': no",
        "refused: node a, '/x/Start\\n': no",
        "refused: node b, '/x/Start': no",
        "refused: node a, '/x/Start': no (and 999 times since the last such line)",
    ]


def test_a_new_connection_gives_a_node_no_new_burst() -> None:
    bounds = NodeBounds()
    bounds.connected("a", 0)
    assert bounds.sent("a", Counted(REFUSED_BURST, REFUSED_BURST), 0) == ""
    bounds.disconnected("a")
    bounds.connected("a", 0)
    assert bounds.sent("a", Counted(1, 1), 0) == f"more than {REFUSED_BURST} of the node's calls were refused"
    assert bounds.sent("b", Counted(1, 1), 0) == ""


def test_calls_that_are_accepted_close_no_connection_of_a_node() -> None:
    bounds = NodeBounds()
    for second in range(3 * REFUSED_BURST):
        assert bounds.sent("a", Counted(1, 5), second / CALLS_PER_SECOND) == ""
        assert bounds.begun("a", second / CALLS_PER_SECOND) == ""
        bounds.ended("a")


def test_a_node_that_connects_again_and_again_is_let_in_no_more() -> None:
    bounds, said = NodeBounds(), []
    for _ in range(CONNECTIONS_BURST + 1):
        said.append(bounds.connected("a", 0))
        bounds.disconnected("a")
    assert said == [""] * CONNECTIONS_BURST + [f"a node may connect at most {CONNECTIONS_BURST} times in a row"]
