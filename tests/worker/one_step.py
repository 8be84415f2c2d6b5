"""A workflow with the Temporal interactions of a pod's workflow: one step, one back-off timer and one reported sync.

A second workflow has those of a node's workflow: one step.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.actions import StepName
    from syncpod.messages.identity import POD_WORKFLOW, PodRef
    from syncpod.messages.node import NODE_WORKFLOW
    from syncpod.messages.steps import CreateSandbox, StepResult


@workflow.defn(name=POD_WORKFLOW)
class OneStep:
    @workflow.run
    async def run(self, attempt: int) -> str:
        outcome, extern = "failed", workflow.extern_functions()
        extern["syncpod_deciding"]()
        extern["syncpod_decided"]({"syncpod.step": "create_sandbox"})
        try:
            result: StepResult = await workflow.execute_activity(
                StepName.CREATE_SANDBOX.value,
                CreateSandbox(ref=PodRef(namespace="default", name="web", uid="u1"), attempt=attempt),
                result_type=StepResult,
                start_to_close_timeout=timedelta(seconds=10),
            )
            outcome = result.id
        except ActivityError:
            pass
        extern["syncpod_arm_backoff"](workflow.info().workflow_id, "main", 1, 10.0)
        extern["syncpod_rested"]({"syncpod.phase": "Pending"})
        return outcome


@workflow.defn(name=NODE_WORKFLOW)
class OneStepOfANode:
    @workflow.run
    async def run(self, attempt: int) -> str:
        result: StepResult = await workflow.execute_activity(
            StepName.CREATE_SANDBOX.value,
            CreateSandbox(attempt=attempt),
            result_type=StepResult,
            start_to_close_timeout=timedelta(seconds=10),
        )
        return result.id
