"""Garbage collection between a pod's steps removes the node's own dead containers and their logs, and nothing else.

Holds: The run of a deleted pod ends once nothing of the pod runs, and the node removes the rest.
Holds: Garbage collection never races with a step.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
import uuid
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import NoReturn

import pytest

from activities.between.collection import Collected, Collector
from activities.node.fences import FenceClaim
from activities.step_attempt import NotYet, StepAttempt
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.messages.steps import Outcome
from syncpod.node.pod_records import read_pod_record, write_pod_record
from syncpod.node.tombstones import tombstone_at, write_tombstone
from tests.activities.bench import Bench, PodOnBench, container
from tests.activities.test_fences import EARLY, Actor, settle
from tests.activities.test_remove import exited
from tests.activities.test_start_container import DONE_AND_GONE, created_by_another

_CALLS = (
    *("list_containers", "list_pod_sandboxes", "container_status", "pod_sandbox_status"),
    *("stop_container", "stop_pod_sandbox", "remove_container", "remove_pod_sandbox"),
)


def all_of(view: ObservedPod) -> Collection[str]:
    """Select everything for removal, dead or alive."""
    return [*(each.id for each in view.containers), *(each.id for each in view.sandboxes)]


async def gone(ref: PodRef, in_runtime: bool) -> bool:
    return True


async def still_open(ref: PodRef, in_runtime: bool) -> bool:
    return False


async def never_asked(ref: PodRef, in_runtime: bool) -> bool:
    raise AssertionError("a tombstone says that the life is over")


async def note(pod: PodOnBench, **changes: object) -> None:
    """Change the pod's record on disk."""
    context = pod.bench.node.context
    record = read_pod_record(context, pod.uid)
    assert record is not None
    write_pod_record(context, record.model_copy(update=changes))


async def test_only_dead_containers_are_collected_and_their_logs_with_them(bench: Bench) -> None:
    """Row 112: a container's logs go first, then it; row 107: what runs is never removed."""
    pod = bench.pod(container("main"), container("crashed", command=DONE_AND_GONE))
    await pod.create_sandbox()
    running = (await pod.start()).id
    dead = await exited(pod, "crashed")
    created = await created_by_another(pod, restart=7)
    (pod.logs / "crashed" / "0.log.20260101-000000.gz").write_text("rotated")
    collector = Collector(bench.node)
    assert await collector.collect(pod.uid, lambda view: [dead]) == Collected(containers=1)
    assert list((pod.logs / "crashed").iterdir()) == []
    assert await collector.collect(pod.uid, all_of) == Collected(containers=1)
    view = await pod.view()
    assert [(each.id, each.state) for each in view.containers] == [(running, "running")]
    assert [each.ready for each in view.sandboxes] == [True]
    assert created not in {each.id for each in view.containers}


async def test_a_dead_sandbox_is_removed_once_it_is_empty(bench: Bench) -> None:
    """Row 110: stopped, then removed; its network with it."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    await exited(pod)
    first = pod.sandbox_id
    await pod.kill()
    await pod.until_dead(first)
    await pod.create_sandbox(1)
    collector = Collector(bench.node)
    assert await collector.collect(pod.uid, lambda view: [first]) == Collected(), "it is not empty"
    assert await collector.collect(pod.uid, lambda view: [first, *(c.id for c in view.containers)]) == Collected(1, 1)
    assert [each.id for each in (await pod.view()).sandboxes] == [pod.sandbox_id]


async def test_nothing_is_collected_during_a_step_or_of_another_cluster(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 107: only this node's containers, and only between steps."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    dead = await exited(pod)
    collector = Collector(bench.node)
    step = Actor(bench.node.fences, 99, ref=pod.ref)
    async with bench.node.fences.acting(pod.ref, FenceClaim(99, 1, EARLY), step):
        assert await collector.collect(pod.uid, all_of) == Collected()
        assert not await collector.remove(EndedLife(pod.ref), gone)
    await pod.kill()
    await note(pod, cluster="other/default")
    assert await collector.remove(EndedLife(pod.ref), gone), "there is nothing to do for this cluster"
    assert pod.directory.exists()
    assert await collector.collect(pod.uid, all_of) == Collected(), "another cluster has adopted it"
    await note(pod, cluster=bench.node.context.cluster)
    monkeypatch.setattr(bench.node, "context", replace(bench.node.context, cluster="other/default"))
    assert await collector.collect(pod.uid, all_of) == Collected()
    assert [each.id for each in (await pod.view()).containers] == [dead]


async def test_all_remains_of_a_gone_pod_are_removed_once_nothing_of_it_is_alive(bench: Bench) -> None:
    """Row 111: its logs, volumes and directory, and its dead containers in the runtime."""
    scratch = [{"name": "scratch", "emptyDir": {}}]
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    pod = bench.pod(container(volumeMounts=mounts), volumes=scratch)
    await pod.create_sandbox()
    await pod.start()
    collector, asked = Collector(bench.node), list[tuple[str, bool]]()
    step, coming = Actor(bench.node.fences, 99, ref=pod.ref), list[asyncio.Task[None]]()
    step.may_end.set()

    async def standing(ref: PodRef, in_runtime: bool) -> bool:
        asked.append((ref.name, in_runtime))
        return len(asked) > 1

    async def adopted_meanwhile(ref: PodRef, in_runtime: bool) -> bool:
        coming.append(asyncio.create_task(step.act()))
        await settle()
        return True

    assert not await collector.remove(EndedLife(pod.ref), standing)
    assert asked == [], "it runs"
    await pod.kill(grace=0)
    await pod.until_dead(pod.sandbox_id)
    assert not await collector.remove(EndedLife(pod.ref), standing), "its workflow is open"
    before = await pod.view()
    assert not await collector.remove(EndedLife(pod.ref), adopted_meanwhile), "a step wants it"
    await coming[0]
    after = await pod.view()
    assert (after.sandboxes, after.containers, pod.logs.exists()) == (before.sandboxes, before.containers, True)
    assert await collector.remove(EndedLife(pod.ref), standing)
    assert asked == [(pod.pod.metadata.name, True)] * 2
    assert (pod.directory.exists(), pod.logs.exists(), pod.cgroups()) == (False, False, [])
    view = await pod.view()
    assert (view.sandboxes, view.containers) == ((), ())
    assert await collector.remove(EndedLife(pod.ref), standing), "nothing is left that says whose it was"
    assert len(asked) == 2


async def test_a_removal_of_a_gone_pod_that_is_cut_off_is_completed_without_the_server(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tombstone comes first: what is left may no longer show whose it was."""
    pod = bench.pod()
    await pod.create_sandbox()
    await pod.kill(grace=0)
    await pod.until_dead(pod.sandbox_id)

    async def cut_off(*_: object) -> NoReturn:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr("activities.pods.removal.remove_sandbox", cut_off)
        with pytest.raises(asyncio.CancelledError):
            await Collector(bench.node).remove(EndedLife(pod.ref), gone)
    assert len((await pod.view()).sandboxes) == 1
    assert await Collector(bench.node).remove(EndedLife(pod.ref), never_asked)
    assert ((await pod.view()).sandboxes, pod.directory.exists()) == ((), False)


