"""The number of pods that start or end at once is limited; the others wait in order.

Holds: A limited number of pods start or end at once, and the others wait in order.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import pytest

from activities.node import pod_queues
from activities.node.context import pods_at_once
from activities.node.pod_queues import PodQueue, QueuePlace
from activities.step_attempt import Interrupted, StepAttempt
from syncpod.lifecycle.actions import StepName
from syncpod.messages.step_table import Stage
from syncpod.messages.steps import CreateSandbox, Outcome
from tests.activities.bench import BEAT_SECONDS, Bench, Running, until
from tests.activities.test_fences import settle

T = TypeVar("T")


def after(answers: asyncio.Event, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A call of the runtime that is made only once `answers` is set."""

    async def hangs(**how: Any) -> Any:
        await answers.wait()
        return await call(**how)

    return hangs


async def fill(queue: PodQueue) -> None:
    """Take every place in the queue, without releasing it."""
    for _ in range(pods_at_once()):
        async with asyncio.timeout(1):
            await queue.enter(-1)


class Step:
    """A step that works until `may_end` is set; setting `may_wait` makes it wait aside meanwhile."""

    _order = itertools.count()

    def __init__(self, queue: PodQueue, uid: str, *, can_wait: bool = False) -> None:
        self.place = QueuePlace(queue, uid, can_wait=can_wait)
        self.works = False
        self.may_end, self.may_wait, self.has_waited = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._run())

    def supersede(self) -> None:
        """Do nothing: no newer step exists."""

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    async def _run(self) -> None:
        async with self.place.held(self):
            self.works = True
            told = [asyncio.ensure_future(each.wait()) for each in (self.may_end, self.may_wait)]
            try:
                await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in told:
                    each.cancel()
            if self.may_wait.is_set():
                async with self.place.aside(self):
                    self.works = False
                    await self.has_waited.wait()
                self.works = True
                await self.may_end.wait()
        self.works = False


async def test_only_as_many_steps_as_places_work_and_the_others_follow_in_order() -> None:
    queue = PodQueue(2)
    steps = [Step(queue, name) for name in "abcd"]
    await settle()
    assert [step.works for step in steps] == [True, True, False, False]
    assert [step.place.ahead for step in steps] == [None, None, 0, 1]
    steps[1].may_end.set()
    await settle()
    assert [step.works for step in steps] == [True, False, True, False]
    for step in steps:
        step.may_end.set()
    await asyncio.gather(*(step.task for step in steps))


async def test_a_started_pod_precedes_one_that_has_not_started() -> None:
    queue = PodQueue(1)
    first = Step(queue, "a")
    waiting = Step(queue, "b")
    await settle()
    second = Step(queue, "a")
    first.may_end.set()
    await settle()
    assert (second.works, waiting.works) == (True, False)
    for step in (second, waiting):
        step.may_end.set()
        await step.task


async def test_a_pod_that_is_removed_lets_those_that_end_go_first_but_not_without_end() -> None:
    queue = PodQueue(1)
    first = Step(queue, "a")
    await settle()
    removed = Step(queue, "a", can_wait=True)
    ending = [Step(queue, f"b{number}") for number in range(pod_queues.LET_PASS)]
    last = Step(queue, "c")
    await settle()
    for step in (first, *ending):
        assert not removed.works
        step.may_end.set()
        await step.task
    await settle()
    assert (removed.works, last.works) == (True, False)
    for step in (removed, last):
        step.may_end.set()
        await step.task


async def test_a_pod_that_returns_after_long_queues_behind_waiting_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = PodQueue(1)
    first = Step(queue, "a")
    waiting = Step(queue, "b")
    await settle()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + pod_queues.REMEMBERED_SECONDS + 1)
    late = Step(queue, "a")
    first.may_end.set()
    await settle()
    assert (waiting.works, late.works) == (True, False)
    for step in (waiting, late):
        step.may_end.set()
        await step.task


