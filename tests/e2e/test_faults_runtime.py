"""After `kill -9` of the runtime at any time, or changes to the pod by others, the pod still converges.

Holds: An exit is known even if the runtime was down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel.pidfd_info import reports_exits
from tests.agent.waiting import until as until_true
from tests.e2e.faults_support import DEAF, FaultyNode, Pod, ended, held, shell, until
from tests.e2e.words import say, waits_for
from tests.runtimes.containerd import Containerd
from tests.workflows.scripted import container

log = logging.getLogger("faults")


async def told(pod: Pod) -> None:
    """Log the outcomes in the pod's history, in order."""
    steps = [f"{line['subject']} {line['container']}: {line['outcome']}" for line in await pod.history()]
    log.info("%s: %s", pod.node.runtime.name, "; ".join(steps))


# --- the runtime dies in a start --------------------------------------------------------------------------------------

POINTS: dict[str, Any] = {
    "while CNI makes the sandbox's network": "cni-add",
    "while runc creates the pause container": "runc-create",
    "while runc starts the pause container": "runc-start",
    "when the sandbox is ready": ("RunPodSandbox", "after"),
    "between sandbox and first container": ("CreateContainer", "before"),
    "between create and start": ("StartContainer", "before"),
    "after the first start": ("StartContainer", "after"),
}


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS.keys())
async def test_a_pod_starts_after_a_runtime_kill_during_its_start(node: FaultyNode, point: Any) -> None:
    with held(node, point) as stop:
        pod = await node.apply(hostNetwork=False)
        await stop.reached()
        node.runtime.kill()
    await asyncio.to_thread(node.runtime.start)
    await pod.running()
    await told(pod)
    # A sandbox attempt may be used up, but no restart, since nothing had run.
    await pod.assert_whole(sandbox=None)
    await pod.delete()


@pytest.mark.parametrize("point", ["runc-create", "runc-start"])
async def test_a_pod_starts_after_a_runtime_kill_while_runc_makes_the_first_container(
    node: FaultyNode, point: str
) -> None:
    """Afterwards it is unknown whether it has run, so its number is used up."""
    with node.proxy.stop("CreateContainer", "after") as created:
        pod = await node.apply()
        await created.reached()
        with node.runtime.gates.hold(point) as gate:
            created.open()
            await gate.reached()
            node.runtime.kill()
    await asyncio.to_thread(node.runtime.start)
    await pod.until(lambda seen: seen["status"]["phase"] == "Running")
    await told(pod)
    await pod.running(a=1)
    await pod.assert_whole(a=1)
    assert [line["outcome"] for line in await pod.history("exit")] == ["exited 137 (ContainerStatusUnknown)"]
    await pod.delete()


async def test_a_pod_starts_after_a_kill_of_runtime_and_worker_during_its_start(node: FaultyNode) -> None:
    with node.runtime.gates.hold("cni-add") as gate:
        pod = await node.apply(hostNetwork=False)
        await gate.reached()
        node.runtime.kill()
        await node.kill()
    await asyncio.to_thread(node.runtime.start)
    await node.serve()
    await pod.running()
    await told(pod)
    await pod.assert_whole(sandbox=None)
    await pod.delete()


# --- the runtime dies later -------------------------------------------------------------------------------------------


@pytest.mark.every_runtime("what a runtime remembers after its death is its own")
async def test_a_runtime_restart_restarts_no_container(node: FaultyNode) -> None:
    pod = await node.apply(hostNetwork=False)
    await pod.running()
    before = await pod.containers()
    await asyncio.to_thread(node.runtime.restart)
    other = await node.apply()
    await other.running()
    await pod.running()
    assert await pod.containers() == before
    await pod.delete()
    await other.delete()


