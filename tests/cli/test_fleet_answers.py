"""Commands wait for a fleet's worker that answers late, and in the end say only what is known."""

from __future__ import annotations

import asyncio
import gc
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet_answers
from syncpod.cli.temporal.liveness import Liveness

HEARD, NEVER = Liveness(True, datetime.now(UTC)), Liveness(False, None)
DEAD = Liveness(False, datetime.now(UTC) - timedelta(days=30, hours=1))

LATE = RPCError("late", RPCStatusCode.FAILED_PRECONDITION, b"")
BUSY = RPCError("consistent query buffer is full, this may be …", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
EXHAUSTED = RPCError("namespace rate limit exceeded", RPCStatusCode.RESOURCE_EXHAUSTED, b"")


class LateWorkflow:
    """A workflow that accepts an update, and later answers it, only after enough requests.

    Its task was tried `tries` times.
    """

    id = "fleet-node/n1"

    def __init__(self, *, takes: int = 1, answers: int = 1, late: RPCError = LATE, tries: int = 1) -> None:
        self.takes, self.answers, self.late, self.tries = takes, answers, late, tries
        self.data_converter = SimpleNamespace(payload_codec=None)
        self.ids: list[str] = []
        self.asked = 0
        self.was_asked = asyncio.Event()

    def get_workflow_handle(self, *_: Any) -> LateWorkflow:
        return self

    async def describe(self, **_: Any) -> Any:
        pending = SimpleNamespace(attempt=self.tries)
        raw = SimpleNamespace(pending_workflow_task=pending)
        return SimpleNamespace(raw_description=raw, status=None, workflow_type="FleetNode", task_queue="fleet")

    async def start_update(self, *_: Any, **how: Any) -> LateWorkflow:
        self.ids.append(how["id"])
        self.was_asked.set()
        if len(self.ids) < self.takes:
            raise WorkflowUpdateRPCTimeoutOrCancelledError
        return self

    async def start_update_with_start_workflow(self, *_: Any, **how: Any) -> LateWorkflow:
        try:
            return await self.start_update(**how)
        except WorkflowUpdateRPCTimeoutOrCancelledError as late:
            how["start_workflow_operation"]._workflow_handle.set_exception(late)  # as the SDK does
            raise

    async def result(self, **_: Any) -> dict[str, int]:
        self.asked += 1
        if self.asked < self.answers:
            raise WorkflowUpdateRPCTimeoutOrCancelledError
        return {"asked": self.asked}

    async def query(self, *_: Any, **__: Any) -> dict[str, int]:
        self.asked += 1
        if self.asked < self.answers:
            raise self.late
        return {"asked": self.asked}


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> list[Liveness]:
    """Script the signs of life of the fleet's workers; the last one is repeated."""
    known = [HEARD]

    async def liveness_on(_client: Client, queue: str) -> Liveness:
        assert queue == "fleet"
        return known.pop(0) if len(known) > 1 else known[0]

    monkeypatch.setattr(fleet_answers, "liveness_on", liveness_on)
    monkeypatch.setattr(fleet_answers, "PAUSE_SECONDS", 0.0)
    return known


def of(late: LateWorkflow) -> tuple[Client, Any]:
    return cast(Client, late), late


async def started(late: LateWorkflow) -> Any:
    return await fleet_answers.update_with_start(cast(Client, late), "Workload", "w", "apply", {}, summary="")


async def updated(late: LateWorkflow) -> Any:
    return await fleet_answers.update(*of(late), "cordon")


@pytest.mark.usefixtures("life")
@pytest.mark.parametrize("send", [started, updated])
async def test_an_update_is_sent_under_one_id_until_it_is_taken_and_then_waited_for(send: Any) -> None:
    late = LateWorkflow(takes=3, answers=200)
    assert await send(late) == {"asked": 200}
    assert (len(late.ids), len(set(late.ids))) == (3, 1)


@pytest.mark.usefixtures("life")
@pytest.mark.parametrize("late", [LATE, BUSY])
async def test_a_query_is_asked_again(late: RPCError) -> None:
    assert await fleet_answers.query(*of(LateWorkflow(answers=3, late=late)), "workload") == {"asked": 3}


@pytest.mark.usefixtures("life")
async def test_a_query_is_not_asked_again_of_a_server_that_has_too_much_to_do() -> None:
    with pytest.raises(RPCError, match="rate limit"):
        await fleet_answers.query(*of(LateWorkflow(answers=3, late=EXHAUSTED)), "workload")


@pytest.mark.parametrize(
    ("heard", "late", "said"),
    [
        (
            NEVER,
            LateWorkflow(takes=9),
            "no worker of the fleet has given a sign of life: start one with `syncpod fleet up`, or alone with "
            "`syncpod fleet serve`; it is not",
        ),
        (DEAD, LateWorkflow(takes=9), "no worker of the fleet has given a sign of life for 30d: start one"),
        (
            NEVER,
            LateWorkflow(answers=9),
            "fleet serve`; the request is accepted, and is carried out as soon as a worker answers",
        ),
    ],
)
async def test_without_a_worker_what_is_known_is_said(
    life: list[Liveness], heard: Liveness, late: LateWorkflow, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_answers, "RETURN_SECONDS", 0.0)
    life.append(heard)
    with pytest.raises(Failure) as failure:
        await updated(late)
    assert said in str(failure.value)


async def test_a_worker_of_which_a_restarted_server_does_not_know_yet_is_waited_for(life: list[Liveness]) -> None:
    life[:] = [NEVER, NEVER, HEARD]
    assert await updated(LateWorkflow(takes=4)) == {"asked": 1}
    life[:] = [NEVER, NEVER, HEARD]
    assert await fleet_answers.query(*of(LateWorkflow(answers=4)), "workload") == {"asked": 4}


async def test_a_worker_that_has_fallen_silent_is_not_waited_for(
    life: list[Liveness], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_answers, "RETURN_SECONDS", 10**9)
    life[:] = [DEAD]
    with pytest.raises(Failure, match="has given a sign of life for 30d"):
        await updated(LateWorkflow(takes=4))


@pytest.mark.usefixtures("life")
async def test_of_a_worker_that_is_heard_of_nobody_says_that_it_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_answers, "BUSY_SECONDS", 0.0)
    with pytest.raises(Failure) as failure:
        await updated(LateWorkflow(takes=9))
    assert "it is busy, or this workflow is stuck there" in str(failure.value)


