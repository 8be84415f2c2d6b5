"""A start ahead waits in the worker for the first step, and is skipped if that step fails.

Holds: A container that was created before its turn is never started out of turn.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from activities import pipelining
from activities.containers import quick_end
from activities.images.presence import FoundImages
from activities.node import first_steps
from activities.preparing import Configured, Prepared, configure, prepare
from activities.step_attempt import StepAttempt
from activities.verbs import start_container
from syncpod.cri.client import CriClient
from syncpod.cri.errors import RuntimeFailure
from syncpod.lifecycle.actions import StepName
from syncpod.messages import ObservedPod
from syncpod.messages.steps import CreateSandbox, Fault, Outcome, StartContainer
from syncpod.node.reader import PodReader
from syncpod.translation.context import ordered_pod_ips
from tests.activities.bench import Bench, PodOnBench, Running, container, fault_of
from tests.agent.waiting import until


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limits for busy machines: results are held for as long as needed, and late exits count."""
    monkeypatch.setattr(pipelining, "HELD_SECONDS", 60.0)
    monkeypatch.setattr(quick_end, "LINGER_SECONDS", 60.0)


def requests(pod: PodOnBench) -> tuple[CreateSandbox, StartContainer]:
    """The requests for a sandbox and for a start in it, as a workflow makes them."""
    first = pod.sandbox_request().model_copy(update={"followed": True})
    return first, pod.start_request(follows=first.fence)


def begun(pod: PodOnBench, first: CreateSandbox, ahead: StartContainer) -> tuple[Running, Running]:
    return pod.step(StepName.CREATE_SANDBOX, first), pod.step(StepName.START_CONTAINER, ahead)


@pytest.mark.parametrize("start_comes_first", [False, True])
async def test_a_start_waits_for_its_sandbox_and_both_end_together(bench: Bench, start_comes_first: bool) -> None:
    pod = bench.pod()
    first, ahead = requests(pod)
    if start_comes_first:
        start = pod.step(StepName.START_CONTAINER, ahead)
        await start.goes_on("waits for the pod's sandbox")
        sandbox = pod.step(StepName.CREATE_SANDBOX, first)
    else:
        sandbox, start = begun(pod, first, ahead)
    made, started = await asyncio.gather(sandbox.result(), start.result())
    assert (made.outcome, started.outcome) == (Outcome.DONE, Outcome.DONE)
    [running] = started.status.containers
    assert (running.state, running.sandbox_id) == ("running", made.id)
    assert made.status.containers == ()
    assert made.idle_ms > 0 and started.idle_ms > 0


