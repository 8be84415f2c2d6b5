"""start_container makes and starts one instance per restart, however often and from wherever it is called.

Holds: No instance starts twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.images.presence import container_of
from syncpod.cri import ContainerConfig, SandboxConfig
from syncpod.cri.client import CriClient
from syncpod.cri.errors import DeadlineExceeded, RuntimeFailure, Unavailable
from syncpod.cri.port import ContainerEvent
from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import Fault, Outcome, StepResult
from syncpod.node.cgroups import populated
from syncpod.node.log_links import links_directory
from syncpod.node.seen_exits import SeenExits
from syncpod.pod import ContainerKind, admit_ephemeral_container
from syncpod.translation.container_config import container_config
from syncpod.translation.sandbox_config import sandbox_config
from tests.activities.bench import Bench, PodOnBench, Running, bench_of, container, fault_of, until
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import NOBODY

DONE_AND_GONE = ("sh", "-c", "exit 7")


def reasons(result: StepResult) -> list[str]:
    return [event.reason for event in result.events]


async def configs(
    pod: PodOnBench, name: str = "main", restart: int = 0, kind: ContainerKind = "container"
) -> tuple[ContainerConfig, SandboxConfig]:
    """The configurations with which the step would call the runtime."""
    context = pod.bench.node.context
    spec = container_of(pod.pod, name)
    image = await pod.bench.cri.image_status(spec.image)
    config = container_config(
        pod.pod,
        spec,
        kind=kind,
        restart_count=restart,
        observed_image=image,
        pod_ips=("10.0.0.1",),
        node=context,
        incarnation=pod.incarnation,
        variables={},
    )
    config.ClearField("mounts")
    return config, sandbox_config(pod.pod, attempt=0, node=context, incarnation=pod.incarnation)


async def created_by_another(
    pod: PodOnBench, restart: int = 0, name: str = "main", kind: ContainerKind = "container"
) -> str:
    """Create a container by another client, without starting it."""
    config, sandbox = await configs(pod, name, restart, kind)
    return await pod.bench.cri.create_container(pod.sandbox_id, config, sandbox)


async def test_a_container_is_created_and_started_with_the_kubelets_events(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    result = await pod.start()
    [made] = result.status.containers
    assert (result.outcome, result.id) == (Outcome.DONE, made.id)
    assert (made.state, made.name, made.restart_count, made.incarnation) == ("running", "main", 0, "life-1")
    assert made.log_path == str(pod.logs / "main" / "0.log")
    assert [(each.type, each.reason, each.message, each.container) for each in result.events] == [
        (
            "Normal",
            "Pulled",
            'Container image "docker.io/library/busybox:1" already present on machine and can be accessed by the pod',
            "main",
        ),
        ("Normal", "Created", "Container created", "main"),
        ("Normal", "Started", "Container started", "main"),
    ]
    assert bench.agent.returned[-1] == result.status


async def test_a_repeated_start_adopts_the_container(bench: Bench) -> None:
    """Holds: Every step may run twice."""
    pod = bench.pod()
    await pod.create_sandbox()
    first, again = await pod.start(), await pod.start()
    assert (again.outcome, again.id) == (Outcome.ADOPTED, first.id)
    assert (len(again.status.containers), reasons(again)) == (1, ["Created", "Started"])


async def test_started_and_adopted_containers_have_a_log_link(bench: Bench) -> None:
    """Row 41: `/var/log/containers`."""
    pod = bench.pod()
    await pod.create_sandbox()
    id_ = (await pod.start()).id
    await pod.until_ready()
    links = links_directory(bench.node.context.log_dir)
    link = links / f"{pod.pod.metadata.name}_default_main-{id_}.log"
    assert link.read_text() == (pod.logs / "main" / "0.log").read_text() != ""
    link.unlink()  # as if the worker had died just before it made it
    assert (await pod.start()).outcome == Outcome.ADOPTED
    assert list(links.iterdir()) == [link]


async def test_a_container_starts_even_if_its_log_link_cannot_be_made(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    links = links_directory(bench.node.context.log_dir)
    links.touch()
    pod = bench.pod(container("a"), container("b"))
    await pod.create_sandbox()
    with caplog.at_level(logging.WARNING):
        for name in "ab":
            await pod.until_state((await pod.start(name)).id, "running")
    assert caplog.text.count(f"containers' logs have no links for log agents: File exists: {links}") == 1


@pytest.mark.parametrize("name", [StepName.START_INIT_CONTAINER, StepName.START_EPHEMERAL_CONTAINER])
async def test_repeated_starts_of_init_and_ephemeral_containers_adopt_them(bench: Bench, name: StepName) -> None:
    """Row 55: never two of one.

    Holds: Every step may run twice.
    """
    pod = bench.pod(initContainers=[container("setup")])
    debugger = admit_ephemeral_container(pod.pod, container("debug"))
    pod.pod = pod.pod.model_copy(update={"spec": pod.pod.spec.model_copy(update={"ephemeral_containers": (debugger,)})})
    await pod.create_sandbox()
    which = ("setup", "init_container") if name == StepName.START_INIT_CONTAINER else ("debug", "ephemeral_container")
    results = [await pod.step(name, pod.start_request(which[0], kind=which[1])).result() for _ in range(2)]
    assert [each.outcome for each in results] == [Outcome.DONE, Outcome.ADOPTED]
    assert [each.name for each in results[1].status.containers] == [which[0]]


async def test_a_start_whose_number_has_been_overtaken_adopts_the_later_instance(bench: Bench) -> None:
    """A workflow that was reset, or restored with its database, does not know of the later one, which runs."""
    pod = bench.pod()
    await pod.create_sandbox()
    later = await pod.start(restart=2)
    result = await pod.start(restart=1)
    assert (result.outcome, result.id) == (Outcome.ADOPTED, later.id)
    assert [(each.state, each.restart_count) for each in result.status.containers] == [("running", 2)]


async def test_a_start_whose_number_has_been_overtaken_adopts_a_later_instance_that_is_gone(bench: Bench) -> None:
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.create_sandbox()
    later = await pod.start(restart=2)
    await pod.until_state(later.id, "exited")
    await bench.cri.remove_container(later.id)
    result = await pod.start(restart=1)
    assert (result.outcome, result.id) == (Outcome.ADOPTED, later.id)
    assert [(each.state, each.restart_count) for each in result.status.containers] == [("exited", 2)]


async def test_a_later_instance_that_was_never_started_is_removed_and_the_requested_one_starts(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    await created_by_another(pod, restart=2)
    result = await pod.start(restart=1, attempt=2)
    assert result.outcome == Outcome.DONE
    assert [(each.state, each.restart_count) for each in result.status.containers] == [("running", 1)]


async def test_a_repeated_start_of_an_exited_container_returns_its_exit(bench: Bench) -> None:
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.create_sandbox()
    first = await pod.start()
    await pod.until_state(first.id, "exited")
    again = await pod.start()
    assert (again.outcome, again.id) == (Outcome.ADOPTED, first.id)
    assert [(each.state, each.exit_code) for each in again.status.containers] == [("exited", 7)]


async def test_an_init_container_that_ends_at_once_is_returned_with_its_exit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.containers.quick_end.LINGER_SECONDS", 30.0)
    pod = bench.pod(initContainers=[container("setup", command=DONE_AND_GONE)])
    await pod.create_sandbox()
    request = pod.start_request("setup", kind="init_container")
    result = await pod.step(StepName.START_INIT_CONTAINER, request).result()
    assert result.outcome == Outcome.DONE
    assert [(each.state, each.exit_code) for each in result.status.containers] == [("exited", 7)]


@pytest.mark.parametrize("announced_early", [False, True])
async def test_an_end_that_the_runtime_announces_is_returned_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, announced_early: bool
) -> None:
    """An announcement that comes before the runtime reports the end changes nothing: it is asked as before."""
    for name in ("LINGER_SECONDS", "_SELDOM_SECONDS"):
        monkeypatch.setattr(f"activities.containers.quick_end.{name}", 600.0)
    announcements, begun = bench.node.announcements, asyncio.Event()
    start = CriClient.start_container

    async def announced(self: CriClient, container_id: str) -> None:
        announcements.take(ContainerEvent(container_id, {}))
        await start(self, container_id)
        if announced_early:
            announcements.take(ContainerEvent(container_id, {}, is_end=True))
        begun.set()

    monkeypatch.setattr(CriClient, "start_container", announced)
    pod = bench.pod(initContainers=[container("setup", command=("sleep", "0.2"))])
    await pod.create_sandbox()
    step = pod.step(StepName.START_INIT_CONTAINER, pod.start_request("setup", kind="init_container"))
    await begun.wait()
    if not announced_early:
        (setup,) = (await pod.view()).containers
        await pod.until_state(setup.id, "exited")
        announcements.take(ContainerEvent(setup.id, {}, is_end=True))
    assert [each.state for each in (await step.result()).status.containers] == ["exited"]


async def test_the_report_of_an_end_is_awaited_longer_once_the_process_has_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def has_ended(pid: int, ended: Callable[[], None]) -> Iterator[None]:
        ended()
        yield

    for name, value in (("LINGER_SECONDS", 0.0), ("_REPORT_SECONDS", 60.0), ("listening", has_ended)):
        monkeypatch.setattr(f"activities.containers.quick_end.{name}", value)
    pod = bench.pod(initContainers=[container("setup", command=("sleep", "0.2"))])
    await pod.create_sandbox()
    result = await pod.step(StepName.START_INIT_CONTAINER, pod.start_request("setup", kind="init_container")).result()
    assert [each.state for each in result.status.containers] == ["exited"]


async def test_a_long_running_init_container_is_returned_as_running_and_a_sidecar_is_not_awaited(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sidecar = container("proxy", restartPolicy="Always")
    pod = bench.pod(initContainers=[container("setup"), sidecar])
    await pod.create_sandbox()
    for name, seconds in (("setup", 0.02), ("proxy", 1000.0)):
        monkeypatch.setattr("activities.containers.quick_end.LINGER_SECONDS", seconds)
        request = pod.start_request(name, kind="init_container")
        result = await pod.step(StepName.START_INIT_CONTAINER, request).result()
        assert result.status.containers[0].state == "running"


async def test_a_restart_is_a_new_instance_with_its_own_number_and_log(bench: Bench) -> None:
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.create_sandbox()
    first = await pod.start()
    await pod.until_state(first.id, "exited")
    second = await pod.start(restart=1)
    assert [each.restart_count for each in second.status.containers] == [1, 0]
    assert (pod.logs / "main" / "1.log").exists()


async def test_a_retry_waits_for_the_stalled_attempt_and_adopts_its_container(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    request = pod.start_request()
    with bench.runtime.gates.hold("runc-start") as gate:
        elder = pod.step(StepName.START_CONTAINER, request)
        await gate.reached()
        retry = pod.step(StepName.START_CONTAINER, request, attempt=2)
        await retry.goes_on("waits for its turn")
    made, adopted = await elder.result(), await retry.result()
    assert (made.outcome, adopted.outcome, adopted.id) == (Outcome.DONE, Outcome.ADOPTED, made.id)


async def test_a_container_created_by_a_crashed_attempt_is_recreated_with_the_same_number(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    left = await created_by_another(pod)
    result = await pod.start()
    assert result.outcome == Outcome.DONE
    assert result.id != left
    assert [(each.id, each.state, each.restart_count) for each in result.status.containers] == [
        (result.id, "running", 0)
    ]


async def test_a_start_by_another_client_is_awaited_and_adopted(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    created = await created_by_another(pod)
    with bench.runtime.gates.hold("runc-start") as gate:
        other = asyncio.create_task(bench.cri.start_container(created))
        await gate.reached()
        step = pod.step(StepName.START_CONTAINER, pod.start_request())
        await step.goes_on("waits for a start of main, restart 0 that is under way")
    await other
    result = await step.result()
    assert (result.outcome, result.id) == (Outcome.ADOPTED, created)
    assert [each.state for each in result.status.containers] == ["running"]


async def test_a_start_by_a_dead_client_is_awaited_and_becomes_an_unknown_exit(bench: Bench) -> None:
    """The runtime gives up such a start: CREATED for a while, then EXITED with a StartError. It may have run."""
    pod = bench.pod()
    await pod.create_sandbox()
    created = await created_by_another(pod)
    with bench.runtime.gates.hold("runc-start") as gate:
        dying = asyncio.create_task(bench.cri.start_container(created))
        await gate.reached()
        dying.cancel()
        await asyncio.wait({dying})
        step = pod.step(StepName.START_CONTAINER, pod.start_request())

        async def has_noticed() -> bool:
            return step.task.done() or any(said.startswith("waits for a start of main") for said in step.heartbeats)

        await until(has_noticed)
    result = await step.result()
    assert (result.outcome, result.id) == (Outcome.ADOPTED, created)
    assert [(each.state, each.exit_code, each.reason) for each in result.status.containers] == [
        ("exited", 137, "ContainerStatusUnknown")
    ]
    assert reasons(result)[-1] == "ContainerStatusUnknown"
    assert [each.state for each in (await pod.start(restart=1)).status.containers] == ["running", "exited"]


async def test_a_container_whose_create_call_timed_out_is_adopted_and_started(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    create, calls = bench.cri.create_container, []

    async def without_patience(*arguments: Any) -> str:
        calls.append(asyncio.ensure_future(create(*arguments)))
        if len(calls) == 1:
            await asyncio.sleep(0.002)  # the request is on its way; its answer will not be waited for
            raise DeadlineExceeded("create_container", "DEADLINE_EXCEEDED", "Deadline Exceeded")
        return await calls[-1]

    monkeypatch.setattr(bench.cri, "create_container", without_patience)
    result = await pod.start()
    assert (result.outcome, result.id) == (Outcome.DONE, await calls[0])
    assert [each.state for each in result.status.containers] == ["running"]
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_runtime_kill_between_create_and_start_counts_no_restart_and_leaves_one_container(
    runtime: Containerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench_of(runtime, tmp_path) as bench:
        pod = bench.pod()
        await pod.create_sandbox()
        create = bench.cri.create_container

        async def create_and_die(*arguments: Any) -> str:
            made = await create(*arguments)
            runtime.kill()
            return made

        monkeypatch.setattr(bench.cri, "create_container", create_and_die)
        with pytest.raises(ApplicationError) as lost:
            await pod.start()
        assert (lost.value.type, lost.value.non_retryable) == ("Unavailable", False)
        monkeypatch.undo()
        await bench.restart_runtime()
        result = await pod.start(attempt=2)
        assert [(each.state, each.restart_count) for each in result.status.containers] == [("running", 0)]


@contextlib.asynccontextmanager
async def forgotten_start(containerd: Containerd, tmp_path: Path, restart: int) -> AsyncIterator[PodOnBench]:
    """A pod whose runtime was killed during a start: the container ran, and is listed as created now."""
    async with bench_of(containerd, tmp_path) as bench:
        pod = bench.pod(container(command=("sh", "-c", "echo ready; sleep 600")))
        await pod.create_sandbox()
        with containerd.gates.hold("runc-started") as gate:
            first = pod.step(StepName.START_CONTAINER, pod.start_request(restart=restart))
            await gate.reached()
            await pod.until_ready(restart=restart)
            containerd.kill()
            with pytest.raises(ApplicationError):
                await first.result()
            await bench.restart_runtime()
            assert [each.state for each in (await pod.view()).containers] == ["created"]
            yield pod


@pytest.mark.every_runtime("what a runtime that died in a start knows of it is its own")
async def test_a_container_that_ran_is_not_started_again_after_a_runtime_kill_in_its_start(
    containerd: Containerd, tmp_path: Path
) -> None:
    """The runtime kills the process that it finds, and lists the container as created, as if it had never started."""
    async with forgotten_start(containerd, tmp_path, restart=0) as pod:
        [listed] = (await pod.view()).containers
        result = await pod.start(attempt=2)
        assert (result.outcome, result.id) == (Outcome.ADOPTED, listed.id)
        [lost] = result.status.containers
        assert (lost.state, lost.exit_code, lost.reason) == ("exited", 137, "ContainerStatusUnknown")
        assert (pod.logs / "main" / "0.log").read_text().count("ready") == 1
        assert populated(pod.bench.node.context, pod.uid, [listed.id]) == ()


async def test_a_pod_kill_counts_a_container_that_ran_before_a_runtime_kill_in_its_start(
    containerd: Containerd, tmp_path: Path
) -> None:
    """Its runtime lists it as created, so the kill removes it; its start was cancelled by the deletion."""
    async with forgotten_start(containerd, tmp_path, restart=4) as pod:
        [listed] = (await pod.view()).containers
        [lost] = (await pod.kill()).status.containers
        assert (lost.id, lost.restart_count, lost.reason) == (listed.id, 4, "ContainerStatusUnknown")


async def test_a_container_that_ended_while_the_runtime_was_down_is_not_started_again(
    runtime: Containerd, tmp_path: Path
) -> None:
    """1.6 keeps the exit code, 2.4 says 255."""
    async with bench_of(runtime, tmp_path) as bench:
        pod = bench.pod(container(command=("sh", "-c", "echo ready; sleep 1; exit 7")))
        await pod.create_sandbox()
        first = await pod.start()
        await pod.until_ready()
        await bench.restart_runtime(down_seconds=1.2)
        again = await pod.start()
        assert (again.outcome, again.id) == (Outcome.ADOPTED, first.id)
        [ended] = again.status.containers
        assert (ended.state, ended.exit_code) == ("exited", 255 if runtime.version.startswith("2.") else 7)


async def test_a_container_that_ran_and_was_removed_before_the_retry_is_not_recreated(bench: Bench) -> None:
    """Its end is reported as unknown, since nothing recorded it."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.create_sandbox()
    dead = [await pod.start(restart=restart) for restart in range(2)]
    for each in dead:
        await pod.until_state(each.id, "exited")
    await bench.cri.remove_container(dead[1].id)
    for attempt in (1, 2):
        again = await pod.start(restart=1, attempt=attempt)
        assert (again.outcome, again.id) == (Outcome.ADOPTED, dead[1].id)
        gone, former = again.status.containers
        assert (gone.id, gone.state, gone.exit_code, gone.reason) == (
            dead[1].id,
            "exited",
            137,
            "ContainerStatusUnknown",
        )
        assert (gone.restart_count, gone.sandbox_id, gone.incarnation) == (1, pod.sandbox_id, "life-1")
        assert (gone.started_at is not None, gone.finished_at, former.id) == (True, None, dead[0].id)
        assert reasons(again) == ["Created", "Started", "ContainerStatusUnknown"]
        assert [each.id for each in (await pod.view()).containers] == [dead[0].id]
    assert (await pod.start(restart=2)).outcome == Outcome.DONE


