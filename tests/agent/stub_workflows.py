"""Stubs in place of pods' workflows: one records its signals, one is busy with a step."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.worker import Worker

from tests.runtimes.temporal_client import connect

STEP = "create_sandbox"


@workflow.defn(name="PodWorkflow")
class Recorder:
    """Records signals until the signal to end; returns the recorded ones."""

    def __init__(self) -> None:
        self.signals: list[dict[str, Any]] = []
        self.ended = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.ended)

    @workflow.signal
    def pleg(self, payload: dict[str, Any]) -> None:
        self.signals.append({"signal": "pleg", **payload})

    @workflow.signal
    def backoff_queue(self, payload: dict[str, Any]) -> None:
        self.signals.append({"signal": "backoff_queue", **payload})

    @workflow.signal
    def end(self) -> None:
        self.ended = True

    @workflow.update
    def apply(self) -> str:
        return "applied"

    @workflow.query
    def received(self) -> list[dict[str, Any]]:
        return self.signals

    @workflow.query
    def pod(self) -> dict[str, Any]:
        return {"metadata": {"namespace": "default", "name": "asked", "uid": "uid-by-query"}}


@workflow.defn(name="PodWorkflow")
class Silent:
    """Its query for its pod fails until it is allowed."""

    def __init__(self) -> None:
        self.answers = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def may_answer(self) -> None:
        self.answers = True

    @workflow.query
    def pod(self) -> dict[str, Any]:
        if not self.answers:
            raise ValueError("not yet")
        return {"metadata": {"namespace": "default", "name": "asked", "uid": "uid-by-query"}}


@workflow.defn(name="PodWorkflow")
class InAStep:
    """Runs one step, whose loss a timeout would notice only after ten minutes."""

    def __init__(self) -> None:
        self.step: workflow.ActivityHandle[str] | None = None

    @workflow.run
    async def run(self) -> str:
        self.step = workflow.start_activity(
            STEP,
            result_type=str,
            start_to_close_timeout=timedelta(minutes=30),
            heartbeat_timeout=timedelta(minutes=10),
            retry_policy=RetryPolicy(initial_interval=timedelta(minutes=10)),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        try:
            return await self.step
        except ActivityError as error:
            return type(error.cause).__name__

    @workflow.signal
    def let_go(self) -> None:
        assert self.step is not None
        self.step.cancel()


@activity.defn(name=STEP)
async def hangs() -> str:
    await asyncio.sleep(3600)
    return "never"


@activity.defn(name=STEP)
async def answers() -> str:
    return f"try {activity.info().attempt}"


async def serve_until_killed(address: str, task_queue: str, identity: str) -> None:
    """The process of the worker that dies."""

    client = await connect(address, identity=identity)
    worker = Worker(
        client,
        task_queue=task_queue,
        identity=identity,
        workflows=[InAStep],
        activities=[hangs],
        sticky_queue_schedule_to_start_timeout=timedelta(minutes=10),
    )
    await worker.run()


async def serve_recorder_until_killed(address: str, task_queue: str, identity: str) -> None:
    """The process of the worker that dies with a workflow in its cache."""

    client = await connect(address, identity=identity)
    await Worker(
        client,
        task_queue=task_queue,
        identity=identity,
        workflows=[Recorder],
        activities=[hangs],
        sticky_queue_schedule_to_start_timeout=timedelta(minutes=10),
    ).run()
