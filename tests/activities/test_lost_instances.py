"""Processes that the runtime no longer tracks are killed before their successors start.

Holds: No container that is listed as ended still runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import grpc
import pytest
import pytest_asyncio
from temporalio.exceptions import ApplicationError

from activities.node.pod_record import note_pod
from protos.cri.containerd.tasks_pb2 import GetRequest
from syncpod.cri.errors import CriError, Unimplemented
from syncpod.kernel.cgroupfs import CgroupBusy
from syncpod.messages.steps import Fault, Outcome, StepResult
from syncpod.node.cgroups import populated
from syncpod.node.start_marks import StartMark, write_start_mark
from syncpod.node.tombstones import write_tombstone
from syncpod.translation.names import NODE_LABEL
from tests.activities.bench import SLEEP, Bench, PodOnBench, bench_of, container, fault_of, until
from tests.activities.test_start_container import configs, created_by_another
from tests.agent.waiting import until as until_true
from tests.runtimes.containerd import Containerd

pytestmark = pytest.mark.every_runtime(
    "what a runtime loses sight of after its death depends on its version", each_containerd=True
)

TaskState = Literal["CREATED", "RUNNING", "STOPPED"]


@pytest_asyncio.fixture
async def bench(containerd: Containerd, tmp_path: Path) -> AsyncIterator[Bench]:
    """A node on each containerd: these tests are about containerd alone."""
    async with bench_of(containerd, tmp_path) as bench:
        yield bench


def task(bench: Bench, container_id: str) -> tuple[int, str] | None:
    """The process id and state of a task in containerd; None if there is no task."""
    lines = (line.split() for line in bench.runtime.ctr("tasks", "list").splitlines()[1:] if line)
    return next(((int(pid), state) for id, pid, state in lines if id == container_id), None)


async def lose(bench: Bench, container_id: str, state: TaskState) -> None:
    """Make a task in that state, unknown to the CRI plugin, which lists its container or sandbox as ended."""
    with contextlib.ExitStack() as gates:
        if state == "CREATED":
            gates.enter_context(bench.runtime.gates.refuse("runc-start"))
            gates.enter_context(pytest.raises(subprocess.CalledProcessError))
        await asyncio.to_thread(bench.runtime.ctr, "tasks", "start", "--detach", container_id)
    if state == "STOPPED":
        made = task(bench, container_id)
        assert made is not None
        os.kill(made[0], signal.SIGKILL)

    async def lost() -> bool:
        made = await asyncio.to_thread(task, bench, container_id)
        return made is not None and made[1] == state

    await until(lost)


async def never_started(pod: PodOnBench) -> str:
    """Make a container whose start the runtime gave up, so that it is EXITED with a StartError; return its id."""
    if not pod.sandbox_id:
        await pod.create_sandbox()
    created = await created_by_another(pod)
    with pod.bench.runtime.gates.refuse("runc-create"), contextlib.suppress(CriError):
        await pod.bench.cri.start_container(created)
    await pod.until_state(created, "exited")
    return created


async def assert_gone(pod: PodOnBench, container_id: str) -> None:
    """Assert that the runtime has nothing of a container or sandbox, and no process of it runs."""
    assert await asyncio.to_thread(task, pod.bench, container_id) is None
    assert container_id not in await asyncio.to_thread(pod.bench.runtime.ctr, "containers", "list", "--quiet")
    assert populated(pod.bench.node.context, pod.uid, [container_id]) == ()


def killed(result: StepResult) -> list[str]:
    """The events about processes that were found and killed."""
    return [event.message for event in result.events if event.reason == "LeftoverKilled"]


# --- the start that comes after ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["CREATED", "RUNNING"])
async def test_a_start_kills_leftovers_of_a_refused_start(bench: Bench, state: TaskState) -> None:
    pod = bench.pod()
    left = await never_started(pod)
    await lose(bench, left, state)
    fault, _, detail = await fault_of(pod.start())
    assert (fault, [left in message for message in killed(detail)]) == (Fault.RUN_CONTAINER_ERROR, [True])
    assert await asyncio.to_thread(task, bench, left) is None
    result = await pod.start(restart=1)
    assert [(each.id, each.state, each.restart_count) for each in result.status.containers] == [
        (result.id, "running", 1),
        (left, "exited", 0),
    ]


async def test_a_start_interrupted_before_its_process_was_requested_is_repeated(bench: Bench) -> None:
    """containerd 1.6: a shim that makes one container answers nothing about the others of its pod."""
    pod = bench.pod(container(), container("other", SLEEP))
    await pod.create_sandbox()
    main = await created_by_another(pod)
    other = await bench.cri.create_container(pod.sandbox_id, *await configs(pod, "other"))
    with bench.runtime.gates.hold("runc-create") as gate:
        dying = asyncio.create_task(bench.cri.start_container(main))
        await gate.reached()
        shim = shim_socket(bench, main)
        callers = connections(shim)
        beside = asyncio.create_task(bench.cri.start_container(other))
        # containerd's call to the shim for the other container, which is sent after the first call.
        await until_true(lambda: connections(shim) > callers)
        gate.let_through()
        await gate.reached(2)
        await cut_off(dying)
        if bench.runtime.series == "1.6":
            lost = await pod.until_state(main, "exited")
            assert "failed to get task pid: context canceled" in lost.message
    await beside
    result = await pod.start()
    alive = {each.name: each.restart_count for each in result.status.containers if each.state == "running"}
    assert alive == {"main": 0, "other": 0}
    assert len(result.status.containers) == 2
    assert len(killed(result)) == (1 if bench.runtime.series == "1.6" else 0)


async def test_a_process_running_after_its_start_was_abandoned_is_killed_and_not_started_again(bench: Bench) -> None:
    """The runtime could not end it itself: 2.4 lists it as unknown then, the others as exited. It has run."""
    pod = bench.pod()
    await pod.create_sandbox()
    left = await created_by_another(pod)
    mark = StartMark(
        id=left, restart=0, incarnation=pod.ref.incarnation, sandbox_id=pod.sandbox_id, at=datetime.now(UTC)
    )
    write_start_mark(bench.node.context, pod.uid, "main", mark)
    async with start_that_cannot_be_taken_back(bench, bench.cri.start_container(left)):
        await pod.until_state(left, "unknown" if bench.runtime.series == "2.4" else "exited")
    assert populated(bench.node.context, pod.uid, [left]) == (left,)
    result = await pod.start()
    assert (result.outcome, result.id) == (Outcome.ADOPTED, left)
    assert [(each.state, each.exit_code, each.reason) for each in result.status.containers] == [
        ("exited", 137, "ContainerStatusUnknown")
    ]
    assert populated(bench.node.context, pod.uid, [left]) == ()


@contextlib.asynccontextmanager
async def start_that_cannot_be_taken_back(bench: Bench, start: Awaitable[object]) -> AsyncIterator[None]:
    """Start a container and let the caller die while runc starts it; then the container runs."""
    with bench.runtime.gates.refuse("runc-kill"):
        with bench.runtime.gates.hold("runc-start") as gate:
            dying = asyncio.ensure_future(start)
            await gate.reached()
            await cut_off(dying)
            await bench.cri.version()  # answered on the same connection, so the runtime knows the end
        yield


def shim_socket(bench: Bench, container_id: str) -> str:
    """The socket of the shim of a container whose task is being made."""
    bundle = bench.runtime.directory / "state/io.containerd.runtime.v2.task/k8s.io" / container_id
    texts = (file.read_text() for name in ("address", "bootstrap.json") if (file := bundle / name).exists())
    found = re.search(r'unix://([^"\s]+)', "".join(texts))
    assert found is not None, list(bundle.iterdir())
    return found[1]


def connections(socket: str) -> int:
    """The number of connections of a Unix socket at its server's end, as the kernel lists them."""
    listed = (line.split() for line in Path("/proc/net/unix").read_text().splitlines())
    return sum(fields[5:] == ["03", *fields[6:7], socket] for fields in listed)


