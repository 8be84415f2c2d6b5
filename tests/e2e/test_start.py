"""A pod with every kind of container starts in order, with the kubelet's status at each point."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from syncpod.pod import container_hash
from tests.e2e.clients import temporal
from tests.e2e.engine import LivePod, Pods, conditions_of, shell, status_of
from tests.e2e.words import say, waits_for
from tests.runtimes.images import BUSYBOX

pytestmark = pytest.mark.every_runtime(
    "the runtime's lists show the order in which a pod's containers come up", one_containerd=True
)


def gated(name: str, then: str = "", **more: object) -> dict[str, object]:
    """A container that continues when the test writes its name."""
    mounts = [{"name": "gates", "mountPath": "/gates"}]
    return shell(name, f"{waits_for(f'/gates/{name}')}; {then}", volumeMounts=mounts, **more)


async def test_init_containers_sidecar_and_containers_start_in_order(pods: Pods, tmp_path: Path) -> None:
    pod = await pods.apply(
        "order",
        shell("a"),
        shell("b"),
        initContainers=[
            gated("first"),
            shell("side", restartPolicy="Always"),
            gated("second"),
        ],
        volumes=[{"name": "gates", "hostPath": {"path": str(tmp_path), "type": "Directory"}}],
    )

    # The first init container runs; no other container exists yet.
    waiting = {"waiting": {"reason": "PodInitializing"}}
    seen = await pod.until(lambda pod: "running" in status_of(pod, "first").get("state", {}))
    assert seen["status"]["phase"] == "Pending"
    assert [status_of(seen, name)["state"] for name in ("side", "second", "a", "b")] == [waiting] * 4
    assert conditions_of(seen) == {
        "PodReadyToStartContainers": ("True",),
        "Initialized": (
            "False",
            "ContainersNotInitialized",
            "containers with incomplete status: [first side second]",
        ),
        "Ready": ("False", "ContainersNotReady", "containers with unready status: [side a b]"),
        "ContainersReady": ("False", "ContainersNotReady", "containers with unready status: [side a b]"),
        "PodScheduled": ("True",),
    }

    # The sidecar has started, and the second init container did not wait for it to end.
    await say(tmp_path / "first")
    seen = await pod.until(lambda pod: "running" in status_of(pod, "second")["state"])
    assert seen["status"]["phase"] == "Pending"
    assert status_of(seen, "first")["state"]["terminated"]["reason"] == "Completed"
    assert (status_of(seen, "side")["started"], status_of(seen, "side")["ready"]) == (True, True)
    assert conditions_of(seen)["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [second]",
    )
    assert [status_of(seen, name)["state"] for name in ("a", "b")] == [waiting] * 2

    await say(tmp_path / "second")
    await pod.running()
    await assert_running(pod)
    await assert_started_in_order(pod)

    await add_ephemeral_containers(pod)


async def assert_running(pod: LivePod) -> None:
    """Assert that the status of the running pod is the kubelet's, and agrees with the runtime, and so do its logs."""
    seen = await pod.get()
    status, sandbox = seen["status"], await pod.sandbox()
    assert conditions_of(seen) == {
        type_: ("True",)
        for type_ in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    }
    assert all(each["observedGeneration"] == seen["metadata"]["generation"] for each in status["conditions"])
    assert (status["podIP"], status["podIPs"]) == (sandbox.ip, [{"ip": sandbox.ip}])
    assert status["hostIP"] == status["hostIPs"][0]["ip"]
    assert status["qosClass"] == "BestEffort"
    assert status["startTime"].endswith("Z")
    assert "reason" not in status

    for name in ("first", "side", "second", "a", "b"):
        shown, real = status_of(seen, name), await pod.instance(name)
        assert shown["containerID"] == f"{pod.node.runtime.kind}://{real.id}"
        assert (shown["imageID"], shown["image"]) == (real.image_ref, real.image)
        assert (shown["restartCount"], shown.get("lastState", {})) == (0, {})
        assert real.restart_count == 0
        assert real.hash == container_hash(name, BUSYBOX)
        assert real.started_at is not None
        times = {"startedAt": real.started_at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        if name in ("first", "second"):
            assert real.finished_at is not None
            times |= {"finishedAt": real.finished_at.strftime("%Y-%m-%dT%H:%M:%SZ")}
            ended = {"exitCode": 0, "reason": "Completed", "containerID": shown["containerID"], **times}
            assert shown["state"] == {"terminated": ended}
            assert (shown["started"], shown["ready"]) == (False, True)
        else:
            assert shown["state"] == {"running": times}
            assert (shown["started"], shown["ready"]) == (True, True)
    links = pod.node.log_links(seen["metadata"]["uid"])
    assert all(link.is_file() for link in links)
    assert {link.name for link in links} == {
        f"{pod.name}_default_{name}-{(await pod.instance(name)).id}.log"
        for name in ("first", "side", "second", "a", "b")
    }


async def assert_started_in_order(pod: LivePod) -> None:
    """Assert the order by the runtime's own times, and by Temporal's history."""
    first, side, second, a, b = [await pod.instance(name) for name in ("first", "side", "second", "a", "b")]
    assert first.finished_at is not None and second.finished_at is not None
    times = [
        first.started_at, first.finished_at, side.started_at, second.started_at, second.finished_at, a.started_at,
        b.started_at,
    ]  # fmt: skip
    assert all(earlier < later for earlier, later in pairwise(times) if earlier and later), times
    assert None not in times

    assert await pod.scheduled() == [
        "create_sandbox • create sandbox: first sandbox",
        "start_init_container • start first: first start",
        "start_init_container • start side: first start",
        "start_init_container • start second: first start",
        "start_container • start a: first start",
        "start_container • start b: first start",
    ]
    told = [(event["reason"], event["container"]) for event in await pod.events() if event["reason"] != "Exited"]
    assert told == [
        (reason, name) for name in ("first", "side", "second", "a", "b") for reason in ("Pulled", "Created", "Started")
    ]


async def add_ephemeral_containers(pod: LivePod) -> None:
    """Add one with the SDK and one with the `temporal` CLI: both run, and the other containers are unchanged."""
    before = {each.name: each.id for each in await pod.containers()}
    debug = shell("debug", "echo hello from debug; sleep 1000", targetContainerName="a")
    answer = await pod.handle.execute_update("add_ephemeral_container", debug)
    assert answer["generation"] == 2
    await pod.until(lambda pod: "running" in status_of(pod, "debug").get("state", {}))

    typed = json.dumps({"name": "typed", "image": BUSYBOX, "command": ["sh", "-c", "exit 7"]})
    await temporal(
        pod.node, "workflow", "update", "execute", "--workflow-id", pod.handle.id,
        "--name", "add_ephemeral_container", "--input", typed,
    )  # fmt: skip
    seen = await pod.until(lambda pod: "terminated" in status_of(pod, "typed").get("state", {}))
    ended = status_of(seen, "typed")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (7, "Error")
    assert status_of(seen, "typed")["restartCount"] == 0  # never restarted, whatever the pod's policy
    assert seen["status"]["phase"] == "Running"
    assert conditions_of(seen)["Ready"] == ("True",)

    after = {each.name: each.id for each in await pod.containers()}
    assert {name: after[name] for name in before} == before


async def test_an_ephemeral_container_sees_the_processes_of_its_target_as_its_own(pods: Pods) -> None:
    """Row 55: the PID namespace is the target's."""
    pod = await pods.apply("target", shell("a"))
    await pod.running()
    await pod.handle.execute_update("add_ephemeral_container", shell("debug", "sleep 1000", targetContainerName="a"))
    await pod.until(lambda pod: "running" in status_of(pod, "debug").get("state", {}))
    assert "while :" in await pod.exec("debug", "cat /proc/1/cmdline | tr '\\0' ' '")