async def test_volumes_of_an_evicted_pod_are_removed_and_its_record_kept(bench: Bench) -> None:
    """Row 118: its volumes go when it has ended, and its record stays."""
    scratch = [{"name": "scratch", "emptyDir": {}}]
    pod = bench.pod(volumes=scratch)
    await pod.create_sandbox()
    volume = pod.directory / "volumes" / "kubernetes.io~empty-dir" / "scratch"
    (volume / "file").write_bytes(b"x" * 1000)
    collector = Collector(bench.node)
    assert not await collector.empty(pod.uid)
    request = pod.kill_request().model_copy(update={"final": True, "evicted": True})
    await pod.step(StepName.KILL_POD, request).result()
    assert volume.exists()
    assert await collector.empty(pod.uid)
    assert not volume.exists()
    assert (pod.directory / "pod.json").exists()


# --- what a kill has left to the node ---------------------------------------------------------------------------------


async def left_by_a_kill(pod: PodOnBench) -> EndedLife:
    """Start a pod and kill it for good. Return its life, whose remains the node removes."""
    await pod.create_sandbox()
    await pod.start()
    assert (await pod.delete()).over
    return EndedLife(pod.ref, (pod.sandbox_id,))


async def test_what_a_kill_has_left_is_removed_and_the_agent_knows_that_nothing_is_there(bench: Bench) -> None:
    """Row 22: volumes, directories, cgroups, logs, as a removal by a step."""
    pod = bench.pod()
    life = await left_by_a_kill(pod)
    assert pod.directory.exists()
    assert tombstone_at(bench.node.context, pod.uid, pod.incarnation) is not None
    assert await Collector(bench.node).remove(life, never_asked)
    assert bench.agent.told == [f"began {pod.uid}", f"ended {pod.uid}"]
    assert (pod.directory.exists(), pod.logs.exists(), pod.cgroups()) == (False, False, [])
    view = bench.agent.returned[-1]
    assert (view.uid, view.sandboxes, view.containers) == (pod.uid, (), ())