async def cut_off(call: asyncio.Future[object] | asyncio.Task[None]) -> None:
    """Cancel a call, as the death of its caller does."""
    call.cancel()
    await asyncio.wait({call})


# --- the other steps --------------------------------------------------------------------------------------------------


async def test_a_pod_kill_also_ends_processes_of_containers_listed_as_exited(bench: Bench) -> None:
    pod = bench.pod()
    left = await never_started(pod)
    await lose(bench, left, "RUNNING")
    result = await pod.kill()
    assert [left in message for message in killed(result)] == [True]
    assert populated(bench.node.context, pod.uid, [left]) == ()
    assert [each.id for each in result.status.containers] == [left]


@pytest.mark.parametrize("state", ["CREATED", "RUNNING", "STOPPED"])
async def test_removing_a_container_kills_its_leftover_processes(bench: Bench, state: TaskState) -> None:
    pod = bench.pod()
    left = await never_started(pod)
    await lose(bench, left, state)
    result = await pod.remove_containers(left)
    assert result.status.containers == ()
    await assert_gone(pod, left)


async def test_removing_a_pod_kills_its_leftover_processes(bench: Bench) -> None:
    pod = bench.pod()
    left = await never_started(pod)
    await lose(bench, left, "CREATED")
    await bench.cri.stop_pod_sandbox(pod.sandbox_id)
    await pod.until_dead(pod.sandbox_id)
    await lose(bench, pod.sandbox_id, "CREATED")
    assert await pod.remove()
    view = await pod.view()
    assert (view.sandboxes, view.containers) == ((), ())
    for each in (left, pod.sandbox_id):
        await assert_gone(pod, each)
    assert pod.cgroups() == []


