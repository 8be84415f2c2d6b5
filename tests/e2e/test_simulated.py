"""Twenty simulated pods at once on a failing runtime: each reaches its expected state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.engine import EngineNode, Pods, engine_node, status_of
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX
from tests.runtimes.selection import ALL, asked_for
from tests.runtimes.temporal import DevServer

AT_ONCE = 8
OF_EACH_KIND = 6 if asked_for() == ALL else 2


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engine(temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EngineNode]:
    """A node with simulated pods."""
    runtime = await asyncio.to_thread(Embedded.launch, "--simulate")
    try:
        async with engine_node(runtime, temporal_server, tmp_path_factory.mktemp("simulated")) as node:
            yield node
    finally:
        await asyncio.to_thread(runtime.close)


@pytest_asyncio.fixture(loop_scope="session")
async def pods(engine: EngineNode) -> AsyncIterator[Pods]:
    """The test's pods; after the test, no trace of them is left."""
    async with engine.pods() as pods:
        yield pods


def scripted(pods: Pods, base: str, scripts: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod with one container `web` that follows these scripts."""
    document = pods.manifest(base, {"name": "web", "image": BUSYBOX}, **spec)
    document["metadata"]["annotations"] = {
        f"simulate.syncpod.dev/{name}": json.dumps(script) for name, script in scripts.items()
    }
    return document


Expected = Callable[[dict[str, Any]], bool]


def runs(restarts: int) -> Expected:
    """Whether the pod runs, after this many restarts."""

    def seen(pod: dict[str, Any]) -> bool:
        web = status_of(pod, "web")
        return "running" in web.get("state", {}) and web["restartCount"] == restarts

    return seen


def ended(phase: str, code: int, reason: str, restarts: int = 0) -> Expected:
    """Whether the pod and its container have ended."""

    def seen(pod: dict[str, Any]) -> bool:
        web = status_of(pod, "web")
        end = web.get("state", {}).get("terminated", {})
        return (pod["status"]["phase"], end.get("exitCode"), end.get("reason"), web.get("restartCount")) == (
            phase,
            code,
            reason,
            restarts,
        )

    return seen


KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], Expected]] = {
    "steady": ({}, {}, runs(0)),
    "slow": ({"web": {"startDelay": "1s"}, "pod": {"startDelay": "1s"}}, {}, runs(0)),
    "crashes": ({"web": {"runTime": "100ms", "exitCodes": [1, None]}}, {}, runs(1)),
    "job": ({"web": {"runTime": "200ms"}}, {"restartPolicy": "Never"}, ended("Succeeded", 0, "Completed")),
    "failed": ({"web": {"runTime": "200ms", "exitCode": 3}}, {"restartPolicy": "Never"}, ended("Failed", 3, "Error")),
    "oom": (
        {"web": {"runTime": "200ms", "oomKilled": True}},
        {"restartPolicy": "Never"},
        ended("Failed", 137, "OOMKilled"),
    ),
    "hung": (
        {"web": {"hang": {"StartContainer": "2s", "StopContainer": "1s"}}, "pod": {"hang": {"RunPodSandbox": "1s"}}},
        {},
        runs(0),
    ),
    "refused": (
        {
            "pod": {"failureRates": {"RunPodSandbox": {"times": 2, "code": "UNAVAILABLE"}, "StopPodSandbox": 0.5}},
            "web": {"failureRates": {"StartContainer": {"times": 1, "code": "UNAVAILABLE"}, "StopContainer": 0.5}},
        },
        {},
        runs(0),
    ),
    "pause-dies": ({"pod": {"runTime": "5s"}}, {"restartPolicy": "Never"}, ended("Failed", 143, "Error")),
    "kills-runtime": ({"web": {"restartRuntime": ["CreateContainer", "StopContainer"]}}, {}, runs(0)),
}
"""By kind: the scripts, additions to the spec, and the expected result."""


async def test_every_simulated_pod_reaches_its_expected_end_and_leaves_nothing(pods: Pods) -> None:
    # As if a kubelet had twenty pods to start, two of each kind; one of them also restarts the runtime in time.
    free = asyncio.Semaphore(AT_ONCE)

    async def live(kind: str, number: int) -> None:
        scripts, spec, seen = KINDS[kind]
        if kind == "kills-runtime" and number > 1:  # two pods kill it twice each; the others only suffer
            scripts = {}
        if kind == "steady" and number == 0:
            scripts = {"pod": {"restartRuntimeAfter": "4s"}}
        pod = pods.know(scripted(pods, f"{kind}-{number}", scripts, **spec))
        async with free:
            await pod.apply(pod.document)
        await pod.until(seen)

    await asyncio.gather(*(live(kind, number) for number in range(OF_EACH_KIND) for kind in KINDS))
    for pod in pods.applied:
        await pod.handle.signal("delete_pod", {})
    await asyncio.gather(*(pod.handle.result() for pod in pods.applied))  # the runtime still dies of some calls
    await asyncio.gather(*(pod.gone() for pod in pods.applied))
    assert await pods.node.cri.list_pod_sandboxes() == ()
    assert await pods.node.cri.list_containers() == ()


async def test_an_invalid_script_is_reported_with_its_path(pods: Pods) -> None:
    pod = pods.know(scripted(pods, "wrong", {"web": {"runTime": "soon"}}))
    await pod.apply(pod.document)
    event = await pod.event("FailedCreatePodSandBox")
    assert (
        "metadata.annotations[simulate.syncpod.dev/web].runTime: must be a duration such as 1m30s" in event["message"]
    )


async def test_a_restart_happens_when_its_back_off_has_ended(pods: Pods) -> None:
    pod = pods.know(scripted(pods, "backs-off", {"web": {"runTime": "100ms", "exitCodes": [1, 2, None]}}))
    await pod.apply(pod.document)
    await pod.running(web=2)
    last = status_of(await pod.get(), "web")["lastState"]["terminated"]
    assert last["exitCode"] == 2


async def test_a_start_error_is_the_waiting_reason(pods: Pods) -> None:
    pod = pods.know(scripted(pods, "no-start", {"web": {"startError": "no such device"}}))
    await pod.apply(pod.document)
    seen = await pod.until(lambda pod: "no such device" in json.dumps(status_of(pod, "web")))
    assert "running" not in status_of(seen, "web")["state"]
