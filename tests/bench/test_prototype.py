"""The minimal durable loop without a server: the order of its calls, and the product's limits in it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.testing import ActivityEnvironment

from activities.node.context import pods_at_once
from bench import prototype, prototype_worker
from bench.prototype import Begin, Calls, Places, Plan, packed, parts_of
from protos.cri.v1 import api_pb2 as cri
from protos.cri.v1 import api_pb2_grpc as stubs
from syncpod.worker import temporal_worker


class Runtime:
    """Answers the calls of a start, and records them. Containers exit with `code` as soon as they are started."""

    def __init__(self, code: int = 0) -> None:
        self.calls: list[str] = []
        self._code = code

    async def RunPodSandbox(self, _: cri.RunPodSandboxRequest) -> Any:  # noqa: N802
        self.calls.append("sandbox")
        return SimpleNamespace(pod_sandbox_id="s")

    async def CreateContainer(self, request: cri.CreateContainerRequest) -> Any:  # noqa: N802
        assert request.pod_sandbox_id == "s"
        self.calls.append(f"create {request.config.metadata.name}")
        return SimpleNamespace(container_id=f"{request.config.metadata.name}-id")

    async def StartContainer(self, request: cri.StartContainerRequest) -> None:  # noqa: N802
        self.calls.append(f"start {request.container_id}")

    async def ContainerStatus(self, request: cri.ContainerStatusRequest) -> Any:  # noqa: N802
        self.calls.append(f"look {request.container_id}")
        status = cri.ContainerStatus(state=cri.CONTAINER_EXITED, exit_code=self._code)
        status.metadata.name = request.container_id
        return SimpleNamespace(status=status)

    def calls_of(self) -> Calls:
        return Calls(cast("stubs.RuntimeServiceAsyncStub", self))


def container(name: str) -> str:
    return packed(cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name)))


PLAN = Plan(packed(cri.PodSandboxConfig()), [container("init")], [container("main"), container("beside")], "", 30)


async def begin(calls: Calls, parts: list[Begin]) -> list[Any]:
    """Begin all parts at the same time, in reverse order, as a server may deliver them; return how each ended."""
    running = {
        part.number: ActivityEnvironment().run(calls.start_container if part.number else calls.create_sandbox, part)
        for part in reversed(parts)
    }
    ended = await asyncio.gather(*running.values(), return_exceptions=True)
    return [how for _, how in sorted(zip(running, ended, strict=True), key=lambda each: each[0])]


async def test_a_start_whose_parts_begin_at_once_makes_the_calls_one_after_the_other() -> None:
    runtime = Runtime()
    assert await begin(runtime.calls_of(), parts_of(PLAN)) == ["s", "init-id", "main-id", "beside-id"]
    looked = ["create init", "start init-id", "look init-id"]
    assert runtime.calls == ["sandbox", *looked, "create main", "start main-id", "create beside", "start beside-id"]


async def test_after_an_init_container_that_fails_nothing_starts_and_the_place_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prototype, "PODS_AT_ONCE", 1)
    runtime = Runtime(code=3)
    calls = runtime.calls_of()
    sandbox, *failed = await begin(calls, parts_of(PLAN))
    assert (sandbox, [type(each) for each in failed]) == ("s", [RuntimeError] * 3)
    assert "exited 3" in str(failed[0])
    assert runtime.calls[-1] == "look init-id"
    assert (await begin(calls, parts_of(PLAN)))[0] == "s"


async def test_those_that_can_wait_get_a_place_last() -> None:
    places, order = Places(1), list[str]()

    async def pass_through(name: str, *, can_wait: bool) -> None:
        async with places.held(can_wait=can_wait):
            order.append(name)

    await places.enter()
    waiting = [asyncio.ensure_future(pass_through(name, can_wait=name == "removal")) for name in ("removal", "stop")]
    await asyncio.sleep(0)
    places.leave()
    await asyncio.gather(*waiting)
    assert order == ["stop", "removal"]


def test_it_has_the_limits_of_the_product() -> None:
    assert pods_at_once() == prototype.PODS_AT_ONCE
    assert prototype_worker.WORKFLOW_TASKS_AT_ONCE == temporal_worker.WORKFLOW_TASKS_AT_ONCE
    assert prototype_worker.EAGER_STARTS_AT_ONCE == temporal_worker.EAGER_STARTS_AT_ONCE
