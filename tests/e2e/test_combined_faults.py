"""A crowd of pods changes while its node has every fault: nothing is lost or doubled.

Worker, runtime and Temporal server are killed, calls hang, the disk is full, the clock jumps, and runs continue as new.

Holds: A worker may die between any two calls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bench.takeover import run
from syncpod.pod import container_hash
from syncpod.translation.names import CONTAINER_HASH_ANNOTATION
from tests.e2e.faults_census import census
from tests.e2e.faults_clock import Clock
from tests.e2e.faults_combined import CONVERGED, FILLS, HANGS, FaultRun
from tests.e2e.faults_disk import NO_EVICTION, small_disk
from tests.e2e.faults_support import FaultyNode, Pod, faulty_node, until
from tests.runtimes.images import BUSYBOX_2
from tests.runtimes.runtime import Runtime
from tests.runtimes.selection import ALIKE, ALL, asked_for
from tests.runtimes.temporal import DevServer

log = logging.getLogger("faults")

pytestmark = pytest.mark.parametrize("runtime", ["embedded", *ALIKE], indirect=True)
"""One containerd is enough."""

PODS = 50 if asked_for() == ALL else 20
"""Twenty pods are enough for every fault to happen."""
TAKEN_OVER = 50 if asked_for() == ALL else 12
"""The number of pods in a takeover: some exit meanwhile, some get another label, and two are unchanged."""

SEED = 20
DISK_MEGABYTES = 32
"""The size of the disk, which has room for the files of fifty pods."""


async def test_many_pods_survive_a_worker_kill_with_all_their_state(node: FaultyNode, tmp_path: Path) -> None:
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    takeover = await run(node, tmp_path / "out", TAKEN_OVER)
    log.info("%s: %d pods answered after %.1f s", node.runtime.name, TAKEN_OVER, takeover.answers[-1])
    assert len(takeover.answers) == TAKEN_OVER
    assert (takeover.restarted, takeover.lost) == ((), ())


@pytest_asyncio.fixture(loop_scope="session")
async def fault_run(runtime: Runtime, tmp_path: Path) -> AsyncIterator[FaultRun]:
    """A node for all faults: its own Temporal server, a small disk below its state and logs, a clock that moves."""
    out, disk, home = (tmp_path / name for name in ("out", "disk", "node"))
    for each in (out, disk, home):
        each.mkdir()
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    clock = Clock.make(tmp_path)
    settings = {**NO_EVICTION, **clock.environment}
    with small_disk(disk, home / "state", home / "logs", megabytes=DISK_MEGABYTES):
        server = await asyncio.to_thread(DevServer.launch)
        with server:
            async with faulty_node(runtime, server, home, **settings) as node:
                made = FaultRun(node, out, disk, clock, SEED)
                yield made
                await node.recover()
                for word in made.words.values():
                    word.forget()


async def test_many_pods_converge_after_all_faults_at_once_during_changes(fault_run: FaultRun) -> None:
    await assert_nothing_lost_or_doubled(fault_run, PODS)


async def assert_nothing_lost_or_doubled(fault_run: FaultRun, count: int) -> None:
    """Run all faults on a node with this many pods; assert that each fault happened, and the outcome of each pod."""
    log.info("seed %d", fault_run.seed)
    async with census(fault_run.node.cri, fault_run.node.name) as seen:
        await fault_run.run(count)
        out = time.monotonic()
        await asyncio.gather(*(pod.gone(patience=CONVERGED) for pod in fault_run.deleted))
        await asyncio.gather(*(comes_to_run(pod) for pod in fault_run.untouched))
        await asyncio.gather(*(comes_to_run(pod, web=1) for pod in fault_run.crashed))
        replaced = await asyncio.gather(*(has_the_other_image(pod) for pod in fault_run.updated))
    took = time.monotonic() - out
    continued = await runs_continued(fault_run)
    log.info(
        "%s: converged %.1f s after %s, %d continued as new",
        fault_run.node.runtime.name,
        took,
        fault_run.faults,
        continued,
    )
    each_way = count // 5
    assert [len(pods) for pods in (fault_run.crashed, fault_run.updated, fault_run.deleted)] == [each_way] * 3
    assert len(fault_run.untouched) >= count - 3 * each_way  # more if the disk had to be filled again to affect a pod
    # Every fault must have happened, or its survival proves nothing.
    expected = {"kill_worker": 3, "kill_runtime": 2, "kill_server": 1, "full disk": FILLS}
    assert {fault: fault_run.faults[fault] for fault in expected} == expected
    happened = ("clock ahead", "clock back", "renew", *(f"hung {when} {method}" for method, when in HANGS))
    assert all(fault_run.faults[fault] for fault in happened), fault_run.faults
    assert continued
    # A container that had not started when it got another image was not restarted.
    for pod, restarts in zip(fault_run.updated, replaced, strict=True):
        assert restarts - (await unseen(pod))["web"] in (0, 1)
    replacements = dict(zip((pod.name for pod in fault_run.updated), replaced, strict=True))
    left = [*fault_run.untouched, *fault_run.crashed, *fault_run.updated]
    for pod in left:
        crashes = fault_run.notes(pod, "web")["crashed"]
        assert crashes == (1 if pod in fault_run.crashed else 0)
        lost = await unseen(pod)
        restarts = replacements[pod.name] if pod in fault_run.updated else crashes + lost["web"]
        await pod.assert_whole(sandbox=None, web=restarts, api=lost["api"])
        exits = [line for line in await pod.history("exit") if line["subject"] == "web"]
        assert len(exits) == restarts, exits
        # A start that was cut off may have written its note, and is repeated with the same number.
        assert fault_run.notes(pod, "web")["started"] > restarts - lost["web"]
        assert fault_run.notes(pod, "api")["started"] > 0
    assert seen.duplicates == set()
    await asyncio.gather(*(pod.delete() for pod in left))


async def unseen(pod: Pod) -> Counter[str]:
    """Count, by container, the instances that ended unseen: the runtime or the worker was killed in their start."""
    exits = await pod.history("exit")
    return Counter(line["subject"] for line in exits if "ContainerStatusUnknown" in line["outcome"])


async def comes_to_run(pod: Pod, **restarts: int) -> None:
    """Wait until every container runs, with these restarts plus one for each instance that ended unseen."""

    async def runs() -> bool:
        lost = await unseen(pod)
        statuses = (await pod.get()).get("status", {}).get("containerStatuses", [])
        return bool(statuses) and all(
            "running" in each["state"] and each["restartCount"] == restarts.get(each["name"], 0) + lost[each["name"]]
            for each in statuses
        )

    await until(runs, patience=CONVERGED)


async def runs_continued(fault_run: FaultRun) -> int:
    """Count the pods' runs that have continued as new."""
    return (await fault_run.node.client.count_workflows("ExecutionStatus = 'ContinuedAsNew'")).count


async def has_the_other_image(pod: Pod) -> int:
    """Wait until a pod's container `web` runs from the other image, by the runtime; how often it was restarted."""
    made_from = container_hash("web", BUSYBOX_2)

    async def replaced() -> tuple[int, ...]:
        web = [each for each in await pod.containers() if each.name == "web" and each.state == "running"]
        return tuple(each.attempt for each in web if each.annotations[CONTAINER_HASH_ANNOTATION] == made_from)

    (restarts,) = await until(replaced, patience=CONVERGED)
    await pod.running(patience=CONVERGED, web=restarts, api=(await unseen(pod))["api"])
    return int(restarts)
