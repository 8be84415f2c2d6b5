"""A worker process: its output, its refusals and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowHandle

from syncpod.agent.takeover import preconditions
from syncpod.agent.takeover.awaited_runtime import RuntimeAway
from syncpod.cri.client import CriClient
from syncpod.kernel.process_priority import NICE
from syncpod.kernel.procfs import identify
from syncpod.messages.identity import node_task_queue, pod_workflow_id
from syncpod.settings.kept import KeptSettings
from syncpod.settings.node import node_settings
from syncpod.settings.process_records import RuntimeRecord, running_runtime, write_runtime
from syncpod.settings.table import RUNTIME_ENDPOINT
from syncpod.settings.worker_record import read_worker_record
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.agent.waiting import until, until_asked
from tests.e2e.faults_proxy import CriProxy
from tests.node.owned_pods import owned_pod
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.node_process import ROOT, NodeProcess, forked

NOWHERE = "unix:///run/nowhere.sock"
WAITS = "waiting up to 30 s for the runtime: "


@pytest.fixture
def node() -> str:
    return f"n-{uuid.uuid4()}"


@pytest.fixture
def runtime(containerd: Containerd) -> Containerd:
    return containerd


@pytest_asyncio.fixture
async def client(temporal_server: DevServer) -> Client:
    return await connect(temporal_server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])


async def refusal(worker: NodeProcess) -> str:
    """Return the only sentence in the output of a worker that cannot serve."""
    assert await worker.ended() == 2
    assert worker.output.read_text() == ""
    *log, sentence = worker.log.read_text().splitlines()
    assert not any("Traceback" in line for line in log)
    return sentence.removeprefix("syncpod worker: ")


# --- what it says and refuses -----------------------------------------------------------------------------------------


async def test_a_worker_announces_that_it_serves_and_keeps_a_record_meanwhile(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    with NodeProcess(tmp_path, runtime=runtime.endpoint, temporal=temporal_server.address, node=node) as worker:
        await worker.ready()
        async with CriClient(runtime.endpoint) as cri:
            version = (await cri.version()).version
        assert version.removeprefix("v").startswith(runtime.version)
        assert worker.output.read_text() == (
            f"worker ready: node {node}, runtime containerd {version} at {runtime.endpoint}, "
            f"Temporal {temporal_server.address} namespace default, task queue node/{node}\n"
        )
        record = read_worker_record(worker.state_dir)
        assert record is not None
        assert (record.pid, record.node, record.endpoint) == (worker.pid, node, runtime.endpoint)
        assert record.identity == f"{node}/{record.identity.split('/')[1]}/{record.boot}"
        assert (worker.state_dir / "worker.json").stat().st_mode & 0o777 == 0o600
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == min(NICE, os.getpriority(os.PRIO_PROCESS, 0))

        assert await worker.stop() == 0
        assert read_worker_record(worker.state_dir) is None


async def test_a_worker_without_a_runtime_names_the_sockets_tried(tmp_path: Path, temporal_server: DevServer) -> None:
    with forked(tmp_path, runtime=NOWHERE, temporal=temporal_server.address) as worker:
        assert await refusal(worker) == (
            "no container runtime at /run/nowhere.sock (missing), which --runtime-endpoint or "
            "CONTAINER_RUNTIME_ENDPOINT names: "
            "start the runtime or correct its name"
        )
        assert WAITS not in worker.log.read_text()


async def test_a_worker_waits_for_an_unready_runtime_and_says_so_once(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    """First its socket is a dead one's, then it takes connections and breaks them, then it is there."""
    dead, later = tmp_path / "cri.sock", tmp_path / "later.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    with forked(tmp_path, runtime=f"unix://{dead}", temporal=temporal_server.address, node=node) as worker:
        await until(lambda: WAITS in worker.log.read_text())
        async with CriProxy(dead, f"unix://{later}") as proxy:
            await until(lambda: proxy.calls["Version"] > 0)
            async with CriProxy(later, runtime.endpoint):
                await worker.ready()
                assert worker.log.read_text().count(WAITS) == 1
                assert await worker.stop() == 0


