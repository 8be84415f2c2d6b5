"""Simulated pods over CRI: the effects of scripts on calls, and the pods' lives while the server is dead."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio

from protos.cri.v1 import api_pb2 as cri
from tests.agent.waiting import until, until_asked
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX


class Pod:
    """One pod, by CRI calls."""

    def __init__(self, calls: BareCri, scripts: dict[str, dict[str, Any]], *, uid: str = "") -> None:
        self.calls = calls.runtime
        self.uid = uid or str(uuid.uuid4())
        self.config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=f"p-{self.uid[:8]}", namespace="default", uid=self.uid),
            annotations={f"simulate.syncpod.dev/{name}": json.dumps(script) for name, script in scripts.items()},
        )
        self.sandbox = ""

    async def run(self) -> str:
        answer = await self.calls.RunPodSandbox(cri.RunPodSandboxRequest(config=self.config), wait_for_ready=True)
        self.sandbox = answer.pod_sandbox_id
        return self.sandbox

    async def create(self, attempt: int = 0, name: str = "web") -> str:
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name, attempt=attempt), image=cri.ImageSpec(image=BUSYBOX)
        )
        answer = await self.calls.CreateContainer(
            cri.CreateContainerRequest(pod_sandbox_id=self.sandbox, config=config, sandbox_config=self.config)
        )
        return answer.container_id

    async def start(self, attempt: int = 0) -> str:
        container = await self.create(attempt)
        await self.calls.StartContainer(cri.StartContainerRequest(container_id=container))
        return container

    async def status(self, container: str) -> cri.ContainerStatus:
        request = cri.ContainerStatusRequest(container_id=container)
        return (await self.calls.ContainerStatus(request, wait_for_ready=True)).status

    async def exited(self, container: str) -> cri.ContainerStatus:
        async def has_exited() -> bool:
            return (await self.status(container)).state == cri.CONTAINER_EXITED

        await until_asked(has_exited)
        return await self.status(container)

    async def ready(self) -> bool:
        answer = await self.calls.PodSandboxStatus(
            cri.PodSandboxStatusRequest(pod_sandbox_id=self.sandbox), wait_for_ready=True
        )
        return answer.status.state == cri.SANDBOX_READY


@pytest_asyncio.fixture(loop_scope="session")
async def calls(simulated: Embedded) -> AsyncIterator[BareCri]:
    async with BareCri(simulated.endpoint) as made:
        yield made


async def fails(call: Any) -> tuple[grpc.StatusCode, str]:
    """The status and the message of a failed call."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code(), failed.value.details() or ""


async def test_a_container_behaves_as_scripted_in_each_attempt(calls: BareCri) -> None:
    pod = Pod(calls, {"web": {"runTime": "10ms", "exitCodes": [3, None], "log": ["hello"]}})
    await pod.run()
    first = await pod.exited(await pod.start(0))
    assert (first.exit_code, first.reason) == (3, "Error")
    assert first.finished_at - first.started_at == 10 * 10**6
    second = await pod.start(1)
    await calls.runtime.StopContainer(cri.StopContainerRequest(container_id=second, timeout=30))
    assert (await pod.exited(second)).exit_code == 143


async def test_an_invalid_script_is_refused_with_its_path(calls: BareCri) -> None:
    assert await fails(Pod(calls, {"web": {"runTime": "soon"}}).run()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "metadata.annotations[simulate.syncpod.dev/web].runTime: must be a duration such as 1m30s",
    )


async def test_a_failed_start_leaves_a_container_with_a_start_error(calls: BareCri) -> None:
    pod = Pod(calls, {"web": {"startError": "no such device"}})
    await pod.run()
    container = await pod.create()
    code, message = await fails(calls.runtime.StartContainer(cri.StartContainerRequest(container_id=container)))
    assert code is grpc.StatusCode.UNKNOWN
    assert "no such device" in message
    status = await pod.status(container)
    assert (status.exit_code, status.reason, status.started_at) == (128, "StartError", 0)


