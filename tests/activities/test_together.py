"""A start that has begun together with the step that makes its sandbox: it waits for it, or does not begin."""

from __future__ import annotations

import asyncio

import pytest

from activities import together
from syncpod.cri.client import CriClient
from syncpod.lifecycle.step_name import StepName
from syncpod.messages.steps import CreateSandbox, Fault, Outcome, StartContainer
from tests.activities.bench import Bench, PodOnBench, Running, container, fault_of


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished sandbox is kept back for as long as its start takes, whatever that is on a busy machine."""
    monkeypatch.setattr(together, "HELD_SECONDS", 60.0)


def pair(pod: PodOnBench) -> tuple[CreateSandbox, StartContainer]:
    """The requests for a sandbox and for a start in it, as a workflow makes them."""
    first = pod.sandbox_request().model_copy(update={"followed": True})
    return first, pod.start_request(follows=first.fence)


def begun(pod: PodOnBench, first: CreateSandbox, second: StartContainer) -> tuple[Running, Running]:
    return pod.step(StepName.CREATE_SANDBOX, first), pod.step(StepName.START_CONTAINER, second)


@pytest.mark.parametrize("start_comes_first", [False, True])
async def test_a_start_waits_for_its_sandbox_and_both_end_together(bench: Bench, start_comes_first: bool) -> None:
    pod = bench.pod()
    first, second = pair(pod)
    if start_comes_first:
        start = pod.step(StepName.START_CONTAINER, second)
        await start.goes_on("waits for the pod's sandbox")
        sandbox = pod.step(StepName.CREATE_SANDBOX, first)
    else:
        sandbox, start = begun(pod, first, second)
    made, started = await asyncio.gather(sandbox.result(), start.result())
    assert (made.outcome, started.outcome) == (Outcome.DONE, Outcome.DONE)
    [running] = started.status.containers
    assert (running.state, running.sandbox_id) == ("running", made.id)
    assert made.status.containers == ()
    assert made.idle_ms > 0 and started.idle_ms > 0


async def test_a_start_whose_sandbox_fails_is_not_begun(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = bench.pod(volumes=[{"name": "gone", "hostPath": {"path": "/nowhere/at/all", "type": "Directory"}}])
    sandbox, start = begun(pod, *pair(pod))
    fault, _, _ = await fault_of(sandbox.result())
    assert fault == Fault.FAILED_MOUNT
    started = await start.result()
    assert (started.outcome, started.status.seq.counter) == (Outcome.NOT_BEGUN, 0)


async def test_a_start_whose_image_is_missing_is_not_begun(bench: Bench) -> None:
    pod = bench.pod(container(image="syncpod.example/absent:1"))
    sandbox, start = begun(pod, *pair(pod))
    assert (await sandbox.result()).missing_images == ("main",)
    assert (await start.result()).outcome == Outcome.NOT_BEGUN


async def test_a_start_without_its_sandbox_in_this_worker_is_not_begun(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "COMES_SECONDS", 0.0)
    pod = bench.pod()
    await pod.create_sandbox()
    request = pod.start_request(follows=pod.fence)
    for attempt in (1, 2):
        result = await pod.step(StepName.START_CONTAINER, request, attempt=attempt).result()
        assert result.outcome == Outcome.NOT_BEGUN
    assert (await pod.view()).containers == ()


async def test_a_start_in_which_a_worker_died_goes_on_without_its_sandbox(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "COMES_SECONDS", 0.0)
    pod = bench.pod()
    await pod.create_sandbox()
    request = pod.start_request().model_copy(update={"follows": pod.fence - 1})
    started = await pod.step(StepName.START_CONTAINER, request.model_copy(update={"follows": 0})).result()
    again = await pod.step(StepName.START_CONTAINER, request, attempt=2).result()
    assert (again.outcome, again.id) == (Outcome.ADOPTED, started.id)


async def test_both_steps_of_a_dead_worker_are_adopted_in_any_order(bench: Bench) -> None:
    pod = bench.pod()
    first, second = pair(pod)
    sandbox, start = begun(pod, first, second)
    made, started = await asyncio.gather(sandbox.result(), start.result())
    # The first one's result was lost too: its fence is older than what has been seen, but nothing newer follows it.
    late = pod.step(StepName.CREATE_SANDBOX, first, attempt=2)
    again = await pod.step(StepName.START_CONTAINER, second, attempt=2).result()
    adopted = await late.result()
    assert (adopted.outcome, adopted.id) == (Outcome.ADOPTED, made.id)
    assert (again.outcome, again.id) == (Outcome.ADOPTED, started.id)


async def test_what_ran_in_a_sandbox_that_died_with_its_worker_is_told(bench: Bench) -> None:
    """The retried steps clear it away. A pod that never restarts would run again if nobody told its end."""
    pod = bench.pod(container(command=("sh", "-c", "exit 3")))
    first, second = pair(pod)
    sandbox, start = begun(pod, first, second)
    made, started = await asyncio.gather(sandbox.result(), start.result())
    await pod.until_state(started.id, "exited")
    await bench.cri.stop_pod_sandbox(made.id)
    await pod.until_dead(made.id)
    retried = pod.step(StepName.CREATE_SANDBOX, first, attempt=2)
    not_begun = await pod.step(StepName.START_CONTAINER, second, attempt=2).result()
    spent = await retried.result()
    assert (spent.outcome, not_begun.outcome) == (Outcome.SPENT, Outcome.NOT_BEGUN)
    [ended] = spent.status.containers
    assert (ended.id, ended.state, ended.exit_code, ended.sandbox_id) == (started.id, "exited", 3, made.id)
    assert (await pod.view()).containers == ()


async def test_a_finished_sandbox_that_is_to_let_go_is_returned_at_once(bench: Bench) -> None:
    pod = bench.pod()
    first, _ = pair(pod)
    sandbox = pod.step(StepName.CREATE_SANDBOX, first)
    await sandbox.goes_on("has made the sandbox")
    sandbox.cancel()
    assert (await sandbox.result()).outcome == Outcome.DONE


async def test_nothing_starts_in_a_sandbox_whose_step_was_asked_to_let_go(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    first, second = pair(pod)
    asked, go_on = asyncio.Event(), asyncio.Event()
    run = CriClient.run_pod_sandbox

    async def slow(self: CriClient, *args: object, **more: object) -> str:
        asked.set()
        await go_on.wait()
        return await run(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(CriClient, "run_pod_sandbox", slow)
    sandbox, start = begun(pod, first, second)
    await asked.wait()
    sandbox.cancel()
    await sandbox.goes_on()
    go_on.set()
    assert (await sandbox.result()).id
    assert (await start.result()).outcome == Outcome.NOT_BEGUN
    assert (await pod.view()).containers == ()


async def test_a_waiting_start_lets_go_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "COMES_SECONDS", 60.0)
    pod = bench.pod()
    _, second = pair(pod)
    start = pod.step(StepName.START_CONTAINER, second)
    await start.goes_on("waits for the pod's sandbox")
    start.cancel()
    result = await start.result()
    assert (result.outcome, result.status.seq.counter) == (Outcome.CANCELLED, 0)
