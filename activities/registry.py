"""The activities that a node's worker registers: pods' steps, the node workflow's steps, and queries from clients."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from temporalio import activity

from activities.foresee_admission import foresee_admission
from activities.node.context import Node
from activities.pod_workflows import PodWorkflowSteps
from activities.step import Body, run_step
from syncpod.messages import StepName
from syncpod.messages.node import NodeStepName
from syncpod.messages.queries import FORESEE_ADMISSION, ComesBefore
from syncpod.messages.step_table import STEPS
from syncpod.messages.steps import StepInput, StepResult
from syncpod.pod import admit_pod
from syncpod.temporal.pod_orders import PodOrders


def steps(node: Node) -> list[Callable[..., Any]]:
    """Return the activities to register with the worker of this node, one for each row of the table of steps."""
    return [step_activity(node, name) for name in STEPS]


def step_activity(node: Node, name: StepName, body: Body[Any] | None = None) -> Callable[..., Any]:
    """Return the activity of one step. Its input type is in the table of steps, and it returns a StepResult.

    `body` replaces the step's own function; tests script outcomes with it.
    """
    spec, body = STEPS[name], body or step_body(name)

    async def run(request: StepInput) -> StepResult:
        return await run_step(node, body, request, interruption=spec.interruption, stage=spec.stage)

    # Temporal decodes the request into the annotated type.
    run.__annotations__ = {"request": spec.input, "return": StepResult}
    run.__name__ = name.value
    return activity.defn(name=name.value)(run)


def step_body(name: StepName) -> Body[Any]:
    """Return the function that carries out a step. Function and module in `activities.verbs` have the same name.

    Raises ImportError, AttributeError if there is none.
    """
    verb = STEPS[name].module or name.value
    body: Body[Any] = getattr(importlib.import_module(f"activities.verbs.{verb}"), verb)
    return body


def questions(node: Node) -> list[Callable[..., Any]]:
    """Return the activities that clients start without a workflow, to query the node."""

    async def foresee(document: dict[str, Any], before: list[ComesBefore]) -> list[str]:
        return await foresee_admission(node, admit_pod(document), before)

    return [activity.defn(name=FORESEE_ADMISSION)(foresee)]


def node_steps(orders: PodOrders) -> list[Callable[..., Any]]:
    """Return the activities of the node's own workflow, one for each NodeStepName."""
    registered = PodWorkflowSteps(orders)
    return [getattr(registered, name.value) for name in NodeStepName]
