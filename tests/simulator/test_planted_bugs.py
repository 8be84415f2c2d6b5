"""Bugs planted in the real functions: each is found within a few hundred seeds, and its case is reduced.

Holds: The loop holds under any schedule of faults.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from syncpod.lifecycle import backoff
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.steps import StepInput
from tests.simulator.campaign import run_seeds
from tests.simulator.faults import draw_case
from tests.simulator.report import as_test
from tests.simulator.shrink import shrink, signature
from tests.simulator.simulation import simulate
from workflows.pod import decide, facts, start
from workflows.pod.decision import Step
from workflows.pod.state import PodState

WITHIN = 400
"""The number of seeds within which a bug must be found, which takes some fifteen seconds on an idle machine."""


def half_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., timedelta] = backoff._crash_delay
    monkeypatch.setattr(backoff, "_crash_delay", lambda *args, **more: right(*args, **more) / 2)


def accepts_older_listings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.pod.observing.merge", lambda known, incoming: incoming)


def starts_without_killing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncpod.lifecycle.plan._kills", lambda pod, actions: [])


def forgets_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    right = start.snapshot
    monkeypatch.setattr(start, "snapshot", lambda state: {k: v for k, v in right(state).items() if k != "restarts"})


def decides_randomly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The input of a step contains a random value, which no replay reproduces."""
    right, count = decide.record_step, itertools.count(1_000_000)

    def record_step(state: PodState, step: Step, now: datetime) -> StepInput:
        return right(state, step, now).model_copy(update={"fence": next(count)})

    monkeypatch.setattr(decide, "record_step", record_step)


def reruns_pruned_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A completed init container, or one with code 0 under OnFailure, counts only while the runtime lists it."""
    right = facts._absent_ends

    def absent(state: PodState, view: ObservedPod) -> list[Exit]:
        lets_rest = state.pod.spec.restart_policy == "OnFailure"
        init = {container.name for container in state.pod.spec.init_containers}
        return [end for end in right(state, view) if end.name not in init and not (lets_rest and end.exit_code == 0)]

    monkeypatch.setattr(facts, "_absent_ends", absent)


def forgets_pending_replacements(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that was ended for a restart is known as such only while the runtime lists it."""
    monkeypatch.setattr(facts, "newest_begun", lambda state: state.own.newest_by_name())


RARE, RARER = "what is pruned runs again", "what is to follow given up"
FIRST = {RARE: 80, RARER: 340}
"""The first seed of rare bugs (0 for others): from there, some twenty seeds find each."""
PLANTED = {
    "back-off half as long": (half_as_long, ("back-off is",)),
    "stale listings believed": (accepts_older_listings, ("two live sandboxes", "does not run")),
    "started without a kill": (starts_without_killing, ("two live containers",)),
    "restarts left out of the snapshot": (forgets_restarts, ("the snapshot does not carry restarts",)),
    RARE: (reruns_pruned_containers, ("has succeeded, and runs again",)),
    RARER: (forgets_pending_replacements, ("is to run again", "does not run")),
    "not the same when replayed": (decides_randomly, ("replayed, the run does something else",)),
}
"""The bugs with the possible beginnings of their violations: a seed may show any of a bug's effects."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_and_reduced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, says = PLANTED[name]
    with monkeypatch.context() as planted:
        plant(planted)
        campaign = run_seeds(range(FIRST.get(name, 0), WITHIN), stop_after=1)
        assert campaign.failed, f"not found within {WITHIN} seeds"
        seed, verdict = next(iter(campaign.failed.items()))
        assert any(words in verdict.violation for words in says), verdict.violation
        short = shrink(draw_case(seed))
        again = simulate(short)
        assert signature(again.violation) == signature(verdict.violation)
        assert len(short.events) <= 4, short.events
        compile(as_test(short, again.violation, f"seed_{seed}"), "pasted", "exec")
    assert simulate(short).violation == "", "and it was that bug"
