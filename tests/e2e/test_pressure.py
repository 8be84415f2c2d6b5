"""A node that is short of memory or processes: it reports that, admits few pods, and evicts pods one by one.

The shortage is made by the thresholds; nothing is really used up.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from syncpod.pod.quantity import parse_quantity
from tests.agent.waiting import until_asked
from tests.e2e.clients import syncpod
from tests.e2e.engine import PATIENCE, RUNS, EngineNode, Pods, conditions_of, engine_node, shell
from tests.e2e.test_limits import HOLD, require_cgroups
from tests.fork_server import start_worker
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import NodeProcess

CRITICAL = 2_000_000_000
"""The priority from which a pod is never evicted."""


def no_less_of(signal: str, amount: str) -> dict[str, str]:
    """Settings with which the node is short of a resource as soon as any of it is used."""
    rest = (each for each in ("memory.available", "nodefs.available", "imagefs.available") if each != signal)
    hard = ",".join([f"{signal}<{amount}", *(f"{each}<0%" for each in rest)])
    inodes = "nodefs.inodesFree<0%,imagefs.inodesFree<0%"
    return {"SYNCPOD_EVICTION_HARD": f"{hard},{inodes}", "SYNCPOD_EVICTION_MONITORING_PERIOD": "500ms"}


@contextlib.asynccontextmanager
async def served_anew(node: EngineNode, **settings: str) -> AsyncIterator[None]:
    """Replace the node's worker by one with other settings for the block."""
    assert await node.worker.stop() == 0
    home = node.worker.state_dir.parent
    with NodeProcess.of(node.runtime, node.server, home, node=node.name, start=start_worker, **settings) as node.worker:
        await node.worker.ready()
        yield
        assert await node.worker.stop() == 0, node.said


@contextlib.asynccontextmanager
async def calm_node(
    runtime: Runtime, server: DevServer, directory: Path
) -> AsyncIterator[tuple[EngineNode, Pods, contextlib.AsyncExitStack]]:
    """A node without pressure, its pods, and an exit stack for workers, which is closed after the pods' end."""
    async with (
        engine_node(runtime, server, directory, SYNCPOD_EVICTION_HARD="none") as node,
        contextlib.AsyncExitStack() as workers,
        node.pods() as pods,
    ):
        require_cgroups(pods)
        yield node, pods, workers


def amount_of(file: str) -> int:
    """The first integer in a file of the kernel."""
    return int(next(filter(str.isdigit, Path("/proc", file).read_text().split())))


def evicted(node: EngineNode) -> list[str]:
    """The pods that its worker evicted, in order."""
    lines = (line for line in node.worker.log.read_text().splitlines() if " is evicted: " in line)
    return [line.partition("pod default/")[2].partition(" ")[0] for line in lines]


async def assert_it_says(node: EngineNode, condition: str, reason: str, refused: str, words: str) -> None:
    """Assert the output of `syncpod node`, and of `syncpod describe` for a pod that was rejected."""

    async def said() -> bool:
        lines = (await syncpod(node, "node")).out.splitlines()
        return any(line.split()[:2] == [condition, "True"] and reason in line for line in lines)

    await until_asked(said, patience=PATIENCE, pause=0.5)
    described = (await syncpod(node, "describe", "pod", refused)).out
    assert "Evicted" in described
    assert words in described


