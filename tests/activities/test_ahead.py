"""Containers that are created ahead: while the previous one starts, or before its end is reported.

Holds: A container that was created before its turn is never started out of turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.containers import quick_end
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError, DeadlineExceeded, RuntimeFailure, Unavailable
from syncpod.cri.port import ContainerSummary
from syncpod.kernel.process_end import listening
from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import Fault, Outcome
from syncpod.node.reader import PodReader
from syncpod.node.start_marks import read_start_mark
from syncpod.pod import ContainerKind
from syncpod.translation.names import POD_UID_LABEL
from tests.activities.bench import Bench, PodOnBench, Running, container, fault_of, until
from tests.activities.test_start_container import created_by_another

Around = Callable[[], Awaitable[object]]
"""Something to await before or after a call."""


every_containerd = pytest.mark.every_runtime("what else a runtime does meanwhile, and how it tells of an end")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limits, so that a late exit on a busy machine counts."""
    monkeypatch.setattr("activities.pipelining.HELD_SECONDS", 60.0)
    monkeypatch.setattr(quick_end, "LINGER_SECONDS", 60.0)


class Calls:
    """Records the calls that create or start a container, by its name, when they are sent and when they return.

    `before` and `after` are awaited around a call; what they raise is what the caller gets.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.noted: list[str] = []
        self.before: dict[str, Around] = {}
        self.after: dict[str, Around] = {}
        self._names: dict[str, str] = {}
        create, start = CriClient.create_container, CriClient.start_container

        async def creates(cri: CriClient, sandbox_id: str, config: Any, sandbox: Any) -> str:
            name = config.metadata.name
            async with self._around(f"create {name}"):
                id_ = await create(cri, sandbox_id, config, sandbox)
                self._names[id_] = name
            return id_

        async def starts(cri: CriClient, container_id: str) -> None:
            async with self._around(f"start {self._names[container_id]}"):
                await start(cri, container_id)

        monkeypatch.setattr(CriClient, "create_container", creates)
        monkeypatch.setattr(CriClient, "start_container", starts)

    @asynccontextmanager
    async def _around(self, call: str) -> AsyncIterator[None]:
        self.noted.append(call)
        if call in self.before:
            await self.before[call]()
        yield
        if call in self.after:
            await self.after[call]()
        self.noted.append(f"{call}: done")

    def comes_before(self, one: str, other: str) -> bool:
        return self.noted.index(one) < self.noted.index(other)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


async def in_runtime(pod: PodOnBench) -> dict[str, ContainerSummary]:
    """The pod's containers as the runtime lists them, by name."""
    listed = await pod.bench.cri.list_containers(labels={POD_UID_LABEL: pod.uid})
    assert len({each.name for each in listed}) == len(listed)
    return {each.name: each for each in listed}


def is_created(pod: PodOnBench, name: str) -> Around:
    """Waits until the runtime lists the container as created."""

    async def created() -> bool:
        found = (await in_runtime(pod)).get(name)
        return found is not None and found.state == "created"

    return lambda: until(created)


def failing(error: CriError, first: Around | None = None) -> Around:
    """Fails a call with this error, after awaiting `first`."""

    async def fails() -> None:
        if first is not None:
            await first()
        raise error

    return fails


REFUSED = RuntimeFailure("start_container", "UNKNOWN", "no such device")


class Starts:
    """A pod with its sandbox, and the starts of two containers of it, the second one after the first."""

    def __init__(self, pod: PodOnBench, kind: ContainerKind, names: tuple[str, str], restart: int = 0) -> None:
        self.pod = pod
        one, two = names
        self.step = StepName.START_INIT_CONTAINER if kind == "init_container" else StepName.START_CONTAINER
        self.first = pod.start_request(one, restart, kind=kind)
        self.ahead = pod.start_request(two, kind=kind, follows=self.first.fence)

    def begun(self, **how: Any) -> tuple[Running, Running]:
        return self.pod.step(self.step, self.first, **how), self.pod.step(self.step, self.ahead, **how)


async def mains(bench: Bench) -> Starts:
    """Two main containers, x and y."""
    pod = bench.pod(container("x"), container("y"))
    await pod.create_sandbox()
    return Starts(pod, "container", ("x", "y"))


async def inits(bench: Bench, script: str = "true", restart: int = 0) -> Starts:
    """Two init containers, a and b; the first one runs `script`."""
    named = [container(name, command=("sh", "-c", does)) for name, does in (("a", script), ("b", "true"))]
    pod = bench.pod(initContainers=named)
    await pod.create_sandbox()
    return Starts(pod, "init_container", ("a", "b"), restart)