async def test_a_removal_after_a_kill_makes_two_calls_to_the_runtime(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins with the listing of the kill, ends without one, and stops no sandbox a second time."""
    pod = bench.pod()
    life = (await left_by_a_kill(pod))._replace(listing=await pod.view())
    asked = list[str]()

    def noting(name: str) -> Callable[..., Awaitable[object]]:
        real = getattr(bench.cri, name)

        async def noted(*given: object, **how: object) -> object:
            asked.append(name)
            return await real(*given, **how)

        return noted

    with monkeypatch.context() as patch:
        for name in _CALLS:
            patch.setattr(bench.cri, name, noting(name))
        assert await Collector(bench.node).remove(life, never_asked)
    assert asked == ["remove_container", "remove_pod_sandbox"]
    assert (await pod.view()).sandboxes == ()
    assert bench.agent.returned[-1].seq < (await pod.view()).seq


async def test_what_a_kill_has_left_is_removed_also_without_a_record_or_with_one_of_another_cluster(
    bench: Bench,
) -> None:
    """This also holds for a pod that was pruned after the database or the node's state directory was lost."""
    for cluster in ("other/default", ""):
        pod = bench.pod()
        life = await left_by_a_kill(pod)
        if cluster:
            await note(pod, cluster=cluster)
        else:
            shutil.rmtree(pod.directory)
        assert await Collector(bench.node).remove(life, never_asked)
        assert ((await pod.view()).sandboxes, pod.directory.exists()) == ((), False)


async def test_what_was_left_stays_while_a_step_has_the_pod_and_once_another_life_has_begun(bench: Bench) -> None:
    pod = bench.pod()
    life = await left_by_a_kill(pod)
    collector, step = Collector(bench.node), Actor(bench.node.fences, 99, ref=pod.ref)
    async with bench.node.fences.acting(pod.ref, FenceClaim(99, 1, EARLY), step):
        assert not await collector.remove(life, never_asked)
    assert bench.agent.told[-1] == f"ended {pod.uid}", "signals about the pod go on"
    await note(pod, incarnation="life-2")
    assert await collector.remove(life, never_asked), "that is for the next life to do"
    await note(pod, incarnation=pod.incarnation)
    (bench.node.context.state_dir / "deleted" / f"{pod.uid}.{pod.incarnation}").unlink()
    assert not await collector.remove(life, still_open), "nothing on the node says that its life is over"
    assert (len((await pod.view()).sandboxes), pod.directory.exists()) == (1, True)


async def test_a_life_is_over_if_its_pod_is_deleted_and_what_cannot_be_noted_is_removed_by_the_kill(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk prevents no removal: without the note, nothing would show later that the pod may be removed."""
    pod, nameless, full = bench.pod(), bench.pod(incarnation=""), bench.pod()
    for each in (pod, nameless, full):
        await each.create_sandbox()
    request = pod.kill_request().model_copy(update={"final": True})
    assert not (await pod.step(StepName.KILL_POD, request).result()).over
    assert (await nameless.delete()).over
    assert not nameless.directory.exists()

    def is_full(node: object, uid: str, incarnation: str) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("activities.pods.life_end.write_tombstone", is_full)
    assert (await full.delete()).over
    assert (full.directory.exists(), (await full.view()).sandboxes) == (False, ())


async def test_another_life_under_the_uid_finds_nothing_of_one_whose_removal_was_cut_off(bench: Bench) -> None:
    """A static pod has the same UID in each life, so it would find the files of the last one in its volumes."""
    scratch = [{"name": "scratch", "emptyDir": {}}]
    earlier = bench.pod(volumes=scratch, uid=str(uuid.uuid4()), name="static")
    await left_by_a_kill(earlier)
    volume = earlier.directory / "volumes" / "kubernetes.io~empty-dir" / "scratch"
    (volume / "file").write_text("of the last life")
    later = bench.pod(volumes=scratch, uid=earlier.uid, name="static", incarnation="life-2")
    made = await later.create_sandbox()
    view = await later.view()
    assert (made.outcome, [each.incarnation for each in view.sandboxes]) == (Outcome.DONE, ["life-2"])
    assert (view.containers, list(volume.iterdir())) == ((), [])


async def test_a_pod_of_the_same_name_neither_waits_for_what_was_left_nor_tells_of_it(bench: Bench) -> None:
    earlier = bench.pod(name="again")
    life = await left_by_a_kill(earlier)
    later = bench.pod(name="again")
    made = await later.create_sandbox()
    assert (made.outcome, made.events) == (Outcome.DONE, ())
    assert len((await earlier.view()).sandboxes) == 1
    assert await Collector(bench.node).remove(life, never_asked)
    assert [each.ready for each in (await later.view()).sandboxes] == [True]


async def test_a_removal_that_a_start_under_way_prevents_is_put_off(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start was sent by a worker that died; the runtime will report its end. That is no defect."""
    pod = bench.pod()
    life = await left_by_a_kill(pod)

    async def prevented(attempt: StepAttempt, *_: object, **__: object) -> NoReturn:
        raise NotYet("not removed while main is being started")

    monkeypatch.setattr("activities.pods.removal.remove_remains", prevented)
    collector = Collector(bench.node)
    assert not await collector.remove(life, never_asked)
    assert pod.directory.exists()


async def test_what_has_come_to_life_since_the_kill_is_ended_first(bench: Bench) -> None:
    """The runtime may carry out a dead worker's start late."""
    pod = bench.pod(container(), terminationGracePeriodSeconds=1)
    await pod.create_sandbox()
    await pod.start()
    write_tombstone(bench.node.context, pod.uid, pod.incarnation)
    assert await Collector(bench.node).remove(EndedLife(pod.ref), never_asked)
    view = await pod.view()
    assert (view.sandboxes, view.containers, pod.directory.exists()) == ((), (), False)
