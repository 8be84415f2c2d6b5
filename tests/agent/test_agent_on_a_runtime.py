"""The agent between a real runtime and a real server, with a workflow that records its signals instead of a pod's."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import pytest_asyncio
from temporalio.client import WorkflowHandle
from temporalio.worker import Worker

from protos.cri.v1 import api_pb2 as cri_api
from syncpod.agent import agent as module
from syncpod.agent.agent import Agent
from syncpod.agent.joined_cluster import ClusterLink
from syncpod.agent.takeover.cluster import ClusterGuard
from syncpod.agent.takeover.lock import NodeLife
from syncpod.cri.client import CriClient
from syncpod.cri.errors import Unavailable
from syncpod.messages.identity import NodeFacts, PodRef, pod_workflow_id
from syncpod.messages.steps import StepEvent
from syncpod.node import seen_exits
from syncpod.node.reader import PodReader
from syncpod.pod import Pod
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from syncpod.translation.context import NodeContext
from tests.agent.stub_workflows import Recorder
from tests.agent.waiting import until, until_asked
from tests.node.owned_pods import OwnedPod, owned_pod
from tests.runtimes.containerd import Containerd
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect

pytestmark = pytest.mark.every_runtime("the runtime reports events and exits")


@dataclass
class Scene:
    """One pod on a runtime, its recorder, and the agent of its node, which is not running yet."""

    agent: Agent
    pod: OwnedPod
    recorder: WorkflowHandle[Any, Any]
    reader: PodReader

    async def signals(self) -> list[dict[str, Any]]:
        received: list[dict[str, Any]] = await self.recorder.query("received")
        return received

    async def signalled(self, count: int = 1) -> list[dict[str, Any]]:
        async def so_many() -> bool:
            return len(await self.signals()) >= count

        await until_asked(so_many)
        return await self.signals()


@pytest_asyncio.fixture
async def scene(runtime: Containerd, temporal_server: DevServer, tmp_path: Path) -> AsyncIterator[Scene]:
    node, name = f"n-{uuid.uuid4()}", f"web-{uuid.uuid4()}"
    client = await connect(temporal_server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
    async with (
        CriClient(runtime.endpoint) as cri,
        Worker(client, task_queue=f"node/{node}", workflows=[Recorder]),
        owned_pod(cri, cgroup_parent=runtime.cgroup_parent, logs=tmp_path, name=name, owner=node) as pod,
    ):
        # CRI-O has a pause process only where containers share its processes.
        pod.sandbox.linux.security_context.namespace_options.pid = cri_api.POD
        reader = PodReader(cri, boot=1, owner=node)
        agent = Agent(
            client,
            task_queue=f"node/{node}",
            life=NodeLife(node, "machine", 1),
            cri=cri,
            reader=reader,
            context=NodeContext(name=node, state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster=""),
            facts=lambda: NodeFacts(name=node),
            guard=ClusterGuard(client, "", node=node, address=temporal_server.address),
        )
        recorder: WorkflowHandle[Any, Any] = await client.start_workflow(
            "PodWorkflow", id=pod_workflow_id("default", name), task_queue=f"node/{node}"
        )
        try:
            yield Scene(agent, pod, recorder, reader)
        finally:
            await agent.close()
            await recorder.terminate()


async def test_a_killed_container_is_signalled_before_the_next_relist(scene: Scene) -> None:
    sandbox = await scene.pod.run()
    container = await scene.pod.start()
    await scene.agent.pleg.relist()
    await until(lambda: scene.agent.pidfds.listening() == {sandbox, container})
    await scene.signalled()

    os.kill(await scene.reader.pid_of(container), signal.SIGKILL)
    _, died = await scene.signalled(2)
    assert died["events"] == [{"type": "ContainerDied", "id": container}]
    (status,) = died["status"]["containers"]
    assert (status["state"], status["exitCode"], status["reason"]) == ("exited", 137, "Error")
    assert scene.agent.pidfds.listening() == {sandbox}


async def test_a_killed_pause_process_is_signalled_before_the_next_relist(scene: Scene) -> None:
    sandbox = await scene.pod.run()
    await scene.agent.pleg.relist()
    await until(lambda: scene.agent.pidfds.listening() == {sandbox})
    await scene.signalled()

    os.kill(await scene.reader.sandbox_pid(sandbox), signal.SIGKILL)
    _, died = await scene.signalled(2)
    assert died["events"] == [{"type": "ContainerDied", "id": sandbox}]
    assert died["status"]["sandboxes"][0]["state"] == "SANDBOX_NOTREADY"


async def test_an_exit_during_a_runtime_outage_is_signalled_afterwards(scene: Scene, runtime: Containerd) -> None:
    await scene.pod.run()
    container = await scene.pod.start()
    await scene.agent.pleg.relist()
    await until(lambda: container in scene.agent.pidfds.listening())
    await scene.signalled()
    pid = await scene.reader.pid_of(container)

    runtime.kill()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: container not in scene.agent.pidfds.listening())
    runtime.start()
    await until_asked(lambda: _relisted(scene))
    signals = await scene.signalled(2)
    assert {"type": "ContainerDied", "id": container} in signals[-1]["events"]


async def _relisted(scene: Scene) -> bool:
    try:
        await scene.agent.pleg.relist()
    except Unavailable:  # the client has not connected again yet
        return False
    return True


async def test_a_booting_agent_sends_each_pod_its_listing(scene: Scene) -> None:
    await scene.pod.run()
    container = await scene.pod.start()
    await scene.agent.boot()

    (boot,) = await scene.signalled()
    types = [event["type"] for event in boot["events"]]
    assert types[:2] == ["Boot", "RuntimeReady"]
    assert boot["status"]["containers"][0]["id"] == container


async def test_a_refused_pod_is_signalled_when_the_runtime_is_ready(scene: Scene) -> None:
    uid = scene.pod.uid
    ref = PodRef(namespace="default", name=scene.pod.sandbox.metadata.name, uid=uid)
    scene.agent.step_port.step_began(ref)
    scene.agent.step_port.step_ended(ref, fault="NetworkNotReady")
    await scene.agent.readiness.check()

    (ready,) = await scene.signalled()
    assert ready["events"] == [{"type": "RuntimeReady", "id": uid}]


async def test_steps_learn_of_the_nodes_pressure_and_their_events_reach_its_cluster(scene: Scene) -> None:
    port, ref, event = scene.agent.step_port, PodRef(name="web"), StepEvent(reason="Pulling")
    pod = Pod.model_validate({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
    sent = list[tuple[PodRef, StepEvent]]()
    port.event_happens(ref, event)
    assert port.admission_refusal(pod) == ""
    scene.agent.pressure.measured(("MemoryPressure",))
    scene.agent.cluster.join(ClusterLink(lambda meta: None, lambda *what: sent.append(what), Mock(), Mock()))
    port.event_happens(ref, event)
    assert (port.admission_refusal(pod), sent) == ("The node had condition: [MemoryPressure]. ", [(ref, event)])


async def test_an_agent_ends_even_if_the_disk_for_observed_exits_hangs(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(seen_exits, "replace_file", lambda *_, **__: answers.wait(10))
    monkeypatch.setattr(module, "_FLUSH_SECONDS", 0.01)
    scene.reader.answers.exits = exits = seen_exits.SeenExits(tmp_path / "exits")
    exits.note("c1", 7, datetime.now(UTC))
    await scene.agent.close()
    answers.set()
    assert "they cannot be written in time" in caplog.text
    await exits.settled()