async def test_calls_fail_as_often_and_with_the_status_scripted(calls: BareCri) -> None:
    how = {"times": 1, "code": "UNAVAILABLE", "message": "the network plugin is away"}
    pod = Pod(calls, {"pod": {"failureRates": {"RunPodSandbox": how, "CreateContainer": {"times": 1}}}})
    assert await fails(pod.run()) == (grpc.StatusCode.UNAVAILABLE, "the network plugin is away")
    await pod.run()
    assert await fails(pod.create()) == (
        grpc.StatusCode.UNKNOWN,
        "simulated failure of CreateContainer, call 1",
    )
    await pod.start()


async def test_a_hung_call_that_its_client_gives_up_has_no_effect(calls: BareCri) -> None:
    pod = Pod(calls, {"web": {"hang": {"StopContainer": {"times": 1}}}})
    await pod.run()
    container = await pod.start()
    stop = cri.StopContainerRequest(container_id=container, timeout=30)
    code, _ = await fails(calls.runtime.StopContainer(stop, timeout=0.2))
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert (await pod.status(container)).state == cri.CONTAINER_RUNNING
    await calls.runtime.StopContainer(stop)
    assert (await pod.status(container)).exit_code == 143


EACH_CALL = (
    ("CreateContainer", lambda pod, _: pod.create(7)),
    ("StartContainer", lambda pod, id_: pod.calls.StartContainer(cri.StartContainerRequest(container_id=id_))),
    ("StopContainer", lambda pod, id_: pod.calls.StopContainer(cri.StopContainerRequest(container_id=id_))),
    ("RemoveContainer", lambda pod, id_: pod.calls.RemoveContainer(cri.RemoveContainerRequest(container_id=id_))),
    ("ContainerStatus", lambda pod, id_: pod.calls.ContainerStatus(cri.ContainerStatusRequest(container_id=id_))),
    (
        "UpdateContainerResources",
        lambda pod, id_: pod.calls.UpdateContainerResources(cri.UpdateContainerResourcesRequest(container_id=id_)),
    ),
    (
        "ReopenContainerLog",
        lambda pod, id_: pod.calls.ReopenContainerLog(cri.ReopenContainerLogRequest(container_id=id_)),
    ),
    ("ExecSync", lambda pod, id_: pod.calls.ExecSync(cri.ExecSyncRequest(container_id=id_, cmd=["true"]))),
    ("Exec", lambda pod, id_: pod.calls.Exec(cri.ExecRequest(container_id=id_, cmd=["true"], stdout=True))),
    ("Attach", lambda pod, id_: pod.calls.Attach(cri.AttachRequest(container_id=id_, stdout=True))),
    ("PortForward", lambda pod, _: pod.calls.PortForward(cri.PortForwardRequest(pod_sandbox_id=pod.sandbox))),
    (
        "PodSandboxStatus",
        lambda pod, _: pod.calls.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox)),
    ),
    ("StopPodSandbox", lambda pod, _: pod.calls.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox))),
    (
        "RemovePodSandbox",
        lambda pod, _: pod.calls.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod.sandbox)),
    ),
)


@pytest.mark.parametrize(("call", "make"), EACH_CALL, ids=[call for call, _ in EACH_CALL])
async def test_every_scriptable_call_follows_its_script(calls: BareCri, call: str, make: Any) -> None:
    pod = Pod(calls, {"pod": {"failureRates": {call: {"code": "DATA_LOSS", "message": f"{call} is scripted"}}}})
    await pod.run()
    container = "" if call == "CreateContainer" else await pod.create()
    assert await fails(make(pod, container)) == (grpc.StatusCode.DATA_LOSS, f"{call} is scripted")