@pytest.mark.every_runtime("what a runtime remembers after its death is its own")
@pytest.mark.parametrize("worker_dies", [False, True], ids=["the worker lives", "the worker dies too"])
async def test_an_exit_during_a_runtime_outage_is_noticed_once(
    node: FaultyNode, tmp_path: Path, worker_dies: bool
) -> None:
    exits = f"trap 'exit 0' TERM; {waits_for(f'{tmp_path}/now')}; rm {tmp_path}/now; exit 7"
    shared = [{"name": "shared", "hostPath": {"path": str(tmp_path), "type": "Directory"}}]
    mount = [{"name": "shared", "mountPath": str(tmp_path)}]
    pod = await node.apply(shell("a"), shell("exits", exits, volumeMounts=mount), volumes=shared)
    await pod.running()
    container_id = (await pod.live("exits")).id
    node.runtime.kill()
    await say(tmp_path / "now")
    # containerd 2 forgets the exit. The worker gets it from the kernel, and keeps it for its next life.
    noted = node.directory / "state" / "exits" / container_id
    await until_true(noted.exists if reports_exits() else lambda: not (tmp_path / "now").exists())
    if worker_dies:
        await node.kill()
    await asyncio.to_thread(node.runtime.start)
    if worker_dies:
        await node.serve()
    seen = await pod.running(exits=1)
    code = 255 if node.runtime.name in ("containerd24", "containerd23") and not reports_exits() else 7
    assert container(seen, "exits")["lastState"]["terminated"]["exitCode"] == code
    assert len(await pod.history("exit")) == 1
    await pod.assert_whole(exits=1)
    await pod.delete()
    await until_true(lambda: not noted.exists())  # it goes with its container


@pytest.mark.parametrize(
    "point",
    ["runc-kill", ("StopContainer", "before"), "cni-del", ("StopPodSandbox", "after"), ("RemovePodSandbox", "before")],
    ids=str,
)
async def test_a_deletion_completes_after_a_runtime_kill(node: FaultyNode, point: Any) -> None:
    pod = await node.apply(hostNetwork=False)
    await pod.up()
    with held(node, point) as stop:
        await pod.handle.signal("delete_pod", {})
        await stop.reached()
        node.runtime.kill()
    await asyncio.to_thread(node.runtime.start)
    await pod.gone()


async def test_a_grace_period_is_kept_across_a_runtime_kill(node: FaultyNode) -> None:
    pod = await node.apply(shell("a"), shell("deaf", DEAF))
    await pod.up()
    await pod.handle.signal("delete_pod", {"gracePeriodSeconds": 5})
    await until(lambda: ended(pod, "a"))
    await asyncio.to_thread(node.runtime.restart)
    final = await pod.gone()
    assert container(final, "deaf")["state"]["terminated"]["exitCode"] == 137


# --- somebody else's hand ---------------------------------------------------------------------------------------------


async def test_a_container_removed_by_others_is_started_again(node: FaultyNode) -> None:
    pod = await node.apply()
    await pod.up()
    victim = await pod.live("a")
    await node.cri.remove_container(victim.id)
    await pod.running(a=1)
    await pod.assert_whole(a=1)
    await pod.delete()


async def test_a_sandbox_stopped_by_others_is_replaced(node: FaultyNode) -> None:
    pod = await node.apply(hostNetwork=False)
    await pod.up()
    (sandbox,) = await pod.sandboxes()
    await node.cri.stop_pod_sandbox(sandbox.id)
    # Its containers end before the sandbox, so one of them may have been restarted in vain.
    restarts = await pod.running_in_another_sandbox(sandbox.id)
    await told(pod)
    assert min(restarts.values()) >= 1
    await pod.assert_whole(sandbox=1, **restarts)
    await pod.delete()


async def test_a_container_made_in_a_stopped_sandbox_is_replaced_with_it(node: FaultyNode) -> None:
    """containerd 2.3 makes it and does not start it; the others do not make it."""
    with node.proxy.stop("CreateContainer", "before") as made:
        pod = await node.apply(hostNetwork=False)
        await made.reached()
        (sandbox,) = await pod.sandboxes()
        await node.cri.stop_pod_sandbox(sandbox.id)
        made.open()
    restarts = await pod.running_in_another_sandbox(sandbox.id)
    await told(pod)
    await pod.assert_whole(sandbox=1, **restarts)
    await pod.delete()


