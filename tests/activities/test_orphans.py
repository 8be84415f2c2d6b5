"""A pod is ended as an orphan only if it is still one in its turn. Its remains then go the way of a deleted pod's."""

from __future__ import annotations

import errno
from typing import NoReturn

import pytest

from activities.between.collection import Collector
from activities.between.orphans import OrphanEnder
from syncpod.messages.identity import EndedLife
from syncpod.node.tombstones import tombstone_at
from tests.activities.bench import Bench, container
from tests.activities.test_collection import never_asked


async def no() -> bool:
    return False


async def yes() -> bool:
    return True


async def test_a_pod_that_is_desired_again_while_it_is_judged_keeps_running(bench: Bench) -> None:
    pod = bench.pod(container())
    await pod.create_sandbox()
    running = (await pod.start()).id
    killer = OrphanEnder(bench.node)
    assert await killer.end_pod(pod.ref, no, grace_seconds=1, why="orphan") == ""
    assert (await pod.listed(running)).state == "running"
    assert tombstone_at(bench.node.context, pod.uid, pod.incarnation) is None


async def test_the_kill_of_an_orphan_leaves_a_tombstone_and_its_remains_to_the_collector(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies in between leaves to the next one what a deletion leaves."""
    pod = bench.pod(container())
    await pod.create_sandbox()
    running = (await pod.start()).id
    life = await OrphanEnder(bench.node).end_pod(pod.ref, yes, grace_seconds=1, why="orphan")
    assert isinstance(life, EndedLife)
    assert (life.ref, life.stopped) == (pod.ref, (pod.sandbox_id,))
    view = await pod.view()
    assert [(each.id, each.state) for each in view.containers] == [(running, "exited")]
    assert ([each.ready for each in view.sandboxes], pod.directory.exists()) == ([False], True)
    assert tombstone_at(bench.node.context, pod.uid, pod.incarnation) is not None

    async def read(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the pod is listed once more")

    with monkeypatch.context() as patch:
        patch.setattr(bench.node.reader, "read", read)
        assert await Collector(bench.node).remove(life, never_asked)
    assert ((await pod.view()).sandboxes, pod.directory.exists()) == ((), False)


async def test_an_orphan_that_can_have_no_tombstone_is_removed_by_its_kill(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, or if nothing on the node names its incarnation, the next worker would not find its remains."""
    nameless, full = bench.pod(container(), incarnation=""), bench.pod(container())
    killer = OrphanEnder(bench.node)
    for pod in (nameless, full):
        await pod.create_sandbox()
        await pod.start()
    assert isinstance(await killer.end_pod(nameless.ref, yes, grace_seconds=1, why="orphan"), EndedLife)

    def is_full(node: object, uid: str, incarnation: str) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("activities.pods.life_end.write_tombstone", is_full)
    life = await killer.end_pod(full.ref, yes, grace_seconds=1, why="orphan")
    assert isinstance(life, EndedLife)
    for pod in (nameless, full):
        view = await pod.view()
        assert (view.sandboxes, view.containers, pod.directory.exists()) == ((), (), False)
    assert await Collector(bench.node).remove(life, never_asked), "nothing is left to do"
