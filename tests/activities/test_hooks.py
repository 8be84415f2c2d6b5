"""Hooks: a failing preStop hook does not stop a kill, and a failing postStart hook fails the start."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, create_autospec

import pytest
from temporalio.exceptions import ApplicationError

from activities.node.hooks import PreStops, carry_out_hook
from syncpod.cri.errors import Unavailable
from syncpod.cri.port import CriRuntime, ExecResult
from syncpod.handlers.answer import Target
from syncpod.handlers.hook import HookFailed
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.messages.steps import Fault, KillContainer, KillTarget
from syncpod.node.start_marks import read_start_mark
from syncpod.pod import ExecAction, LifecycleHandler
from syncpod.translation.context import NodeContext
from tests.activities.bench import Bench, container, fault_of

RUNS = ObservedContainer(id="c1", name="main", state="running")
SAYS_BYE = LifecycleHandler(exec=ExecAction(command=("say", "bye")))
LIFECYCLE = {"postStart": {"exec": {"command": ["say", "hello"]}}}


def raising(error: BaseException) -> CriRuntime:
    """A runtime that answers every command with an error of an unknown kind."""
    cri = create_autospec(CriRuntime, instance=True)
    cri.exec_sync.side_effect = error
    return cri  # type: ignore[no-any-return]  # an autospec is Any


async def test_an_unexpected_error_in_a_pre_stop_hook_fails_the_hook_but_not_the_kill(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = NodeContext("vm", tmp_path / "state", tmp_path / "memory", tmp_path / "log", "cluster")
    hooks = PreStops(raising(ValueError("no such thing")), context)
    target = KillTarget(id="c1", name="main", pre_stop=SAYS_BYE)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            told = await hooks.carry_out(ObservedPod(), RUNS, target, waited_seconds=0.0)
            assert told is not None
            assert (told.type, told.reason, told.message, told.container) == (
                "Warning",
                "FailedPreStopHook",
                "PreStopHook failed",
                "main",
            )
    assert not hooks.has_succeeded(target)
    assert "the preStop hook of container c1 failed: ValueError: no such thing" in caplog.text


async def test_hooks_of_kills_that_nobody_goes_on_with_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.node.hooks.REMEMBERED", 2)
    context = NodeContext("vm", tmp_path / "state", tmp_path / "memory", tmp_path / "log", "cluster")
    hooks = PreStops(raising(ValueError("no such thing")), context)
    for number in range(5):
        target = KillTarget(id=f"c{number}", name="main", pre_stop=SAYS_BYE)
        assert await hooks.carry_out(ObservedPod(), RUNS, target, waited_seconds=0.0) is not None
    assert list(hooks._reported) == list(hooks._hooks) == ["c3", "c4"]
    assert (told := hooks.outcome(target, has_earlier_try=True)) is not None and told.message == "PreStopHook failed"


class Hooked:
    """A pod whose container has a preStop hook, with the number of the hook's starts, and the attempts of one kill."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = bench
        self.pod = bench.pod(container())
        self.begun = 0
        self.losses = 0
        """How many of the next calls fail because the runtime is down."""
        for name in ("exec_sync", "stop_container"):
            monkeypatch.setattr(bench.cri, name, self._lossy(name, getattr(bench.cri, name)))

    def _lossy(self, name: str, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **how: Any) -> Any:
            self.begun += name == "exec_sync"
            if self.losses:
                self.losses -= 1
                raise Unavailable(name, "UNAVAILABLE", "the runtime has gone")
            return await real(*arguments, **how)

        return call

    async def start(self, *, grace: int) -> None:
        await self.pod.create_sandbox()
        id_ = (await self.pod.start()).id
        await self.pod.until_ready()
        hook = LifecycleHandler(exec=ExecAction(command=("true",)))
        target = KillTarget(id=id_, name="main", grace_seconds=grace, pre_stop=hook)
        self.scheduled, self.began = datetime.now(UTC), time.monotonic()
        self.request = KillContainer(ref=self.pod.ref, fence=self.pod.next_fence(), target=target)

    async def kill(self, attempt: int, *, waited: float | None = None) -> list[str]:
        """Kill as Temporal's attempt number `attempt`; return the messages about the hook."""
        late = time.monotonic() - self.began if waited is None else waited
        step = self.pod.step(
            StepName.KILL_CONTAINER, self.request, attempt=attempt, waited=late, scheduled=self.scheduled
        )
        result = await step.result()
        assert [each.state for each in result.status.containers] == ["exited"]
        return [f"{event.reason}: {event.message}" for event in result.events if event.type == "Warning"]


