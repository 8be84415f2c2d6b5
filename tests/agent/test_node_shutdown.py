"""A machine's shutdown waits for pods: over a real bus, with a stand-in for logind and for the workflows."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio

from syncpod.agent import logind as logind_module
from syncpod.agent import node_shutdown as module
from syncpod.agent.logind import DROP_IN, logind
from syncpod.agent.node_shutdown import STATE_FILE, NodeShutdown
from syncpod.agent.published_pods import PublishedPods
from syncpod.lifecycle.shutdown_order import parse_shutdown_periods
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.node import FILE_SOURCE, SOURCE_ANNOTATION, DeletePodWorkflow, PodWorkflowResult
from syncpod.messages.signals import Evict
from syncpod.pod import parse_pod
from syncpod.pod.static import HASH_ANNOTATION
from tests.agent.machine_bus import DAEMON, Bus, Logind, connected
from tests.agent.node_endpoint import node_of
from tests.agent.published import OfNoPod
from tests.agent.waiting import until

pytestmark = pytest.mark.skipif(DAEMON is None, reason="this machine has no dbus-daemon")

TWO = "0=60s,2000000000=60s"


class Shown(OfNoPod):
    """A pod's state that its workflow has published."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document, self.metadata_ = document, parse_pod(document, strict=False).metadata
        self.uid, self.is_gone = self.metadata_.uid, False

    @property
    def metadata(self) -> Any:
        return self.metadata_

    def pod(self) -> dict[str, Any]:
        return self._document


def document(name: str, phase: str = "Running", *, runs: bool = True, source: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {SOURCE_ANNOTATION: source, HASH_ANNOTATION: f"uid-{name}"} if source else {}
    state = {"running": {"startedAt": "2026-11-22T10:00:00Z"}} if runs else {"terminated": {"exitCode": 0}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"containers": [{"name": "app", "image": "busybox"}], **spec},
        "status": {"phase": phase, "containerStatuses": [{"name": "app", "state": state}]},
    }


class Workflows:
    """Accepts orders to workflows, and records them."""

    def __init__(self, directory: Path) -> None:
        self.published, self.told = PublishedPods(node_of(directory)), list[str]()

    def publish(self, name: str, *args: Any, **how: Any) -> None:
        self.published.take(pod_workflow_id("default", name), "run", cast(Any, Shown(document(name, *args, **how))))

    async def evict(self, ref: PodRef, order: Evict) -> bool:
        assert (order.uid, order.reason, order.disruption) == (ref.uid, "Terminated", True)
        assert order.message == "Pod was terminated in response to imminent node shutdown."
        self.told.append(f"{ref.name} fails within {order.grace_period_seconds} s")
        return ref.name != "without"

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        self.told.append(f"{request.name} ends within {request.grace_period_seconds} s")
        return PodWorkflowResult()


class Machine:
    """A machine with a bus, logind and a node."""

    def __init__(self, directory: Path, bus: Bus, workflows: Workflows) -> None:
        self.directory, self.bus, self.workflows = directory, bus, workflows
        self.root = directory / "root"
        self.told: list[bool] = []
        self.node: NodeShutdown
        self._running: asyncio.Task[None] | None = None

    def start(self, periods: str = TWO) -> None:
        self.node = NodeShutdown(
            parse_shutdown_periods(periods),
            self.directory,
            self.workflows.published,
            self.workflows,
            lambda: logind(self.root),
            tell_cluster=self.told.append,
        )
        self._running = asyncio.create_task(self.node.run())

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    def times(self) -> dict[str, str]:
        path = self.directory / STATE_FILE
        return dict(json.loads(path.read_text())) if path.exists() else {}


@pytest_asyncio.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(logind_module, "_FIRST_LOOK_SECONDS", 0.01)
    bus = Bus(tmp_path)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.address)
    await bus.start()
    made = Machine(tmp_path, bus, Workflows(tmp_path))
    try:
        yield made
    finally:
        await made.stop()
        await bus.stop()


@pytest_asyncio.fixture
async def there(machine: Machine) -> AsyncIterator[Logind]:
    async with connected(machine.bus.address) as served:
        yield served


