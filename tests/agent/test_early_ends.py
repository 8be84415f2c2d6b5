"""Pods that are ended as soon as their manifests are gone: whose answer the step of the node's workflow may take.

Holds: A node reaches the state that its lists ask for, even if messages are lost on the way.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.pod_workflows import PodWorkflowSteps
from syncpod.messages.identity import NodeFacts, PodRef, pod_workflow_id
from syncpod.messages.node import ApplyPodWorkflow, DeletePodWorkflow, PodWorkflowResult
from syncpod.temporal.early_ends import EarlyEnds
from tests.agent.waiting import until

REF = PodRef(namespace="default", name="web", uid="u1")
ID = pod_workflow_id("default", "web")
DELETE = DeletePodWorkflow(namespace="default", name="web", uids=("u1",))


@dataclass
class Workflows:
    """A client of pods' workflows that end their pods as soon as they may answer."""

    told: list[dict[str, Any]] = field(default_factory=list)
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    absent: bool = False
    applied: list[str] = field(default_factory=list)
    """The pods that were applied, each with how many updates had been answered by then."""
    answered: int = 0
    is_another: bool = False

    def get_workflow_handle(self, id_: str) -> Any:
        return SimpleNamespace(id=id_, execute_update=self._update)

    async def _update(self, name: str, payload: dict[str, Any], **_: object) -> dict[str, Any]:
        assert name == "delete"
        self.told.append(payload)
        await self.answering.wait()
        self.answered += 1
        if self.absent:
            raise RPCError("no such workflow", RPCStatusCode.NOT_FOUND, b"")
        return {"uid": payload["uid"]}

    async def start_workflow(self, _workflow: str, given: dict[str, Any], **_: object) -> None:
        self.applied.append(f"{given['pod']['metadata']['uid']} after {self.answered}")

    def ends(self) -> EarlyEnds:
        return EarlyEnds(cast(Client, self), self._is_ours)

    def steps(self, early: EarlyEnds) -> PodWorkflowSteps:
        return PodWorkflowSteps(cast(Client, self), NodeFacts, early=early)

    async def _is_ours(self) -> None:
        if self.is_another:
            raise RPCError("another server", RPCStatusCode.UNAVAILABLE, b"")


async def test_the_step_takes_the_answer_to_what_the_agent_has_told_and_tells_nobody_twice() -> None:
    workflows = Workflows()
    early = workflows.ends()
    assert early.begin(REF)
    step = asyncio.ensure_future(ActivityEnvironment().run(workflows.steps(early).delete_pod, DELETE))
    workflows.answering.set()
    assert await step == PodWorkflowResult(uid="u1")
    assert workflows.told == [{"uid": "u1"}]
    assert await early.answer(ID, "u1") is None  # it was for one deletion


async def test_a_pod_that_was_not_ended_early_or_for_which_that_failed_is_told_by_the_step() -> None:
    workflows = Workflows(absent=True)
    workflows.answering.set()
    early = workflows.ends()
    assert early.begin(REF)
    assert await early.answer(ID, "u2") is None
    assert await early.answer(ID, "u1") is None
    workflows.absent = False
    assert await ActivityEnvironment().run(workflows.steps(early).delete_pod, DELETE) == PodWorkflowResult(uid="u1")
    assert workflows.told == [{"uid": "u1"}, {"uid": "u1"}]


async def test_a_step_with_a_grace_of_its_own_tells_it() -> None:
    """The agent's update had none."""
    workflows = Workflows()
    workflows.answering.set()
    early = workflows.ends()
    assert early.begin(REF)
    request = DELETE.model_copy(update={"grace_period_seconds": 0})
    await ActivityEnvironment().run(workflows.steps(early).delete_pod, request)
    assert workflows.told == [{"uid": "u1"}, {"gracePeriodSeconds": 0, "uid": "u1"}]


async def test_one_update_at_a_time_is_under_way_to_a_workflow() -> None:
    """A server that is away for a moment is told once, however often the list is sent again."""
    workflows = Workflows()
    early = workflows.ends()
    assert early.begin(REF)
    assert not early.begin(REF)
    workflows.answering.set()
    assert await early.answer(ID, "u1") == {"uid": "u1"}
    assert early.begin(REF)
    await early.settle(ID)
    assert len(workflows.told) == 2


async def test_a_pod_is_applied_after_the_update_that_ends_it_and_a_later_deletion_is_told_anew() -> None:
    """Its file was back. An update that came after it would end a pod that is wanted; an old answer would keep one."""
    workflows = Workflows()
    early = workflows.ends()
    assert early.begin(REF)
    pod: dict[str, Any] = {"metadata": {"name": "web", "namespace": "default", "uid": "u1"}}
    pod |= {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    step = asyncio.ensure_future(
        ActivityEnvironment().run(workflows.steps(early).apply_pod, ApplyPodWorkflow(node="n", pod=pod))
    )
    await until(lambda: bool(workflows.told))
    assert workflows.applied == []
    workflows.answering.set()
    assert await step == PodWorkflowResult(uid="u1")
    assert workflows.applied == ["u1 after 1"]
    assert await ActivityEnvironment().run(workflows.steps(early).delete_pod, DELETE) == PodWorkflowResult(uid="u1")
    assert workflows.told == [{"uid": "u1"}, {"uid": "u1"}]


async def test_nothing_is_sent_to_another_server() -> None:
    workflows = Workflows(is_another=True)
    early = workflows.ends()
    assert early.begin(REF)
    assert await early.answer(ID, "u1") is None
    assert workflows.told == []