@pytest.fixture
def hooked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Hooked:
    return Hooked(bench, monkeypatch)


async def lose_the_runtime(hooked: Hooked, *, seconds: float) -> None:
    """Begin the kill while the runtime is down for this many calls."""
    hooked.bench.runtime.kill()
    with pytest.raises(ApplicationError) as early:
        await hooked.kill(1)
    assert early.value.type == "Unavailable"
    await hooked.bench.restart_runtime(down_seconds=seconds)


async def test_a_hook_has_the_grace_that_remains_after_a_runtime_outage(hooked: Hooked) -> None:
    """Row 77: the time without a runtime counts."""
    await hooked.start(grace=600)
    await lose_the_runtime(hooked, seconds=0)
    assert (await hooked.kill(2), hooked.begun) == ([], 1)


async def test_a_hook_whose_grace_passed_during_a_runtime_outage_is_reported_as_skipped(hooked: Hooked) -> None:
    """Row 78: never without a word."""
    await hooked.start(grace=1)
    await lose_the_runtime(hooked, seconds=1.0)
    over = "its grace period was over before the container could be reached"
    assert (await hooked.kill(2), hooked.begun) == ([f"FailedPreStopHook: PreStopHook was not run: {over}"], 0)


async def test_a_hook_that_an_earlier_worker_may_have_run_is_reported(hooked: Hooked) -> None:
    await hooked.start(grace=1)
    over = "its grace period was over before the container could be reached"
    told = await hooked.kill(2, waited=3600.0)
    assert (told, hooked.begun) == ([f"FailedPreStopHook: PreStopHook may not have run: {over}"], 0)


@pytest.mark.parametrize("grace", [600, 1])
async def test_a_hook_interrupted_by_a_runtime_outage_runs_again_or_is_reported_as_unknown(
    hooked: Hooked, grace: int
) -> None:
    await hooked.start(grace=grace)
    hooked.losses = 2  # the hook's call, and the stop's
    with pytest.raises(ApplicationError):
        await hooked.kill(1, waited=0.0)
    assert hooked.begun == 1
    told = await hooked.kill(2, waited=2.0)
    if grace == 1:
        assert (hooked.begun, [line.partition(": its")[0] for line in told]) == (
            1,
            ["FailedPreStopHook: PreStopHook may not have run"],
        )
    else:
        assert (hooked.begun, told) == (2, [])


async def test_a_hook_that_ended_before_a_runtime_outage_is_not_reported_as_skipped(hooked: Hooked) -> None:
    await hooked.start(grace=1)
    gone = Unavailable("StopContainer", "UNAVAILABLE", "the runtime has gone")
    with pytest.MonkeyPatch.context() as stopping:
        stopping.setattr(hooked.bench.cri, "stop_container", AsyncMock(side_effect=gone))
        with pytest.raises(ApplicationError):
            await hooked.kill(1, waited=0.0)
    assert (await hooked.kill(2, waited=3600.0), hooked.begun) == ([], 1)


@pytest.mark.parametrize(("attempt", "told"), [(1, []), (2, ["FailedPreStopHook: PreStopHook may not have run"])])
async def test_a_hook_of_a_container_that_ended_before_a_retried_kill_is_reported(
    hooked: Hooked, attempt: int, told: list[str]
) -> None:
    """Row 78: the events of the try before are lost with its worker."""
    await hooked.start(grace=600)
    await hooked.bench.cri.stop_container(hooked.request.target.id, timeout_seconds=0)
    said = await hooked.kill(attempt)
    assert ([line.partition(": the")[0] for line in said], hooked.begun) == (told, 0)