@pytest.mark.parametrize("endpoint", ["/run/nowhere.sock", NOWHERE])
async def test_a_worker_waits_for_its_nodes_runtime_even_if_the_socket_is_missing(
    tmp_path: Path, endpoint: str
) -> None:
    settings = node_settings({RUNTIME_ENDPOINT.variable: endpoint}, state_dir=str(tmp_path), node="n1")
    with pytest.raises(RuntimeAway, match=r"was started with does not answer at unix:///run/nowhere.sock \(missing\)"):
        await preconditions.find_runtime(settings, KeptSettings({RUNTIME_ENDPOINT.variable: NOWHERE}), {})
    with pytest.raises(preconditions.CannotServe, match=r"no container runtime at /run/nowhere.sock \(missing\)"):
        await preconditions.find_runtime(
            settings, KeptSettings({RUNTIME_ENDPOINT.variable: "unix:///run/other.sock"}), {}
        )


async def test_a_worker_finds_the_embedded_runtime_that_runs_in_its_state_directory(
    temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    """Both are started at once, by hand: the worker waits for a runtime that has not begun to listen."""
    state = tmp_path / "state"
    command = [sys.executable, "-m", "syncpod.cli.main", "runtime", "--simulate", "--state-dir", str(state)]
    with subprocess.Popen(command, cwd=ROOT) as runtime:  # noqa: ASYNC220  # `terminate` ends it
        try:
            await until(lambda: running_runtime(state) is not None)
            with forked(tmp_path, runtime="", temporal=temporal_server.address, node=node) as worker:
                await worker.ready()
                assert f"runtime syncpod-embedded 0.1.0 at unix://{state}/runtime/cri.sock" in worker.output.read_text()
                assert await worker.stop() == 0
        finally:
            runtime.terminate()


async def test_a_worker_takes_the_running_embedded_runtime_only_if_none_is_named(tmp_path: Path) -> None:
    me, there = identify(os.getpid()), tmp_path / "cri.sock"
    assert me is not None
    write_runtime(tmp_path, RuntimeRecord(me, f"unix://{there}", simulated=False, detached=False))
    settings = node_settings({}, state_dir=str(tmp_path), node="n1")
    with pytest.raises(RuntimeAway, match=rf"\(pid {me.pid}\) does not answer at unix://{there} \(missing\)"):
        await preconditions.find_runtime(settings, KeptSettings(), {})
    with pytest.raises(preconditions.CannotServe, match=r"no container runtime at /run/nowhere.sock \(missing\)"):
        await preconditions.find_runtime(settings, KeptSettings(), {RUNTIME_ENDPOINT.variable: NOWHERE})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(there))
        listener.listen()
        assert await preconditions.find_runtime(settings, KeptSettings(), {}) == f"unix://{there}"
        ended = replace(me, started=me.started + 1)
        write_runtime(tmp_path, RuntimeRecord(ended, f"unix://{there}", simulated=False, detached=False))
        try:
            assert await preconditions.find_runtime(settings, KeptSettings(), {}) != f"unix://{there}"
        except preconditions.CannotServe as refusal:
            assert str(there) not in str(refusal), "somebody else may listen there by now"


@pytest.mark.parametrize("call", ["Version", "ListContainers"])
async def test_a_worker_that_still_waits_stops_at_once(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str, call: str
) -> None:
    async with CriProxy(tmp_path / "cri.sock", runtime.endpoint) as proxy:
        address = temporal_server.address
        with (
            proxy.stop(call, "before") as held,
            forked(tmp_path, runtime=proxy.endpoint, temporal=address, node=node) as worker,
        ):
            await held.reached()
            assert await worker.stop() == 0
            assert worker.output.read_text() == ""
            assert "does not end" not in worker.log.read_text()


async def test_a_manifest_path_that_is_not_a_directory_is_named(tmp_path: Path, temporal_server: DevServer) -> None:
    file = tmp_path / "pod.yaml"
    file.touch()
    manifests = ("--manifests", str(file))
    with forked(tmp_path, *manifests, runtime=NOWHERE, temporal=temporal_server.address) as worker:
        assert await refusal(worker) == f"manifest directory {file}: is not a directory"


async def test_a_worker_serves_although_the_manifest_file_system_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat, answers, answered = Path.stat, threading.Event(), threading.Event()

    def hangs(path: Path, **how: Any) -> os.stat_result:
        if path == tmp_path and answers.wait(10):
            answered.set()
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", hangs)
    monkeypatch.setattr(preconditions, "_DIRECTORY_SECONDS", 0.01)
    await preconditions.require_directory(tmp_path)
    answers.set()
    assert await asyncio.to_thread(answered.wait, 10), "it has gone on without an answer"


async def test_a_worker_without_a_server_says_how_to_start_one(tmp_path: Path, runtime: Containerd) -> None:
    with NodeProcess(tmp_path, runtime=runtime.endpoint, temporal="127.0.0.1:1") as worker:
        assert await refusal(worker) == (
            "no Temporal server at 127.0.0.1:1 (connection refused): start one with `syncpod up`, "
            "or name one in TEMPORAL_ADDRESS"
        )