async def test_a_dead_sandbox_is_removed_with_its_leftover_processes(bench: Bench) -> None:
    pod = bench.pod()
    left = await never_started(pod)
    await lose(bench, left, "RUNNING")
    dead = pod.sandbox_id
    await bench.cri.stop_pod_sandbox(dead)
    await pod.until_dead(dead)
    await lose(bench, dead, "RUNNING")
    result = await pod.create_sandbox()
    assert (result.outcome, result.status.sandboxes) == (Outcome.SPENT, ())
    assert len(killed(result)) == 2
    for each in (left, dead):
        await assert_gone(pod, each)
    assert (await pod.create_sandbox(attempt=1)).outcome == Outcome.DONE


async def test_a_sandbox_whose_start_could_not_be_rolled_back_is_removed(bench: Bench) -> None:
    pod = bench.pod(container(command=SLEEP))
    await pod.create_sandbox(attempt=1)
    _, config = await configs(pod)

    async def listed() -> bool:
        return [each.state for each in (await pod.view()).sandboxes if each.attempt == 0] == ["SANDBOX_NOTREADY"]

    async with start_that_cannot_be_taken_back(bench, bench.cri.run_pod_sandbox(config)):
        await until(listed)
    [dead] = [each.id for each in (await pod.view()).sandboxes if each.attempt == 0]
    assert (await pod.create_sandbox()).outcome == Outcome.SPENT
    await assert_gone(pod, dead)