async def test_a_pod_kill_runs_the_hook_of_a_container_that_it_was_not_told_of(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 77: its start was under way when the kill was decided."""
    pod = bench.pod(container(lifecycle={"preStop": {"exec": {"command": ["true"]}}}))
    await pod.create_sandbox()
    await pod.start()
    await pod.until_ready()
    ran = AsyncMock(side_effect=bench.cri.exec_sync)
    monkeypatch.setattr(bench.cri, "exec_sync", ran)
    result = await pod.kill(grace=30)
    assert ran.await_count == 1
    assert [event.reason for event in result.events if event.type == "Warning"] == []


@pytest.mark.parametrize(("attempt", "told"), [(1, []), (2, ["FailedPreStopHook: PreStopHook may not have run"])])
async def test_a_retried_pod_kill_reports_the_hook_of_a_container_that_an_earlier_try_found(
    bench: Bench, attempt: int, told: list[str]
) -> None:
    """Row 77: its start was under way when the kill was decided, and the worker of the earlier try was killed."""
    pod = bench.pod(container(lifecycle={"preStop": {"exec": {"command": ["true"]}}}))
    await pod.create_sandbox()
    decided = datetime.now(UTC)
    id_ = (await pod.start()).id
    await pod.until_ready()
    await bench.cri.stop_container(id_, timeout_seconds=0)
    await pod.until_state(id_, "exited")
    kill = pod.step(StepName.KILL_POD, pod.kill_request(grace=30), attempt=attempt, scheduled=decided)
    result = await kill.result()
    warned = [f"{event.reason}: {event.message}" for event in result.events if event.type == "Warning"]
    assert [line.partition(": the")[0] for line in warned] == told


async def test_a_retried_pod_kill_says_nothing_of_a_container_that_had_ended_before(bench: Bench) -> None:
    pod = bench.pod(container(lifecycle={"preStop": {"exec": {"command": ["true"]}}}))
    await pod.create_sandbox()
    id_ = (await pod.start()).id
    await pod.until_ready()
    await bench.cri.stop_container(id_, timeout_seconds=0)
    await pod.until_state(id_, "exited")
    result = await pod.step(StepName.KILL_POD, pod.kill_request(grace=30), attempt=2).result()
    assert [event.reason for event in result.events if event.type == "Warning"] == []


async def test_a_cancelled_hook_is_not_reported_as_failed() -> None:
    with pytest.raises(asyncio.CancelledError):
        await carry_out_hook(SAYS_BYE, Target("u1", "c1", "", {}), raising(asyncio.CancelledError()))


async def test_a_failed_hook_is_reported_with_its_own_message() -> None:
    with pytest.raises(HookFailed, match=r"^it rained$"):
        await carry_out_hook(SAYS_BYE, Target("u1", "c1", "", {}), raising(HookFailed("it rained")))


async def test_it_is_noted_on_the_node_whether_a_post_start_hook_has_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod(container(lifecycle={"postStart": {"exec": {"command": ["true"]}}}), container("plain"))
    pending: list[bool] = []

    def noted(name: str = "main") -> bool:
        mark = read_start_mark(bench.node.context, pod.uid, name)
        assert mark is not None
        return mark.hook_pending

    async def exec_sync(*_: Any, **__: Any) -> ExecResult:
        pending.append(noted())
        return ExecResult(stdout=b"", stderr=b"", exit_code=0)

    await pod.create_sandbox()
    monkeypatch.setattr(bench.cri, "exec_sync", exec_sync)
    await pod.start()
    await pod.start("plain")
    assert (pending, noted(), noted("plain")) == ([True], False, False)


async def test_an_unexpected_error_in_a_post_start_hook_fails_the_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod(container(lifecycle=LIFECYCLE))
    await pod.create_sandbox()
    monkeypatch.setattr(bench.cri, "exec_sync", raising(ValueError("no such thing")).exec_sync)
    fault, error, detail = await fault_of(pod.start())
    named = f'for Container "main" in Pod "{pod.ref.name}_{pod.ref.namespace}({pod.ref.uid})" failed'
    said = f'Exec lifecycle hook ([say hello]) {named} - error: ValueError: no such thing, message: ""'
    assert (fault, error.message) == (Fault.POST_START_HOOK_ERROR, said)
    told = [event.message for event in detail.events if event.reason == "FailedPostStartHook"]
    assert told == ["PostStartHook failed"]
    assert [each.state for each in detail.status.containers] == ["exited"]
