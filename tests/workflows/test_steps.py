"""The table of steps, the activities and the decisions are consistent.

Holds: The workflow never talks to a runtime, and no step decides.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints
from unittest.mock import create_autospec

import pytest
from temporalio import activity

import activities.verbs
import workflows.pod
from activities.node.context import Node
from activities.registry import step_body, steps
from syncpod.lifecycle import plan
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.version import BASELINE, DECISION_VERSION
from syncpod.messages.step_table import STEPS, Interruption, Place
from syncpod.messages.steps import StepInput, StepResult
from syncpod.pod import admit
from workflows.pod import decide
from workflows.pod.state import PodState

DECIDE = [Path(plan.__file__), *Path(next(iter(workflows.pod.__path__))).glob("*.py")]
"""The modules that decide on steps."""


def registered() -> dict[str, Callable[..., Any]]:
    """The activities of a node by their Temporal names."""
    node = create_autospec(Node, instance=True)
    return {str(activity._Definition.must_from_callable(step).name): step for step in steps(node)}


def test_every_step_has_a_row_and_every_row_an_activity() -> None:
    assert list(registered()) == [name.value for name in STEPS]
    assert set(STEPS) == set(StepName)


def test_each_activity_has_the_types_of_the_step_table() -> None:
    for name, step in registered().items():
        hints = get_type_hints(step)
        parameters = list(inspect.signature(step).parameters)
        assert len(parameters) == 1, name
        assert hints[parameters[0]] is STEPS[StepName(name)].input, name
        assert hints["return"] is StepResult, name


@pytest.mark.parametrize("name", StepName)
def test_each_step_has_a_module_of_its_name_that_takes_its_input(name: StepName) -> None:
    body = step_body(name)
    assert list(get_type_hints(body).values())[1:] == [STEPS[name].input, StepResult]
    assert (body.__module__, body.__name__) == (f"activities.verbs.{body.__name__}", STEPS[name].module or name.value)


def test_each_module_of_verbs_belongs_to_a_step() -> None:
    modules = {module.name for module in pkgutil.iter_modules(activities.verbs.__path__)}
    assert modules == {spec.module or name.value for name, spec in STEPS.items()}


def test_each_step_of_the_table_is_used() -> None:
    assert taken() == set(StepName)


def taken() -> set[StepName]:
    """The steps in plans and those that the workflow makes: the first arguments of `Step` and `PlannedStep`."""
    found = set[StepName]()
    for path in DECIDE:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id="Step" | "PlannedStep"),
                    args=[ast.Attribute(value=ast.Name(id="StepName"), attr=member), *_],
                ):
                    found.add(StepName[member])
    return found


@pytest.mark.parametrize("name", StepName)
def test_an_unknown_planned_step_raises_an_error(name: StepName, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown step would have started a container."""
    started = list[StepName]()
    monkeypatch.setattr(decide, "start_container", lambda state, planned, now: started.append(planned.verb))
    with contextlib.suppress(ValueError, IndexError):
        decide._as_step(PodState(), plan.PlannedStep(name, ids=("c1",)), datetime(2026, 1, 31, tzinfo=UTC))
    assert started == ([name] if name.value.startswith("start_") else [])


def test_the_plan_has_exactly_those_steps_whose_row_says_so() -> None:
    beside = set[StepName]()
    for name in StepName:
        try:
            decide._as_step(PodState(), plan.PlannedStep(name, ids=("c1",)), datetime(2026, 1, 31, tzinfo=UTC))
        except ValueError as refused:
            beside |= {name} if "is not part of a plan" in str(refused) else set()
        except (IndexError, LookupError):
            pass  # a planned step, of a pod that this one is not
    assert beside == {name for name, spec in STEPS.items() if spec.place is Place.BESIDE_THE_PLAN}


def test_only_pulls_run_beside_the_other_steps_of_their_pod() -> None:
    """A step with a lane runs beside others: `Pipeline.take` must not wait for it, and waits for all but pulls."""
    assert {name for name, spec in STEPS.items() if spec.input.lane is not StepInput.lane} == {StepName.PULL_IMAGE}


def test_a_run_with_older_decisions_takes_no_step_that_came_with_newer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    state = begun()
    assert StepName.CREATE_SANDBOX in [step.verb for step in decide.planned(state)]
    newer = replace(STEPS[StepName.CREATE_SANDBOX], since=state.decision_version + 1)
    monkeypatch.setitem(STEPS, StepName.CREATE_SANDBOX, newer)
    assert StepName.CREATE_SANDBOX not in [step.verb for step in decide.planned(state)]


def begun() -> PodState:
    """The state of a pod that has just been applied."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "1"},
        "spec": {"containers": [{"name": "web", "image": "busybox:1"}]},
    }
    return PodState(pod=admit(document).pod)


def test_each_step_first_belongs_to_a_version_that_there_is() -> None:
    assert all(BASELINE <= spec.since <= DECISION_VERSION for spec in STEPS.values())


def test_a_deletion_interrupts_all_steps_except_those_that_end_the_pod_or_remove_something() -> None:
    assert {name.value for name, spec in STEPS.items() if spec.interruption is Interruption.GOES_ON} == {
        "kill_pod",
        "remove_container",
    }
    assert {name.value for name, spec in STEPS.items() if spec.interruption is Interruption.GIVES_WAY} == {
        "kill_container"
    }
