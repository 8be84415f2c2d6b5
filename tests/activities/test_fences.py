"""Only one step of a pod runs at a time, and an older step never runs after a newer one.

Holds: An older step never acts after a newer one.
Holds: Garbage collection never races with a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from activities.node import fences as fences_module
from activities.node.fences import KEPT_SECONDS, FenceClaim, Fences, StaleFence
from activities.step_attempt import Interrupted, StepAttempt
from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import CreateSandbox, Fault, Outcome, StepInput
from tests.activities.bench import Bench, fault_of

T = TypeVar("T")

EARLY, LATE = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (1, 2))
WEB = PodRef(namespace="default", name="web", uid="u1", incarnation="life-1")


class Actor:
    """Holds a fence until its `may_end` is set."""

    def __init__(
        self,
        fences: Fences,
        fence: int,
        attempt: int = 1,
        ref: PodRef = WEB,
        lane: str = "",
        *,
        follows: int = 0,
    ) -> None:
        self.fences, self.ref, self.claim, self.lane = fences, ref, FenceClaim(fence, attempt, EARLY, follows), lane
        self.superseded = self.acts = False
        self.may_end = asyncio.Event()

    def supersede(self) -> None:
        self.superseded = True

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    async def act(self) -> None:
        async with self.fences.acting(self.ref, self.claim, self, lane=self.lane):
            self.acts = True
            await self.may_end.wait()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_newer_step_supersedes_the_older_one_and_waits_until_it_has_ended() -> None:
    fences = Fences()
    elder, newer = Actor(fences, 1), Actor(fences, 2)
    tasks = [asyncio.create_task(elder.act()), asyncio.create_task(newer.act())]
    await settle()
    assert (elder.acts, elder.superseded, newer.acts) == (True, True, False)
    elder.may_end.set()
    await settle()
    assert newer.acts
    newer.may_end.set()
    await asyncio.gather(*tasks)


async def test_a_step_that_is_tried_again_waits_for_the_one_that_follows_it() -> None:
    fences = Fences()
    ahead, again = Actor(fences, 2, follows=1), Actor(fences, 1, 2)
    tasks = [asyncio.create_task(ahead.act()), asyncio.create_task(again.act())]
    await settle()
    assert (ahead.acts, ahead.superseded, again.acts) == (True, False, False)
    ahead.may_end.set()
    await settle()
    assert again.acts
    again.may_end.set()
    await asyncio.gather(*tasks)
    third = Actor(fences, 3, follows=2)
    third.may_end.set()
    await third.act()
    with pytest.raises(StaleFence):  # what comes after the start ahead is newer than both
        await Actor(fences, 1, 4).act()
    late = Actor(fences, 2, 2, follows=1)
    late.may_end.set()
    await late.act()


async def test_a_newer_step_waits_for_a_start_ahead_beside_the_one_before_it() -> None:
    fences = Fences()
    first, ahead, newer = Actor(fences, 1), Actor(fences, 2, follows=1), Actor(fences, 3)
    tasks = [asyncio.create_task(first.act())]
    await settle()
    assert fences.join(WEB, ahead.claim, ahead)
    tasks.append(asyncio.create_task(newer.act()))
    await settle()
    assert (first.superseded, ahead.superseded) == (True, True)
    first.may_end.set()
    await settle()
    assert not newer.acts
    fences.leave(WEB, ahead)
    await settle()
    assert newer.acts
    newer.may_end.set()
    await asyncio.gather(*tasks)


async def test_a_step_acts_after_the_one_beside_which_it_has_begun_and_so_does_a_further_try_of_that() -> None:
    fences = Fences()
    first, ahead, again = Actor(fences, 1), Actor(fences, 2, follows=1), Actor(fences, 1, 2)
    tasks = [asyncio.create_task(first.act())]
    await settle()
    assert fences.join(WEB, ahead.claim, ahead)
    first.may_end.set()
    again.may_end.set()
    await asyncio.gather(*tasks, again.act())
    assert (again.acts, ahead.superseded) == (True, False)
    async with fences.undisturbed(WEB.uid, Actor(fences, 0)) as held:
        assert not held
    ahead.may_end.set()
    await ahead.act()
    fences.leave(WEB, ahead)
    async with fences.undisturbed(WEB.uid, Actor(fences, 0)) as held:
        assert held


async def test_only_a_start_that_follows_the_step_that_holds_the_pod_acts_beside_it() -> None:
    fences = Fences()
    first, ahead, stranger, newer = Actor(fences, 1), Actor(fences, 2, follows=1), Actor(fences, 3), Actor(fences, 4)
    assert not fences.join(WEB, ahead.claim, ahead)
    tasks = [asyncio.create_task(first.act())]
    await settle()
    assert not fences.join(WEB, stranger.claim, stranger)
    tasks.append(asyncio.create_task(newer.act()))
    await settle()
    assert not fences.join(WEB, ahead.claim, ahead)
    fences.leave(WEB, ahead)
    first.may_end.set()
    newer.may_end.set()
    await asyncio.gather(*tasks)


async def test_a_step_that_nobody_follows_is_refused_after_a_newer_one() -> None:
    fences = Fences()
    for fence in (1, 2):
        actor = Actor(fences, fence)
        actor.may_end.set()
        await actor.act()
    with pytest.raises(StaleFence):
        await Actor(fences, 1, 2).act()


async def test_an_older_step_is_refused_at_once() -> None:
    fences = Fences()
    newer = Actor(fences, 5)
    newer.may_end.set()
    await newer.act()
    with pytest.raises(StaleFence):
        await Actor(fences, 4).act()


async def test_an_older_attempt_of_the_same_step_is_refused() -> None:
    fences = Fences()
    retry = Actor(fences, 5, attempt=2)
    retry.may_end.set()
    await retry.act()
    with pytest.raises(StaleFence):
        await Actor(fences, 5, attempt=1).act()


async def test_a_waiting_step_is_refused_if_a_newer_one_has_arrived() -> None:
    fences = Fences()
    holder, waiting, newest = (Actor(fences, fence) for fence in (1, 2, 3))
    tasks = [asyncio.create_task(actor.act()) for actor in (holder, waiting, newest)]
    await settle()
    holder.may_end.set()
    await settle()
    assert (waiting.acts, newest.acts) == (False, True)
    with pytest.raises(StaleFence):
        await tasks[1]
    newest.may_end.set()
    await tasks[2]


async def test_a_reset_workflow_may_act_with_lower_fences() -> None:
    seen = FenceClaim(fence=9, attempt=1, scheduled=EARLY)
    assert FenceClaim(fence=4, attempt=1, scheduled=EARLY).is_older_than(seen)
    assert not FenceClaim(fence=4, attempt=1, scheduled=LATE).is_older_than(seen)
    assert not FenceClaim(fence=10, attempt=1, scheduled=EARLY).is_older_than(seen)
    assert not seen.is_older_than(seen)


async def test_the_next_incarnation_restarts_its_fences_but_waits_for_the_previous_one() -> None:
    fences = Fences()
    last = Actor(fences, 90)
    next_life = Actor(fences, 1, ref=WEB.model_copy(update={"incarnation": "life-2"}))
    tasks = [asyncio.create_task(last.act()), asyncio.create_task(next_life.act())]
    await settle()
    assert not next_life.acts
    last.may_end.set()
    await settle()
    assert next_life.acts
    next_life.may_end.set()
    await asyncio.gather(*tasks)


async def test_pods_do_not_wait_for_one_another() -> None:
    fences = Fences()
    one, other = Actor(fences, 1), Actor(fences, 1, ref=WEB.model_copy(update={"uid": "u2"}))
    tasks = [asyncio.create_task(one.act()), asyncio.create_task(other.act())]
    await settle()
    assert (one.acts, other.acts) == (True, True)
    one.may_end.set()
    other.may_end.set()
    await asyncio.gather(*tasks)


async def test_a_step_in_a_lane_does_not_wait_for_or_block_the_pods_steps() -> None:
    fences = Fences()
    pull, start, other_pull = Actor(fences, 5, lane="pull web"), Actor(fences, 4), Actor(fences, 3, lane="pull log")
    tasks = [asyncio.create_task(actor.act()) for actor in (pull, start, other_pull)]
    await settle()
    assert [(actor.acts, actor.superseded) for actor in (pull, start, other_pull)] == [(True, False)] * 3
    for actor in (pull, start, other_pull):
        actor.may_end.set()
    await asyncio.gather(*tasks)


async def test_in_a_lane_a_newer_step_supersedes_the_older_and_an_older_one_is_refused() -> None:
    fences = Fences()
    elder, newer = Actor(fences, 5, lane="pull web"), Actor(fences, 7, lane="pull web")
    tasks = [asyncio.create_task(actor.act()) for actor in (elder, newer)]
    await settle()
    assert (elder.superseded, newer.acts) == (True, False)
    elder.may_end.set()
    newer.may_end.set()
    await asyncio.gather(*tasks)
    with pytest.raises(StaleFence):
        await Actor(fences, 6, lane="pull web").act()


async def test_a_step_cancelled_while_waiting_does_not_hold_the_pod() -> None:
    class Hasty(Actor):
        async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
            work.close()
            raise Interrupted

    fences = Fences()
    holder = Actor(fences, 1)
    task = asyncio.create_task(holder.act())
    await settle()
    with pytest.raises(Interrupted):
        await Hasty(fences, 2).act()
    holder.may_end.set()
    await task
    third = Actor(fences, 3)
    third.may_end.set()
    await third.act()
    assert third.acts


async def test_work_that_completes_despite_cancellation_counts_as_done(bench: Bench) -> None:
    attempt = StepAttempt(bench.node, StepInput(), number=1)

    async def stubborn() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    task = asyncio.create_task(attempt.interruptible(stubborn()))
    await settle()
    attempt.interrupt()
    assert await task == "done all the same"
    with pytest.raises(Interrupted):
        await attempt.pause(10)


async def test_a_cancelled_step_begins_no_call_except_an_overdue_kill(bench: Bench) -> None:
    """A kill sends its stop even if listing takes longer than the whole kill may."""
    begun: list[str] = []

    async def sends(what: str) -> None:
        begun.append(what)

    asked, late = (StepAttempt(bench.node, StepInput(), number=1) for _ in range(2))
    asked.supersede()
    with pytest.raises(Interrupted):
        await asked.interruptible(sends("asked"))
    with pytest.raises(Interrupted):
        asked.checkpoint()
    late.expire()
    late.checkpoint()
    await late.interruptible(sends("late"))
    with pytest.raises(Interrupted):
        await late.pause(10)
    assert begun == ["late"]


async def test_a_step_with_an_old_fence_makes_no_calls(bench: Bench) -> None:
    pod = bench.pod()
    stale, scheduled = pod.sandbox_request(), datetime.now(UTC) - timedelta(seconds=1)
    assert (await pod.kill()).outcome == Outcome.DONE
    fault, error, _ = await fault_of(pod.step(StepName.CREATE_SANDBOX, stale, scheduled=scheduled).result())
    assert (fault, error.message) == (
        Fault.STALE_FENCE,
        f"default/{pod.pod.metadata.name}: try 1 of step 1 came after try 1 of step 2",
    )
    assert await bench.cri.list_pod_sandboxes(labels={"io.kubernetes.pod.uid": pod.uid}) == ()


async def test_a_kill_waits_for_the_stalled_create_before_it(bench: Bench) -> None:
    pod = bench.pod(hostNetwork=False)
    request: CreateSandbox = pod.sandbox_request()
    with bench.runtime.gates.hold("cni-add") as gate:
        stalled = pod.step(StepName.CREATE_SANDBOX, request)
        await gate.reached()
        kill = pod.step(StepName.KILL_POD, pod.kill_request())
        await kill.goes_on("waits for its turn")
    await asyncio.wait({stalled.task})
    result = await kill.result()
    assert [each.ready for each in result.status.sandboxes] == [False]


# --- between the steps ------------------------------------------------------------------------------------------------


async def test_garbage_collection_begins_only_without_a_running_or_waiting_step() -> None:
    """Row 107: garbage collection never races with a step."""
    fences = Fences()
    step, tidying = Actor(fences, 1), Actor(fences, 0)
    async with fences.undisturbed("u1", tidying) as held:
        assert held
    acting = asyncio.create_task(step.act())
    await settle()
    async with fences.undisturbed("u1", tidying) as held:
        assert not held
    async with fences.undisturbed("u2", tidying) as held:
        assert held, "another pod"
    step.may_end.set()
    await acting


async def test_a_step_interrupts_garbage_collection_and_is_not_fenced_by_it() -> None:
    """Row 107: a step waits until a running removal is done, and then acts, whatever its fence number."""
    fences = Fences()
    step, tidying = Actor(fences, 1), Actor(fences, 0)
    async with fences.undisturbed("u1", tidying) as held:
        assert held
        acting = asyncio.create_task(step.act())
        await settle()
        assert (tidying.superseded, step.acts) == (True, False)
    await settle()
    assert step.acts
    step.may_end.set()
    await acting
    async with fences.undisturbed("u1", tidying) as held:
        assert held


async def test_the_fences_of_a_life_that_is_over_refuse_older_tries_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(fences_module, "monotonic", lambda: now)
    fences, other = Fences(), PodRef(uid="u2", incarnation="life-1")
    for lane in ("", "web"):
        last = Actor(fences, 2, lane=lane)
        last.may_end.set()
        await last.act()
    fences.forget_later(WEB)
    now = KEPT_SECONDS - 1
    with pytest.raises(StaleFence):
        await Actor(fences, 1).act()
    now = KEPT_SECONDS + 1
    last = Actor(fences, 1, ref=other)
    last.may_end.set()
    await last.act()
    assert list(fences._newest) == [("u2", "life-1")]
    assert not fences._over
