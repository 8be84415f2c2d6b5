"""Input is absorbed completely or not at all: a failure halfway changes nothing.

Holds: A listing or a result is folded in whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox, Seq
from syncpod.messages.identity import NodeFacts
from syncpod.messages.steps import CreateSandbox, StepEvent, StepResult
from syncpod.pod import admit_pod
from workflows.pod import absorb, facts, observing, outcome
from workflows.pod.decision import Step
from workflows.pod.state import PodState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STEP = Step(StepName.CREATE_SANDBOX, CreateSandbox(), "create sandbox", "no sandbox", key="step/create_sandbox")
LISTING = ObservedPod(
    uid="uid",
    seq=Seq(boot=1, counter=7),
    sandboxes=(ObservedSandbox(id="s0", state="SANDBOX_READY"),),
    containers=(ObservedContainer(id="c0", name="web", sandbox_id="s0", state="exited", exit_code=3, started_at=NOW),),
)
NODE = NodeFacts(name="n1", runtime="containerd")


@pytest.fixture
def state() -> PodState:
    meta = {"name": "web", "namespace": "default", "uid": "uid"}
    spec = {"containers": [{"name": "web", "image": "busybox:1"}]}
    state = PodState(pod=admit_pod({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}))
    state.restarts = {"web": 0}
    return state


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the last part of folding in a listing fail."""

    def fail(*_: Any) -> None:
        raise ValueError("no such time")

    monkeypatch.setattr(facts, "remember_what_went", fail)


def changes(state: PodState, fold: Callable[[], None]) -> set[str]:
    """The fields that a fold changes."""
    before = state.model_dump()
    fold()
    after = state.model_dump()
    return {name for name in after if after[name] != before[name]}


@pytest.mark.usefixtures("breaks")
def test_a_signal_that_fails_to_be_absorbed_is_rejected_and_changes_nothing_else(state: PodState) -> None:
    payload = {"status": LISTING.model_dump(mode="json"), "node": NODE.model_dump(mode="json", by_alias=True)}
    assert changes(state, lambda: absorb.absorb(state, "pleg", (payload,), NOW)) == {"events", "history"}
    assert [event.reason for event in state.events] == ["Rejected"]
    assert [line.kind for line in state.history] == ["rejected"]


@pytest.mark.usefixtures("breaks")
def test_a_result_that_fails_to_be_absorbed_fails_the_step_and_changes_nothing_else(state: PodState) -> None:
    result = StepResult(status=LISTING, node=NODE, events=(StepEvent(reason="Started", message="said"),))
    changed = changes(state, lambda: outcome.finished_step(state, STEP, result.model_dump(mode="json"), NOW, NOW))
    assert changed == {"backoff", "events", "history"}
    assert [event.reason for event in state.events] == ["UnreadableResult"]
    assert "no such time" in state.events[0].message


@pytest.mark.usefixtures("breaks")
def test_a_failure_with_an_invalid_detail_is_still_a_failure(state: PodState) -> None:
    detail = StepResult(status=LISTING, node=NODE).model_dump(mode="json")
    fault = "FailedCreatePodSandBox"
    changed = changes(state, lambda: outcome.failed_step(state, STEP, fault, "no room", detail, NOW, NOW))
    assert changed == {"backoff", "events", "history"}
    assert [event.reason for event in state.events] == ["Rejected", fault]


def test_a_successful_fold_changes_the_expected_fields(state: PodState) -> None:
    result = StepResult(status=LISTING, node=NODE)
    changed = changes(state, lambda: outcome.finished_step(state, STEP, result.model_dump(mode="json"), NOW, NOW))
    assert {"observed", "node", "exits"} <= changed


def test_absorbing_input_changes_no_value_in_place(state: PodState) -> None:
    """Otherwise a change to a copy of the state, as plans make it, would change the state itself."""
    before = state.restarts
    again = LISTING.containers[0].model_copy(update={"id": "c1", "restart_count": 1})
    observing.observe(state, LISTING.model_copy(update={"containers": (again,)}), NOW)
    assert (before, state.restarts) == ({"web": 0}, {"web": 1})


def test_the_longest_back_off_is_the_nodes(state: PodState) -> None:
    result = StepResult(node=NODE.model_copy(update={"restart_backoff_max": 7.0}))
    outcome.finished_step(state, STEP, result.model_dump(mode="json"), NOW, NOW)
    assert state.restart_settings.maximum == timedelta(seconds=7)