async def test_a_missing_temporal_namespace_is_named(
    tmp_path: Path, runtime: Containerd, temporal_server: DevServer
) -> None:
    address = temporal_server.address
    with forked(tmp_path, runtime=runtime.endpoint, temporal=address, TEMPORAL_NAMESPACE="missing") as worker:
        assert await refusal(worker) == (
            f"the Temporal server at {address} has no namespace missing: create it "
            "(`temporal operator namespace create missing`), or name another in TEMPORAL_NAMESPACE"
        )


async def test_a_worker_warns_of_secrets_on_disk_but_not_in_memory(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    for memory, warned in ((tmp_path / "memory", True), (Path(f"/dev/shm/syncpod-tests-{node}"), False)):
        flags = {"node": node, "SYNCPOD_MEMORY_DIR": str(memory)}
        with forked(tmp_path, runtime=runtime.endpoint, temporal=temporal_server.address, **flags) as worker:
            await worker.ready()
            record = read_worker_record(worker.state_dir)
            assert record is not None and record.memory_dir == str(memory)
            assert memory.stat().st_mode & 0o777 == 0o700
            said = f"the memory directory {memory} is not on a memory file system, so Secrets are written to a disk"
            assert (said in worker.log.read_text()) == warned
            await worker.stop()
        worker.log.unlink()
        shutil.rmtree(memory)


async def test_a_memory_directory_that_is_a_symlink_is_refused(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    (tmp_path / "memory").symlink_to(tmp_path)
    with forked(tmp_path, runtime=runtime.endpoint, temporal=temporal_server.address, node=node) as worker:
        assert "exists, but is not a directory that this user owns" in await refusal(worker)


async def test_an_invalid_node_name_is_refused(tmp_path: Path) -> None:
    with forked(tmp_path, runtime=NOWHERE, temporal="127.0.0.1:1", node="My_Node") as worker:
        assert (await refusal(worker)).startswith("node name 'My_Node': must be at most 253 lower-case letters, digits")


async def test_a_second_worker_of_a_node_is_refused_and_the_first_keeps_serving(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    (tmp_path / "second").mkdir()
    with forked(tmp_path, runtime=runtime.endpoint, temporal=temporal_server.address, node=node) as first:
        await first.ready()
        arguments = ("--state-dir", str(first.state_dir))
        with forked(
            tmp_path / "second", *arguments, runtime=runtime.endpoint, temporal=temporal_server.address, node=node
        ) as second:
            assert await refusal(second) == (
                f"state directory {first.state_dir} is in use by the worker in process {first.pid}: "
                "one worker serves a node"
            )
        record = read_worker_record(first.state_dir)
        assert record is not None
        assert record.pid == first.pid


async def test_beside_a_kubelet_a_worker_serves_only_if_told_to(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    async with (
        CriClient(runtime.endpoint) as cri,
        owned_pod(cri, cgroup_parent=runtime.cgroup_parent, logs=tmp_path, name="kubelets") as pod,
    ):
        del pod.sandbox.labels["syncpod.dev/node"]
        await pod.run()
        for directory in ("refused", "told"):
            (tmp_path / directory).mkdir()
        address = temporal_server.address
        with forked(tmp_path / "refused", runtime=runtime.endpoint, temporal=address, node=node) as worker:
            sentence = await refusal(worker)
            assert "has pods of a kubelet (default/kubelets), and a kubelet kills pods that are not its own" in sentence
        with forked(
            tmp_path / "told", "--allow-foreign-kubelet", runtime=runtime.endpoint, temporal=address, node=node
        ) as worker:
            await worker.ready()
            assert await worker.stop() == 0
        (left,) = await cri.list_pod_sandboxes(id=pod.sandbox_id)
        assert left.state == "SANDBOX_READY"


async def test_containers_without_a_workflow_are_left_alone(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    async with (
        CriClient(runtime.endpoint) as cri,
        owned_pod(cri, cgroup_parent=runtime.cgroup_parent, logs=tmp_path, name="stray", owner=node) as pod,
    ):
        await pod.run()
        container = await pod.start()
        with forked(tmp_path, runtime=runtime.endpoint, temporal=temporal_server.address, node=node) as worker:
            await worker.ready()

            async def logged() -> bool:
                return "no workflow asks for it; it is left as it is" in worker.log.read_text()

            await until_asked(logged)
            assert await worker.stop() == 0
        assert (await cri.container_status(container)).container.state == "running"


# --- pods through its life --------------------------------------------------------------------------------------------


def pod_document(name: str, *command: str, host_network: bool = True) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "hostNetwork": host_network,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": BUSYBOX, "command": list(command or ("sleep", "1000"))}],
        },
    }


@contextlib.asynccontextmanager
async def started(client: Client, node: str, document: dict[str, Any]) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """Start a pod's workflow; the pod is deleted at the end."""
    handle: WorkflowHandle[Any, Any] = await client.start_workflow(
        "PodWorkflow",
        {"pod": document},
        id=pod_workflow_id("default", document["metadata"]["name"]),
        task_queue=node_task_queue(node),
        task_timeout=timedelta(seconds=3),
    )
    try:
        yield handle
    finally:
        await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
        async with asyncio.timeout(60):
            await handle.result()


async def running(handle: WorkflowHandle[Any, Any], *, restarts: int = 0) -> bool:
    status = (await handle.query("pod", rpc_timeout=timedelta(seconds=10))).get("status", {})
    containers = status.get("containerStatuses", [])
    return status.get("phase") == "Running" and all(
        "running" in container["state"] and container["restartCount"] == restarts for container in containers
    )


async def test_a_pod_has_one_sandbox_and_one_container_after_a_worker_kill_during_its_start(
    runtime: Containerd, temporal_server: DevServer, client: Client, tmp_path: Path, node: str
) -> None:
    def serve() -> NodeProcess:
        return forked(tmp_path, runtime=runtime.endpoint, temporal=temporal_server.address, node=node)

    name = f"p-{uuid.uuid4()}"
    with serve() as first:
        await first.ready()
        # Shut while the worker dies: its call to the runtime has been made, and its answer is lost.
        with runtime.gates.hold("cni-add") as gate:
            document = pod_document(name, host_network=False)
            handle = await client.start_workflow(
                "PodWorkflow",
                {"pod": document},
                id=pod_workflow_id("default", name),
                task_queue=node_task_queue(node),
                task_timeout=timedelta(seconds=3),
            )
            await gate.reached()
            first.kill()
    with serve() as second:
        await second.ready()
        await until_asked(lambda: running(handle), patience=60)
        async with CriClient(runtime.endpoint) as cri:
            sandboxes = await cri.list_pod_sandboxes(labels={"io.kubernetes.pod.name": name})
            containers = await cri.list_containers(labels={"io.kubernetes.pod.name": name})
            assert [(sandbox.attempt, sandbox.state) for sandbox in sandboxes] == [(0, "SANDBOX_READY")]
            assert [(container.attempt, container.state) for container in containers] == [(0, "running")]
        await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
        async with asyncio.timeout(60):
            await handle.result()
        assert await second.stop() == 0


async def test_pods_continue_after_a_server_outage(runtime: Containerd, tmp_path: Path, node: str) -> None:
    with (
        DevServer.launch() as server,
        forked(tmp_path, runtime=runtime.endpoint, temporal=server.address, node=node) as worker,
    ):
        await worker.ready()
        client = await connect(server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
        name = f"p-{uuid.uuid4()}"
        async with started(client, node, pod_document(name)) as handle, CriClient(runtime.endpoint) as cri:
            await until_asked(lambda: running(handle))
            server.kill()
            (container,) = await cri.list_containers(labels={"io.kubernetes.pod.name": name})
            await cri.stop_container(container.id, timeout_seconds=0)
            await asyncio.to_thread(server.start)
            await until_asked(lambda: running(handle, restarts=1), patience=60)
        assert await worker.stop() == 0


async def test_pods_keep_running_when_the_worker_stops(
    runtime: Containerd, temporal_server: DevServer, client: Client, tmp_path: Path, node: str
) -> None:
    def serve() -> NodeProcess:
        return forked(tmp_path, runtime=runtime.endpoint, temporal=temporal_server.address, node=node)

    name = f"p-{uuid.uuid4()}"
    with serve() as first:
        await first.ready()
        handle: WorkflowHandle[Any, Any] = await client.start_workflow(
            "PodWorkflow",
            {"pod": pod_document(name)},
            id=pod_workflow_id("default", name),
            task_queue=node_task_queue(node),
        )
        await until_asked(lambda: running(handle))
        assert await first.stop() == 0
    async with CriClient(runtime.endpoint) as cri:
        (container,) = await cri.list_containers(labels={"io.kubernetes.pod.name": name})
        assert container.state == "running"
    with serve() as second:
        await second.ready()
        await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
        async with asyncio.timeout(60):
            await handle.result()
