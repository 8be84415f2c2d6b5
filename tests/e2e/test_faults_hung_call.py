"""A hanging call to the runtime delays only its own pod."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from activities.node.context import pods_at_once
from tests.e2e.faults_support import FaultyNode, Pod, shell, until
from tests.hung_disk import hung_disk
from tests.nightly import NIGHTLY
from tests.runtimes.processes import Process

log = logging.getLogger("faults")


@contextlib.contextmanager
def frozen(processes: Iterable[Process]) -> Iterator[None]:
    """Stop these processes by SIGSTOP for the block."""
    pids = [process.pid for process in processes]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def doing(pod: Pod) -> str:
    """The texts of the pod's pending steps, as an operator sees them."""
    pending = (await pod.handle.describe()).raw_description.pending_activities
    return " ".join(payload.data.decode() for step in pending for payload in step.heartbeat_details.payloads)


async def others_live(node: FaultyNode) -> None:
    """Assert that another pod can be applied, crashes, is restarted, and can be deleted."""
    other = await node.apply(shell("a"), shell("crashes", "sleep 0.5; exit 3"))
    await other.until(lambda pod: any(each["restartCount"] for each in pod["status"].get("containerStatuses", [])))
    await other.delete()


async def test_a_stopped_shim_does_not_delay_other_pods(node: FaultyNode) -> None:
    hung = await node.apply()
    await hung.up()
    victim = await hung.live("a")
    pid = (await node.cri.container_status(victim.id, verbose=True)).container.pid
    with frozen(await hung.shims()):
        # The runtime cannot learn of its exit, since the shims are frozen.
        os.kill(pid, signal.SIGKILL)
        await others_live(node)
        status = (await hung.get())["status"]
        assert [each["restartCount"] for each in status["containerStatuses"]] == [0, 0]
    await hung.running(a=1)
    await hung.assert_whole(a=1)
    await hung.delete()


async def test_a_hung_deletion_reports_what_it_waits_for(node: FaultyNode) -> None:
    hung = await node.apply()
    await hung.up()
    with frozen(await hung.shims()):
        await hung.handle.signal("delete_pod", {})
        said: str = await until(lambda: doing(hung))
        assert said.startswith('"waits for ')
        assert "a to stop (at most " in said
        assert "b to stop (at most " in said
        await others_live(node)
    await hung.gone()


async def test_a_stopped_shim_does_not_keep_a_new_worker_from_serving(node: FaultyNode) -> None:
    hung, other = await node.apply(), await node.apply()
    await asyncio.gather(hung.up(), other.up())
    with frozen(await hung.shims()):
        await node.kill()
        await node.serve()
        log.info("%s: ready after %.2f s beside a stopped shim", node.runtime.name, node.ready_after)
        await others_live(node)
        await other.delete()
    await hung.running()
    await hung.assert_whole()
    await hung.delete()


@pytest.mark.parametrize("call", ["RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer"])
async def test_an_unanswered_runtime_call_does_not_delay_other_pods(node: FaultyNode, call: str) -> None:
    with node.proxy.stop(call, "before", calls=1) as stop:
        hung = await node.apply(shell("only"))
        if call == "StopContainer":
            await hung.up()
            await hung.handle.signal("delete_pod", {})
        await stop.reached()
        await others_live(node)
        assert await hung.containers() == [] or call in ("StartContainer", "StopContainer")
        # No call is given up before the kubelet would, which waits twice as long for a sandbox.
        assert node.proxy.allowed[call] > (200 if call == "RunPodSandbox" else 100)
        if call != "StopContainer":
            pod = await hung.get()
            (status,) = pod["status"]["containerStatuses"]
            assert pod["status"]["phase"] == "Pending"
            assert status["state"] == {"waiting": {"reason": "ContainerCreating"}}
            assert await doing(hung) != ""
    if call == "StopContainer":
        await hung.gone()
    else:
        await hung.running()
        await hung.assert_whole()
        await hung.delete()


async def test_a_full_set_of_hung_sandbox_creations_does_not_delay_other_pods(node: FaultyNode) -> None:
    count = pods_at_once()
    with node.proxy.stop("RunPodSandbox", "before", calls=count) as stop:
        hung = [await node.apply(shell("only")) for _ in range(count)]
        await stop.reached(count)
        await others_live(node)
    for pod in hung:
        await pod.running()
        await pod.assert_whole()
        await pod.delete()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
async def test_pods_on_a_disk_that_hangs_hold_up_no_other_pod(node: FaultyNode, tmp_path: Path) -> None:
    """Twenty pods in the nightly run; without a node they are always twenty (tests/activities/test_hung_disks.py)."""
    before = await node.apply()
    await before.up()
    with hung_disk(tmp_path / "hung") as disk:
        volumes = [{"name": "data", "hostPath": {"path": str(disk), "type": "Directory"}}]
        hung = [await node.apply(shell("only"), volumes=volumes) for _ in range(20 if NIGHTLY else 2)]
        for pod in hung:
            await until(functools.partial(says, pod, "a disk has not answered"))
        await others_live(node)
        await before.delete()
        await hung[0].delete()
    for pod in hung[1:]:
        await pod.running()
        await pod.delete()


async def says(pod: Pod, text: str) -> bool:
    return text in await doing(pod)