async def test_under_memory_pressure_the_pod_furthest_above_its_request_is_evicted_first(
    runtime: Runtime, temporal_server: DevServer, tmp_path: Path
) -> None:
    """Row 118: beyond its request before within it; critical pods stay, best-effort ones are not let in."""

    def asking(memory: str, script: str) -> dict[str, Any]:
        return shell("web", script, resources={"requests": {"memory": memory}})

    total = amount_of("meminfo")
    async with calm_node(runtime, temporal_server, tmp_path) as (node, pods, workers):
        greedy = await pods.apply("greedy", asking("1Mi", HOLD), priority=10)
        humble = await pods.apply("humble", asking("64Mi", RUNS))
        vital = await pods.apply("vital", asking("1Mi", HOLD), priority=CRITICAL)
        for pod in (greedy, humble, vital):
            await pod.running()
        web = await greedy.instance("web")

        async def holds() -> bool:
            (stats,) = await node.cri.list_container_stats(sandbox_id=(await greedy.sandbox()).id, timeout_seconds=10)
            return (stats.id, (stats.working_set_bytes or 0) > 30 << 20) == (web.id, True)

        await until_asked(holds, patience=PATIENCE)
        await workers.enter_async_context(served_anew(node, **no_less_of("memory.available", f"{total}Ki")))
        status = (await greedy.phase("Failed"))["status"]
        await humble.phase("Failed")
        assert evicted(node) == [greedy.name, humble.name]
        expected = f"The node was low on resource: memory. Threshold quantity: {total}Ki, available: "
        assert (status["reason"], status["message"].startswith(expected)) == ("Evicted", True)
        said = r"Container web was using (\S+), request is 1Mi, has larger consumption of memory\. $"
        used = re.search(said, status["message"])
        assert used and parse_quantity(used[1]).value() > 30 << 20, status["message"]
        assert "Container" not in (await humble.get())["status"]["message"], "it used no more than it asked for"
        late = await pods.apply("late", shell("web"))
        refusal = (await late.phase("Failed"))["status"]
        assert refusal["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
        await assert_it_says(
            node, "MemoryPressure", "KubeletHasInsufficientMemory", late.name, refusal["message"].strip()
        )
        await assert_only_is_alive(pods, vital.name)


async def test_under_pid_pressure_priority_and_then_the_process_count_decide(
    runtime: Runtime, temporal_server: DevServer, tmp_path: Path
) -> None:
    """Row 118: PIDPressure; only critical pods are admitted."""
    crowd = "for i in 1 2 3 4 5 6; do sleep 1000 & done; " + RUNS
    most = min(amount_of("sys/kernel/pid_max"), amount_of("sys/kernel/threads-max"))
    async with calm_node(runtime, temporal_server, tmp_path) as (node, pods, workers):
        favoured = await pods.apply("favoured", shell("web", crowd), priority=10)
        lonely = await pods.apply("lonely", shell("web"))
        crowded = await pods.apply("crowded", shell("web", crowd))
        vital = await pods.apply("vital", shell("web", crowd), priority=CRITICAL)
        for pod in (favoured, lonely, crowded, vital):
            await pod.running()

        async def together() -> bool:
            return len((await crowded.exec("web", "pidof sleep")).split()) >= 6

        await until_asked(together, patience=PATIENCE)
        await workers.enter_async_context(served_anew(node, **no_less_of("pid.available", str(most))))
        for pod in (crowded, lonely, favoured):
            failed = await pod.phase("Failed")
            status = failed["status"]
            expected = f"The node was low on resource: pids. Threshold quantity: {most}, available: "
            assert (status["reason"], status["message"].startswith(expected)) == ("Evicted", True)
            assert conditions_of(failed)["DisruptionTarget"][1] == "TerminationByKubelet"
        assert evicted(node) == [crowded.name, lonely.name, favoured.name]
        late = await pods.apply("late", shell("web", resources={"requests": {"memory": "1Mi"}}))
        refusal = (await late.phase("Failed"))["status"]
        assert refusal["message"] == "Pod was rejected: The node had condition: [PIDPressure]. "
        await assert_it_says(node, "PIDPressure", "KubeletHasInsufficientPID", late.name, refusal["message"].strip())
        await assert_only_is_alive(pods, vital.name)


async def assert_only_is_alive(pods: Pods, name: str) -> None:
    alive = {pod.name: [each.state for each in await pod.containers()] for pod in pods.applied}
    assert alive.pop(name) == ["running"]
    assert "running" not in [state for states in alive.values() for state in states]
