"""Removal of dead containers and of a pod's remains, with all their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.steps import KillTarget, Outcome
from syncpod.node.log_links import links_directory
from syncpod.node.tombstones import write_tombstone
from tests.activities.bench import DEAF, Bench, PodOnBench, container
from tests.activities.test_start_container import DONE_AND_GONE, created_by_another


async def exited(pod: PodOnBench, name: str = "main", restart: int = 0) -> str:
    """Run a container of the pod to its end; return its id."""
    if not pod.sandbox_id:
        await pod.create_sandbox()
    started = await pod.start(name, restart)
    await pod.until_state(started.id, "exited")
    return started.id


# --- remove_container -------------------------------------------------------------------------------------------------


async def test_a_dead_container_is_removed_with_its_logs(bench: Bench) -> None:
    """Row 112: logs go first, the rotated ones too."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    first, second = await exited(pod), await exited(pod, restart=1)
    (pod.logs / "main" / "0.log.20260101-000000").write_text("rotated")
    result = await pod.remove_containers(first)
    assert (result.outcome, [each.id for each in result.status.containers]) == (Outcome.DONE, [second])
    assert [each.name for each in (pod.logs / "main").iterdir()] == ["1.log"]
    links = links_directory(bench.node.context.log_dir)
    assert [each.name.endswith(f"_main-{second}.log") for each in links.iterdir()] == [True]
    await pod.kill()
    await pod.remove()
    assert list(links.iterdir()) == []


async def test_a_repeated_container_removal_succeeds(bench: Bench) -> None:
    """Holds: Every step may run twice."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    dead = await exited(pod)
    await pod.remove_containers(dead)
    again = await pod.remove_containers(dead)
    assert (again.outcome, again.status.containers) == (Outcome.DONE, ())


async def test_a_kill_does_not_report_again_what_the_workflow_had_removed(bench: Bench) -> None:
    """Row 75: after a restart of all containers, its end would ask for another one."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.remove_containers(await exited(pod), keep_logs=True)
    assert (await pod.kill()).status.containers == ()


async def test_logs_are_kept_if_the_request_says_so(bench: Bench) -> None:
    """Row 112: a restart of all containers keeps them."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    await pod.remove_containers(await exited(pod), keep_logs=True)
    assert (pod.logs / "main" / "0.log").exists()


async def test_a_container_to_be_killed_is_stopped_before_its_removal(bench: Bench) -> None:
    pod = bench.pod(container("a"), container("b", command=DEAF))
    await pod.create_sandbox()
    ids = tuple([(await pod.start(name)).id for name in "ab"])
    for name in "ab":
        await pod.until_ready(name)
    result = await pod.remove_containers(*ids, kill=ids)
    assert result.status.containers == ()
    assert sorted(each.message for each in result.events) == ["Stopping container a", "Stopping container b"]


async def test_the_journal_has_the_end_of_a_container_that_a_removal_stops(bench: Bench) -> None:
    """No listing shows the container as ended; the workflow learns its end from the step's result."""
    pod = bench.pod(container("asks", command=DONE_AND_GONE), container("other"))
    asked = await exited(pod, "asks")
    running = (await pod.start("other")).id
    result = await pod.remove_containers(running, asked, kill=(running,), keep_logs=True, message="all", cause="rule")
    (end,), (stopped,) = bench.agent.ends, result.stopped
    assert (stopped.id, stopped.restart, stopped.exit_code, stopped.reason) == (running, 0, end.exit_code, end.reason)
    assert (end.container, end.restart, end.id) == ("other", 0, running)
    assert (end.cause, end.killed_by) == ("all", "rule")
    assert end.started_at is not None
    assert end.ended_at is not None
    assert end.ended_at >= end.started_at