async def test_a_runtime_without_the_task_api_is_reported_with_the_refused_removal(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    left = await never_started(pod)
    await lose(bench, left, "CREATED")
    with monkeypatch.context() as patched:

        async def unknown(container_id: str) -> None:
            raise Unimplemented("kill_task", "UNIMPLEMENTED", "unknown service")

        patched.setattr(bench.cri, "discard_task", unknown)
        with pytest.raises(ApplicationError) as refused:
            await pod.remove_containers(left)
    assert (refused.value.type, refused.value.non_retryable) == ("TaskLeft", False)
    assert f"cannot delete running task {left}" in refused.value.message
    assert (await pod.remove_containers(left)).status.containers == ()


# --- containers without a record --------------------------------------------------------------------------------------


async def ended(pod: PodOnBench, *names: str) -> list[str]:
    """Start containers that end at once, take their records from containerd, and return their ids."""
    await pod.create_sandbox()
    ids = [(await pod.start(name)).id for name in names]
    for each in ids:
        await pod.until_state(each, "exited")
        await asyncio.to_thread(pod.bench.runtime.ctr, "containers", "rm", each)
    return ids


async def test_a_container_whose_record_is_lost_is_removed(bench: Bench) -> None:
    """containerd before 1.6.21 answers NotFound to its removal, and goes on listing it."""
    pod = bench.pod(container(command=("true",)))
    [main] = await ended(pod, "main")
    assert [each.id for each in (await pod.view()).containers] == [main]
    assert (await pod.remove_containers(main)).status.containers == ()
    await assert_gone(pod, main)


async def test_a_sandbox_with_containers_whose_records_are_lost_is_removed(bench: Bench) -> None:
    pod = bench.pod(container(command=("true",)), container("other", command=("true",)))
    main, other = await ended(pod, "main", "other")
    await bench.cri.stop_pod_sandbox(pod.sandbox_id)
    await bench.cri.remove_pod_sandbox(pod.sandbox_id)
    view = await pod.view()
    assert (view.sandboxes, view.containers) == ((), ())
    for each in (main, other, pod.sandbox_id):
        await assert_gone(pod, each)


async def test_a_process_whose_container_lost_its_record_is_killed(bench: Bench) -> None:
    pod = bench.pod(container(command=SLEEP))
    await pod.create_sandbox()
    main = (await pod.start()).id
    await asyncio.to_thread(lose_record, bench, main)
    result = await pod.kill(grace=2)
    assert [(each.id, each.state) for each in result.status.containers] == [(main, "exited")]
    assert await pod.remove()
    await assert_gone(pod, main)


def lose_record(bench: Bench, container_id: str) -> None:
    """Remove a container's record by containerd's API, which does not look for a task, as `ctr` does."""
    with grpc.insecure_channel(bench.runtime.endpoint, options=[("grpc.default_authority", "localhost")]) as channel:
        delete: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/containerd.services.containers.v1.Containers/Delete"
        )
        request = GetRequest(container_id=container_id)  # the same on the wire
        delete(request.SerializeToString(), metadata=(("containerd-namespace", "k8s.io"),))


# --- what no list has -------------------------------------------------------------------------------------------------


@pytest.fixture
def forgotten() -> Iterator[subprocess.Popen[bytes]]:
    """A process in place of one that a runtime has forgotten; killed at the end."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


async def test_removing_a_pod_kills_forgotten_processes_in_its_cgroup(
    bench: Bench, forgotten: subprocess.Popen[bytes]
) -> None:
    """containerd 2.4 forgets a container's process that is made after it has given up the start."""
    pod = bench.pod()
    await pod.create_sandbox()
    await pod.kill()
    put_into(pod, forgotten)
    assert await pod.remove()
    assert forgotten.wait() == -signal.SIGKILL
    assert pod.cgroups() == []


async def test_no_process_is_killed_in_a_pod_cgroup_that_another_node_shares_by_uid(
    bench: Bench, forgotten: subprocess.Popen[bytes]
) -> None:
    pod = bench.pod()
    _, config = await configs(pod)
    config.labels[NODE_LABEL] = "node-b"
    theirs = await bench.cri.run_pod_sandbox(config)
    put_into(pod, forgotten)
    note_pod(bench.node.context, pod.ref, pod.pod)
    write_tombstone(bench.node.context, pod.uid, pod.incarnation)
    with pytest.raises(CgroupBusy):
        await pod.remove()
    assert forgotten.poll() is None
    assert (await bench.cri.pod_sandbox_status(theirs)).state == "SANDBOX_READY"


def put_into(pod: PodOnBench, process: subprocess.Popen[bytes]) -> None:
    """Put a process into a cgroup below the pod's that belongs to no listed container."""
    cgroup = pod.cgroups()[-1] / ("f" * 64)
    cgroup.mkdir()
    (cgroup / "cgroup.procs").write_text(str(process.pid))