async def test_a_pull_for_a_sandbox_follows_its_script(calls: BareCri) -> None:
    pod = Pod(calls, {"pod": {"failureRates": {"PullImage": {"message": "the registry is away"}}}})
    pull = cri.PullImageRequest(image=cri.ImageSpec(image=BUSYBOX), sandbox_config=pod.config)
    assert await fails(calls.images.PullImage(pull)) == (grpc.StatusCode.UNKNOWN, "the registry is away")


async def test_exec_sync_answers_as_scripted(calls: BareCri) -> None:
    pod = Pod(calls, {"web": {"exec": {"stdout": "out", "stderr": "err", "exitCode": 3}}})
    await pod.run()
    container = await pod.start()
    done = await calls.runtime.ExecSync(cri.ExecSyncRequest(container_id=container, cmd=["cat", "/etc/hosts"]))
    assert (done.stdout, done.stderr, done.exit_code) == (b"out", b"err", 3)


async def test_a_sandbox_ends_as_scripted(calls: BareCri) -> None:
    pod = Pod(calls, {"pod": {"runTime": "10ms"}})
    await pod.run()

    async def is_dead() -> bool:
        return not await pod.ready()

    await until_asked(is_dead)


async def test_stats_are_as_scripted(calls: BareCri) -> None:
    pod = Pod(calls, {"web": {"memory": "64Mi", "cpu": "250m"}})
    await pod.run()
    container = await pod.start()
    stats = (await calls.runtime.ContainerStats(cri.ContainerStatsRequest(container_id=container))).stats
    assert stats.memory.working_set_bytes.value == 64 * 2**20


# --- the server dies --------------------------------------------------------------------------------------------------


async def test_simulated_pods_continue_while_the_server_is_down(simulated: Embedded, calls: BareCri) -> None:
    pod = Pod(calls, {"web": {"runTime": "300ms", "exitCode": 7}, "other": {}})
    await pod.run()
    short, other = await pod.start(), await pod.create(name="other")
    await calls.runtime.StartContainer(cri.StartContainerRequest(container_id=other))
    due = (await pod.status(short)).started_at + 300 * 10**6
    await asyncio.to_thread(simulated.kill)
    await until(lambda: time.time_ns() > due)
    await asyncio.to_thread(simulated.start)
    status = await pod.status(short)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 7, "Error")
    assert status.finished_at - status.started_at == 300 * 10**6
    assert (await pod.status(other)).state == cri.CONTAINER_RUNNING
    assert await pod.ready()


async def test_a_scripted_crash_ends_the_server_once(simulated: Embedded, calls: BareCri) -> None:
    pod = Pod(calls, {"web": {"restartRuntime": ["StartContainer"]}})
    await pod.run()
    container = await pod.create()
    start = cri.StartContainerRequest(container_id=container)
    code, _ = await fails(calls.runtime.StartContainer(start))
    assert code is grpc.StatusCode.UNAVAILABLE

    async def starts() -> bool:
        try:
            await calls.runtime.StartContainer(start, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE  # the connection of the server that died
            return False
        return True

    await until_asked(starts)
    assert (await pod.status(container)).state == cri.CONTAINER_RUNNING


async def test_the_runtime_restarts_at_the_scripted_time_and_its_pods_continue(
    simulated: Embedded, calls: BareCri
) -> None:
    def starts() -> int:
        return simulated.log.read_text().count("embedded runtime at ")

    before = starts()
    pod = Pod(calls, {})
    await pod.run()
    container = await pod.start()
    restarting = Pod(calls, {"pod": {"restartRuntimeAfter": "200ms"}})
    with contextlib.suppress(grpc.aio.AioRpcError):  # on a busy machine the runtime goes before it has answered
        await restarting.run()
    await until(lambda: starts() > before)
    assert (await pod.status(container)).state == cri.CONTAINER_RUNNING
    later = Pod(calls, {"pod": {"runTime": "200ms"}})
    await later.run()

    async def has_ended() -> bool:  # a second restart would have been due before
        return not await later.ready()

    await until_asked(has_ended)
    assert starts() == before + 1
