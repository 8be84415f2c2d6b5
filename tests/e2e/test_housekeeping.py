"""A node cleans up after its pods, finds orphans, and evicts a pod when its disk is short.

The node's state is on a small file system in memory, so that no real disk must be filled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from syncpod.kernel.mounting import may_mount
from syncpod.node.report import NodeReport, read_node_report
from tests.agent.waiting import until_asked
from tests.e2e.engine import PATIENCE, RUNS, EngineNode, LivePod, Pods, conditions_of, engine_node, shell, status_of
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

pytestmark = pytest.mark.skipif(not may_mount(), reason="a disk in memory has to be mounted")

DISK = "64m"
SETTINGS = {
    "SYNCPOD_CONTAINER_GC_PERIOD": "500ms",
    "SYNCPOD_GONE_PODS_PERIOD": "500ms",
    "SYNCPOD_GONE_PODS_MIN_AGE": "1s",
    "SYNCPOD_ORPHANS_PERIOD": "500ms",
    "SYNCPOD_EVICTION_HARD": (
        "memory.available<0%,nodefs.available<50%,nodefs.inodesFree<0%,imagefs.available<0%,imagefs.inodesFree<0%"
    ),
    "SYNCPOD_EVICTION_MONITORING_PERIOD": "500ms",
}
CRASHES = "exit 3"
SCRATCH = {"name": "scratch", "emptyDir": {}}
MOUNT = [{"name": "scratch", "mountPath": "/scratch"}]


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """A file system in memory, mounted at that path for the block."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "syncpod-test", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def keeper(
    runtime: Runtime, temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[EngineNode]:
    """A node on a small file system of its own, with short housekeeping periods."""
    disk = tmp_path_factory.mktemp("keeper")
    with small_disk(disk):
        async with engine_node(runtime, temporal_server, disk, **SETTINGS) as node:
            yield node


@pytest_asyncio.fixture(loop_scope="session")
async def kept(keeper: EngineNode) -> AsyncIterator[Pods]:
    """Its pods; after the test, no trace of them is left."""
    async with keeper.pods() as pods:
        yield pods


async def attempts(pod: LivePod) -> tuple[list[int], list[int]]:
    """The numbers of its sandboxes, and of the instances of `web`."""
    instances = [each.restart_count for each in await pod.containers("web")]
    return [each.attempt for each in await pod.sandboxes()], instances


async def until_attempts(pod: LivePod, sandboxes: list[int], instances: list[int]) -> None:
    async def so() -> bool:
        return await attempts(pod) == (sandboxes, instances)

    try:
        await until_asked(so, patience=PATIENCE, pause=0.1)
    except TimeoutError:
        raise AssertionError(f"{await attempts(pod)} instead of {sandboxes, instances}\n{pod.node.said}") from None


async def removals_told(pod: LivePod) -> int:
    """The number of the agent's signals that reported only removals."""
    told = 0
    async for event in pod.handle.fetch_history_events():
        if event.HasField("workflow_execution_signaled_event_attributes"):
            signal = event.workflow_execution_signaled_event_attributes
            if signal.signal_name == "pleg":
                events = json.loads(signal.input.payloads[0].data)["events"]
                told += bool(events) and all(each["type"] == "ContainerRemoved" for each in events)
    return told


def report_of(node: EngineNode) -> NodeReport:
    return read_node_report(node.worker.state_dir) or NodeReport()


async def test_the_newest_dead_instance_is_kept_with_its_counts_states_and_logs(kept: Pods) -> None:
    """Row 108: deleted on exit except the newest; rows 107 and 112: logs go with their container."""
    pod = await kept.apply("crashing", shell("web", CRASHES), shell("other"))
    await until_attempts(pod, [0], [1])
    for restart in (2, 3):
        await pod.until(lambda pod: "waiting" in status_of(pod, "web").get("state", {}))
        await pod.handle.signal("backoff_expired", {"container": "web"})
        await until_attempts(pod, [0], [restart])
    document = await pod.until(
        lambda pod: status_of(pod, "web")["restartCount"] == 3 and "waiting" in status_of(pod, "web")["state"]
    )
    web = status_of(document, "web")
    assert web["lastState"]["terminated"]["exitCode"] == 3
    (directory,) = [path for path in kept.node.directories(document["metadata"]["uid"]) if path.parent.name == "logs"]
    assert sorted(path.name for path in (directory / "web").iterdir()) == ["3.log"]
    assert await removals_told(pod) == 0, "history grows by nothing that no decision goes by"