async def test_pods_end_by_priority_and_then_the_machine_goes_on(machine: Machine, there: Logind) -> None:
    told, pods = machine.workflows.told, machine.workflows
    pods.publish("web", terminationGracePeriodSeconds=5)
    pods.publish("slow", priority=1000, terminationGracePeriodSeconds=600)
    pods.publish("static", source=FILE_SOURCE, priority=2_000_001_000, terminationGracePeriodSeconds=7)
    pods.publish("done", "Succeeded", runs=False)
    pods.publish("without")
    machine.start()
    await until(lambda: there.is_held)
    assert machine.node.refusal() is None
    await there.tell(shutdown=True)
    await until(lambda: len(told) == 3)
    assert sorted(told) == ["slow fails within 60 s", "web fails within 5 s", "without fails within 60 s"]
    assert machine.node.refusal() == ("NodeShutdown", "Pod was rejected as the node is shutting down.")
    pods.publish("web", "Failed", runs=False)
    pods.publish("slow", "Failed")  # its workflow has decided, and its container still runs
    await there.tell(shutdown=True)  # said twice
    await asyncio.sleep(0.1)
    assert len(told) == 3 and there.is_held and set(machine.times()) == {"startTime"}
    pods.publish("slow", "Failed", runs=False)
    await until(lambda: len(told) == 4)
    assert told[-1] == "static ends within 7 s" and there.is_held
    pods.published.forget(PodRef(namespace="default", name="static", uid="uid-static"))
    pods.publish("web", "Failed", runs=False)
    await until(lambda: not there.is_held)
    await until(lambda: set(machine.times()) == {"startTime", "endTime"})
    assert machine.node.refusal() is not None
    assert machine.told == [True, True]


async def test_a_shutdown_that_is_called_off_leaves_the_other_pods_alone(machine: Machine, there: Logind) -> None:
    machine.workflows.publish("web")
    machine.workflows.publish("high", priority=2_000_000_000)
    machine.start()
    await until(lambda: there.is_held)
    await there.tell(shutdown=True)
    await until(lambda: len(machine.workflows.told) == 1)
    await there.tell(shutdown=False)
    await until(lambda: machine.told == [True, False])
    await until(lambda: len(there.locks) == 2 and there.is_held)
    assert machine.node.refusal() is None
    machine.workflows.publish("web", "Failed", runs=False)
    await asyncio.sleep(0.1)
    assert machine.workflows.told == ["web fails within 60 s"]


async def test_a_group_has_no_more_than_its_time(
    machine: Machine, there: Logind, caplog: pytest.LogCaptureFixture
) -> None:
    machine.workflows.publish("web")
    machine.workflows.publish("high", priority=2_000_000_000)
    machine.start("0=1s,2000000000=1s")
    await until(lambda: there.is_held)
    await there.tell(shutdown=True)
    await until(lambda: not there.is_held)
    assert machine.workflows.told == ["web fails within 1 s", "high fails within 1 s"]
    assert "1 s are over, and these pods have not ended: default/web" in caplog.text


async def test_a_bus_that_begins_anew_is_followed_again(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(machine.bus.address) as first:
        machine.start()
        await until(lambda: first.is_held)
        await machine.bus.stop()
        await until(lambda: "does not wait for pods" in caplog.text)
    await machine.bus.start()
    async with connected(machine.bus.address) as second:
        await until(lambda: second.is_held)
        await second.tell(shutdown=True)
        await until(lambda: machine.told == [True])


async def test_a_shutdown_whose_signal_was_missed_is_noticed_and_so_is_its_end(machine: Machine) -> None:
    machine.workflows.publish("web")
    async with connected(machine.bus.address) as first:
        first.shutdown = True
        machine.start()
        await until(lambda: machine.workflows.told == ["web fails within 60 s"])
        machine.workflows.publish("late")  # of which the worker has only now learned
        machine.workflows.publish("web", "Failed", runs=False)
        await until(lambda: machine.workflows.told[1:] == ["late fails within 60 s"])
        assert not first.locks and machine.node.has_tried.is_set()
        await machine.bus.stop()
    await machine.bus.start()
    async with connected(machine.bus.address) as second:
        await until(lambda: second.is_held)
        assert machine.node.refusal() is None and machine.told == [True, False]


async def test_a_logind_that_would_wait_too_shortly_is_configured(machine: Machine) -> None:
    async with connected(machine.bus.address, delay=5, reads=machine.root / DROP_IN) as served:
        machine.start("0=10s,5=20s")
        await until(lambda: served.is_held)
    assert (machine.root / DROP_IN).read_text().splitlines()[1:] == ["[Login]", "InhibitDelayMaxSec=30"]


async def test_a_logind_that_stays_as_it_is_is_told_once(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(machine.bus.address, delay=5) as served:
        machine.start()
        await until(lambda: "logind waits for 5 s, less than 120 s" in caplog.text)
        await asyncio.sleep(0.3)
        assert not served.locks
    assert caplog.text.count("less than 120 s") == 1


@pytest.mark.parametrize("missing", ["bus", "library", "logind"])
async def test_without_it_one_line_says_so_and_the_node_goes_on(
    machine: Machine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    why = {
        "bus": "the system bus cannot be reached",
        "library": "pip install 'syncpod[shutdown]'",
        "logind": "org.freedesktop.login1 refuses Get",
    }
    if missing == "bus":
        await machine.bus.stop()
    elif missing == "library":
        monkeypatch.setitem(sys.modules, "dbus_fast", None)
    machine.start()
    await until(lambda: why[missing] in caplog.text)
    await asyncio.sleep(0.3)
    assert [each.levelno for each in caplog.records if each.name == module.log.name] == [logging.WARNING]
    assert machine.node.refusal() is None
