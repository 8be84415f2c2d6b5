"""The result of a probe: thresholds, held results, and results from an earlier run of the agent."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.probing import (
    INITIAL,
    PROBE_TYPES,
    ProbeResult,
    ProbeState,
    ProbeType,
    answered,
    first_failures,
    first_state,
    is_news,
    period_seconds,
    timeout_seconds,
    waits_for_start,
)
from syncpod.pod import Probe

Single = Literal["success", "failure"]


def after(type_: ProbeType, probe: Probe, *answers: ProbeResult) -> ProbeState:
    state = first_state(type_)
    for answer in answers:
        state = answered(state, probe, answer)
    return state


def test_initial_probe_results_are_the_kubelets() -> None:
    """Row 83: liveness Success, readiness Failure, startup Unknown."""
    assert {type_: first_state(type_).result for type_ in PROBE_TYPES} == {
        "startup": "unknown",
        "liveness": "success",
        "readiness": "failure",
    }


def test_default_probe_thresholds_are_one_success_and_three_failures() -> None:
    """Row 85: a result needs enough equal answers in succession."""
    assert after("readiness", Probe(), "success").result == "success"
    assert after("readiness", Probe(), "success", "failure", "failure").result == "success"
    assert after("readiness", Probe(), "success", "failure", "failure", "failure").result == "failure"
    patient = Probe(success_threshold=2, failure_threshold=1)
    assert after("readiness", patient, "success").result == "failure"
    assert after("readiness", patient, "success", "success").result == "success"
    assert after("readiness", patient, "success", "success", "failure").result == "failure"


def test_a_different_probe_result_resets_the_count() -> None:
    assert after("liveness", Probe(), "failure", "failure", "success", "failure", "failure").result == "success"


def test_a_failed_liveness_or_decided_startup_result_holds_until_the_next_instance() -> None:
    """Row 86: an instance that will be killed, or whose startup is decided, is not probed any more."""
    assert after("liveness", Probe(failure_threshold=1), "failure").on_hold
    assert not after("liveness", Probe(), "success").on_hold
    assert after("startup", Probe(), "success").on_hold
    assert after("startup", Probe(failure_threshold=1), "failure").on_hold
    assert not after("readiness", Probe(failure_threshold=1), "failure").on_hold


def test_results_of_an_earlier_worker_are_kept_without_probing_again() -> None:
    """Row 92: results outlive the worker that got them."""
    assert first_state("startup", "success").on_hold
    assert first_state("startup", "failure").on_hold
    assert first_state("liveness", "failure").on_hold
    ready = first_state("readiness", "success")
    assert (ready.result, ready.on_hold) == ("success", False)


@pytest.mark.parametrize(
    ("type_", "started", "waits"),
    [("startup", False, False), ("startup", True, True), ("liveness", False, True), ("readiness", True, False)],
)
def test_only_the_startup_probe_runs_before_the_container_has_started(
    type_: ProbeType, started: bool, waits: bool
) -> None:
    """Row 84: liveness and readiness wait for Started."""
    assert waits_for_start(type_, started=started) is waits


def test_a_probe_without_times_has_the_kubelets_defaults() -> None:
    assert (period_seconds(Probe()), timeout_seconds(Probe())) == (10, 1)
    assert (period_seconds(Probe(period_seconds=2)), timeout_seconds(Probe(timeout_seconds=5))) == (2, 5)


@given(
    st.sampled_from(PROBE_TYPES),
    st.integers(1, 5),
    st.integers(1, 5),
    st.lists(st.sampled_from(("success", "failure")), max_size=40),
)
def test_a_probe_result_changes_exactly_at_its_threshold(
    type_: ProbeType, successes: int, failures: int, answers: list[Single]
) -> None:
    """Row 85: thresholds, for any sequence of answers."""
    probe = Probe(success_threshold=successes, failure_threshold=failures)
    state, expected = first_state(type_), INITIAL[type_]
    for position, answer in enumerate(answers):
        if state.on_hold:
            break
        state = answered(state, probe, answer)
        needed = successes if answer == "success" else failures
        if answers[max(0, position - needed + 1) : position + 1] == [answer] * needed:
            expected = answer
        assert state.result == expected


def test_a_first_failure_is_reported_even_if_failure_was_assumed() -> None:
    probe, state, said = Probe(failure_threshold=2), first_state("readiness"), []
    for answer in ("failure", "failure", "failure", "success", "failure", "failure"):
        before, state = state, answered(state, probe, answer)
        said.append(is_news(before, state))
    assert said == [False, True, False, True, False, True]
    known = first_state("readiness", "failure")
    assert not is_news(known, answered(answered(known, probe, "failure"), probe, "failure"))


def test_a_first_liveness_success_is_not_reported() -> None:
    before = first_state("liveness")
    assert not is_news(before, answered(before, Probe(), "success"))


def test_failures_are_reported_at_the_first_and_at_each_power_of_ten() -> None:
    """Row 85: the agent keeps the count of failures."""
    failures, due = first_failures(first_state("liveness")), []
    for number in range(1, 1200):
        failures = failures.one_more(f"no {number}")
        if failures.is_due:
            due.append((failures.total, failures.unreported, failures.text))
            failures = failures.all_reported()
        assert not failures.is_due
    assert due == [(1, 1, "no 1"), (10, 9, "no 10"), (100, 90, "no 100"), (1000, 900, "no 1000")]
    assert failures.unreported == 199


def test_a_reported_failure_is_not_reported_again_by_the_next_worker() -> None:
    assert not first_failures(first_state("readiness", "failure")).one_more("no").is_due
    assert first_failures(first_state("readiness", "success")).one_more("no").is_due
    assert first_failures(first_state("readiness")).one_more("no").is_due
