"""Complete pods are read in few calls, and none delays another. On real runtimes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from syncpod.cri import CriRuntime
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError, DeadlineExceeded, Unavailable
from syncpod.cri.port import ContainerAnswer
from syncpod.kernel.pidfd_info import reports_exits
from syncpod.lifecycle.listing_size import TERMINATION_MESSAGES_LIMIT
from syncpod.lifecycle.observed import ObservedPod, Seq
from syncpod.node.reader import PodReader
from syncpod.node.runtime_answers import Made
from syncpod.node.seen_exits import SeenExits
from syncpod.pod.wire import json_size
from syncpod.translation import names
from tests.agent.waiting import until, until_asked
from tests.node.owned_pods import OWNER, OwnedPod, owned_pod
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX

PodMaker = Callable[..., contextlib.AbstractAsyncContextManager[OwnedPod]]


class Watched:
    """A runtime that counts its calls, and runs `before` of an id before a call with that id."""

    def __init__(self, runtime: CriRuntime) -> None:
        self._runtime = runtime
        self.calls: Counter[str] = Counter()
        self.before: dict[tuple[str, str], Callable[[], Awaitable[object]]] = {}

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._runtime, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            first = arguments[0] if arguments and isinstance(arguments[0], str) else ""
            if interruption := self.before.get((name, first)):
                await interruption()
            return await method(*arguments, **options)

        return call

    def taken(self) -> dict[str, int]:
        """Return the calls since the last call of this method."""
        calls, self.calls = self.calls, Counter()
        return dict(calls)


LISTS = {"list_pod_sandboxes": 1, "list_containers": 1}


@pytest_asyncio.fixture
async def client(cri_endpoint: str) -> AsyncIterator[CriClient]:
    async with CriClient(cri_endpoint) as client:
        yield client


@pytest.fixture
def make_pod(client: CriClient, runtime: Containerd, tmp_path: Path) -> PodMaker:
    def make(**options: Any) -> contextlib.AbstractAsyncContextManager[OwnedPod]:
        return owned_pod(client, cgroup_parent=runtime.cgroup_parent, logs=tmp_path, **options)

    return make


@pytest.fixture
def watched(client: CriClient) -> Watched:
    return Watched(client)


@pytest.fixture
def reader(watched: Watched) -> PodReader:
    return PodReader(watched, boot=3, owner=OWNER)  # type: ignore[arg-type]


async def exited(reader: PodReader, uid: str, name: str = "main") -> ObservedPod:
    """The pod once its container has ended."""

    async def has_ended() -> bool:
        newest = (await reader.read(uid)).newest(name)
        return newest is not None and newest.state == "exited"

    await until_asked(has_ended)
    return await reader.read(uid)


async def test_pod_unknown_to_the_runtime_is_read_as_empty(reader: PodReader) -> None:
    pod = await reader.read("u-nobody")
    assert (pod.uid, pod.name, pod.sandboxes, pod.containers) == ("u-nobody", "", (), ())


async def test_container_is_seen_through_its_whole_life(
    reader: PodReader, client: CriClient, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        sandbox_id = await pod.run()
        container_id = await pod.create(pod.container("main", ("sh", "-c", "sleep 0.3; exit 7"), restart=2))

        created = await reader.read(pod.uid)
        assert (created.uid, created.name, created.namespace) == (pod.uid, "web", "default")
        (sandbox,) = created.sandboxes
        assert (sandbox.id, sandbox.attempt, sandbox.state) == (sandbox_id, 0, "SANDBOX_READY")
        assert (sandbox.network_mode, sandbox.ip, sandbox.incarnation) == ("NODE", "", "life-1")
        (container,) = created.containers
        assert (container.id, container.name, container.sandbox_id) == (container_id, "main", sandbox_id)
        assert (container.state, container.started_at, container.restart_count) == ("created", None, 2)
        assert (container.hash, container.incarnation, container.image) == ("11a6d6d6", "life-1", BUSYBOX)
        assert container.log_path == f"{pod.sandbox.log_directory}/main/2.log"

        await client.start_container(container_id)
        (running,) = (await reader.read(pod.uid)).containers
        assert (running.state, running.finished_at, running.exit_code) == ("running", None, 0)
        assert running.started_at is not None

        (ended,) = (await exited(reader, pod.uid)).containers
        assert (ended.state, ended.exit_code, ended.reason) == ("exited", 7, "Error")
        assert ended.started_at == running.started_at
        assert ended.finished_at is not None and ended.finished_at > ended.started_at

        await client.remove_container(container_id)
        assert (await reader.read(pod.uid)).containers == ()


async def test_failed_start_is_an_exit_that_never_started(reader: PodReader, make_pod: PodMaker) -> None:
    async with make_pod() as pod:
        await pod.run()
        with pytest.raises(CriError):
            await pod.start(pod.container(command=("/nope",)))
        (container,) = (await reader.read(pod.uid)).containers
    assert (container.state, container.exit_code, container.reason) == ("exited", 128, "StartError")
    assert container.started_at is None and container.finished_at is not None


@pytest.mark.every_runtime("what a runtime says of a container without its shim is its own")
async def test_exit_code_255_is_unknown_if_the_shim_was_killed_unobserved(
    client: CriClient, runtime: Containerd, make_pod: PodMaker, tmp_path: Path
) -> None:
    async with make_pod() as pod:
        await pod.run()
        await pod.start(pod.container("true", ("sh", "-c", "exit 255")))
        reader = PodReader(client, boot=3, owner=OWNER, exits=SeenExits(tmp_path / "exits"))
        (true,) = (await exited(reader, pod.uid, "true")).containers
        assert (true.exit_code, true.reason) == (255, "Error")
        await pod.start(pod.container("lost"))
        (shim,) = runtime.shims_of(pod.sandbox_id)
        os.kill(shim.pid, signal.SIGKILL)
        after = await exited(PodReader(client, boot=4, owner=OWNER, exits=reader.exits), pod.uid, "lost")
        lost = after.newest("lost")
        assert lost is not None
        assert (lost.exit_code, lost.reason) == (255, "Unknown" if reports_exits() else "Error")


async def test_a_late_exit_code_from_the_kernel_replaces_an_unknown_exit(
    client: CriClient, runtime: Containerd, make_pod: PodMaker, tmp_path: Path
) -> None:
    seen = SeenExits(tmp_path / "exits")
    reader = PodReader(client, boot=3, owner=OWNER, exits=seen)
    async with make_pod() as pod:
        await pod.run()
        container_id = await pod.start(pod.container("main"))
        (shim,) = runtime.shims_of(pod.sandbox_id)
        os.kill(shim.pid, signal.SIGKILL)
        (unknown,) = (await exited(reader, pod.uid)).containers
        seen.note(container_id, 137, datetime(2026, 1, 1, tzinfo=UTC))
        (known,) = (await reader.read(pod.uid)).containers
        assert unknown.exit is not None and unknown.exit.is_unknown
        assert (known.exit_code, known.reason) == (137, "Error")


async def test_pod_network_has_its_address(reader: PodReader, make_pod: PodMaker) -> None:
    async with make_pod(host_network=False) as pod:
        await pod.run()
        (sandbox,) = (await reader.read(pod.uid)).sandboxes
    assert sandbox.network_mode == "POD"
    assert sandbox.ip is not None and sandbox.ip.startswith("10.")


async def test_dead_pause_makes_the_sandbox_not_ready_and_a_new_attempt_comes_first(
    reader: PodReader, make_pod: PodMaker
) -> None:
    async with make_pod(host_network=False) as pod:
        first = await pod.run()
        pid = await reader.sandbox_pid(first)
        assert (await reader.read(pod.uid)).sandboxes[0].ready
        os.kill(pid, signal.SIGKILL)

        async def is_down() -> bool:
            return not (await reader.read(pod.uid)).sandboxes[0].ready

        await until_asked(is_down)
        second = await pod.run(attempt=1)
        sandboxes = (await reader.read(pod.uid)).sandboxes
        assert [(sandbox.id, sandbox.attempt, sandbox.ready) for sandbox in sandboxes] == [
            (second, 1, True),
            (first, 0, False),
        ]
        assert await reader.sandbox_pid(first) == 0


async def test_newest_container_comes_first(reader: PodReader, client: CriClient, make_pod: PodMaker) -> None:
    async with make_pod() as pod:
        await pod.run()
        first = await pod.create(pod.container(restart=0))
        second = await pod.create(pod.container(restart=1))
        assert [container.id for container in (await reader.read(pod.uid)).containers] == [second, first]


async def test_start_is_followed_up_in_three_calls(
    reader: PodReader, watched: Watched, client: CriClient, make_pod: PodMaker
) -> None:
    async with make_pod(host_network=False) as pod:
        await pod.run()
        done = await pod.start(pod.container("init", ("true",)))
        await exited(reader, pod.uid, "init")
        sidecar = await pod.start(pod.container("sidecar"))
        await reader.read(pod.uid)
        watched.taken()

        main = await pod.start(pod.container("main"))
        follow_up = await reader.read(pod.uid)
        assert watched.taken() == LISTS | {"container_status": 1}
        assert [container.id for container in follow_up.containers] == [main, sidecar, done]


async def test_what_was_just_made_is_asked_about_while_the_pod_is_listed(
    reader: PodReader, watched: Watched, make_pod: PodMaker
) -> None:
    asked = asyncio.Event()

    async def note() -> None:
        asked.set()

    async with make_pod() as pod:
        await pod.run()
        watched.before = {("list_containers", ""): asked.wait, ("pod_sandbox_status", pod.sandbox_id): note}
        watched.taken()
        assert (await reader.read(pod.uid, made=Made(pod.sandbox_id))).sandboxes[0].ready
        assert watched.taken() == LISTS | {"pod_sandbox_status": 1}
        main = await pod.start(pod.container("main"))
        asked.clear()
        watched.before["container_status", main] = note
        running = (await reader.read(pod.uid, made=Made(pod.sandbox_id, main))).newest("main")
        assert watched.taken() == LISTS | {"container_status": 1}
        assert running is not None
        assert (running.id, running.state, running.pid > 0) == (main, "running", True)


async def test_what_was_made_and_cannot_be_asked_about_is_asked_about_again(
    reader: PodReader, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        await pod.run()
        view = await reader.read(pod.uid, made=Made("0" * 64))
        assert [each.id for each in view.sandboxes] == [pod.sandbox_id]


async def test_an_exit_that_was_asked_for_is_not_asked_for_again(
    reader: PodReader, watched: Watched, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        await pod.run()
        runs = await pod.start(pod.container("main"))
        await reader.read(pod.uid)
        assert not await reader.has_exited(runs, sandbox_id=pod.sandbox_id)
        done = await pod.start(pod.container("init", ("sh", "-c", "exit 7")))
        await until_asked(lambda: reader.has_exited(done, sandbox_id=pod.sandbox_id))
        watched.taken()
        ended = (await reader.read(pod.uid)).newest("init")
        assert watched.taken() == LISTS
        assert ended is not None
        assert (ended.id, ended.state, ended.exit_code, ended.sandbox_id) == (done, "exited", 7, pod.sandbox_id)


async def test_a_container_that_is_listed_as_running_although_it_was_said_to_have_ended_is_asked_about_again(
    reader: PodReader, client: CriClient, make_pod: PodMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = client.container_status

    async def mistaken(container_id: str, **how: Any) -> ContainerAnswer:
        answer = await ask(container_id, **how)
        ended = {"state": "exited", "exit_code": 0, "finished_at": answer.container.started_at}
        return replace(answer, container=answer.container.model_copy(update=ended))

    async with make_pod() as pod:
        await pod.run()
        await pod.start()
        with monkeypatch.context() as patched:
            patched.setattr(client, "container_status", mistaken)
            assert [each.state for each in (await reader.read(pod.uid)).containers] == ["exited"]
        assert [each.state for each in (await reader.read(pod.uid)).containers] == ["running"]


async def test_relist_with_nothing_new_is_two_calls(reader: PodReader, watched: Watched, make_pod: PodMaker) -> None:
    async with make_pod(host_network=False) as first, make_pod(name="db") as second:
        for pod in (first, second):
            await pod.run()
            await pod.start()
            await pod.start(pod.container("once", ("true",)))
            await exited(reader, pod.uid, "once")
        watched.taken()

        relist = await reader.read_all()
        assert watched.taken() == LISTS
        assert set(relist.pods) == {first.uid, second.uid}
        assert {pod.name for pod in relist.pods.values()} == {"web", "db"}
        for seen in relist.pods.values():
            assert {container.name: container.state for container in seen.containers} == {
                "main": "running",
                "once": "exited",
            }
        assert relist.failures == {}


class Verbose(Watched):
    """A runtime with a long message of control characters about each container that has ended."""

    async def container_status(self, container_id: str, **options: Any) -> Any:
        self.calls["container_status"] += 1
        answer = await self._runtime.container_status(container_id, **options)
        if answer.container.state != "exited":
            return answer
        return replace(answer, container=answer.container.model_copy(update={"message": "\x01" * 4096}))


async def test_messages_of_many_containers_take_no_more_of_a_listing_than_those_of_one(
    client: CriClient, make_pod: PodMaker
) -> None:
    verbose = Verbose(client)
    reader = PodReader(verbose, boot=3, owner=OWNER)  # type: ignore[arg-type]
    async with make_pod() as pod:
        await pod.run()
        await pod.start(pod.container("c0", ("true",)))
        alone = (await exited(reader, pod.uid, "c0")).containers[0]
        for number in range(1, 4):
            await pod.start(pod.container(f"c{number}", ("true",)))
            await exited(reader, pod.uid, f"c{number}")
        verbose.taken()
        relist = await reader.read_all()
        assert verbose.taken() == LISTS
        messages = [json_size(container.message) for container in relist.pods[pod.uid].containers]
        assert len(messages) == 4
        assert sum(messages) <= TERMINATION_MESSAGES_LIMIT
        assert json_size(alone.message) == pytest.approx(TERMINATION_MESSAGES_LIMIT, abs=12)


async def test_relist_finds_changes(reader: PodReader, watched: Watched, client: CriClient, make_pod: PodMaker) -> None:
    async with make_pod() as pod:
        await pod.run()
        container_id = await pod.start()
        await reader.read_all()
        await client.stop_container(container_id, timeout_seconds=0)
        watched.taken()
        relist = await reader.read_all()
        assert watched.taken() == LISTS | {"container_status": 1}
        (container,) = relist.pods[pod.uid].containers
        assert (container.state, container.exit_code) == ("exited", 137)
        await client.stop_pod_sandbox(pod.sandbox_id)

        async def stopped() -> bool:
            return not (await reader.read_all()).pods[pod.uid].sandboxes[0].ready

        await until_asked(stopped)  # containerd 2 notes it a moment after it has said so
        await client.remove_pod_sandbox(pod.sandbox_id)
        assert pod.uid not in (await reader.read_all()).pods


async def test_a_removed_container_is_dropped_from_the_cache(
    reader: PodReader, client: CriClient, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        await pod.run()
        await pod.start()
        await reader.read_all()
    await reader.read_all()
    assert (reader.answers._sandboxes, reader.answers._containers) == ({}, {})


async def test_each_listing_has_a_higher_sequence_number_taken_at_its_start(
    reader: PodReader, watched: Watched, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        await pod.run()
        container_id = await pod.create()
        begun, go = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            begun.set()
            await go.wait()

        watched.before["container_status", container_id] = wait
        early = asyncio.create_task(reader.read(pod.uid))
        await begun.wait()
        watched.before.clear()
        late = await reader.read(pod.uid)
        go.set()
        numbers = [(await early).seq, late.seq, (await reader.read_all()).seq]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 3
    assert {number.boot for number in numbers} == {3}
    assert max(numbers) < Seq(boot=4, counter=1)


async def test_status_asked_before_a_start_does_not_hide_the_start_from_later_readers(
    reader: PodReader, client: CriClient, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        await pod.run()
        container_id = await pod.create()
        created = await client.container_status(container_id)
        await client.start_container(container_id)

        async def late(*_: object, **__: object) -> object:
            return created

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "container_status", late)
            assert (await reader.read(pod.uid)).containers[0].state == "created"
        assert (await reader.read(pod.uid)).containers[0].state == "running"


async def test_container_that_vanishes_between_list_and_status_is_absent(
    reader: PodReader, watched: Watched, client: CriClient, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        await pod.run()
        staying = await pod.start(pod.container("staying"))
        leaving = await pod.start(pod.container("leaving"))
        watched.before["container_status", leaving] = lambda: client.remove_container(leaving)
        assert [container.id for container in (await reader.read(pod.uid)).containers] == [staying]


async def test_sandbox_that_vanishes_between_list_and_status_is_absent(
    reader: PodReader, watched: Watched, client: CriClient, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        sandbox_id = await pod.run()
        watched.before["pod_sandbox_status", sandbox_id] = lambda: client.remove_pod_sandbox(sandbox_id)
        assert (await reader.read(pod.uid)).sandboxes == ()


async def test_pod_that_cannot_be_read_is_named_and_the_others_are_read(
    reader: PodReader, watched: Watched, make_pod: PodMaker
) -> None:
    async with make_pod() as broken, make_pod(name="well") as well:
        await broken.run()
        container_id = await broken.start()
        await well.run()
        await well.start()

        async def fail() -> None:
            raise Unavailable("container_status", "UNAVAILABLE", "broken pipe")

        watched.before["container_status", container_id] = fail
        relist = await reader.read_all()
        assert set(relist.pods) == {well.uid}
        assert isinstance(relist.failures[broken.uid], Unavailable)
        with pytest.raises(Unavailable):
            await reader.read(broken.uid)

        watched.before.clear()
        assert set((await reader.read_all()).pods) == {broken.uid, well.uid}


async def test_pod_with_a_hung_status_call_delays_no_other_and_is_not_asked_again(
    watched: Watched, make_pod: PodMaker
) -> None:
    reader = PodReader(watched, boot=1, owner=OWNER, pod_timeout_seconds=0.3)  # type: ignore[arg-type]
    async with make_pod() as stuck, make_pod(name="well") as well:
        await stuck.run()
        container_id = await stuck.start()
        await well.run()
        await well.start()
        released = asyncio.Event()
        watched.before["container_status", container_id] = released.wait

        for _ in range(3):
            relist = await reader.read_all()
            assert set(relist.pods) == {well.uid}
            assert isinstance(relist.failures[stuck.uid], DeadlineExceeded)
            assert stuck.uid in str(relist.failures[stuck.uid])
        assert watched.taken()["container_status"] == 2  # one that hangs, one of the pod that is well
        assert (await reader.read(well.uid)).containers[0].state == "running"

        released.set()

        async def is_read() -> bool:
            return stuck.uid in (await reader.read_all()).pods

        await until_asked(is_read)
        relist = await reader.read_all()
        assert relist.pods[stuck.uid].containers[0].state == "running"
        assert relist.failures == {}


async def test_failed_list_call_fails_the_whole_relist(client: CriClient, tmp_path: Path) -> None:
    async with CriClient(str(tmp_path / "none.sock")) as nowhere:
        reader = PodReader(nowhere, boot=1, owner=OWNER)
        with pytest.raises(Unavailable):
            await reader.read_all()
        with pytest.raises(Unavailable):
            await reader.read("u")


async def test_unexpected_error_fails_the_relist_and_not_a_pod(
    reader: PodReader, watched: Watched, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        await pod.run()
        container_id = await pod.create()

        async def bug() -> None:
            raise ZeroDivisionError

        watched.before["container_status", container_id] = bug
        with pytest.raises(ZeroDivisionError):
            await reader.read_all()


async def test_container_of_this_node_without_a_valid_pod_is_skipped_with_one_warning(
    reader: PodReader, client: CriClient, make_pod: PodMaker, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_pod() as pod, contextlib.AsyncExitStack() as stack:
        sandbox_id = await pod.run()
        main = await pod.start()
        theirs = set[str]()
        for uid in ("../x", "", "u" * 300, "a/b"):
            stranger = await stack.enter_async_context(make_pod(name="stranger"))
            stranger.sandbox.labels[names.POD_UID_LABEL] = uid
            theirs |= {(made := await stranger.run()), await stranger.start()}
            stack.push_async_callback(client.remove_pod_sandbox, made)
        theirs.add(await pod.start(pod.container("odd", restart=2**32 - 1)))

        for _ in range(2):
            relist = await reader.read_all()
            assert (set(relist.pods), relist.failures) == ({pod.uid}, {})
            for view in (relist.pods[pod.uid], await reader.read(pod.uid)):
                assert [each.id for each in view.sandboxes] == [sandbox_id]
                assert [each.id for each in view.containers] == [main]
        said = [record.getMessage() for record in caplog.records if "passed over" in record.getMessage()]
        assert len(said) == len(theirs)
        assert all(any(id_ in text for text in said) for id_ in theirs)
        assert theirs <= {each.id for each in await client.list_containers()} | {
            each.id for each in await client.list_pod_sandboxes()
        }


async def test_containers_of_other_owners_are_not_listed(
    reader: PodReader, client: CriClient, make_pod: PodMaker
) -> None:
    async with make_pod(owner="node-b") as foreign, make_pod() as unlabelled:
        await foreign.run()
        await foreign.start()
        del unlabelled.sandbox.labels[names.NODE_LABEL]
        await unlabelled.run()
        await unlabelled.start()
        for pod in (foreign, unlabelled):
            assert await client.list_containers(labels={names.POD_UID_LABEL: pod.uid})
            seen = await reader.read(pod.uid)
            assert (seen.sandboxes, seen.containers) == ((), ())
        assert (await reader.read_all()).pods == {}


async def test_pid_is_that_of_the_main_process_while_it_runs(
    reader: PodReader, client: CriClient, make_pod: PodMaker
) -> None:
    async with make_pod() as pod:
        sandbox_id = await pod.run()
        container_id = await pod.create()
        assert await reader.pid_of(container_id) == 0
        await client.start_container(container_id)
        main, pause = await reader.pid_of(container_id), await reader.sandbox_pid(sandbox_id)
        # Both may still be the runtime's own first process, which is about to become the program.
        await until(lambda: command_line(main) == b"sleep\x001000\x00")
        await until(lambda: b"pause" in command_line(pause))
        await client.stop_container(container_id, timeout_seconds=0)
        assert await reader.pid_of(container_id) == 0
    assert (await reader.pid_of(container_id), await reader.sandbox_pid(sandbox_id)) == (0, 0)


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_cancelled_relist_leaves_no_call_running(reader: PodReader, watched: Watched, make_pod: PodMaker) -> None:
    async with make_pod() as pod:
        await pod.run()
        container_id = await pod.start()
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        watched.before["container_status", container_id] = hang
        relist = asyncio.create_task(reader.read_all())
        await begun.wait()
        relist.cancel()
        with pytest.raises(asyncio.CancelledError):
            await relist
        async with asyncio.timeout(60):
            await cancelled.wait()
