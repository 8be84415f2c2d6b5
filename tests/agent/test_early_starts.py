"""Pods that are started as soon as their manifests are there: which are, and what is said of uncertain ones."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent import early_starts
from syncpod.agent.early_starts import EarlyStarts
from syncpod.cri.errors import Unavailable
from syncpod.messages.identity import NodeFacts, pod_workflow_id
from syncpod.pod import Pod

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
