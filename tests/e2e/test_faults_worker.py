"""After `kill -9` of a worker at any time, the next worker continues, and nothing is done twice.

Holds: No instance starts twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel.pidfd_info import reports_exits
from syncpod.translation.names import NODE_LABEL
from tests.agent.waiting import until as until_true
from tests.e2e.faults_support import DEAF, FaultyNode, Pod, ended, held, open_to_all, shell, until
from tests.e2e.words import say, waits_for
from tests.runtimes.selection import ALL, asked_for
from tests.workflows.scripted import container

log = logging.getLogger("faults")

CROWD = 20 if asked_for() == ALL else 9
"""The number of starting pods when a worker is killed, which is more than it starts at the same time."""


# --- where a start can be interrupted ---------------------------------------------------------------------------------

WITHIN_A_CALL = {
    "while CNI makes the sandbox's network": "cni-add",
    "while runc creates the pause container": "runc-create",
    "while runc starts the pause container": "runc-start",
}
BETWEEN_CALLS = {
    "before RunPodSandbox": ("RunPodSandbox", "before"),
    "after RunPodSandbox, its answer lost": ("RunPodSandbox", "after"),
    "between sandbox and first container": ("CreateContainer", "before"),
    "after CreateContainer, its answer lost": ("CreateContainer", "after"),
    "between create and start": ("StartContainer", "before"),
    "after StartContainer, its answer lost": ("StartContainer", "after"),
}
POINTS: dict[str, Any] = {**WITHIN_A_CALL, **(BETWEEN_CALLS if asked_for() == ALL else {})}
"""The points at which a worker is killed; a usual run has those between calls only in the tests of crash points."""


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS.keys())
async def test_a_pod_starts_once_after_a_worker_kill_during_its_start(node: FaultyNode, point: Any) -> None:
    with held(node, point) as stop:
        pod = await node.apply(hostNetwork=False)
        await stop.reached()
        await node.kill()
    since = await node.serve()
    await pod.running()
    await pod.assert_whole()
    await node.went_on(pod, since)
    await pod.delete()


@pytest.mark.parametrize("point", ["runc-create", "runc-start"])
async def test_a_container_is_not_doubled_by_a_worker_kill_while_runc_makes_it(node: FaultyNode, point: str) -> None:
    with node.proxy.stop("CreateContainer", "after") as created:
        pod = await node.apply()
        await created.reached()
        # The pause container has passed this point; the pod's own container comes next.
        with node.runtime.gates.hold(point) as gate:
            created.open()
            await gate.reached()
            await node.kill()
    since = await node.serve()
    # The first of two starts. The process may have begun, which counts as an unseen exit.
    restarts = {"a": 1 if point == "runc-start" else 0}
    await pod.running(**restarts)
    await pod.assert_whole(**restarts)
    await node.went_on(pod, since)
    await pod.delete()


async def test_a_start_blocked_beyond_the_next_workers_boot_is_done_once(node: FaultyNode) -> None:
    with node.runtime.gates.hold("cni-add") as gate:
        pod = await node.apply(hostNetwork=False)
        await gate.reached()
        await node.kill()
        await node.serve()
        # The first call ended with its caller. The second call gets the name, and reaches the same point.
        await gate.reached(2)
    await pod.running()
    await pod.assert_whole()
    await pod.delete()


async def test_a_pod_starts_once_after_repeated_worker_kills(node: FaultyNode) -> None:
    with contextlib.ExitStack() as held_all:
        calls = ("RunPodSandbox", "CreateContainer", "StartContainer")
        places = [held_all.enter_context(held(node, (call, "after"))) for call in calls]
        pod = await node.apply()
        for place in places:
            await place.reached()
            await node.kill()
            place.open()
            since = await node.serve()
    await pod.running()
    await pod.assert_whole()
    await node.went_on(pod, since)
    await pod.delete()


@pytest.mark.every_runtime("what a dead worker's calls leave behind depends on the runtime")
@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
async def test_a_removed_container_is_not_started_again_after_a_worker_kill(
    node: FaultyNode, policy: str, tmp_path: Path
) -> None:
    """The runtime no longer lists it, and the workflow does not know its end yet, but the node does."""
    out = tmp_path / "out"
    open_to_all(out)
    runs = f"echo run >>{out}/runs"
    mount = {"volumeMounts": [{"name": "out", "mountPath": str(out)}]}
    volumes = [{"name": "out", "hostPath": {"path": str(out)}}]
    with held(node, ("StartContainer", "after")) as stop:
        pod = await node.apply(shell("once", runs, **mount), restartPolicy=policy, volumes=volumes)
        await stop.reached()
        await until(lambda: ended(pod, "once"))
        await node.kill()
        (dead,) = await pod.containers()
        await node.cri.remove_container(dead.id)
    since = await node.serve()
    phase = "Failed" if policy == "Never" else "Succeeded"
    final = await pod.until(lambda pod: pod.get("status", {}).get("phase") == phase)
    status = container(final, "once")
    lost = status["state" if policy == "Never" else "lastState"]["terminated"]
    assert (lost["exitCode"], lost["reason"]) == (137, "ContainerStatusUnknown")
    assert (lost["containerID"].partition("://")[2], status["restartCount"]) == (dead.id, int(policy != "Never"))
    assert (out / "runs").read_text().split() == ["run"] * (1 if policy == "Never" else 2)
    await node.went_on(pod, since)
    await pod.delete()


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
async def test_an_unregistered_process_counts_as_run_after_a_worker_kill(
    node: FaultyNode, policy: str, tmp_path: Path
) -> None:
    """The runtime ends a process whose caller has died, and lists it as never started. But it has run."""
    out = tmp_path / "out"
    open_to_all(out)
    runs = f"echo run >>{out}/runs; [ $(wc -l <{out}/runs) -gt 1 ] || sleep 600"
    mount = {"volumeMounts": [{"name": "out", "mountPath": str(out)}]}
    volumes = [{"name": "out", "hostPath": {"path": str(out)}}]
    with node.proxy.stop("CreateContainer", "after") as created:
        pod = await node.apply(shell("once", runs, **mount), restartPolicy=policy, volumes=volumes)
        await created.reached()
        with node.runtime.gates.hold("runc-started") as gate:
            created.open()
            await gate.reached()
            await until(lambda: asyncio.to_thread((out / "runs").exists))
            (first,) = await pod.containers()
            await node.kill()
    since = await node.serve()
    phase = "Failed" if policy == "Never" else "Succeeded"
    final = await pod.until(lambda pod: pod.get("status", {}).get("phase") == phase)
    status = container(final, "once")
    lost = status["state" if policy == "Never" else "lastState"]["terminated"]
    assert (lost["exitCode"], lost["reason"]) == (137, "ContainerStatusUnknown")
    assert (lost["containerID"].partition("://")[2], status["restartCount"]) == (first.id, int(policy != "Never"))
    assert (out / "runs").read_text().split() == ["run"] * (1 if policy == "Never" else 2)
    await node.went_on(pod, since)
    await pod.delete()


@pytest.mark.skipif(not reports_exits(), reason="needs Linux 6.15")
@pytest.mark.parametrize(("kind", "code"), [("init", 0), ("init", 3), ("main", 0)])
async def test_an_unregistered_process_that_has_ended_is_reported_with_its_exit_code(
    node: FaultyNode, kind: str, code: int, tmp_path: Path
) -> None:
    """Its runtime lists it as never started, and forgets its exit code. But the worker had it from the kernel."""
    out = tmp_path / "out"
    open_to_all(out)
    mount = {"volumeMounts": [{"name": "out", "mountPath": str(out)}]}
    once = shell("once", f"echo run >>{out}/runs; exit {code}", **mount)
    spec: dict[str, Any] = {"volumes": [{"name": "out", "hostPath": {"path": str(out)}}], "restartPolicy": "Never"}
    with node.proxy.stop("CreateContainer", "after") as created:
        pod = await (
            node.apply(shell("main", "exit 0"), initContainers=[once], **spec)
            if kind == "init"
            else node.apply(once, **spec)
        )
        await created.reached()
        with node.runtime.gates.hold("runc-start") as made, node.runtime.gates.hold("runc-started") as begun:
            created.open()
            await made.reached()
            (first,) = await pod.containers()
            await until_true(lambda: watches(node.worker.pid, first.id))
            made.open()
            await begun.reached()
            await until_true((node.directory / "state" / "exits" / first.id).exists)
            await node.kill()
    since = await node.serve()
    phase = "Failed" if code else "Succeeded"
    final = await pod.until(lambda pod: pod.get("status", {}).get("phase") == phase)
    [status] = final["status"]["initContainerStatuses" if kind == "init" else "containerStatuses"]
    ended = status["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, "Error" if code else "Completed")
    assert (ended["containerID"].partition("://")[2], status["restartCount"]) == (first.id, 0)
    assert "message" not in ended
    assert (out / "runs").read_text().split() == ["run"]
    await node.went_on(pod, since)
    await pod.delete()


def watches(worker: int, container_id: str) -> bool:
    """Return whether the worker holds a pidfd of a process of this container."""
    for info in Path(f"/proc/{worker}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            pid = next((line.split()[1] for line in info.read_text().splitlines() if line.startswith("Pid:")), "-1")
            if int(pid) > 0 and container_id in Path(f"/proc/{pid}/cgroup").read_text():
                return True
    return False


# --- after the start --------------------------------------------------------------------------------------------------


async def test_a_back_off_is_kept_across_a_worker_kill(node: FaultyNode) -> None:
    pod = await node.apply(shell("a"), shell("crashes", "exit 3"))
    await pod.until(lambda seen: waits(seen, "crashes", restarts=1))
    await node.kill()
    since = await node.serve()
    # The deadline is the workflow's: nothing starts earlier, and the wait does not begin again.
    await pod.until(lambda seen: waits(seen, "crashes", restarts=2))
    holds = [line["reason"] for line in await pod.history("hold") if "crashes" in (line["subject"], line["container"])]
    assert [reason.split()[1] for reason in holds] == ["10s:", "20s:"], holds
    await node.went_on(pod, since)
    await pod.delete()


def waits(pod: dict[str, Any], name: str, *, restarts: int) -> bool:
    """Return whether a container is in its crash-loop back-off after this many restarts."""
    status = container(pod, name)
    waiting = status.get("state", {}).get("waiting", {}).get("reason")
    return bool(waiting == "CrashLoopBackOff" and status["restartCount"] == restarts)


@pytest.mark.every_runtime("what a dead worker's calls leave behind depends on the runtime")
async def test_a_grace_period_is_kept_across_a_worker_kill(node: FaultyNode) -> None:
    # It ignores SIGTERM, so only the SIGKILL after the grace period ends it, which a stop that is cut off never sends.
    pod = await node.apply(shell("a"), shell("deaf", DEAF))
    await pod.up()
    await pod.handle.signal("delete_pod", {"gracePeriodSeconds": 6})
    await until(lambda: ended(pod, "a"))
    await node.kill()
    since = await node.serve()
    final = await pod.gone()
    deaf = container(final, "deaf")["state"]["terminated"]
    assert deaf["exitCode"] == 137
    assert container(final, "a")["state"]["terminated"]["exitCode"] == 0
    (killed,) = [line for line in await pod.history() if line["subject"] == "kill_pod"]
    log.info("%s: a grace of 6 s took %d ms over two workers", node.runtime.name, killed["tookMs"])
    await node.went_on(pod, since)


@pytest.mark.parametrize(
    "point",
    [
        "runc-kill",
        "runc-delete",
        ("StopContainer", "before"),
        ("StopContainer", "after"),
        "cni-del",
        ("StopPodSandbox", "after"),
    ],
    ids=str,
)
async def test_a_deletion_completes_after_a_worker_kill(node: FaultyNode, point: Any) -> None:
    # One container: if a stop is cut off within milliseconds, containerd 1.6 loses its SIGTERM and sends no other.
    pod = await node.apply(shell("a"), hostNetwork=False)
    await pod.up()
    with held(node, point) as stop:
        await pod.handle.signal("delete_pod", {})
        await stop.reached()
        await node.kill()
    since = await node.serve()
    final = await pod.gone()
    assert final["status"]["phase"] == "Succeeded"
    await node.went_on(pod, since)


@pytest.mark.parametrize(
    "point", [("RemoveContainer", "after"), ("RemovePodSandbox", "before"), ("RemovePodSandbox", "after")], ids=str
)
async def test_the_next_worker_removes_what_a_killed_one_had_still_to_remove(node: FaultyNode, point: Any) -> None:
    """The pod's workflow has ended already, or ends without any further step."""
    pod = await node.apply(shell("a"), hostNetwork=False)
    await pod.up()
    with held(node, point) as stop:
        await pod.handle.signal("delete_pod", {})
        await stop.reached()
        await node.kill()
    await node.serve()
    final = await pod.gone()
    assert final["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize("point", [("RemoveContainer", "before"), ("RemovePodSandbox", "after")], ids=str)
async def test_the_next_worker_removes_an_orphan_that_a_killed_one_had_still_to_remove(
    node: FaultyNode, point: Any
) -> None:
    """Its tombstone shows that its life is over; the next worker looks for orphans only much later."""
    pod = await node.apply(shell("a"), hostNetwork=False)
    await pod.up()
    uid = (await pod.running())["metadata"]["uid"]
    await node.kill()
    await node.serve(SYNCPOD_ORPHANS_PERIOD="300ms")
    with held(node, point) as stop:
        await pod.handle.terminate()
        await stop.reached()
        await node.kill()
    await node.serve(SYNCPOD_ORPHANS_PERIOD="10m")
    await pod.removed(uid)


async def test_a_deletion_requested_without_a_worker_is_done_by_the_next_one(node: FaultyNode) -> None:
    pod = await node.apply()
    await pod.running()
    await node.kill()
    await pod.handle.signal("delete_pod", {})
    await node.serve()
    await pod.gone()


async def test_a_pod_applied_without_a_worker_is_started_by_the_next_one(node: FaultyNode) -> None:
    await node.kill()
    pod = await node.apply()
    await node.serve()
    await pod.running()
    await pod.assert_whole()
    await pod.delete()


@pytest.mark.every_runtime("what a dead worker's calls leave behind depends on the runtime")
async def test_a_container_that_exits_without_a_worker_is_restarted_once_afterwards(
    node: FaultyNode, tmp_path: Path
) -> None:
    exits = f"trap 'exit 0' TERM; {waits_for(f'{tmp_path}/now')}; exit 7"
    shared = [{"name": "shared", "hostPath": {"path": str(tmp_path), "type": "Directory"}}]
    mount = [{"name": "shared", "mountPath": str(tmp_path)}]
    pod = await node.apply(shell("a"), shell("exits", exits, volumeMounts=mount), volumes=shared)
    await pod.running()
    await node.kill()
    await say(tmp_path / "now")
    await until(lambda: ended(pod, "exits"))
    since = await node.serve()
    seen = await pod.running(exits=1)
    assert container(seen, "exits")["lastState"]["terminated"]["exitCode"] == 7
    await pod.assert_whole(exits=1)
    assert [(line["subject"], line["outcome"]) for line in await pod.history("exit")] == [("exits", "exited 7 (Error)")]
    await node.went_on(pod, since)
    await pod.delete()


async def test_a_crowd_starts_after_a_worker_kill(node: FaultyNode) -> None:
    pods = await asyncio.gather(*(node.apply(shell("main"), name=f"crowd-{number:02}") for number in range(CROWD)))
    await until(lambda: some_are_there(node, CROWD // 3))
    await node.kill()
    half = len([each for each in await node.cri.list_containers(labels={NODE_LABEL: node.name})])
    since = await node.serve()
    restarts = await asyncio.gather(*(restarts_once_running(pod) for pod in pods))
    took = (datetime.now(UTC) - since).total_seconds()
    log.info(
        "%s: killed with %d of %d made; all Running %.1f s after the new start", node.runtime.name, half, CROWD, took
    )
    for pod, count in zip(pods, restarts, strict=True):
        # If the kill falls within RunPodSandbox, its remains may cost an attempt, but no restart is counted.
        await pod.assert_whole(sandbox=None, main=count)
    await asyncio.gather(*(pod.delete(0) for pod in pods))


async def restarts_once_running(pod: Pod) -> int:
    """Wait until `main` runs, and return its restarts, which may be one only if its first process may have begun.

    That is so if the kill falls within StartContainer: the runtime gives up the start, and nobody sees its end.
    """

    def seen(found: dict[str, Any]) -> bool:
        [status] = found.get("status", {}).get("containerStatuses", []) or [{}]
        ended = status.get("lastState", {}).get("terminated", {})
        began_unseen = ended.get("reason") == "ContainerStatusUnknown" and "may have begun" in ended["message"]
        return "running" in status.get("state", {}) and status["restartCount"] == int(began_unseen)

    return int(container(await pod.until(seen), "main")["restartCount"])


async def some_are_there(node: FaultyNode, count: int) -> bool:
    """Return whether the runtime has this many containers of the node."""
    return len(await node.cri.list_containers(labels={NODE_LABEL: node.name})) >= count


async def test_remains_of_a_failed_test_are_removed_and_the_node_serves_again(node: FaultyNode) -> None:
    left = await node.apply()
    await left.running()
    await node.kill()
    await node.recover()
    assert (await left.sandboxes(), await left.containers()) == ([], [])
    pod = await node.apply()
    await pod.running()
    await pod.delete()
