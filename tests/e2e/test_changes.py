"""Changes of a running pod: a new image by an update, a new sandbox after an accident."""

from __future__ import annotations

import os
import signal

import pytest

from syncpod.pod import container_hash
from tests.e2e.engine import RUNS, Pods, conditions_of, shell, status_of
from tests.e2e.words import says, waits_for
from tests.runtimes.images import BUSYBOX_2

HASH = "io.kubernetes.container.hash"


async def test_a_changed_image_restarts_only_its_container(pods: Pods) -> None:
    pod = await pods.apply("image", shell("a"), shell("b"))
    await pod.running()
    before = {each.name: each.id for each in await pod.containers()}

    answer = await pod.apply(containers=[{**shell("a"), "image": BUSYBOX_2}, shell("b")])
    assert answer["generation"] == 2
    seen = await pod.running(a=1)
    assert (await pod.instance("b")).id == before["b"]
    first, second = await pod.containers("a")
    assert (first.id, first.state, first.exit_code) == (before["a"], "exited", 0)
    assert [each.hash for each in (first, second)] == [
        container_hash("a", image) for image in (shell("a")["image"], BUSYBOX_2)
    ]
    assert (second.restart_count, second.state) == (1, "running")
    assert status_of(seen, "a")["lastState"]["terminated"]["containerID"] == f"{pod.node.runtime.kind}://{before['a']}"
    assert [each.attempt for each in await pod.sandboxes()] == [0]
    (killing,) = await pod.events("Killing")
    assert (killing["container"], killing["message"]) == ("a", "Container a definition changed, will be restarted")
    assert [line for line in await pod.scheduled() if " a" in line] == [
        "start_container • start a: first start",
        "kill_container • kill a: Container a definition changed, will be restarted",
        "start_container • start a, restart 1: Container a definition changed, will be restarted",
    ]
    # No crash: nothing is held back.
    assert await pod.events("BackOff") == []

    # Applying it again changes nothing and costs nothing.
    assert (await pod.apply())["generation"] == 2
    seen = await pod.get()
    assert [status_of(seen, name)["restartCount"] for name in ("a", "b")] == [1, 0]


async def test_a_pod_gets_a_new_sandbox_after_its_pause_process_is_killed(pods: Pods) -> None:
    runs = "echo run >> /scratch/runs; " + RUNS
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    pod = await pods.apply(
        "pause",
        shell("a", runs, volumeMounts=mounts),
        shell("b", volumeMounts=mounts),
        initContainers=[shell("init", "echo init >> /scratch/runs", volumeMounts=mounts)],
        volumes=[{"name": "scratch", "emptyDir": {}}],
    )
    before = await pod.running()
    first = await pod.sandbox()
    assert await pod.lines("a", "/scratch/runs", 2) == ["init", "run"]

    os.kill(first.pid, signal.SIGKILL)
    after = await pod.running(a=1, b=1)
    second = await pod.sandbox()
    assert (first.attempt, second.attempt) == (0, 1)
    assert second.pid != first.pid
    (changed,) = await pod.events("SandboxChanged")
    assert changed["message"] == "Pod sandbox changed, it will be killed and re-created."
    assert (changed["type"], changed["count"]) == ("Normal", 1)

    # Another network, so another address; the same pod, so the same volume and UID.
    assert after["status"]["podIP"] == second.ip != before["status"]["podIP"]
    assert after["status"]["podIPs"] == [{"ip": second.ip}]
    assert after["metadata"]["uid"] == before["metadata"]["uid"] == second.uid
    # The init container ran again, before the others.
    assert await pod.lines("a", "/scratch/runs", 4) == ["init", "run", "init", "run"]
    assert status_of(after, "init")["restartCount"] == 1
    assert conditions_of(after)["Ready"] == ("True",)
    running = [each for each in await pod.containers() if each.state == "running"]
    assert {each.name: each.restart_count for each in running} == {"a": 1, "b": 1}
    assert len(running) == 2
    shown = await pod.scheduled()
    again = shown[shown.index("kill_pod • kill pod: the sandbox is no longer ready") + 1 :]
    assert again.pop(2).startswith("start_init_container • start init, restart 1: ")
    assert again == [
        "remove_container • remove 1 container: init containers run again in the new sandbox",
        "create_sandbox • create sandbox, attempt 1: sandbox changed",
        "start_container • start a, restart 1: the sandbox is no longer ready",
        "start_container • start b, restart 1: the sandbox is no longer ready",
    ]


async def test_a_resize_to_an_unenforceable_limit_is_infeasible_and_the_pod_continues(pods: Pods) -> None:
    if pods.node.runtime.cgroup_parent:
        pytest.skip("here it is enforced")
    unlimited = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    until_told = waits_for("/work/go")
    pod = await pods.apply(
        "unlimited",
        shell("a", until_told, resources=unlimited, volumeMounts=[{"name": "work", "mountPath": "/work"}]),
        volumes=[{"name": "work", "emptyDir": {}}],
    )
    await pod.running()
    limits = {"limits": {"cpu": "200m", "memory": "128Mi"}}
    await pod.handle.execute_update("resize", {"containers": [{"name": "a", "resources": limits}]})
    seen = await pod.until(lambda pod: "PodResizePending" in conditions_of(pod))
    status, reason, message = conditions_of(seen)["PodResizePending"]
    assert (status, reason) == ("True", "Infeasible")
    assert message.startswith("spec.containers[0].resources.limits[cpu]: cannot be enforced by the embedded runtime, ")
    assert "PodResizeInProgress" not in conditions_of(seen)
    assert status_of(seen, "a")["resources"] == unlimited

    await pod.exec("a", says("/work/go"))
    seen = await pod.running(a=1)
    assert status_of(seen, "a")["resources"] == unlimited
    assert conditions_of(seen)["PodResizePending"] == (status, reason, message)