async def test_a_step_that_waits_gives_up_its_place_and_returns_first() -> None:
    queue = PodQueue(1)
    elder, second, third = (Step(queue, name) for name in "abc")
    await settle()
    elder.may_wait.set()
    await settle()
    assert [step.works for step in (elder, second, third)] == [False, True, False]
    elder.has_waited.set()
    await settle()
    assert not elder.works
    second.may_end.set()
    await settle()
    assert [step.works for step in (elder, second, third)] == [True, False, False]
    elder.may_end.set()
    third.may_end.set()
    await asyncio.gather(elder.task, second.task, third.task)
    assert elder.place.waited_seconds > 0


async def test_a_hung_step_keeps_its_place_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_queues, "HELD_SECONDS", 0.01)
    queue = PodQueue(1)
    hangs, other = Step(queue, "a"), Step(queue, "b")
    async with asyncio.timeout(30):
        while not other.works:  # noqa: ASYNC110  # it is called by a timer
            await asyncio.sleep(0.01)
    assert hangs.works
    for step in (hangs, other):
        step.may_end.set()
        await step.task
    async with asyncio.timeout(1):
        await queue.enter(0)  # the place is not given back twice


@pytest.mark.parametrize("called", [False, True], ids=["while it waits", "as it is called"])
async def test_a_step_cancelled_in_the_queue_takes_no_place(*, called: bool) -> None:
    queue = PodQueue(1)
    first, gone, last = (Step(queue, name) for name in "abc")
    await settle()
    if called:
        queue.leave()
    gone.task.cancel()
    await settle()
    if not called:
        first.may_end.set()
        await settle()
    assert last.works
    first.task.cancel()
    last.may_end.set()
    await asyncio.gather(first.task, gone.task, last.task, return_exceptions=True)


async def test_a_queued_step_says_so_and_keeps_its_full_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = bench.pod()
    queue = bench.node.queues[Stage.ENDING]
    await fill(queue)
    attempt = StepAttempt(bench.node, CreateSandbox(ref=pod.ref, fence=1, pod=pod.pod, attempt=0), number=1)

    async def wait() -> None:
        async with attempt.in_queue(Stage.ENDING):
            """Its turn has come."""

    waiting = asyncio.create_task(wait())
    await settle()
    assert attempt.telling == "waits for its turn to end: 0 other pods come first"
    before, now = attempt.waited_seconds, time.monotonic()
    with monkeypatch.context() as clock:
        clock.setattr(time, "monotonic", lambda: now + 3600)
        assert attempt.waited_seconds - before < 1800
    attempt.interrupt()
    with pytest.raises(Interrupted):
        await waiting


async def test_a_step_says_when_its_turn_has_come_and_when_its_first_wait_is_over(bench: Bench) -> None:
    """Its node then expects the pod's listing of it. A step that waits again and again would hide the pod for ever."""
    queue, said = bench.node.queues[Stage.ENDING], bench.agent.acted
    pod = bench.pod()
    attempt = StepAttempt(bench.node, CreateSandbox(ref=pod.ref, fence=1, pod=pod.pod, attempt=0), number=1)
    await fill(queue)

    async def act() -> None:
        async with attempt.in_queue(Stage.ENDING):
            assert said == [pod.uid]
            for _ in range(3):
                async with attempt.aside():
                    """What it waits for comes."""
            assert len(said) == 3  # before it waits for a place again, and when it has one

    acting = asyncio.create_task(act())
    await settle()
    assert said == []
    queue.leave()
    await acting