async def test_a_start_whose_sandbox_fails_is_not_begun(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = bench.pod(volumes=[{"name": "gone", "hostPath": {"path": "/nowhere/at/all", "type": "Directory"}}])
    sandbox, start = begun(pod, *requests(pod))
    fault, _, _ = await fault_of(sandbox.result())
    assert fault == Fault.FAILED_MOUNT
    started = await start.result()
    assert (started.outcome, started.status.seq.counter) == (Outcome.NOT_BEGUN, 0)


async def test_a_start_whose_image_is_missing_is_not_begun(bench: Bench) -> None:
    pod = bench.pod(container(image="syncpod.example/absent:1"))
    sandbox, start = begun(pod, *requests(pod))
    assert (await sandbox.result()).missing_images == ("main",)
    assert (await start.result()).outcome == Outcome.NOT_BEGUN


async def test_a_start_without_its_sandbox_in_this_worker_is_not_begun(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelining, "COMES_SECONDS", 0.0)
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
    monkeypatch.setattr(pipelining, "COMES_SECONDS", 0.0)
    pod = bench.pod()
    await pod.create_sandbox()
    request = pod.start_request().model_copy(update={"follows": pod.fence - 1})
    started = await pod.step(StepName.START_CONTAINER, request.model_copy(update={"follows": 0})).result()
    again = await pod.step(StepName.START_CONTAINER, request, attempt=2).result()
    assert (again.outcome, again.id) == (Outcome.ADOPTED, started.id)


async def test_both_steps_of_a_dead_worker_are_adopted_in_any_order(bench: Bench) -> None:
    pod = bench.pod()
    first, ahead = requests(pod)
    sandbox, start = begun(pod, first, ahead)
    made, started = await asyncio.gather(sandbox.result(), start.result())
    # The first one's result was lost too: its fence is older than what has been seen, but nothing newer follows it.
    late = pod.step(StepName.CREATE_SANDBOX, first, attempt=2)
    again = await pod.step(StepName.START_CONTAINER, ahead, attempt=2).result()
    adopted = await late.result()
    assert (adopted.outcome, adopted.id) == (Outcome.ADOPTED, made.id)
    assert (again.outcome, again.id) == (Outcome.ADOPTED, started.id)


async def test_what_ran_in_a_sandbox_that_died_with_its_worker_is_told(bench: Bench) -> None:
    """The retried steps remove it. Without a report of its end, a pod that never restarts would run again."""
    pod = bench.pod(container(command=("sh", "-c", "exit 3")))
    first, ahead = requests(pod)
    sandbox, start = begun(pod, first, ahead)
    made, started = await asyncio.gather(sandbox.result(), start.result())
    await pod.until_state(started.id, "exited")
    await bench.cri.stop_pod_sandbox(made.id)
    await pod.until_dead(made.id)
    retried = pod.step(StepName.CREATE_SANDBOX, first, attempt=2)
    not_begun = await pod.step(StepName.START_CONTAINER, ahead, attempt=2).result()
    spent = await retried.result()
    assert (spent.outcome, not_begun.outcome) == (Outcome.SPENT, Outcome.NOT_BEGUN)
    [ended] = spent.status.containers
    assert (ended.id, ended.state, ended.exit_code, ended.sandbox_id) == (started.id, "exited", 3, made.id)
    assert (await pod.view()).containers == ()


async def test_a_finished_sandbox_that_is_to_let_go_is_returned_at_once(bench: Bench) -> None:
    pod = bench.pod()
    first, _ = requests(pod)
    sandbox = pod.step(StepName.CREATE_SANDBOX, first)
    await sandbox.goes_on("has made the sandbox")
    sandbox.cancel()
    assert (await sandbox.result()).outcome == Outcome.DONE


async def test_nothing_starts_in_a_sandbox_whose_step_was_asked_to_let_go(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    first, ahead = requests(pod)
    asked, go_on = asyncio.Event(), asyncio.Event()
    run = CriClient.run_pod_sandbox

    async def slow(self: CriClient, *args: object, **more: object) -> str:
        asked.set()
        await go_on.wait()
        return await run(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(CriClient, "run_pod_sandbox", slow)
    sandbox, start = begun(pod, first, ahead)
    await asked.wait()
    sandbox.cancel()
    await sandbox.goes_on()
    go_on.set()
    assert (await sandbox.result()).id
    assert (await start.result()).outcome == Outcome.NOT_BEGUN
    assert (await pod.view()).containers == ()


async def test_a_waiting_start_lets_go_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelining, "COMES_SECONDS", 60.0)
    pod = bench.pod()
    _, ahead = requests(pod)
    start = pod.step(StepName.START_CONTAINER, ahead)
    await start.goes_on("waits for the pod's sandbox")
    start.cancel()
    result = await start.result()
    assert (result.outcome, result.status.seq.counter) == (Outcome.CANCELLED, 0)


def chained(bench: Bench, first: str = "true") -> PodOnBench:
    """A pod with an init container that runs this command, another that ends at once, and a main container."""
    inits = [container(name, command=("sh", "-c", script)) for name, script in (("a", first), ("b", "true"))]
    return bench.pod(initContainers=inits)


def init_request(pod: PodOnBench, name: str, follows: int = 0) -> StartContainer:
    return pod.start_request(name, kind="init_container", follows=follows)


async def chain(bench: Bench, first: str = "true") -> tuple[PodOnBench, StartContainer, StartContainer]:
    """A `chained` pod with a sandbox, and the start requests of its init containers, the second ahead of its turn."""
    pod = chained(bench, first)
    await pod.create_sandbox()
    before = init_request(pod, "a")
    return pod, before, init_request(pod, "b", follows=before.fence)


def init_started(pod: PodOnBench, request: StartContainer, **how: Any) -> Running:
    return pod.step(StepName.START_INIT_CONTAINER, request, **how)


async def test_each_start_of_a_chain_begins_when_the_one_before_is_done(bench: Bench) -> None:
    pod, first, ahead = await chain(bench)
    main = pod.start_request(follows=ahead.fence)
    steps = [init_started(pod, first), init_started(pod, ahead), pod.step(StepName.START_CONTAINER, main)]
    a, b, last = await asyncio.gather(*(step.result() for step in steps))
    assert (a.outcome, b.outcome, last.outcome) == (Outcome.DONE, Outcome.DONE, Outcome.DONE)
    assert {each.name: each.state for each in last.status.containers} == {
        "a": "exited",
        "b": "exited",
        "main": "running",
    }
    assert a.status.newest("b") is None and b.status.newest("main") is None
    assert b.idle_ms > 0 and last.idle_ms > 0


async def test_main_containers_follow_one_another(bench: Bench) -> None:
    pod = bench.pod(container("x"), container("y"))
    await pod.create_sandbox()
    first = pod.start_request("x")
    ahead = pod.start_request("y", follows=first.fence)
    steps = [pod.step(StepName.START_CONTAINER, each) for each in (first, ahead)]
    _, last = await asyncio.gather(*(step.result() for step in steps))
    assert {each.name: each.state for each in last.status.containers} == {"x": "running", "y": "running"}


@pytest.mark.parametrize(("script", "linger_seconds"), [("exit 3", 60.0), ("sleep 60", 0.1)])
async def test_what_follows_an_init_container_that_fails_or_takes_long_is_not_begun(
    bench: Bench, script: str, linger_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_end, "LINGER_SECONDS", linger_seconds)
    pod = chained(bench, script)
    await pod.create_sandbox()
    first = init_request(pod, "a")
    steps = [init_started(pod, first), init_started(pod, init_request(pod, "b", follows=first.fence))]
    a, b = await asyncio.gather(*(step.result() for step in steps))
    assert (a.outcome, b.outcome, b.status.seq.counter) == (Outcome.DONE, Outcome.NOT_BEGUN, 0)
    assert [each.name for each in (await pod.view()).containers] == ["a"]


async def test_what_comes_after_the_one_before_has_ended_goes_by_its_end(bench: Bench) -> None:
    pod = chained(bench)
    await pod.create_sandbox()
    first = init_request(pod, "a")
    assert (await init_started(pod, first).result()).outcome == Outcome.DONE
    ahead = init_request(pod, "b", follows=first.fence)
    assert (await init_started(pod, ahead).result()).outcome == Outcome.DONE


async def test_a_start_of_a_dead_worker_goes_on_only_if_it_had_begun(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelining, "COMES_SECONDS", 0.0)
    pod = chained(bench)
    await pod.create_sandbox()
    await init_started(pod, init_request(pod, "a")).result()
    follows = pod.fence + 100  # the step before it has ended in a worker that has died
    request = init_request(pod, "b", follows=follows)
    assert (await init_started(pod, request, attempt=2).result()).outcome == Outcome.NOT_BEGUN
    done = await init_started(pod, init_request(pod, "b")).result()
    again = init_request(pod, "b", follows=follows)
    adopted = await init_started(pod, again, attempt=2).result()
    assert (adopted.outcome, adopted.id) == (Outcome.ADOPTED, done.id)


async def test_a_start_of_a_dead_worker_goes_on_although_the_one_before_it_has_ended_since(bench: Bench) -> None:
    """Otherwise its instance would be lost: it runs, and the workflow was told that nothing had begun."""
    pod = bench.pod(container("x"), container("y"))
    await pod.create_sandbox()
    first = pod.start_request("x")
    ahead = pod.start_request("y", follows=first.fence)
    steps = [pod.step(StepName.START_CONTAINER, each) for each in (first, ahead)]
    ended, running = await asyncio.gather(*(step.result() for step in steps))
    await bench.cri.stop_container(ended.id, timeout_seconds=0)
    await pod.until_state(ended.id, "exited")
    retried = [pod.step(StepName.START_CONTAINER, each, attempt=2) for each in (first, ahead)]
    x, y = await asyncio.gather(*(step.result() for step in retried))
    assert (x.outcome, x.id, y.outcome, y.id) == (Outcome.ADOPTED, ended.id, Outcome.ADOPTED, running.id)


async def test_a_start_that_was_asked_to_let_go_is_followed_by_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = chained(bench)
    await pod.create_sandbox()
    asked, go_on = asyncio.Event(), asyncio.Event()
    run = CriClient.start_container

    async def slow(self: CriClient, container_id: str) -> None:
        asked.set()
        await go_on.wait()
        await run(self, container_id)

    monkeypatch.setattr(CriClient, "start_container", slow)
    first = init_request(pod, "a")
    a, b = init_started(pod, first), init_started(pod, init_request(pod, "b", follows=first.fence))
    await asked.wait()
    a.cancel()
    await a.goes_on()
    go_on.set()
    assert (await a.result()).id
    assert (await b.result()).outcome == Outcome.NOT_BEGUN


async def test_the_end_of_a_step_counts_only_for_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_steps, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(pipelining, "COMES_SECONDS", 0.0)
    pod = chained(bench)
    await pod.create_sandbox()
    first = init_request(pod, "a")
    assert (await init_started(pod, first).result()).outcome == Outcome.DONE
    await asyncio.sleep(0)  # the first step is forgotten in the loop's next turn
    ahead = init_request(pod, "b", follows=first.fence)
    assert (await init_started(pod, ahead).result()).outcome == Outcome.NOT_BEGUN


async def refused(self: CriClient, *_: object) -> str:
    raise RuntimeFailure("create_container", "UNKNOWN", "it is too large")


async def not_created(start: Running) -> None:
    """Wait until a start has failed with that result."""
    fault, _, _ = await fault_of(start.result())
    assert fault == Fault.CREATE_CONTAINER_ERROR


async def test_of_a_step_that_failed_only_the_reason_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its traceback would hold its requests: those of the containers of one pod can have 2 MiB each."""
    monkeypatch.setattr(CriClient, "create_container", refused)
    pod, first, _ = await chain(bench)
    await not_created(init_started(pod, first))
    kept = bench.node.first_steps.of(pod.ref, first.fence).attempt
    assert kept is not None and kept.end.result() == first_steps.Failed("CreateContainerError: it is too large", False)


async def test_steps_that_failed_are_forgotten(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_steps, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(CriClient, "create_container", refused)
    pod = bench.pod()
    sandbox, start = begun(pod, *requests(pod))
    await not_created(start)
    assert (await sandbox.result()).outcome == Outcome.DONE
    pod, first, _ = await chain(bench)
    await not_created(init_started(pod, first))
    await until(lambda: not bench.node.first_steps._steps)


async def test_a_start_is_prepared_while_the_one_before_it_reads_the_pod(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, first, ahead = await chain(bench)
    prepared, configured = asyncio.Event(), list[str]()
    read = PodReader.read

    async def noted(attempt: StepAttempt, request: StartContainer) -> Prepared | None:
        found = await prepare(attempt, request)
        prepared.set()
        return found

    async def late(self: PodReader, uid: str, **more: Any) -> ObservedPod:
        await prepared.wait()
        return await read(self, uid, **more)

    async def counted(attempt: StepAttempt, request: StartContainer, *more: Any) -> Configured:
        configured.append(request.container)
        return await configure(attempt, request, *more)

    monkeypatch.setattr(pipelining, "prepare", noted)
    monkeypatch.setattr(PodReader, "read", late)
    monkeypatch.setattr(start_container, "configure", counted)
    a, b = await asyncio.gather(init_started(pod, first).result(), init_started(pod, ahead).result())
    assert (a.outcome, b.outcome, configured) == (Outcome.DONE, Outcome.DONE, ["a"])


async def test_a_start_that_cannot_be_prepared_does_everything_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, first, ahead = await chain(bench)

    async def refused(attempt: StepAttempt, request: StartContainer) -> None:
        raise OSError("the disk is full just now")

    monkeypatch.setattr(pipelining, "prepare", refused)
    a, b = await asyncio.gather(init_started(pod, first).result(), init_started(pod, ahead).result())
    assert (a.outcome, b.outcome) == (Outcome.DONE, Outcome.DONE)


async def test_nothing_is_prepared_after_an_init_container_that_failed_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, first, ahead = await chain(bench, "exit 3")
    first = first.model_copy(update={"restart": 1})
    prepared: list[str] = []

    async def noted(attempt: StepAttempt, request: StartContainer) -> None:
        prepared.append(request.container)

    monkeypatch.setattr(pipelining, "prepare", noted)
    _, b = await asyncio.gather(init_started(pod, first).result(), init_started(pod, ahead).result())
    assert (b.outcome, prepared) == (Outcome.NOT_BEGUN, [])


async def test_what_is_prepared_differs_in_nothing_from_what_a_start_does_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, first, ahead = await chain(bench)
    create, asked = CriClient.create_container, list[tuple[str, bytes, bytes]]()

    async def noted(self: CriClient, sandbox_id: str, config: Any, sandbox: Any) -> str:
        texts = config.SerializeToString(deterministic=True), sandbox.SerializeToString(deterministic=True)
        asked.append((config.metadata.name, *texts))
        return await create(self, sandbox_id, config, sandbox)

    monkeypatch.setattr(CriClient, "create_container", noted)
    await asyncio.gather(init_started(pod, first).result(), init_started(pod, ahead).result())
    assert [name for name, *_ in asked] == ["a", "b"]
    node = bench.node
    image = await bench.cri.image_status(ahead.pod.spec.init_containers[1].image)
    home = node.reader.known_sandbox(ahead.sandbox_id)
    assert image is not None and home is not None
    pod_ips = ordered_pod_ips(home.ip, home.additional_ips, node.context.host.addresses)
    attempt = StepAttempt(node, ahead, number=1)
    itself = await configure(attempt, ahead, FoundImages(image, {}), pod_ips)
    assert asked[1][1] == itself.container.SerializeToString(deterministic=True)
    assert asked[1][2] == itself.sandbox.SerializeToString(deterministic=True)
