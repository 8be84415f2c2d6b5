"""Pods that come and go leave no objects, container entries or cache entries in the worker's memory."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.agent.waiting import until_asked
from tests.e2e.engine import EngineNode, LivePod, Pods, engine_node, shell, status_of
from tests.e2e.test_environment import config_map, secret
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX
from tests.runtimes.temporal import DevServer
from tests.worker import census

OF_EACH_KIND = 3
ROUNDS = 2
LOOKS = 4
"""The number of successive counts without a decrease after which a worker counts as idle."""
PATIENCE = 240.0
OURS = ("syncpod.", "workflows.", "activities.", "protos.", "temporalio.", "asyncio.", "_asyncio.")
"""Prefixes of classes without remaining objects; other objects are parts of these or of the interpreter's caches."""
BOUNDED = {
    "activities.node.fences.FenceClaim": "kept for ten minutes: a try of an ended life may be stalled",
    "activities.node.fences.Fences._newest": "the same",
    "activities.node.fences.Fences._over": "the same",
    "activities.node.pod_queues.PodQueue._came": "of the pods that came within a minute",
    "syncpod.agent.record_cache._Entry": "of the last look at the records, which some come to every few minutes",
    "syncpod.agent.record_cache.RecordCache._entries": "the same",
    "syncpod.agent.record_cache.RecordCache._derived": "the same",
    "syncpod.translation.paths._is_plain": "at most 2,000 UIDs",
    "syncpod.agent.storage.log_rotation._is_ours": "at most 2,000 paths",
}
"""Objects that remain for a while, with the reason why their number is bounded."""

_PROBE = {"periodSeconds": 1, "failureThreshold": 1}
_FAILS, _HOLDS = {"exec": {"command": ["false"]}, **_PROBE}, {"exec": {"command": ["true"]}, **_PROBE}
_CRASHES = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", "exit 3"]}
_GREEDY = {"requests": {"cpu": "4000"}}


def _is_waiting(reason: str) -> Any:
    return lambda pod: status_of(pod, "main").get("state", {}).get("waiting", {}).get("reason") == reason


def _has_phase(phase: str) -> Any:
    return lambda pod: pod["status"].get("phase") == phase


KINDS: Mapping[str, tuple[dict[str, Any], Any]] = {
    "runs": ({"containers": [shell("main", readinessProbe=_HOLDS, livenessProbe=_HOLDS)]}, _has_phase("Running")),
    "crashes": ({"containers": [_CRASHES]}, _is_waiting("CrashLoopBackOff")),
    "ends": ({"containers": [_CRASHES], "restartPolicy": "Never"}, _has_phase("Failed")),
    "fails-its-probe": (
        {"containers": [shell("main", livenessProbe=_FAILS, readinessProbe=_FAILS)]},
        lambda pod: status_of(pod, "main").get("restartCount", 0) >= 1,
    ),
    "fails-its-hook": (
        {"containers": [shell("main", lifecycle={"postStart": {"exec": {"command": ["false"]}}})]},
        lambda pod: status_of(pod, "main").get("restartCount", 0) >= 1,
    ),
    "initializes": (
        {"containers": [shell("main")], "initContainers": [shell("init", "exit 0")]},
        _has_phase("Running"),
    ),
    "lacks-its-image": (
        {"containers": [{**shell("main"), "image": "nowhere.invalid/none:1", "imagePullPolicy": "Never"}]},
        _is_waiting("ErrImageNeverPull"),
    ),
    "lacks-an-object": (
        {"containers": [shell("main", envFrom=[{"configMapRef": {"name": "none"}}])]},
        _is_waiting("CreateContainerConfigError"),
    ),
    "does-not-fit": ({"containers": [shell("main", resources=_GREEDY)]}, _has_phase("Failed")),
    "has-objects": (
        {
            "containers": [
                shell(
                    "main",
                    envFrom=[{"secretRef": {"name": "grows"}}],
                    volumeMounts=[{"name": "s", "mountPath": "/s"}, {"name": "c", "mountPath": "/c"}],
                )
            ],
            "volumes": [
                {"name": "s", "secret": {"secretName": "grows"}},
                {"name": "c", "configMap": {"name": "grows"}},
            ],
        },
        _has_phase("Running"),
    ),
}
"""By kind: the spec, and the state after which the pod is deleted."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def socket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("census") / "socket"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engine(
    embedded: Embedded, temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory, socket: Path
) -> AsyncIterator[EngineNode]:
    """A node whose worker answers with a census of its objects."""

    def start(command: list[str], **more: Any) -> Any:
        return subprocess.Popen([sys.executable, str(Path(census.__file__)), *command[2:]], **more)

    directory = tmp_path_factory.mktemp("grows")
    async with engine_node(embedded, temporal_server, directory, start=start, **{census.SOCKET: str(socket)}) as node:
        yield node


async def test_pods_that_come_and_go_leave_nothing_in_memory(engine: EngineNode, socket: Path) -> None:
    engine.objects.put(config_map("grows", color="blue"))
    engine.objects.put(secret("grows", token="a long enough word"))
    await _come_and_go(engine)
    before = await _quiet(socket)
    for _ in range(ROUNDS):
        await _come_and_go(engine)
    grown: dict[str, int] = {}

    async def is_all_gone() -> bool:
        now = await asyncio.to_thread(census.ask, socket)
        more = {name: number - before.get(name, 0) for name, number in now.items() if name.startswith(OURS)}
        grown.clear()
        grown.update((name, number) for name, number in more.items() if number >= OF_EACH_KIND * ROUNDS)
        return not grown.keys() - BOUNDED.keys()

    with contextlib.suppress(TimeoutError):
        await until_asked(is_all_gone, patience=PATIENCE, pause=10)
    assert {name: number for name, number in grown.items() if name not in BOUNDED} == {}


async def _come_and_go(engine: EngineNode) -> None:
    """Apply some pods of each kind, a few at the same time, wait for their state, and delete them."""
    free = asyncio.Semaphore(6)
    async with engine.pods() as pods:

        async def live(kind: str) -> None:
            spec, seen = KINDS[kind]
            async with free:
                pod = await _applied(pods, kind, spec)
                await pod.until(seen)
                await pod.delete(0 if kind == "runs" else None)

        await asyncio.gather(*(live(kind) for kind in KINDS for _ in range(OF_EACH_KIND)))
        pods.applied.clear()


async def _applied(pods: Pods, kind: str, spec: dict[str, Any]) -> LivePod:
    containers, more = spec["containers"], {name: value for name, value in spec.items() if name != "containers"}
    pod = pods.know(pods.manifest(kind, *containers, **more))
    await pod.apply(pod.document)
    return pod


async def _quiet(socket: Path) -> Mapping[str, int]:
    """Return the smallest count of each class, once several successive counts have not decreased."""
    least, unchanged = await asyncio.to_thread(census.ask, socket), 0
    while unchanged < LOOKS:
        await asyncio.sleep(4)
        now = await asyncio.to_thread(census.ask, socket)
        lower = {name: min(number, now.get(name, 0)) for name, number in least.items()}
        unchanged = unchanged + 1 if lower == least else 0
        least = lower
    return least
