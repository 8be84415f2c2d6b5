"""A defect in a step is reported once and not silently retried.

Holds: An unforeseen error in a step is reported, backs off, and delays no deletion.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import Fault
from syncpod.redaction import of_process
from syncpod.temporal.hiding import HiddenInLog
from tests.activities.bench import Bench, as_sent, fault_of
from tests.activities.test_kill import started


def failing(defect: Exception) -> Callable[..., Any]:
    async def call(*_: Any, **__: Any) -> Any:
        raise defect

    return call


async def test_a_defect_in_a_step_is_a_fault_shown_by_the_pod(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pod = bench.pod()
    of_process.add(["hunter2"])
    monkeypatch.setattr(bench.cri, "run_pod_sandbox", failing(ValueError("Value out of range: hunter2")))
    with caplog.at_level(logging.ERROR):
        fault, error, detail = await fault_of(pod.create_sandbox())
    assert fault == Fault.INTERNAL_ERROR
    assert error.message.startswith("ValueError: Value out of range: ")
    logged = [record for record in caplog.records if HiddenInLog().filter(record)]
    told = f"{as_sent(error)}{error.message}{[record.getMessage() for record in logged]}"
    assert "hunter2" not in told and "***" in told, "a defect's text may be made of anything"
    assert error.__cause__ is None, "Temporal would write it into the history"
    assert "in run_pod_sandbox" not in error.message
    assert "Traceback" in caplog.text, "where it comes from is in the worker's log"
    assert (detail.attempt, detail.status.uid) == (1, pod.uid)
    monkeypatch.undo()
    assert (await pod.create_sandbox()).id, "it stands in nobody's way"


async def test_the_agent_knows_when_each_attempt_begins_and_ends_and_how(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It signals nothing about the pod meanwhile, and ends the probes of a pod that is being killed."""
    pod = bench.pod()
    with monkeypatch.context() as patched:
        patched.setattr(bench.cri, "run_pod_sandbox", failing(ValueError("a defect")))
        await fault_of(pod.create_sandbox())
    await pod.create_sandbox()
    await pod.kill()
    assert bench.agent.began == [(pod.ref, False), (pod.ref, False), (pod.ref, True)]
    assert bench.agent.ended == [(pod.ref, Fault.INTERNAL_ERROR.value), (pod.ref, ""), (pod.ref, "")]


async def test_a_defect_in_a_kill_is_reported_as_an_overdue_kill(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod shows it, and its deletion does not wait for the back-off."""
    pod = bench.pod()
    [main] = await started(pod)
    monkeypatch.setattr(bench.cri, "stop_container", failing(OverflowError("int too large to convert")))
    fault, error, detail = await fault_of(pod.kill_container(main))
    assert (fault, error.message) == (Fault.FAILED_KILL_POD, "OverflowError: int too large to convert")
    assert [each.state for each in detail.status.containers] == ["running"]
    fault, _, _ = await fault_of(pod.kill(grace=1))
    assert fault == Fault.FAILED_KILL_POD


async def test_a_failed_step_reports_its_own_error_even_if_the_pod_cannot_be_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    monkeypatch.setattr(bench.cri, "list_pod_sandboxes", failing(TypeError("no such thing")))
    fault, error, detail = await fault_of(pod.create_sandbox())
    assert (fault, error.message) == (Fault.INTERNAL_ERROR, "TypeError: no such thing")
    assert detail.status.seq.counter == 0


async def test_a_defect_during_cancellation_is_left_to_the_next_attempt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopping worker closes resources that its steps need; the next worker retries them."""
    pod = bench.pod()
    reached, go = asyncio.Event(), asyncio.Event()

    async def call(*_: Any, **__: Any) -> Any:
        reached.set()
        await go.wait()
        raise RuntimeError("cannot schedule new futures after shutdown")

    monkeypatch.setattr(bench.cri, "run_pod_sandbox", call)
    step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
    await reached.wait()
    step.cancel(worker_shutdown=True)
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(ApplicationError) as left:
        await step.result()
    assert (left.value.type, left.value.non_retryable) == (Fault.INTERNAL_ERROR, False)
