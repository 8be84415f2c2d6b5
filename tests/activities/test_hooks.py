"""Whatever a container's hook does, a kill goes on, and a start fails as one whose hook has failed."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from activities.node.hooks import PreStops, carry_out_hook
from syncpod.cri.port import CriRuntime
from syncpod.handlers.answer import Target
from syncpod.handlers.hook import HookFailed
from syncpod.messages import Fault, KillTarget, ObservedPod
from syncpod.pod import ExecAction, LifecycleHandler
from syncpod.translation.context import NodeContext
from tests.activities.bench import Bench, container, fault_of

SAYS_BYE = LifecycleHandler(exec=ExecAction(command=("say", "bye")))
LIFECYCLE = {"postStart": {"exec": {"command": ["say", "hello"]}}}


def raising(error: BaseException) -> CriRuntime:
    """A runtime that answers every command with an error of no known kind."""
    cri = create_autospec(CriRuntime, instance=True)
    cri.exec_sync.side_effect = error
    return cri  # type: ignore[no-any-return]  # an autospec is Any


async def test_a_pre_stop_hook_that_breaks_in_a_way_of_its_own_has_failed_and_stops_no_kill(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = NodeContext("vm", tmp_path / "state", tmp_path / "memory", tmp_path / "log", "cluster")
    hooks = PreStops(raising(ValueError("no such thing")), context)
    target = KillTarget(id="c1", name="main", pre_stop=SAYS_BYE)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            told = await hooks.carry_out(ObservedPod(), target, 5.0)
            assert told is not None
            assert (told.type, told.reason, told.message, told.container) == (
                "Warning",
                "FailedPreStopHook",
                "PreStopHook failed",
                "main",
            )
    assert "the preStop hook of container c1 failed: ValueError: no such thing" in caplog.text


async def test_a_hook_that_is_cancelled_has_not_failed() -> None:
    with pytest.raises(asyncio.CancelledError):
        await carry_out_hook(SAYS_BYE, Target("c1", "", {}), raising(asyncio.CancelledError()))


async def test_a_hook_that_has_failed_says_so_in_its_own_words() -> None:
    with pytest.raises(HookFailed, match=r"^it rained$"):
        await carry_out_hook(SAYS_BYE, Target("c1", "", {}), raising(HookFailed("it rained")))


async def test_a_post_start_hook_that_breaks_in_a_way_of_its_own_fails_the_start(
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