async def reported_late(bench: Bench, monkeypatch: pytest.MonkeyPatch, directory: Path, script: str = "true") -> Starts:
    """Two init containers, a and b; the end of the first is reported only when the second exists.

    The first one does `script` once its process is watched: nothing is created ahead if the runtime already reports the
    end when it is asked for the process.
    """
    released = "until [ -e /release/now ]; do sleep 0.02; done"
    mounts = [{"name": "release", "mountPath": "/release"}]
    volume = {"name": "release", "hostPath": {"path": str(directory), "type": "Directory"}}
    first = container("a", command=("sh", "-c", f"{released}; {script}"), volumeMounts=mounts)
    pod = bench.pod(initContainers=[first, container("b", command=("true",))], volumes=[volume])
    await pod.create_sandbox()
    starts = Starts(pod, "init_container", ("a", "b"))
    has_exited = PodReader.has_exited

    async def late(self: PodReader, container_id: str, **more: Any) -> bool:
        if container_id == (await in_runtime(starts.pod))["a"].id:
            await is_created(starts.pod, "b")()
        return await has_exited(self, container_id, **more)

    @contextmanager
    def releasing(pid: int, ended: Callable[[], None]) -> Iterator[None]:
        with listening(pid, ended):
            (directory / "now").touch()
            yield

    monkeypatch.setattr(PodReader, "has_exited", late)
    monkeypatch.setattr(quick_end, "listening", releasing)
    return starts


async def both(steps: tuple[Running, Running]) -> tuple[Any, Any]:
    one, two = await asyncio.gather(*(each.result() for each in steps), return_exceptions=True)
    return one, two


# --- the turn comes ---------------------------------------------------------------------------------------------------


@every_containerd
async def test_a_main_container_is_created_while_the_one_before_it_starts_and_nobody_sees_it(
    bench: Bench, calls: Calls
) -> None:
    starts = await mains(bench)
    made: list[str] = []

    async def looks() -> None:
        await is_created(starts.pod, "y")()
        made.append((await in_runtime(starts.pod))["y"].id)
        assert (await starts.pod.view()).newest("y") is None
        assert (await bench.node.reader.read_all()).pods[starts.pod.uid].newest("y") is None
        assert read_start_mark(bench.node.context, starts.pod.uid, "y") is None

    calls.before["start x"] = looks
    x, y = await both(starts.begun())
    assert (x.outcome, y.outcome, [y.id]) == (Outcome.DONE, Outcome.DONE, made)
    assert x.status.newest("y") is None
    assert {each.name: each.state for each in y.status.containers} == {"x": "running", "y": "running"}
    assert [each.reason for each in y.events] == ["Pulled", "Created", "Started"]
    assert calls.comes_before("create y: done", "start x: done") and calls.comes_before("start x: done", "start y")


async def test_a_start_that_comes_while_the_one_before_it_starts_is_created_meanwhile_too(
    bench: Bench, calls: Calls
) -> None:
    """The step before the last has been so quick that the workflow has only now begun the last one."""
    starts = await mains(bench)
    asked = asyncio.Event()

    async def looks() -> None:
        asked.set()
        await is_created(starts.pod, "y")()

    calls.before["start x"] = looks
    x = starts.pod.step(starts.step, starts.first)
    await asked.wait()
    y = starts.pod.step(starts.step, starts.ahead)
    assert [each.outcome for each in await both((x, y))] == [Outcome.DONE, Outcome.DONE]
    assert calls.comes_before("create y: done", "start x: done")


