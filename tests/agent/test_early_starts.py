"""Pods that are started as soon as their manifests are there: which are, and what is said of uncertain ones.

Holds: A node reaches the state that its lists ask for, even if messages are lost on the way.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent import early_starts, first_calls
from syncpod.agent.early_starts import EarlyStarts
from syncpod.agent.first_calls import FirstCalls
from syncpod.cri.errors import Unavailable
from syncpod.messages.identity import NodeFacts, pod_workflow_id
from syncpod.pod import Pod
from tests.agent.waiting import until

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
    "spec": {"containers": [{"name": "main", "image": "busybox"}]},
}


class Server:
    """A Temporal server, and what a node knows."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.settled: list[str] = []
        self.answers: Exception | None = None
        self.hangs = False
        self.turns = 0
        self.record: object = None
        self.is_ours = True
        self.calls = FirstCalls()
        self.acts = True
        """Whether the pod's first step asks the runtime at once."""

    async def start_workflow(self, _workflow: str, given: dict[str, Any], **more: Any) -> None:
        assert self.settled == [more["id"]]
        assert more["request_eager_start"]
        self.started.append(given["pod"]["metadata"]["uid"])
        for _ in range(self.turns):
            await asyncio.sleep(0)
        if self.hangs:
            await asyncio.Event().wait()
        if self.answers is not None:
            raise self.answers
        if self.acts:
            self.calls.asked("u1")

    async def require(self) -> None:
        if not self.is_ours:
            raise RPCError("another server", RPCStatusCode.FAILED_PRECONDITION, b"")

    async def recorded(self, _pod: Pod) -> object | None:
        if isinstance(self.record, Exception):
            raise self.record
        return self.record

    async def settle(self, id_: str) -> None:
        self.settled.append(id_)

    async def begin(self, pod: dict[str, Any] = POD) -> bool | None:
        starts = EarlyStarts(cast(Client, self), lambda: NodeFacts(name="n1"), self.require, self.recorded, self.settle)
        self.calls = starts.calls
        return await starts.begin(pod)


async def test_a_pod_that_is_new_is_started() -> None:
    server = Server()
    assert await server.begin() is True
    assert server.started == ["u1"]


@pytest.mark.parametrize(
    "given",
    [
        {"record": "an earlier life"},
        {"record": Unavailable("ListPodSandbox", "UNAVAILABLE", "away")},
        {"record": OSError("the disk fails")},
        {"is_ours": False},
        {"pod": {**POD, "spec": {"containers": []}}},
        {"pod": {**POD, "spec": {**POD["spec"], "nodeName": "n2"}}},
        {"pod": {**POD, "metadata": {"name": "web", "namespace": "default"}}},
    ],
)
async def test_whatever_needs_the_nodes_workflow_is_not_started(given: dict[str, Any]) -> None:
    server, pod = Server(), given.pop("pod", POD)
    for name, value in given.items():
        setattr(server, name, value)
    assert await server.begin(pod) is False
    assert server.started == []


async def test_a_pod_that_has_a_workflow_was_not_started_and_without_an_answer_it_may_have_been(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    server.answers = WorkflowAlreadyStartedError(pod_workflow_id("default", "web"), "PodWorkflow")
    assert await server.begin() is False
    for lost in (RPCError("lost", RPCStatusCode.UNAVAILABLE, b""), RuntimeError("it cannot be encrypted")):
        server.answers, server.settled = lost, []
        assert await server.begin() is None
    monkeypatch.setattr(early_starts, "_START_SECONDS", 0.01)
    server.hangs, server.settled = True, []
    assert await server.begin() is None


async def test_a_start_that_takes_long_is_waited_for_since_the_first_task_comes_with_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it, the pod would wait for that task to time out."""
    server = Server()
    server.turns = 10

    async def recorded(_pod: Pod) -> None:
        monkeypatch.setattr(early_starts, "_ANSWER_SECONDS", 0)  # the time for what comes before the start is over

    monkeypatch.setattr(server, "recorded", recorded)
    assert await server.begin() is True


async def test_a_start_is_over_once_the_pods_first_step_has_asked_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then worker and server are not to be told of anything else, or the pod would wait for that."""
    monkeypatch.setattr(first_calls, "PATIENCE_SECONDS", 600.0)
    server = Server()
    server.acts = False
    begun = asyncio.create_task(server.begin())
    await until(lambda: server.started == ["u1"])
    for _ in range(20):
        await asyncio.sleep(0)
    assert not begun.done()
    server.calls.asked("u1")
    assert await begun is True


async def test_a_pod_whose_first_step_comes_late_was_started_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "PATIENCE_SECONDS", 0.01)
    server = Server()
    server.acts = False
    assert await server.begin() is True