async def test_a_dead_empty_sandbox_is_removed(kept: Pods) -> None:
    """Row 110: not ready, empty, and not the newest; one that holds a container that is kept stays with it."""
    pod = await kept.apply("moved", shell("web"))
    await pod.running()

    async def runs_in(attempt: int) -> bool:
        """Return whether it runs in the newer of two sandboxes; ends a back-off that it may have."""
        if "CrashLoopBackOff" in str(status_of(await pod.get(), "web").get("state")):
            await pod.handle.signal("backoff_expired", {"container": "web"})
        instances = await pod.containers("web")
        # A restart in the vanished sandbox fails, and still uses a number.
        return (
            [each.attempt for each in await pod.sandboxes()] == [attempt - 1, attempt]
            and [each.restart_count - instances[-1].restart_count for each in instances] == [-1, 0]
            and instances[-1].state == "running"
        )

    for attempt in (1, 2):
        await kept.node.cri.stop_pod_sandbox((await pod.sandbox()).id)
        await until_asked(partial(runs_in, attempt), patience=PATIENCE, pause=0.1)


async def test_pods_whose_workflow_was_terminated_are_removed_dead_or_alive(kept: Pods) -> None:
    """Row 111: directories, logs and sandbox of a pod whose workflow was ended go; row 11: one that runs is killed."""
    done = await kept.apply("done", shell("web", "exit 0"), restartPolicy="Never")
    alive = await kept.apply("alive", shell("web"))
    finished, running = await done.phase("Succeeded"), await alive.running()
    await done.handle.terminate("test")
    await alive.handle.terminate("test")
    uid, other = finished["metadata"]["uid"], running["metadata"]["uid"]

    async def cleared() -> bool:
        left = [*kept.node.directories(uid), *kept.node.directories(other)]
        return not left and not [*await done.containers(), *await alive.containers()]

    async def nobody() -> bool:
        return not report_of(kept.node).orphans

    await until_asked(cleared, patience=PATIENCE)
    await until_asked(nobody, patience=PATIENCE)
    kept.node.assert_nothing_left(uid)
    kept.node.assert_nothing_left(other)
    await alive.apply()  # the name can be used again
    await alive.running()


async def test_under_disk_pressure_the_largest_writer_is_evicted_and_new_pods_rejected(kept: Pods) -> None:
    """Row 118: DiskPressure, one pod, DisruptionTarget, the kubelet's words; its volumes are removed at once."""

    def writes(megabytes: int) -> dict[str, Any]:
        script = f"dd if=/dev/zero of=/scratch/file bs=1M count={megabytes}; {RUNS}"
        return shell("web", script, volumeMounts=MOUNT)

    modest = await kept.apply("modest", writes(2), volumes=[SCRATCH])
    await modest.running()
    greedy = await kept.apply("greedy", writes(40), volumes=[SCRATCH])
    failed = await greedy.phase("Failed")
    status = failed["status"]
    assert status["reason"] == "Evicted"
    expected = "The node was low on resource: ephemeral-storage. Threshold quantity: 32Mi, available: "
    assert status["message"].startswith(expected)
    assert conditions_of(failed)["DisruptionTarget"] == ("True", "TerminationByKubelet", status["message"])
    (event,) = await greedy.events("Evicted")
    assert (event["type"], event["message"]) == ("Warning", status["message"])
    uid = failed["metadata"]["uid"]
    volumes = kept.node.worker.state_dir / "pods" / uid / "volumes"

    async def given_back() -> bool:
        return not volumes.exists() and await greedy.containers() == []

    await until_asked(given_back, patience=PATIENCE)
    late = await kept.apply("late", shell("web"))
    turned_away = (await late.phase("Failed"))["status"]
    assert (turned_away["reason"], turned_away["message"]) == (
        "Evicted",
        "Pod was rejected: The node had condition: [DiskPressure]. ",
    )

    async def reported() -> bool:
        return [c.type for c in report_of(kept.node).conditions if c.status == "True"] == ["DiskPressure"]

    await until_asked(reported, patience=PATIENCE)
    await asyncio.sleep(2)  # four more checks evict nothing: one pod was enough
    await modest.running()
