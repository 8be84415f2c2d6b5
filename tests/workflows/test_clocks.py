"""A node's clock may be anything: an end is never before its start was asked for, and never after it was seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, Seq
from workflows.state import PodState, ended_at

ASKED = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = st.floats(0, 10**6)
CLOCKS = st.floats(-(10**9), 10**9)


def exit_of(clock: float, ahead: float, ran: float, seen_after: float) -> tuple[ObservedPod, ObservedContainer]:
    """An exit dated by a clock that is wrong by `clock` seconds, in a listing dated by one that is `ahead` of that."""
    finished = ASKED + timedelta(seconds=clock + ran)
    container = ObservedContainer(id="web-3", name="web", state="exited", restart_count=3, finished_at=finished)
    seen = finished + timedelta(seconds=ahead + seen_after)
    return ObservedPod(seq=Seq(boot=1, counter=1), uid="uid", observed_at=seen, containers=(container,)), container


@given(CLOCKS, CLOCKS, SECONDS, SECONDS)
def test_an_end_lies_between_its_start_and_its_being_seen(
    clock: float, ahead: float, ran: float, seen_after: float
) -> None:
    listing, container = exit_of(clock, ahead, ran, seen_after)
    now = ASKED + timedelta(seconds=ran + seen_after)
    state = PodState(asked={"web": ASKED}, restarts={"web": 3})
    assert ASKED <= ended_at(state, listing, container, now) <= now


@given(CLOCKS, SECONDS, SECONDS)
def test_where_one_clock_dates_both_the_end_is_when_it_was(clock: float, ran: float, seen_after: float) -> None:
    listing, container = exit_of(clock, 0.0, ran, seen_after)
    now = ASKED + timedelta(seconds=ran + seen_after)
    state = PodState(asked={"web": ASKED}, restarts={"web": 3})
    told = ended_at(state, listing, container, now)
    assert abs((told - ASKED).total_seconds() - ran) < 1e-3


def test_decisions_of_before_believed_the_clock() -> None:
    listing, container = exit_of(0.0, 86_400.0, 1.0, 0.0)
    now = ASKED + timedelta(seconds=1)
    state = PodState(asked={"web": ASKED}, restarts={"web": 3}, decision_version=1)
    assert ended_at(state, listing, container, now) == now - timedelta(days=1)
