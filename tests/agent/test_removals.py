"""The remains of pods are removed when their workflows end, concurrently with everything else."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from syncpod.agent.housekeeping import removals
from syncpod.agent.housekeeping.removals import Removals
from syncpod.agent.published_pods import PublishedPods
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.translation.context import NodeContext
from tests.agent.published import OfNoPod
from tests.agent.waiting import until
from workflows.pod.published import PublishedPod
from workflows.pod.state import PodState


@pytest.fixture
def node(tmp_path: Path) -> NodeContext:
    return NodeContext(
        name="n", state_dir=tmp_path, memory_dir=tmp_path / "m", log_dir=tmp_path / "l", cluster="c/default"
    )


@dataclass
class Remover:
    """Removes each pod once `may` is set, unless `fails` names it."""

    fails: dict[str, Exception] = field(default_factory=dict)
    busy: int = 0
    """How many of the next removals find the pod locked by another step."""
    may: asyncio.Event = field(default_factory=asyncio.Event)
    log: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    async def remove(self, life: EndedLife, is_gone: Callable[[PodRef, bool], Awaitable[bool]]) -> bool:
        self.log.append(f"began {life.ref.uid}")
        await self.may.wait()
        if self.busy:
            self.busy -= 1
            return False
        if error := self.fails.get(life.ref.uid):
            raise error
        self.log.append(f"removed {life.ref.uid}")
        return True


def removing(node: NodeContext, remover: Remover) -> Removals:
    return Removals(
        node,
        Mock(),
        remover,
        tuple,
        period=1e9,
        on_gone=lambda ref: remover.gone.append(ref.uid),
    )


class Ended(OfNoPod):
    """The last state of a pod, whose life is over."""

    uid, incarnation, is_gone, is_unready = "", "life-1", True, False
    at: Any = None
    history_length = 0

    def __init__(self, uid: str) -> None:
        self.ended_life = EndedLife(PodRef(namespace="default", name=f"name-{uid}", uid=uid, incarnation="life-1"))


async def test_a_failed_removal_is_logged(
    node: NodeContext, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removals, "PAUSES_SECONDS", (0.001, 0.001))
    remover = Remover({"full": OSError(errno.EIO, "Input/output error"), "odd": ZeroDivisionError("a defect")})
    remover.may.set()
    under_way = removing(node, remover)
    for uid in ("well", "full", "odd"):
        under_way.take(Ended(uid))
    await until(lambda: remover.log.count("began full") == 3 and "because of a defect" in caplog.text)
    assert [each for each in remover.log if each.startswith("removed")] == ["removed well"]
    assert caplog.text.count("(uid full) stay for now: Input/output error") == 1
    assert "the remains of pod odd stay for now because of a defect" in caplog.text
    assert (under_way.total, remover.gone) == (1, ["well"])


async def test_a_removal_is_tried_again_when_somebody_else_acts_in_the_pod(node: NodeContext) -> None:
    """Its dead containers may just be collected."""
    remover = Remover(busy=2)
    remover.may.set()
    removing(node, remover).take(Ended("well"))
    await until(lambda: remover.log == ["began well", "began well", "began well", "removed well"])


async def test_a_pod_is_removed_once_however_often_it_is_found(node: NodeContext) -> None:
    remover = Remover()
    under_way = removing(node, remover)
    for _ in range(2):
        under_way.take(Ended("well"))
    remover.may.set()
    await until(lambda: remover.log == ["began well", "removed well"])


async def test_a_worker_that_ends_goes_on_removing_for_a_while(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    remover = Remover()
    under_way = removing(node, remover)
    running = asyncio.create_task(under_way.run())
    under_way.take(Ended("well"))
    await until(lambda: remover.log == ["began well"])
    running.cancel()
    await asyncio.sleep(0)
    remover.may.set()
    await asyncio.gather(running, return_exceptions=True)
    assert remover.log == ["began well", "removed well"]

    monkeypatch.setattr(removals, "CLOSE_SECONDS", 0.01)
    remover = Remover()
    under_way = removing(node, remover)
    running = asyncio.create_task(under_way.run())
    under_way.take(Ended("hangs"))
    await until(lambda: remover.log == ["began hangs"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert remover.log == ["began hangs"]


def test_the_life_of_a_pod_that_is_gone_is_handed_over_once(node: NodeContext) -> None:
    taken: list[EndedLife | None] = []
    published = PublishedPods(node)
    published.watch_gone(lambda gone: taken.append(gone.ended_life))
    state = PodState(incarnation="life-1", removed=True, stopped_sandboxes=("s0",))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    published.take("pod/default/web", "run-1", PublishedPod(state, now))
    assert taken == []
    published.take("pod/default/web", "run-1", PublishedPod(state, now, is_gone=True))
    assert taken == [EndedLife(state.ref, ("s0",), state.observed)]