async def test_a_removal_waits_with_the_pods_that_end(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    assert (await pod.kill()).outcome == Outcome.DONE
    queue = bench.node.queues[Stage.ENDING]
    await fill(queue)
    removal = asyncio.create_task(pod.remove())

    async def waits() -> bool:
        return queue.ahead_of(2**62) == 1

    await until(waits)
    assert pod.directory.exists()
    queue.leave()
    assert await removal
    assert not pod.directory.exists()


async def test_pods_start_in_order_and_one_deleted_in_the_queue_has_changed_nothing(bench: Bench) -> None:
    queue = bench.node.queues[Stage.BEGINNING]
    await fill(queue)
    pods = [bench.pod() for _ in range(3)]
    steps: list[Running] = []
    for pod, others in zip(pods, ("0 other pods come", "1 other pod comes", "2 other pods come"), strict=True):
        step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
        await until(partial(_says, step.heartbeats, f"waits for its turn to begin: {others} first"))
        steps.append(step)
    steps[1].cancel()
    cancelled = await steps[1].result()
    assert (cancelled.outcome, cancelled.status.sandboxes) == (Outcome.CANCELLED, ())
    queue.leave()
    first = await steps[0].result()
    assert first.outcome == Outcome.DONE
    assert (await steps[2].result()).outcome == Outcome.DONE


async def test_a_step_whose_turn_has_come_says_that_it_waits_for_the_runtime(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, answers, listing = bench.pod(), asyncio.Event(), bench.cri.list_containers
    await pod.create_sandbox()

    monkeypatch.setattr(bench.cri, "list_containers", after(answers, listing))
    step = pod.step(StepName.KILL_POD, pod.kill_request())
    await until(partial(_says, step.heartbeats, "lists the pod in the runtime"))
    assert not any("turn" in said for said in step.heartbeats)
    answers.set()
    assert (await step.result()).outcome == Outcome.DONE


async def test_a_step_that_waits_for_other_pods_heartbeats_rarely_until_its_turn_has_come(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each heartbeat is a write of the server, and in a crowd nearly all steps wait."""
    monkeypatch.setattr("activities.step.WAITING_BEAT_SECONDS", 1000.0)
    ended, answers, listing = bench.pod(), asyncio.Event(), bench.cri.list_pod_sandboxes
    await ended.create_sandbox()

    monkeypatch.setattr(bench.cri, "list_pod_sandboxes", after(answers, listing))
    queue, waiting = bench.node.queues[Stage.BEGINNING], bench.pod()
    await fill(queue)
    waits = waiting.step(StepName.CREATE_SANDBOX, waiting.sandbox_request())
    waiting_beat = "waits for its turn to begin: 0 other pods come first"
    await until(partial(_says, waits.heartbeats, waiting_beat))
    acts = ended.step(StepName.KILL_POD, ended.kill_request())
    await acts.goes_on()
    await acts.goes_on()
    assert waits.heartbeats.count(waiting_beat) == 1
    queue.leave()
    await waits.goes_on()
    assert waits.heartbeats.count(waiting_beat) == 1
    answers.set()
    assert (await waits.result()).outcome == Outcome.DONE
    assert (await acts.result()).outcome == Outcome.DONE


@pytest.mark.parametrize("first_beat", [BEAT_SECONDS, 0.0], ids=["queued by its first heartbeat", "not yet queued"])
async def test_a_step_that_has_its_turn_soon_says_nothing_of_the_queue(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, first_beat: float
) -> None:
    monkeypatch.setattr("activities.step.FIRST_BEAT_SECONDS", first_beat)
    monkeypatch.setattr("activities.step.QUEUED_BEAT_SECONDS", 1000.0)
    answers, listing = asyncio.Event(), bench.cri.list_pod_sandboxes

    monkeypatch.setattr(bench.cri, "list_pod_sandboxes", after(answers, listing))
    queue, waiting, ended = bench.node.queues[Stage.BEGINNING], bench.pod(), bench.pod()
    await fill(queue)
    waits = waiting.step(StepName.CREATE_SANDBOX, waiting.sandbox_request())
    acts = ended.step(StepName.KILL_POD, ended.kill_request())
    await acts.goes_on()
    await acts.goes_on()
    assert not any("come first" in said for said in waits.heartbeats)
    queue.leave()
    answers.set()
    assert (await waits.result()).outcome == Outcome.DONE
    assert not any("come first" in said for said in waits.heartbeats)
    assert (await acts.result()).outcome == Outcome.DONE


async def _says(heartbeats: list[str], text: str) -> bool:
    return text in heartbeats