async def test_a_running_container_is_not_removed_without_a_kill(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    running = (await pod.start()).id
    result = await pod.remove_containers(running)
    assert [(each.id, each.state) for each in result.status.containers] == [(running, "running")]


async def test_a_container_that_was_never_started_is_removed(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    assert (await pod.remove_containers(await created_by_another(pod))).status.containers == ()


async def test_a_log_path_outside_the_logs_of_the_node_is_left_alone(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod(container(command=DONE_AND_GONE))
    dead = await exited(pod)
    precious = tmp_path / "precious.log"
    precious.write_text("keep me")
    read = bench.node.reader.read

    async def read_with_another_path(uid: str, *, made: Any = None) -> Any:
        view = await read(uid, made=made)
        moved = tuple(each.model_copy(update={"log_path": str(precious)}) for each in view.containers)
        return view.model_copy(update={"containers": moved})

    monkeypatch.setattr(bench.node.reader, "read", read_with_another_path)
    await pod.remove_containers(dead)
    assert precious.read_text() == "keep me"


# --- a pod's remains --------------------------------------------------------------------------------------------------


async def test_nothing_of_a_removed_pod_is_left(bench: Bench) -> None:
    """Row 22: volumes, directories, cgroups, logs."""
    volumes: dict[str, Any] = {"volumes": [{"name": "scratch", "emptyDir": {}}], "hostNetwork": False}
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    pod = bench.pod(
        container(
            "main", command=("sh", "-c", "echo hello > /scratch/file; mkdir -p /scratch/a/b"), volumeMounts=mounts
        ),
        container("other"),
        **volumes,
    )
    await exited(pod)
    other = (await pod.start("other")).id
    await pod.until_ready("other")
    assert pod.cgroups()
    assert (pod.directory / "volumes" / "kubernetes.io~empty-dir" / "scratch" / "file").exists()
    await pod.kill(KillTarget(id=other, name="other"))
    assert await pod.remove()
    view = await pod.view()
    assert (view.sandboxes, view.containers) == ((), ())
    assert not pod.directory.exists()
    assert not pod.logs.exists()
    assert pod.cgroups() == []


async def test_a_sandbox_that_a_kill_has_stopped_is_not_stopped_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second stop would run the plugins of its network again, which takes as long as all else of a removal."""
    pod = bench.pod(container(command=DONE_AND_GONE))
    await exited(pod)
    await pod.kill()
    stops: list[str] = []
    stop = bench.node.cri.stop_pod_sandbox

    async def noted(sandbox_id: str) -> None:
        stops.append(sandbox_id)
        await stop(sandbox_id)

    monkeypatch.setattr(bench.node.cri, "stop_pod_sandbox", noted)
    assert await pod.remove(pod.sandbox_id)
    assert ((await pod.view()).sandboxes, stops) == ((), [])


async def test_a_repeated_pod_removal_succeeds(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    await pod.kill()
    for _ in range(2):
        assert await pod.remove()
    assert not pod.directory.exists()


async def test_removing_an_unknown_pod_succeeds(bench: Bench) -> None:
    assert await bench.pod().remove()


async def test_a_pod_with_a_container_in_unknown_state_is_not_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    running = (await pod.start()).id
    read = bench.node.reader.read

    async def of_unknown_state(uid: str, *, made: Any = None) -> ObservedPod:
        view = await read(uid, made=made)
        containers = tuple(each.model_copy(update={"state": "unknown"}) for each in view.containers)
        return view.model_copy(update={"containers": containers})

    with monkeypatch.context() as lost:
        lost.setattr(bench.node.reader, "read", of_unknown_state)
        assert not await pod.remove()
    assert (await pod.listed(running)).state == "running"


async def test_what_came_to_life_after_its_pods_end_is_ended_politely_also_in_unknown_state(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    await pod.start()
    await pod.until_ready()
    write_tombstone(bench.node.context, pod.uid, pod.incarnation)
    read = bench.node.reader.read

    async def of_unknown_state(uid: str, *, made: Any = None) -> ObservedPod:
        view = await read(uid, made=made)
        lost = {"running": "unknown"}
        containers = tuple(
            each.model_copy(update={"state": lost.get(each.state, each.state)}) for each in view.containers
        )
        return view.model_copy(update={"containers": containers})

    monkeypatch.setattr(bench.node.reader, "read", of_unknown_state)
    assert await pod.remove()
    first, *again = bench.agent.ends
    assert first.exit is not None and (first.exit_code, first.exit.killed_by) == (3, KillCause.DELETED)
    assert {each.id for each in again} <= {first.id}, "a later note is of the same end"


async def test_a_pod_with_a_running_container_is_not_removed(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    running = (await pod.start()).id
    assert not await pod.remove()
    assert (await pod.listed(running)).state == "running"
    assert pod.directory.is_dir()


async def test_removal_of_a_pod_covers_dead_and_ready_sandboxes(bench: Bench) -> None:
    """Rows 110 and 111: with the pod go its sandboxes."""
    pod = bench.pod()
    await bench.cri.stop_pod_sandbox((await pod.create_sandbox()).id)
    await pod.create_sandbox(attempt=1)
    await created_by_another(pod)
    assert not await pod.remove(), "its life is not known to be over"
    write_tombstone(bench.node.context, pod.uid, pod.incarnation)
    assert await pod.remove()
    view = await pod.view()
    assert (view.sandboxes, view.containers) == ((), ())
