"""The registered activities, against the table of steps that the workflow calls them by."""

from __future__ import annotations

from typing import get_type_hints

from temporalio import activity

import activities
from activities import Node
from syncpod.messages import StepName, StepResult
from tests.activities.bench import Bench
from workflows.steps import STEPS


def test_every_step_has_one_activity_that_takes_what_the_workflow_sends(bench: Bench) -> None:
    node: Node = bench.node
    registered = {}
    for step in activities.steps(node):
        definition = activity._Definition.must_from_callable(step)
        hints = get_type_hints(step)
        assert hints.pop("return") is StepResult
        assert definition.is_async
        registered[definition.name] = list(hints.values())
    assert registered == {name.value: [spec.input] for name, spec in STEPS.items()}
    assert set(registered) == {name.value for name in StepName}
