"""The table of steps and the activities that carry them out are two sides of one thing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints
from unittest.mock import create_autospec

from temporalio import activity

from activities.node.context import Node
from activities.registry import steps
from syncpod.messages import StepName, StepResult
from workflows.pod.steps import STEPS


def registered() -> dict[str, Callable[..., Any]]:
    """The activities of a node by the name that Temporal knows them by."""
    node = create_autospec(Node, instance=True)
    return {str(activity._Definition.must_from_callable(step).name): step for step in steps(node)}


def test_every_step_is_registered_and_every_registered_step_is_in_the_table() -> None:
    assert set(registered()) == {name.value for name in STEPS} == {name.value for name in StepName}


def test_each_step_takes_and_returns_what_the_table_says() -> None:
    for name, step in registered().items():
        hints = get_type_hints(step)
        parameters = list(inspect.signature(step).parameters)
        assert len(parameters) == 1, name
        assert hints[parameters[0]] is STEPS[StepName(name)].input, name
        assert hints["return"] is StepResult, name


def test_only_steps_that_end_something_are_spared_by_a_deletion() -> None:
    assert {name.value for name, spec in STEPS.items() if spec.kills} == {
        "kill_container",
        "kill_pod",
        "remove_container",
        "remove_pod",
    }