@pytest.mark.usefixtures("life")
async def test_of_a_workflow_whose_task_fails_again_and_again_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_answers, "BUSY_SECONDS", 0.0)
    with pytest.raises(Failure) as failure:
        await updated(LateWorkflow(takes=9, tries=6))
    said = (
        "the workflow of node n1 cannot go on, since its last 5 tries failed: the log of the fleet's worker says why; "
    )
    assert str(failure.value) == f"{said}it is not known whether the request will be carried out"


@pytest.mark.usefixtures("life")
async def test_nobody_waits_for_a_workflow_that_lacks_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async def without_a_key(_client: Client, workflow_id: str) -> str:
        return f"{workflow_id} lacks a key"

    monkeypatch.setattr(fleet_answers, "RPC", timedelta(0))
    monkeypatch.setattr(fleet_answers, "without_a_key", without_a_key)
    with pytest.raises(Failure, match=r"^fleet-node/n1 lacks a key; it is not known whether"):
        await updated(LateWorkflow(takes=10**9))
    with pytest.raises(Failure, match=r"^fleet-node/n1 lacks a key$"):
        await fleet_answers.query(*of(LateWorkflow(answers=10**9)), "fleet_node")


@pytest.mark.usefixtures("life")
async def test_a_command_that_is_ended_asks_no_more() -> None:
    late = LateWorkflow(takes=10**9)
    sending = asyncio.create_task(updated(late))
    await late.was_asked.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


@pytest.mark.usefixtures("life")
async def test_of_attempts_that_failed_python_reports_nothing_in_the_end() -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, what: reported.append(what))
    assert await started(LateWorkflow(takes=3)) == {"asked": 1}
    gc.collect()
    assert reported == []