async def test_a_sandbox_removed_without_a_worker_is_created_again(node: FaultyNode) -> None:
    pod = await node.apply()
    await pod.up()
    await node.kill()
    (sandbox,) = await pod.sandboxes()
    await node.cri.stop_pod_sandbox(sandbox.id)
    await node.cri.remove_pod_sandbox(sandbox.id)
    await node.serve()
    await pod.running_in_another_sandbox(sandbox.id)
    await told(pod)
    await pod.assert_whole(sandbox=None, a=1, b=1)
    await pod.delete()


# --- what the runtime refuses, and what it is still doing when the pod is to end --------------------------------------


@pytest.mark.parametrize("points", [("cni-add",), ("cni-add", "cni-del"), ("runc-create",)], ids=", ".join)
async def test_a_failing_sandbox_creation_is_retried_until_it_succeeds(
    node: FaultyNode, points: tuple[str, ...]
) -> None:
    with contextlib.ExitStack() as refused:
        for point in points:
            refused.enter_context(node.runtime.gates.refuse(point))
        pod = await node.apply(hostNetwork=False)
        await pod.until_event("FailedCreatePodSandBox", "refused by the gate")
    await pod.handle.signal("backoff_expired", {"container": "create_sandbox", "restart": 0})
    await pod.running()
    await pod.assert_whole(sandbox=None)
    await pod.delete()


@pytest.mark.parametrize("point", ["runc-create", "runc-start"])
async def test_a_failing_container_start_is_retried_until_it_succeeds(node: FaultyNode, point: str) -> None:
    with node.proxy.stop("CreateContainer", "after") as created:
        pod = await node.apply()
        await created.reached()
        with node.runtime.gates.refuse(point):
            created.open()
            await pod.until_event("Failed", "refused by the gate")
            await until(lambda: waits_for_both(pod))
    for name in ("a", "b"):
        await pod.handle.signal("backoff_expired", {"container": name})
    # As in a kubelet: the refused start, the one that followed at once, and the one that was let through.
    await pod.running(a=2, b=2)
    await pod.assert_whole(a=2, b=2)
    await pod.delete()


@pytest.mark.parametrize("runtime", ["containerd16"], indirect=True)
async def test_an_init_container_without_a_record_delays_neither_the_next_sandbox_nor_the_end(node: FaultyNode) -> None:
    """containerd 1.6.20 goes on listing a container after `ctr containers rm`, and refuses to remove it."""
    pod = await node.apply(shell("a"), initContainers=[shell("i", "true")])
    await pod.running()
    await lose_record(pod, "i")
    [sandbox] = await pod.sandboxes()
    os.kill((await node.cri.pod_sandbox_status(sandbox.id, verbose=True)).pid, signal.SIGKILL)
    await pod.running_in_another_sandbox(sandbox.id)
    assert [line["subject"] for line in await pod.history()].count("remove_container") == 1
    await lose_record(pod, "i")
    await pod.delete()


async def lose_record(pod: Pod, name: str) -> None:
    """Remove the records of a container's ended instances from containerd."""
    assert isinstance(pod.node.runtime, Containerd)
    for each in await pod.containers():
        if each.name == name:
            await asyncio.to_thread(pod.node.runtime.ctr, "containers", "rm", each.id)


async def waits_for_both(pod: Pod) -> bool:
    """Return whether both containers wait after starts that the runtime refused."""
    status = (await pod.get()).get("status", {})
    each = status.get("containerStatuses", [])
    waiting = [container["state"].get("waiting", {}).get("reason") for container in each]
    ends = [container.get("lastState", {}).get("terminated", {}) for container in each]
    assert {end.get("reason", "StartError") for end in ends} <= {"StartError"}
    return waiting == ["CrashLoopBackOff", "CrashLoopBackOff"]


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS.keys())
async def test_a_pod_deleted_during_its_start_leaves_nothing(node: FaultyNode, point: Any) -> None:
    with held(node, point) as stop:
        pod = await node.apply(hostNetwork=False)
        await stop.reached()
        await pod.handle.signal("delete_pod", {})
        # A call to the runtime is not cut off: the deletion waits for it.
        await pod.until(lambda seen: "deletionTimestamp" in seen["metadata"])
    await pod.gone()