async def test_a_removed_container_whose_start_answer_was_lost_is_not_recreated(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.create_sandbox()
    start, started = bench.cri.start_container, []

    async def unanswered(container_id: str) -> None:
        await start(container_id)
        started.append(container_id)
        raise Unavailable("start_container", "UNAVAILABLE", "Socket closed")

    monkeypatch.setattr(bench.cri, "start_container", unanswered)
    with pytest.raises(ApplicationError):
        await pod.start()
    await pod.until_state(started[0], "exited")
    await bench.cri.remove_container(started[0])
    again = await pod.start(attempt=2)
    assert (again.outcome, again.id, len(started)) == (Outcome.ADOPTED, started[0], 1)


async def test_a_failed_start_of_a_container_that_may_have_run_uses_up_its_number(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shim died in the start. An init container would run again with the same number in the next sandbox."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.create_sandbox()
    start, started = bench.cri.start_container, []

    async def lost(container_id: str) -> None:
        await start(container_id)
        started.append(container_id)
        await pod.until_state(container_id, "exited")
        await bench.cri.remove_container(container_id)
        raise RuntimeFailure("start_container", "UNKNOWN", 'failed to start containerd task "ab": ttrpc: closed')

    monkeypatch.setattr(bench.cri, "start_container", lost)
    result = await pod.start()
    assert (result.outcome, result.id) == (Outcome.ADOPTED, started[0])
    assert reasons(result) == ["Pulled", "Created", "Started", "ContainerStatusUnknown"], "each once"
    [gone] = result.status.containers
    assert (gone.state, gone.exit_code, gone.reason) == ("exited", 137, "ContainerStatusUnknown")


async def test_a_pod_kill_reports_a_started_container_that_is_no_longer_listed(bench: Bench) -> None:
    """The start was cancelled by a deletion, and its runtime was killed: else it would be missing in the counts."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.create_sandbox()
    started = await pod.start(restart=3)
    await pod.until_state(started.id, "exited")
    await bench.cri.remove_container(started.id)
    [gone] = (await pod.kill()).status.containers
    assert (gone.id, gone.restart_count, gone.state, gone.reason) == (started.id, 3, "exited", "ContainerStatusUnknown")


async def test_a_removed_container_is_reported_with_its_recorded_exit(bench: Bench, tmp_path: Path) -> None:
    bench.node.reader.answers.exits = exits = SeenExits(tmp_path / "exits")
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.create_sandbox()
    first = await pod.start()
    await pod.until_state(first.id, "exited")
    exits.note(first.id, 7, at := datetime.now(UTC))
    await bench.cri.remove_container(first.id)
    again = await pod.start(attempt=2)
    assert [(each.exit_code, each.reason, each.finished_at) for each in again.status.containers] == [(7, "Error", at)]
    assert reasons(again) == ["Created", "Started"]
    await exits.settled()


async def test_a_removed_init_container_runs_again_only_in_another_sandbox(bench: Bench) -> None:
    pod = bench.pod(initContainers=[container("setup", command=DONE_AND_GONE)])
    outcomes = []
    for attempt in range(2):
        await pod.create_sandbox(attempt)
        for _ in range(2):
            request = pod.start_request("setup", kind="init_container", sandbox_attempt=attempt)
            result = await pod.step(StepName.START_INIT_CONTAINER, request).result()
            outcomes.append(result.outcome)
            if result.outcome == Outcome.DONE:
                await pod.until_state(result.id, "exited")
                await bench.cri.remove_container(result.id)
        await bench.cri.stop_pod_sandbox(pod.sandbox_id)
    assert outcomes == [Outcome.DONE, Outcome.ADOPTED] * 2


async def test_a_container_whose_start_never_reached_the_runtime_is_recreated_with_the_same_number(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    await pod.create_sandbox()

    async def never_sent(container_id: str) -> None:
        raise Unavailable("start_container", "UNAVAILABLE", "Connection refused")

    monkeypatch.setattr(bench.cri, "start_container", never_sent)
    with pytest.raises(ApplicationError):
        await pod.start()
    monkeypatch.undo()
    [left] = (await pod.view()).containers
    result = await pod.start(attempt=2)
    assert (result.outcome, left.state) == (Outcome.DONE, "created")
    assert [(each.id, each.state, each.restart_count) for each in result.status.containers] == [
        (result.id, "running", 0)
    ]


async def test_a_container_that_never_ran_may_be_recreated_once_it_is_removed(bench: Bench) -> None:
    pod = bench.pod(container(command=("/no/such/program",)))
    await pod.create_sandbox()
    for _ in range(2):
        fault, _, detail = await fault_of(pod.start())
        [failed] = detail.status.containers
        assert (fault, failed.state, failed.reason) == (Fault.RUN_CONTAINER_ERROR, "exited", "StartError")
        await bench.cri.remove_container(failed.id)


async def test_a_start_found_in_progress_is_recorded_even_if_it_cannot_be_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.create_sandbox()
    start, calls = bench.cri.start_container, []

    async def without_patience(container_id: str) -> None:
        calls.append(asyncio.ensure_future(start(container_id)))
        await gate.reached()
        raise DeadlineExceeded("start_container", "DEADLINE_EXCEEDED", "Deadline Exceeded")

    monkeypatch.setattr(bench.cri, "start_container", without_patience)
    with bench.runtime.gates.hold("runc-start") as gate:
        with pytest.raises(ApplicationError):
            await pod.start()
        [starting] = (await pod.view()).containers
        retry = pod.step(StepName.START_CONTAINER, pod.start_request(), attempt=2)
        await until(lambda: refused(retry))
    await asyncio.gather(*calls)
    assert ((await retry.result()).outcome, len(calls)) == (Outcome.ADOPTED, 1)
    await pod.until_state(starting.id, "exited")
    await bench.cri.remove_container(starting.id)
    again = await pod.start(attempt=3)
    assert (again.outcome, again.id) == (Outcome.ADOPTED, starting.id)


async def refused(step: Running) -> bool:
    """Whether a step waits because the runtime refuses to remove a container that is being started."""
    assert not step.task.done()
    return any("under way" in said for said in step.heartbeats)


async def test_a_container_is_not_started_if_its_start_mark_cannot_be_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    await pod.create_sandbox()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("activities.containers.noted_starts.write_start_mark", full)
    fault, error, detail = await fault_of(pod.start())
    assert (fault, detail.status.containers) == (Fault.RUN_CONTAINER_ERROR, ())
    assert error.message == "its start cannot be noted on the node: No space left on device"
    assert reasons(detail)[-1] == "Failed"
    monkeypatch.undo()
    assert (await pod.start()).outcome == Outcome.DONE


async def test_start_marks_of_an_earlier_pod_with_the_same_uid_are_ignored(bench: Bench) -> None:
    earlier = bench.pod(container(command=DONE_AND_GONE), incarnation="life-1")
    await earlier.create_sandbox()
    theirs = await earlier.start()
    await earlier.until_state(theirs.id, "exited")
    await bench.cri.remove_container(theirs.id)
    later = bench.pod(uid=earlier.uid, incarnation="life-2")
    later.pod, later.sandbox_id = earlier.pod, earlier.sandbox_id
    assert (await later.start()).outcome == Outcome.DONE


async def test_a_start_with_an_absent_image_asks_for_a_pull(bench: Bench) -> None:
    pod = bench.pod(container(image="localhost:1/absent"))
    await pod.create_sandbox()
    result = await pod.start()
    assert (result.outcome, result.status.containers, result.events) == (Outcome.IMAGE_ABSENT, (), ())


async def test_a_start_with_an_absent_image_and_policy_never_is_a_fault(bench: Bench) -> None:
    pod = bench.pod(container(image="localhost:1/absent:1", imagePullPolicy="Never"))
    await pod.create_sandbox()
    fault, error, detail = await fault_of(pod.start())
    said = 'Container image "localhost:1/absent:1" is not present with pull policy of Never'
    assert (fault, error.message) == (Fault.ERR_IMAGE_NEVER_PULL, said)
    assert [(each.reason, each.message) for each in detail.events] == [
        ("ErrImageNeverPull", said),
        ("Failed", "Error: ErrImageNeverPull"),
    ]


async def test_an_invalid_container_config_is_a_fault_before_anything_is_created(bench: Bench) -> None:
    pod = bench.pod(container(image=NOBODY, securityContext={"runAsNonRoot": True}))
    await pod.create_sandbox()
    fault, error, detail = await fault_of(pod.start())
    assert fault == Fault.CREATE_CONTAINER_CONFIG_ERROR
    assert reasons(detail) == ["Pulled", "Failed"]
    assert detail.events[-1].message == f"Error: {error.message}"
    assert "non-numeric user (nobody)" in error.message
    assert detail.status.containers == ()


async def test_an_ephemeral_container_with_a_missing_target_is_a_config_error(bench: Bench) -> None:
    """Row 55: CreateContainerConfigError until the target exists."""
    pod = bench.pod()
    debugger = admit_ephemeral_container(pod.pod, container("debug", targetContainerName="main"))
    pod.pod = pod.pod.model_copy(update={"spec": pod.pod.spec.model_copy(update={"ephemeral_containers": (debugger,)})})
    await pod.create_sandbox()
    request = pod.start_request("debug", kind="ephemeral_container")
    fault, error, _ = await fault_of(pod.step(StepName.START_EPHEMERAL_CONTAINER, request).result())
    assert (fault, error.message) == (
        Fault.CREATE_CONTAINER_CONFIG_ERROR,
        "unable to find target container main",
    )
    await pod.start()
    request = pod.start_request("debug", kind="ephemeral_container")
    assert (await pod.step(StepName.START_EPHEMERAL_CONTAINER, request).result()).outcome == Outcome.DONE


async def test_a_refused_create_is_a_fault(bench: Bench) -> None:
    absent = {"seccompProfile": {"type": "Localhost", "localhostProfile": "absent.json"}}
    pod = bench.pod(container(securityContext=absent))
    await pod.create_sandbox()
    fault, error, detail = await fault_of(pod.start())
    assert fault == Fault.CREATE_CONTAINER_ERROR
    assert reasons(detail) == ["Pulled", "Failed"]
    assert detail.events[-1].message == f"Error: {error.message}"
    assert detail.status.containers == ()


@pytest.mark.every_runtime("what may be made in a stopped sandbox depends on its version", each_containerd=True)
async def test_a_start_in_a_stopped_sandbox_is_a_fault(bench: Bench) -> None:
    """containerd 2.3 makes the container and does not start it, the others do not make it."""
    pod = bench.pod()
    await pod.create_sandbox()
    await bench.cri.stop_pod_sandbox(pod.sandbox_id)
    await pod.until_dead(pod.sandbox_id)
    fault, _, detail = await fault_of(pod.start())
    made = bench.runtime.series == "2.3"
    assert fault == (Fault.RUN_CONTAINER_ERROR if made else Fault.CREATE_CONTAINER_ERROR)
    assert reasons(detail) == ["Pulled", *(["Created"] if made else []), "Failed"]
    assert detail.status.containers == ()
    assert [each.ready for each in detail.status.sandboxes] == [False]


async def test_a_failed_start_is_a_fault_and_an_exit(bench: Bench) -> None:
    """As with a kubelet: the dead instance stays, each attempt has an event, and the next instance has a new number."""
    pod = bench.pod(container(command=("/no/such/program",)))
    await pod.create_sandbox()
    fault, error, detail = await fault_of(pod.start())
    assert fault == Fault.RUN_CONTAINER_ERROR
    assert "no such file or directory" in error.message
    assert reasons(detail) == ["Pulled", "Created", "Failed"]
    assert detail.events[-1].message == f"Error: {error.message}"
    assert [(each.state, each.exit_code, each.reason) for each in detail.status.containers] == [
        ("exited", 128, "StartError")
    ]
    again, _, detail = await fault_of(pod.start(attempt=2))
    assert (again, len(detail.status.containers)) == (Fault.RUN_CONTAINER_ERROR, 1)
    pod.pod = bench.pod(name=pod.pod.metadata.name, uid=pod.uid).pod
    assert (await pod.start(restart=1)).outcome == Outcome.DONE


async def test_a_cancelled_start_returns_the_container_already_requested(bench: Bench) -> None:
    """Holds: A call to the runtime is never cut off."""
    pod = bench.pod()
    await pod.create_sandbox()
    with bench.runtime.gates.hold("runc-start") as gate:
        step = pod.step(StepName.START_CONTAINER, pod.start_request())
        await gate.reached()
        step.cancel()
        await step.goes_on("starts main")
    result = await step.result()
    assert result.outcome == Outcome.DONE
    assert [each.state for each in result.status.containers] == ["running"]


async def test_a_step_cancelled_before_it_creates_creates_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    look = bench.node.images.status

    async def look_and_cancel(image: str) -> Any:
        step.cancel()
        return await look(image)

    monkeypatch.setattr(bench.node.images, "status", look_and_cancel)
    step = pod.step(StepName.START_CONTAINER, pod.start_request())
    result = await step.result()
    assert (result.outcome, result.status.containers) == (Outcome.CANCELLED, ())


async def test_a_step_cancelled_between_create_and_start_removes_what_it_created(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holds: A call to the runtime is never cut off."""
    pod = bench.pod()
    await pod.create_sandbox()
    create = bench.cri.create_container

    async def create_and_cancel(*arguments: Any) -> str:
        step.cancel()
        return await create(*arguments)

    monkeypatch.setattr(bench.cri, "create_container", create_and_cancel)
    step = pod.step(StepName.START_CONTAINER, pod.start_request())
    result = await step.result()
    assert (result.outcome, result.status.containers) == (Outcome.CANCELLED, ())


async def test_a_container_of_an_earlier_pod_with_the_same_uid_is_neither_adopted_nor_touched(bench: Bench) -> None:
    earlier = bench.pod(incarnation="life-1")
    await earlier.create_sandbox()
    theirs = await earlier.start()
    later = bench.pod(uid=earlier.uid, incarnation="life-2")
    later.pod, later.sandbox_id = earlier.pod, earlier.sandbox_id
    fault, error, _ = await fault_of(later.start())
    assert fault == Fault.CREATE_CONTAINER_ERROR
    assert f"container {theirs.id}, which is of an earlier pod with the same UID" in error.message
    assert (await later.listed(theirs.id)).state == "running"


async def test_a_foreign_container_is_neither_adopted_nor_touched(bench: Bench) -> None:
    """Holds: Only sandboxes and containers with our label are touched."""
    pod = bench.pod()
    await pod.create_sandbox()
    config, sandbox = await configs(pod)
    del config.labels["syncpod.dev/node"]
    stranger = await bench.cri.create_container(pod.sandbox_id, config, sandbox)
    await bench.cri.start_container(stranger)
    fault, error, detail = await fault_of(pod.start())
    assert fault == Fault.CREATE_CONTAINER_ERROR
    assert f"container {stranger}, which is not managed by syncpod" in error.message
    assert detail.status.containers == ()
    assert (await bench.cri.container_status(stranger)).container.state == "running"


async def test_a_start_removes_older_dead_instances_and_their_logs(bench: Bench) -> None:
    """Row 108: of the dead instances of a container the newest stays."""
    pod = bench.pod(container(command=DONE_AND_GONE), container("other"))
    await pod.create_sandbox()
    dead = [await pod.start(restart=restart) for restart in range(2)]
    for each in dead:
        await pod.until_state(each.id, "exited")
    (pod.logs / "main" / "0.log.20260101-000000.gz").write_text("rotated")
    other = await pod.start("other")
    result = await pod.start(restart=2, prune=(dead[0].id, other.id))
    assert {each.id for each in result.status.containers} == {dead[1].id, other.id, result.id}
    assert sorted(each.name for each in (pod.logs / "main").iterdir()) == ["1.log", "2.log"]
