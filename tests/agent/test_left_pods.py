"""What pods' workflows leave to the node: removed beside everything else, and told to nobody but the agent."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from syncpod.agent.housekeeping import left_pods
from syncpod.agent.housekeeping.left_pods import LeftPods
from syncpod.agent.published_pods import PublishedPods
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import RemovePod
from syncpod.translation.context import NodeContext
from tests.agent.waiting import until
from workflows.pod.published import PublishedPod
from workflows.pod.state import PodState


@dataclass
class Remover:
    """Removes each pod once `may` is set, unless `fails` names it."""

    fails: dict[str, Exception] = field(default_factory=dict)
    busy: int = 0
    """How many of the next removals find somebody else in the pod."""
    may: asyncio.Event = field(default_factory=asyncio.Event)
    log: list[str] = field(default_factory=list)

    async def remove_left(self, request: RemovePod) -> bool:
        await self.may.wait()
        if self.busy:
            self.busy -= 1
            return False
        if error := self.fails.get(request.ref.uid):
            raise error
        self.log.append(f"removed {request.ref.uid}")
        return True

    def began(self, ref: PodRef) -> None:
        self.log.append(f"began {ref.uid}")

    def ended(self, ref: PodRef) -> None:
        self.log.append(f"ended {ref.uid}")


def left(uid: str) -> RemovePod:
    return RemovePod(ref=PodRef(namespace="default", name=f"name-{uid}", uid=uid, incarnation="life-1"))


async def test_each_removal_is_announced_to_the_agent_and_a_failed_one_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_pods, "PAUSES_SECONDS", (0.001, 0.001))
    remover = Remover({"full": OSError(errno.EIO, "Input/output error"), "odd": ZeroDivisionError("a defect")})
    remover.may.set()
    pods = LeftPods(remover, began=remover.began, ended=remover.ended)
    for uid in ("well", "full", "odd"):
        pods.take(left(uid))
    await until(lambda: sum(each.startswith("ended") for each in remover.log) == 3)
    assert remover.log[:2] == ["began well", "removed well"]
    assert "the remains of pod default/name-full (uid full) stay for now: [Errno 5] Input/output error" in caplog.text
    assert "the remains of pod odd stay for now because of a defect" in caplog.text


async def test_a_removal_is_tried_again_when_somebody_else_acts_in_the_pod() -> None:
    """Its dead containers may just be collected."""
    remover = Remover(busy=2)
    remover.may.set()
    pods = LeftPods(remover, began=remover.began, ended=remover.ended)
    pods.take(left("well"))
    await until(lambda: remover.log == ["began well", "removed well", "ended well"])


async def test_a_worker_that_ends_goes_on_removing_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    remover = Remover()
    pods = LeftPods(remover, began=remover.began, ended=remover.ended)
    running = asyncio.create_task(pods.run())
    pods.take(left("well"))
    await until(lambda: remover.log == ["began well"])
    running.cancel()
    await asyncio.sleep(0)
    remover.may.set()
    await asyncio.gather(running, return_exceptions=True)
    assert remover.log == ["began well", "removed well", "ended well"]

    monkeypatch.setattr(left_pods, "CLOSE_SECONDS", 0.01)
    remover = Remover()
    pods = LeftPods(remover, began=remover.began, ended=remover.ended)
    running = asyncio.create_task(pods.run())
    pods.take(left("hangs"))
    await until(lambda: remover.log == ["began hangs"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert remover.log == ["began hangs", "ended hangs"]


def test_what_a_workflow_leaves_is_handed_over_once_when_it_ends(tmp_path: Path) -> None:
    taken: list[RemovePod] = []
    node = NodeContext(
        name="n", state_dir=tmp_path, memory_dir=tmp_path / "m", log_dir=tmp_path / "l", cluster="c/default"
    )
    published = PublishedPods(node)
    published.on_left(taken.append)
    state = PodState(incarnation="life-1", fence=7, left_to_node=True, stopped_sandboxes=("s0",))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    published.take("pod/default/web", "run-1", PublishedPod(state, now))
    assert taken == []
    published.take("pod/default/web", "run-1", PublishedPod(state, now, is_gone=True))
    assert taken == [RemovePod(ref=state.ref, fence=8, stopped=("s0",))]
    removed = state.model_copy(update={"left_to_node": False})
    published.take("pod/default/web", "run-2", PublishedPod(removed, now, is_gone=True))
    assert len(taken) == 1
