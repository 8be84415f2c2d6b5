"""Hundreds of simulated pods over real gRPC: started, crashed, restarted, kept over a new server, stopped, removed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from protos.cri.v1 import api_pb2 as cri
from tests.nightly import NIGHTLY
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX

PODS = int(os.environ.get("SYNCPOD_SIMULATED_PODS", "2000" if NIGHTLY else "500"))
CRASHING_EVERY = 4
AT_ONCE = 32
MOST_BYTES_PER_POD = 48 * 1024
"""The limit of the server's memory per pod. docs/simulated.md has measurements."""

SCRIPTS = {
    True: {"simulate.syncpod.dev/web": json.dumps({"runTime": "1s", "exitCodes": [1, None]})},
    False: {"simulate.syncpod.dev/web": json.dumps({"memory": "64Mi", "stopExitCode": 0})},
}


@dataclass
class CrowdPod:
    """A pod and the ids that the runtime has given it."""

    number: int
    config: cri.PodSandboxConfig
    sandbox: str = ""
    containers: list[str] = field(default_factory=list)

    @property
    def crashes(self) -> bool:
        return self.number % CRASHING_EVERY == 0


@pytest_asyncio.fixture(loop_scope="session")
async def calls(simulated: Embedded) -> AsyncIterator[BareCri]:
    async with BareCri(simulated.endpoint) as made:
        yield made


def crowd() -> list[CrowdPod]:
    return [
        CrowdPod(
            number,
            cri.PodSandboxConfig(
                metadata=cri.PodSandboxMetadata(name=f"p{number}", namespace="default", uid=f"u{number}"),
                labels={"app": "crowd", "io.kubernetes.pod.name": f"p{number}", "io.kubernetes.pod.uid": f"u{number}"},
                annotations=SCRIPTS[number % CRASHING_EVERY == 0],
            ),
        )
        for number in range(PODS)
    ]


async def each(pods: Iterable[CrowdPod], work: Callable[[CrowdPod], Awaitable[object]]) -> None:
    """Run a function for each pod, this many at once."""
    waiting = iter(pods)

    async def one_after_another() -> None:
        for pod in waiting:
            await work(pod)

    await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))


async def start(calls: BareCri, pod: CrowdPod) -> None:
    """Start the container's next attempt; make the sandbox first if there is none."""
    if not pod.sandbox:
        ran = await calls.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=pod.config))
        pod.sandbox = ran.pod_sandbox_id
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="web", attempt=len(pod.containers)),
        image=cri.ImageSpec(image=BUSYBOX),
        labels=pod.config.labels,
    )
    created = await calls.runtime.CreateContainer(
        cri.CreateContainerRequest(pod_sandbox_id=pod.sandbox, config=config, sandbox_config=pod.config)
    )
    pod.containers.append(created.container_id)
    await calls.runtime.StartContainer(cri.StartContainerRequest(container_id=created.container_id))


async def states(calls: BareCri) -> Counter[tuple[int, str]]:
    """The number of containers of each attempt in each state."""
    listed = await calls.runtime.ListContainers(cri.ListContainersRequest(), wait_for_ready=True)
    return Counter((each.metadata.attempt, cri.ContainerState.Name(each.state)) for each in listed.containers)


async def until_states(calls: BareCri, wanted: dict[tuple[int, str], int]) -> None:
    async with asyncio.timeout(60):
        while await states(calls) != wanted:  # noqa: ASYNC110  # a list is all there is to ask
            await asyncio.sleep(0.2)


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_hundreds_of_pods_are_started_crashed_restarted_and_stopped(
    simulated: Embedded, calls: BareCri, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = crowd()
    crashing = [pod for pod in pods if pod.crashes]
    lines: list[str] = []
    began, empty = time.monotonic(), resident_bytes(simulated.pid)

    def say(what: str, count: int) -> None:
        nonlocal began
        seconds, began = time.monotonic() - began, time.monotonic()
        lines.append(f"  {what:<32} {seconds:6.1f} s  {count / seconds:6.0f} pods/s")

    await each(pods, lambda pod: start(calls, pod))
    say(f"{PODS} started", PODS)
    running = resident_bytes(simulated.pid)

    await until_states(calls, {(0, "CONTAINER_RUNNING"): PODS - len(crashing), (0, "CONTAINER_EXITED"): len(crashing)})
    await each(crashing, lambda pod: start(calls, pod))
    say(f"{len(crashing)} crashed and restarted", len(crashing))
    alive = {
        (0, "CONTAINER_RUNNING"): PODS - len(crashing),
        (0, "CONTAINER_EXITED"): len(crashing),
        (1, "CONTAINER_RUNNING"): len(crashing),
    }
    await until_states(calls, alive)

    await asyncio.to_thread(simulated.restart)
    assert await states(calls) == alive
    say(f"{PODS} found after kill -9", PODS)
    found = resident_bytes(simulated.pid)

    async def stop(pod: CrowdPod) -> None:
        container = pod.containers[-1]
        await calls.runtime.StopContainer(cri.StopContainerRequest(container_id=container, timeout=30))
        answer = await calls.runtime.ContainerStatus(cri.ContainerStatusRequest(container_id=container))
        assert answer.status.exit_code == (143 if pod.crashes else 0)
        await calls.runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox))
        await calls.runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod.sandbox))

    await each(pods, stop)
    say(f"{PODS} stopped and removed", PODS)
    assert await states(calls) == {}
    assert (await calls.runtime.ListPodSandbox(cri.ListPodSandboxRequest())).items == []
    for kept in ("sandboxes", "containers"):
        assert list((simulated.state_dir / kept).iterdir()) == []

    per_pod = (running - empty) / PODS
    lines.append(
        f"  memory of the server: {empty / 2**20:.0f} MiB empty, {running / 2**20:.0f} MiB with {PODS} pods, "
        f"{found / 2**20:.0f} MiB once restarted: {per_pod / 1024:.1f} KiB per pod"
    )
    with capsys.disabled():
        sys.stdout.write("\n".join(("", *lines, "")))
    assert per_pod < MOST_BYTES_PER_POD
