"""The runtime's events: pods are read at once, and the relist pauses only while no event can be missed.

Holds: The runtime's events never delay the notice of an exit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from syncpod.agent import container_events as module
from syncpod.agent import exits as exits_module
from syncpod.agent import pleg as pleg_module
from syncpod.agent.container_events import ContainerEvents
from syncpod.agent.exits import ExitFollower
from syncpod.agent.pleg import LONGEST_REST_SECONDS, RELIST_SECONDS, Pleg, rest_seconds
from syncpod.cri.errors import CriError, Unimplemented
from syncpod.cri.port import ContainerEvent
from syncpod.lifecycle.observed import ObservedPod, Seq
from syncpod.node.announcements import Announcements
from syncpod.node.reader import Relist
from syncpod.translation import names
from tests.agent.listings import SetUpReader, pod, unavailable
from tests.agent.waiting import until

OURS = {names.POD_UID_LABEL: "u1", names.NODE_LABEL: "n"}


class Announcing:
    """A runtime that sends the events that are put into `next`, and ends its stream if an error is put there."""

    def __init__(self) -> None:
        self.next: asyncio.Queue[ContainerEvent | CriError] = asyncio.Queue()
        self.streams = 0

    async def listen(self) -> AsyncGenerator[ContainerEvent, None]:
        self.streams += 1
        while not isinstance(event := await self.next.get(), CriError):
            yield event
        raise event

    def announces(self, **labels: str) -> None:
        self.next.put_nowait(ContainerEvent("id", labels or OURS))


class Scene:
    def __init__(self) -> None:
        self.reader, self.runtime = SetUpReader(), Announcing()
        self.relists = 0
        self.pleg = Pleg(
            self, self.send, watch=lambda listing: None, may_rest=lambda: self.events.is_open and not self.blind
        )
        self.blind, self.announcements = False, Announcements()
        self.events = ContainerEvents(
            self.runtime.listen,
            self.pleg,
            owner="n",
            newest_begun=lambda: Seq(boot=1, counter=self.reader.counter),
            announcements=self.announcements,
        )

    async def send(self, *_: object) -> bool:
        return True

    async def read(self, uid: str) -> ObservedPod:
        return await self.reader.read(uid)

    async def read_all(self) -> Relist:
        self.relists += 1
        return await self.reader.read_all()

    async def relisted(self, times: int) -> None:
        """Wait for this many more relists."""
        until_then = self.relists + times
        await until(lambda: self.relists >= until_then)


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(module, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(pleg_module, "RELIST_SECONDS", 0.01)
    monkeypatch.setattr(pleg_module, "SECONDS_PER_POD", 3600.0)
    monkeypatch.setattr(pleg_module, "OFTEN_SECONDS", 0.0)
    scene = Scene()
    scene.reader.has(pod(web="running"))
    tasks = [asyncio.create_task(scene.events.run()), asyncio.create_task(scene.pleg.run())]
    await until(lambda: scene.runtime.streams == 1 and scene.relists >= 1)
    yield scene
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await scene.pleg.close()


async def rests(scene: Scene) -> bool:
    """Return whether the relist pauses: there is none for ten times its shortest period."""
    await asyncio.sleep(0.05)
    before = scene.relists
    await asyncio.sleep(0.1)
    return scene.relists == before


async def test_an_event_has_its_pod_read(scene: Scene) -> None:
    scene.reader.has(pod(web="exited"))
    scene.runtime.announces()
    await until(lambda: (newest := scene.pleg.newest("u1")) is not None and newest.containers[0].state == "exited")


async def test_who_waits_for_the_end_of_one_container_hears_of_it(scene: Scene) -> None:
    with scene.announcements.of("id") as announced, scene.announcements.of("other") as other:
        scene.runtime.announces()
        await until(lambda: announced.anything)
        assert not announced.end.is_set()
        scene.runtime.next.put_nowait(ContainerEvent("id", {}, is_end=True))
        await announced.end.wait()
        assert not other.anything
    scene.runtime.announces()
    await scene.relisted(1)


async def test_the_relist_rests_while_all_is_announced_and_goes_on_when_the_stream_ends(scene: Scene) -> None:
    assert await rests(scene)
    before = scene.relists
    scene.runtime.next.put_nowait(unavailable())
    await until(lambda: scene.relists > before)
    await until(lambda: scene.runtime.streams == 2)


async def test_the_relist_does_not_rest_while_something_can_end_unannounced(scene: Scene) -> None:
    scene.blind = True
    scene.pleg.relist_often()
    await scene.relisted(5)


async def test_an_event_that_does_not_name_its_pod_causes_a_relist(scene: Scene) -> None:
    assert await rests(scene)
    before = scene.relists
    scene.runtime.announces(other="label")
    await until(lambda: scene.relists > before)


async def test_events_of_others_pods_are_passed_over(scene: Scene) -> None:
    assert await rests(scene)
    reads, relists = scene.reader.reads, scene.relists
    scene.runtime.announces(**{**OURS, names.NODE_LABEL: "another"})
    scene.runtime.announces()
    await until(lambda: scene.reader.reads > reads)
    assert (scene.reader.reads, scene.relists) == (reads + 1, relists)


@pytest.mark.parametrize("left", [pod(web="exited"), ObservedPod(uid="u1")])
async def test_a_pod_that_a_step_is_about_to_return_is_not_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, left: ObservedPod
) -> None:
    """Nor one of which the step has left nothing, so that the agent has forgotten it."""
    monkeypatch.setattr(pleg_module, "STEP_PATIENCE", 600.0)
    assert await rests(scene)
    scene.pleg.step_began("u1")
    reads = scene.reader.reads
    scene.runtime.announces()
    await until(scene.runtime.next.empty)
    scene.pleg.returned(scene.reader.numbered(left))
    scene.pleg.step_ended("u1")
    relists = scene.relists
    scene.runtime.announces(other="label")  # an event that comes later, and is obeyed
    await until(lambda: scene.relists > relists)
    assert scene.reader.reads == reads


async def test_a_change_that_only_a_relist_has_found_ends_the_rest(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await rests(scene)
    monkeypatch.setattr(pleg_module, "OFTEN_SECONDS", 600.0)
    scene.reader.has(pod(web="exited"))
    await scene.pleg.relist()
    await scene.relisted(5)


async def test_a_pod_that_cannot_be_read_ends_the_rest(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await rests(scene)
    monkeypatch.setattr(pleg_module, "OFTEN_SECONDS", 600.0)
    scene.reader.broken["u1"] = unavailable()
    scene.runtime.announces()
    await scene.relisted(5)


async def test_an_exit_that_the_runtime_does_not_report_ends_the_rest(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await rests(scene)
    monkeypatch.setattr(pleg_module, "OFTEN_SECONDS", 600.0)
    monkeypatch.setattr(exits_module, "GIVE_UP_SECONDS", 0.01)
    exits = ExitFollower(scene.pleg)
    exits.exited("u1", "u1-web")
    await scene.relisted(5)
    await exits.close()


async def test_a_runtime_that_announces_nothing_is_relisted_each_second(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pleg_module, "OFTEN_SECONDS", 0.0)
    scene.runtime.next.put_nowait(Unimplemented("get_container_events", "UNIMPLEMENTED", ""))
    await until(lambda: not scene.events.is_open)
    await scene.relisted(5)
    assert scene.runtime.streams == 1


def test_a_small_node_is_relisted_each_second_and_a_large_one_at_least_each_minute() -> None:
    assert [rest_seconds(pods) for pods in (0, 100, 200)] == [RELIST_SECONDS] * 3
    assert rest_seconds(2000) == 10.0
    assert rest_seconds(10**6) == LONGEST_REST_SECONDS


async def test_a_runtime_that_announces_without_a_pause_is_left_alone_and_relisted(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(module.EVENTS_BURST + 1_000):
        scene.runtime.announces(**{names.POD_UID_LABEL: f"made-up-{number}", names.NODE_LABEL: "n"})
    await until(lambda: "the runtime announces more than 500 events a second" in caplog.text)
    assert scene.runtime.streams == 1 and not scene.events.is_open
    await scene.relisted(3)


async def test_pods_that_are_announced_wait_in_a_bounded_crowd(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    never, before = asyncio.Event(), scene.relists

    async def look(_uid: str) -> None:
        await never.wait()

    monkeypatch.setattr(scene.pleg, "look", look)
    monkeypatch.setattr(module, "WAITING_PODS", 20)
    for number in range(200):
        scene.runtime.announces(**{names.POD_UID_LABEL: f"made-up-{number}", names.NODE_LABEL: "n"})
    await until(lambda: scene.runtime.next.empty() and scene.relists > before)
    assert len([each for each in asyncio.all_tasks() if each.get_name().startswith("event in made-up-")]) == 20
