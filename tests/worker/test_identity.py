"""A node keeps its runtime, its name, its Temporal cluster and its settings.

Holds: A node with pods keeps its name, its runtime and its Temporal cluster.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from temporalio.service import RPCError

from syncpod.cri.client import CriClient
from syncpod.messages.node import node_workflow_id
from syncpod.settings.kept import read_kept_settings
from syncpod.settings.worker_record import read_worker_record
from tests.e2e.faults_proxy import CriProxy
from tests.node.owned_pods import owned_pod
from tests.runtimes.containerd import Containerd
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.node_process import NodeProcess, forked
from tests.worker.test_serving import refusal


@pytest.fixture
def node() -> str:
    return f"n-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def runtime(containerd: Containerd) -> Containerd:
    return containerd


async def test_a_node_with_pods_refuses_another_runtime_or_name(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    address = temporal_server.address
    with forked(tmp_path, "--capacity", "pods=7", runtime=runtime.endpoint, temporal=address, node=node) as first:
        await first.ready()
        state = first.state_dir
    assert (state / "node-settings.json").stat().st_mode & 0o777 == 0o600
    async with CriProxy(runtime.directory / f"{node}.sock", runtime.endpoint) as other:
        async with (
            CriClient(runtime.endpoint) as cri,
            owned_pod(cri, cgroup_parent=runtime.cgroup_parent, logs=tmp_path, name="stays", owner=node) as pod,
        ):
            await pod.run()
            with forked(tmp_path, runtime=other.endpoint, temporal=address, node=node) as worker:
                assert await refusal(worker) == (
                    f"node {node} has pods on the runtime at {runtime.endpoint}, so it cannot use {other.endpoint}: "
                    "name no other runtime, or end the pods first (`syncpod down`, or `syncpod delete pods --all`)"
                )
            with forked(tmp_path, runtime="", temporal=address, node=f"{node}-b") as worker:
                assert (await refusal(worker)).startswith(
                    f"state directory {state} has pods of node {node}, so it cannot become node {node}-b: "
                    f"keep the name (--node {node}), give node {node}-b a state directory of its own (--state-dir), or "
                )
            with forked(tmp_path, runtime="", temporal=address, node=node) as worker:
                await worker.ready()
                record = read_worker_record(state)
                assert record is not None and record.endpoint == runtime.endpoint
                assert read_kept_settings(state).variables["SYNCPOD_CAPACITY"] == "pods=7"
        with forked(tmp_path, runtime=other.endpoint, temporal=address, node=f"{node}-b") as worker:
            await worker.ready()
            kept = read_kept_settings(state)
            assert (kept.node, kept.endpoint) == (f"{node}-b", other.endpoint), "it has no pods, so it may change"


async def test_a_worker_refuses_a_temporal_cluster_other_than_its_nodes(
    runtime: Containerd, temporal_server: DevServer, tmp_path: Path, node: str
) -> None:
    with DevServer.launch() as own:
        with forked(tmp_path, runtime=runtime.endpoint, temporal=own.address, node=node) as worker:
            await worker.ready()
        sentence = (
            f"the Temporal server at {temporal_server.address} is not the one that has the pods of node {node}: "
            "start that one again or name it in TEMPORAL_ADDRESS, or let this one have the node with --adopt-cluster"
        )
        with forked(tmp_path, runtime=runtime.endpoint, temporal=temporal_server.address, node=node) as worker:
            assert await refusal(worker) == sentence
        own.kill()
        await asyncio.to_thread(own.start)
        with forked(tmp_path, runtime=runtime.endpoint, temporal=own.address, node=node) as worker:
            await worker.ready()
            own.kill()
            for file in own.directory.glob("temporal.db*"):
                file.unlink()
            await asyncio.to_thread(own.start)  # another server, at the same address
            said = await ended(worker)
            assert said.endswith(sentence.replace(temporal_server.address, own.address))
        with pytest.raises(RPCError, match="not found"):
            await (await connect(own.address)).get_workflow_handle(node_workflow_id(node)).describe()
        adopting = ("--adopt-cluster",)
        for arguments in (adopting, ()):
            with forked(tmp_path, *arguments, runtime=runtime.endpoint, temporal=own.address, node=node) as worker:
                await worker.ready()


async def ended(worker: NodeProcess) -> str:
    """Return the last line of a worker that stopped serving by itself."""
    assert await worker.ended() == 2
    return worker.log.read_text().splitlines()[-1]
