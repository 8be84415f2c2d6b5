"""An update that the server answers too late is sent again; an interrupted command does not wait for it."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from unittest.mock import Mock

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.actions import apply as actions
from syncpod.cli.temporal import pod_apply
from syncpod.cli.temporal.updates import send_update
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.messages.pod_commands import Change
from syncpod.pod import parse_pod
from tests.cli.manifests import manifest

POD = parse_pod(manifest("late"))


class LateServer:
    """A client whose updates time out a number of times, with the error that the SDK also raises at a cancellation."""

    identity = "somebody"

    def __init__(self, late: int) -> None:
        self.late = late
        self.asked = 0
        self.was_asked = asyncio.Event()

    def get_workflow_handle(self, *_: Any) -> LateServer:
        return self

    async def execute_update(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.asked += 1
        self.was_asked.set()
        if self.asked <= self.late:
            raise WorkflowUpdateRPCTimeoutOrCancelledError
        try:
            return {"asked": await asyncio.sleep(0 if self.late else 3600, self.asked)}
        except asyncio.CancelledError:
            raise WorkflowUpdateRPCTimeoutOrCancelledError from None

    async def describe(self, **_: Any) -> Any:
        return Mock(status=WorkflowExecutionStatus.RUNNING, workflow_type=POD_WORKFLOW, task_queue="node/n1")

    async def execute_update_with_start_workflow(self, *_: Any, **__: Any) -> dict[str, Any]:
        return await self.execute_update()


async def applied(server: LateServer) -> Any:
    return await pod_apply._until_answered(cast(Client, server), POD, "n1", has_attributes=True, command="mine")


async def updated(server: LateServer) -> Any:
    return await send_update(cast(Client, server), POD, "resize", {})


@pytest.mark.parametrize("send", [applied, updated])
async def test_an_update_that_has_timed_out_is_sent_again(send: Any) -> None:
    server = LateServer(late=2)
    await send(server)
    assert server.asked == 3


async def test_a_namespace_without_our_search_attributes_is_found_out_by_its_refusal() -> None:
    """So `apply` need not check for them beforehand; after another refusal, the update is not sent again."""
    given: list[int] = []

    class Plain(LateServer):
        why = "Namespace default has no mapping defined for search attribute PodName"

        async def execute_update_with_start_workflow(self, *_: Any, **how: Any) -> dict[str, Any]:
            given.append(len(how["start_workflow_operation"]._start_workflow_input.search_attributes))
            if given[-1]:
                raise RPCError(self.why, RPCStatusCode.INVALID_ARGUMENT, b"")
            return {"change": "created"}

    async def sent(server: LateServer, *, has_attributes: bool | None) -> Any:
        client = cast(Client, server)
        return await pod_apply._until_answered(client, POD, "n1", has_attributes=has_attributes, command="mine")

    server = Plain(late=0)
    for _ in range(2):
        assert (await sent(server, has_attributes=None)).change is Change.CREATED
    assert [bool(count) for count in given] == [True, False, False], "once is enough for a connection"
    with pytest.raises(RPCError):
        await sent(server, has_attributes=True)
    other = Plain(late=0)
    other.why = "the workflow's input is too large"
    with pytest.raises(RPCError):
        await sent(other, has_attributes=None)


@pytest.mark.parametrize("send", [applied, updated])
async def test_an_update_that_is_cancelled_is_not_sent_again(send: Any) -> None:
    server = LateServer(late=0)
    task = asyncio.create_task(send(server))
    await server.was_asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.asked == 1


@pytest.mark.parametrize(("worker_lives", "silence"), [(True, "busy"), (False, "away")])
async def test_a_new_pod_whose_node_has_not_answered_is_created_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, worker_lives: bool, silence: str
) -> None:
    async def lives(_client: Client, _node: str) -> bool:
        return worker_lives

    async def begun_by(_client: Client, _workflow_id: str, **_: Any) -> str:
        return "mine"

    monkeypatch.setattr(pod_apply, "lives", lives)
    monkeypatch.setattr(pod_apply, "begun_by", begun_by)
    made = await pod_apply._unanswered(cast(Client, LateServer(late=0)), POD, "n1", "mine")
    assert (made.change, made.silence) == (Change.CREATED, silence)
    warning = await actions._absence(cast(Client, None), ["web"], "n1", made.silence, {"n1"})
    assert warning.startswith(f"node n1 is {silence}") and "pod web starts when" in warning


async def test_only_a_new_pod_whose_node_is_away_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lives(_client: Client, node: str) -> bool:
        return node == "n1"

    async def begun_by(_client: Client, _workflow_id: str, **_: Any) -> str:
        return "mine"

    async def silent(node: str, command: str = "mine") -> bool:
        return await pod_apply._is_new_and_silent(client, POD, node, command)

    monkeypatch.setattr(pod_apply, "lives", lives)
    monkeypatch.setattr(pod_apply, "begun_by", begun_by)
    monkeypatch.setattr(pod_apply, "_SOON_SECONDS", 0)
    monkeypatch.setattr(pod_apply, "_OWN_SECONDS", 0)
    client = cast(Client, LateServer(late=0))
    assert not await silent("n1")
    assert await silent("n2")
    assert not await silent("n2", "another"), "the pod was there before: its node is waited for"