@every_containerd
async def test_an_init_container_is_created_before_the_end_of_the_one_before_it_is_reported(
    bench: Bench, calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts = await reported_late(bench, monkeypatch, tmp_path)
    a, b = await both(starts.begun())
    assert (a.outcome, b.outcome) == (Outcome.DONE, Outcome.DONE)
    assert a.status.newest("b") is None
    assert {each.name: each.state for each in b.status.containers} == {"a": "exited", "b": "exited"}


@pytest.mark.parametrize("error", [REFUSED, Unavailable("create_container", "UNAVAILABLE", "")])
async def test_what_goes_wrong_ahead_is_done_again_in_the_turn(bench: Bench, calls: Calls, error: CriError) -> None:
    starts = await mains(bench)
    tried = asyncio.Event()

    async def fails_once() -> None:
        if not tried.is_set():
            tried.set()
            raise error

    calls.before["create y"] = fails_once
    calls.before["start x"] = tried.wait
    x, y = await both(starts.begun())
    assert (x.outcome, y.outcome, calls.noted.count("create y")) == (Outcome.DONE, Outcome.DONE, 2)


async def test_a_container_that_cannot_be_created_is_reported_in_its_turn(bench: Bench, calls: Calls) -> None:
    starts = await mains(bench)
    calls.before["create y"] = failing(REFUSED)
    x, y = starts.begun()
    fault, error, _ = await fault_of(y.result())
    assert ((await x.result()).outcome, fault) == (Outcome.DONE, Fault.CREATE_CONTAINER_ERROR)
    assert "no such device" in error.message


async def test_a_creation_without_an_answer_is_found_in_the_turn(bench: Bench, calls: Calls) -> None:
    starts = await mains(bench)
    calls.after["create y"] = failing(DeadlineExceeded("create_container", "DEADLINE_EXCEEDED", ""))
    calls.before["start x"] = is_created(starts.pod, "y")
    x, y = await both(starts.begun())
    assert (x.outcome, y.outcome, calls.noted.count("create y")) == (Outcome.DONE, Outcome.DONE, 1)
    assert y.status.newest("y").state == "running"


# --- the turn does not come -------------------------------------------------------------------------------------------


async def test_what_was_created_is_removed_if_the_one_before_it_does_not_start(bench: Bench, calls: Calls) -> None:
    starts = await mains(bench)
    calls.before["start x"] = failing(REFUSED, is_created(starts.pod, "y"))
    x, y = starts.begun()
    fault, _, detail = await fault_of(x.result())
    assert (fault, detail.status.containers) == (Fault.RUN_CONTAINER_ERROR, ())
    assert ((await y.result()).outcome, await in_runtime(starts.pod)) == (Outcome.NOT_BEGUN, {})


@every_containerd
async def test_what_was_created_is_removed_if_the_init_container_before_it_fails(
    bench: Bench, calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts = await reported_late(bench, monkeypatch, tmp_path, "exit 3")
    a, b = await both(starts.begun())
    assert (a.outcome, [each.name for each in a.status.containers]) == (Outcome.DONE, ["a"])
    assert (b.outcome, list(await in_runtime(starts.pod))) == (Outcome.NOT_BEGUN, ["a"])


@pytest.mark.parametrize("how", [{"cancel_requested": True}, {"worker_shutdown": True}])
async def test_a_start_that_is_to_let_go_removes_what_it_created(
    bench: Bench, calls: Calls, how: dict[str, bool]
) -> None:
    starts = await mains(bench)
    may_start = asyncio.Event()
    calls.before["start x"] = may_start.wait
    x, y = starts.begun()
    await is_created(starts.pod, "y")()
    y.cancel(**how)
    _, result = await asyncio.gather(asyncio.sleep(0), y.result(), return_exceptions=True)
    if isinstance(result, BaseException):
        assert isinstance(result, ApplicationError) and not result.non_retryable
    else:
        assert (result.outcome, result.status.seq.counter) == (Outcome.CANCELLED, 0)
    assert list(await in_runtime(starts.pod)) == ["x"]
    may_start.set()
    assert (await x.result()).outcome == Outcome.DONE


async def test_a_creation_is_never_cut_off(bench: Bench, calls: Calls) -> None:
    starts = await mains(bench)
    asked, go_on, may_start = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        asked.set()
        await go_on.wait()

    calls.before["create y"], calls.before["start x"] = slow, may_start.wait
    x, y = starts.begun()
    await asked.wait()
    y.cancel()
    await y.goes_on()
    go_on.set()
    assert (await y.result()).outcome == Outcome.CANCELLED
    assert "create y: done" in calls.noted and list(await in_runtime(starts.pod)) == ["x"]
    may_start.set()
    await x.result()


async def test_a_newer_step_waits_until_what_was_created_is_gone(bench: Bench, calls: Calls) -> None:
    """The server has given up both starts, which still run: the kill must not miss the second container."""
    starts = await mains(bench)
    asked, go_on, may_start = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        asked.set()
        await go_on.wait()

    calls.before["create y"], calls.before["start x"] = slow, may_start.wait
    x, y = starts.begun()
    await asked.wait()
    kill = starts.pod.step(StepName.KILL_POD, starts.pod.kill_request(grace=0))
    await kill.goes_on("waits for its turn")
    may_start.set()
    await both((x, x))
    await kill.goes_on("waits for its turn")
    go_on.set()
    fault, _, _ = await fault_of(y.result())
    assert (fault, (await kill.result()).outcome) == (Fault.STALE_FENCE, Outcome.DONE)
    assert {each.name: each.state for each in (await in_runtime(starts.pod)).values()} == {"x": "exited"}


async def test_a_creation_without_an_answer_is_looked_for_and_removed(bench: Bench, calls: Calls) -> None:
    starts = await mains(bench)
    calls.after["create y"] = failing(DeadlineExceeded("create_container", "DEADLINE_EXCEEDED", ""))
    calls.before["start x"] = failing(REFUSED, is_created(starts.pod, "y"))
    _, y = await both(starts.begun())
    assert (y.outcome, await in_runtime(starts.pod)) == (Outcome.NOT_BEGUN, {})


async def test_a_removal_that_fails_is_made_up_for_by_the_next_try(
    bench: Bench, calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts = await reported_late(bench, monkeypatch, tmp_path, "exit 3")
    remove = CriClient.remove_container

    async def fails(self: CriClient, container_id: str) -> None:
        monkeypatch.setattr(CriClient, "remove_container", remove)
        raise Unavailable("remove_container", "UNAVAILABLE", "")

    monkeypatch.setattr(CriClient, "remove_container", fails)
    a, b = await both(starts.begun())
    assert a.outcome == Outcome.DONE
    assert isinstance(b, ApplicationError) and not b.non_retryable
    again = await starts.pod.step(StepName.START_INIT_CONTAINER, starts.ahead, attempt=2).result()
    assert (again.outcome, list(await in_runtime(starts.pod))) == (Outcome.NOT_BEGUN, ["a"])


async def test_nothing_that_was_created_ahead_counts_as_a_start(
    bench: Bench, calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counted: list[str] = []
    monkeypatch.setattr("activities.verbs.start_container.count_start", counted.append)
    starts = await reported_late(bench, monkeypatch, tmp_path, "exit 3")
    await both(starts.begun())
    assert "create b: done" in calls.noted
    assert counted == ["init_container"]


# --- the worker dies --------------------------------------------------------------------------------------------------


async def test_after_a_death_the_container_is_made_again_if_its_turn_has_come(bench: Bench) -> None:
    starts = await mains(bench)
    await starts.pod.step(StepName.START_CONTAINER, starts.first).result()
    left = await created_by_another(starts.pod, name="y")
    x, y = await both(starts.begun(attempt=2))
    assert (x.outcome, y.outcome) == (Outcome.ADOPTED, Outcome.DONE)
    made = y.status.newest("y")
    assert (made.id != left, made.state, made.restart_count) == (True, "running", 0)


async def test_after_a_death_the_container_is_removed_if_its_turn_does_not_come(bench: Bench) -> None:
    """It was created before its turn: that its start had been tried is no reason to go on with it."""
    starts = await inits(bench, "exit 3")
    await starts.pod.step(StepName.START_INIT_CONTAINER, starts.first).result()
    await created_by_another(starts.pod, name="b", kind="init_container")
    a, b = await both(starts.begun(attempt=2))
    assert (a.outcome, b.outcome) == (Outcome.ADOPTED, Outcome.NOT_BEGUN)
    assert list(await in_runtime(starts.pod)) == ["a"]


# --- what is not created ahead ----------------------------------------------------------------------------------------

LATE = {
    "a hook follows": ({"lifecycle": {"postStart": {"exec": {"command": ["true"]}}}}, {}),
    "a part of a volume is mounted": (
        {},
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "part"}]},
    ),
}


@pytest.mark.parametrize(("first", "second"), LATE.values(), ids=LATE)
async def test_what_the_one_before_may_still_change_is_looked_up_after_its_start(
    bench: Bench, calls: Calls, first: dict[str, Any], second: dict[str, Any]
) -> None:
    pod = bench.pod(container("x", **first), container("y", **second), volumes=[{"name": "v", "emptyDir": {}}])
    await pod.create_sandbox()
    x, y = await both(Starts(pod, "container", ("x", "y")).begun())
    assert (x.outcome, y.outcome) == (Outcome.DONE, Outcome.DONE)
    assert calls.comes_before("start x: done", "create y")


async def test_a_container_that_was_restarted_is_no_reason_to_create_anything_ahead(bench: Bench, calls: Calls) -> None:
    starts = await inits(bench, "exit 3", restart=1)
    a, b = await both(starts.begun())
    assert (a.outcome, b.outcome, "create b" in calls.noted) == (Outcome.DONE, Outcome.NOT_BEGUN, False)
