from __future__ import annotations

import asyncio

import pytest

from syncpod.agent import runtime_readiness as module
from syncpod.agent.runtime_readiness import RuntimeReadiness
from syncpod.cri.port import RuntimeStatus
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import Fault
from tests.agent.listings import ref, unavailable
from tests.agent.waiting import until


class Runtime:
    """A runtime whose readiness a test sets; with None, it does not answer."""

    def __init__(self) -> None:
        self.runtime_ready: bool | None = True
        self.network_ready = True
        self.asked = 0

    async def status(self) -> RuntimeStatus:
        self.asked += 1
        if self.runtime_ready is None:
            raise unavailable()
        return RuntimeStatus(
            runtime_ready=self.runtime_ready,
            network_ready=self.network_ready,
            runtime_message="" if self.runtime_ready else "shutting down",
            network_message="" if self.network_ready else "NetworkPluginNotReady: cni plugin not initialized",
            supplemental_groups_policy=False,
            user_namespaces_host_network=False,
            mount_options=False,
            runtime_handlers=(),
            info={},
        )


class Woken:
    def __init__(self) -> None:
        self.pods: list[tuple[str, str]] = []
        self.broken = False

    async def wake(self, ref: PodRef, event: str) -> None:
        if self.broken:
            raise unavailable()
        self.pods.append((ref.uid, event))


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def woken() -> Woken:
    return Woken()


@pytest.fixture
async def readiness(runtime: Runtime, woken: Woken) -> RuntimeReadiness:
    return RuntimeReadiness(runtime.status, woken.wake)


async def test_pods_refused_for_the_network_are_woken_when_it_is_ready(
    readiness: RuntimeReadiness, runtime: Runtime, woken: Woken
) -> None:
    """Row 15: a network that is not ready delays pods that need one, until it is ready."""
    runtime.network_ready = False
    readiness.step_ended(ref("u1"), Fault.NETWORK_NOT_READY)
    readiness.step_ended(ref("u2"), Fault.CREATE_CONTAINER_ERROR)
    await readiness.check()
    assert woken.pods == []
    assert readiness.obstacles == {
        Fault.NETWORK_NOT_READY: "its network is not ready: NetworkPluginNotReady: cni plugin not initialized"
    }

    runtime.network_ready = True
    await readiness.check()
    await readiness.check()
    assert woken.pods == [("u1", "RuntimeReady")]
    assert readiness.obstacles == {}


async def test_a_pod_refused_for_the_runtime_is_woken_even_if_the_network_is_not_ready(
    readiness: RuntimeReadiness, runtime: Runtime, woken: Woken
) -> None:
    runtime.runtime_ready, runtime.network_ready = False, False
    readiness.step_ended(ref("host-network"), Fault.RUNTIME_NOT_READY)
    readiness.step_ended(ref("own-network"), Fault.NETWORK_NOT_READY)
    await readiness.check()
    assert woken.pods == []

    runtime.runtime_ready = True
    await readiness.check()
    assert woken.pods == [("host-network", "RuntimeReady")]


async def test_a_runtime_that_does_not_answer_is_not_ready(readiness: RuntimeReadiness, runtime: Runtime) -> None:
    runtime.runtime_ready = None
    await readiness.check()
    assert readiness.obstacles[Fault.RUNTIME_NOT_READY].startswith("the runtime does not answer")


async def test_a_runtime_that_hangs_is_not_ready(woken: Woken, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang() -> RuntimeStatus:
        return await asyncio.Future[RuntimeStatus]()

    monkeypatch.setattr(module, "HUNG_SECONDS", 0.01)
    readiness = RuntimeReadiness(hang, woken.wake)
    await readiness.check()
    assert readiness.obstacles == {Fault.RUNTIME_NOT_READY: "the runtime does not answer: no status within 0.01 s"}


async def test_a_pod_that_has_continued_by_itself_is_not_woken(readiness: RuntimeReadiness, woken: Woken) -> None:
    readiness.step_ended(ref("u1"), Fault.NETWORK_NOT_READY)
    readiness.step_ended(ref("u1"), "")
    await readiness.check()
    assert woken.pods == []


async def test_a_failed_wake_is_retried(readiness: RuntimeReadiness, woken: Woken) -> None:
    readiness.step_ended(ref("u1"), Fault.NETWORK_NOT_READY)
    woken.broken = True
    await readiness.check()
    woken.broken = False
    await readiness.check()
    assert woken.pods == [("u1", "RuntimeReady")]


async def test_a_refusal_is_checked_at_once(
    readiness: RuntimeReadiness, runtime: Runtime, woken: Woken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_SECONDS", 3600.0)
    monkeypatch.setattr(module, "NOT_READY_SECONDS", 0.0)
    running = asyncio.create_task(readiness.run())
    await until(lambda: runtime.asked == 1)  # and now it waits for an hour
    readiness.step_ended(ref("u1"), Fault.NETWORK_NOT_READY)
    await until(lambda: bool(woken.pods))
    running.cancel()
