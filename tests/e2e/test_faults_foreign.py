"""Foreign workers, kubelets, sandboxes and containers are left alone."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from syncpod.translation.names import NODE_LABEL, POD_UID_LABEL
from tests.agent.waiting import until_asked
from tests.e2e.faults_support import FaultyNode
from tests.node.owned_pods import OwnedPod, owned_pod
from tests.worker.node_process import NodeProcess


@contextlib.asynccontextmanager
async def stranger(
    node: FaultyNode, logs: Path, *, name: str, uid: str, attempt: int, owner: str = ""
) -> AsyncIterator[OwnedPod]:
    """A sandbox with the name, UID and labels of one of our pods, but without the label that names its owner."""
    async with owned_pod(node.cri, cgroup_parent=node.runtime.cgroup_parent, logs=logs, name=name) as pod:
        pod.sandbox.metadata.uid = pod.sandbox.labels[POD_UID_LABEL] = uid
        if owner:
            pod.sandbox.labels[NODE_LABEL] = owner
        else:
            del pod.sandbox.labels[NODE_LABEL]
        await pod.run(attempt=attempt)
        try:
            yield pod
        finally:
            await node.cri.stop_pod_sandbox(pod.sandbox_id)
            await node.cri.remove_pod_sandbox(pod.sandbox_id)


async def lives(node: FaultyNode, pod: OwnedPod, container: str) -> bool:
    """Return whether the foreign sandbox and its container are unchanged."""
    (sandbox,) = await node.cri.list_pod_sandboxes(id=pod.sandbox_id)
    return (
        sandbox.state == "SANDBOX_READY" and (await node.cri.container_status(container)).container.state == "running"
    )


@pytest.mark.parametrize("owner", ["", "another-node"], ids=["nobody's", "another node's"])
async def test_a_deletion_does_not_touch_a_foreign_pod_with_the_same_name_and_uid(
    node: FaultyNode, tmp_path: Path, owner: str
) -> None:
    name, uid = f"p-{uuid.uuid4().hex[:8]}", str(uuid.uuid4())
    async with stranger(node, tmp_path, name=name, uid=uid, attempt=7, owner=owner) as theirs:
        container = await theirs.start()
        ours = await node.apply(name=name, uid=uid)
        await ours.up()
        await ours.assert_whole()
        await ours.handle.signal("delete_pod", {})
        await ours.handle.result()

        async def is_removed() -> bool:
            return not [*await ours.sandboxes(), *await ours.containers()]

        await until_asked(is_removed)
        assert await lives(node, theirs, container)


async def test_a_foreign_sandbox_that_holds_the_name_is_neither_adopted_nor_removed(
    node: FaultyNode, tmp_path: Path
) -> None:
    name, uid = f"p-{uuid.uuid4().hex[:8]}", str(uuid.uuid4())
    async with stranger(node, tmp_path, name=name, uid=uid, attempt=0) as theirs:
        container = await theirs.start()
        ours = await node.apply(name=name, uid=uid)
        said = f"its name is taken by sandbox {theirs.sandbox_id}, which is not managed by syncpod"
        await ours.until_event("FailedCreatePodSandBox", said)
        assert await lives(node, theirs, container)
    await ours.handle.signal("backoff_expired", {"container": "create_sandbox", "restart": 0})
    await ours.running()
    await ours.assert_whole()
    await ours.delete()


async def test_a_foreign_container_is_neither_adopted_nor_removed(node: FaultyNode, tmp_path: Path) -> None:
    name, uid = f"p-{uuid.uuid4().hex[:8]}", str(uuid.uuid4())
    async with stranger(node, tmp_path, name=name, uid=uid, attempt=7, owner="another-node") as theirs:
        container = await theirs.start(theirs.container("a"))
        ours = await node.apply(name=name, uid=uid)
        said = f"its name is taken by container {container}, which belongs to node another-node"
        await ours.until_event("Failed", said)
        assert await lives(node, theirs, container)
    await ours.handle.signal("backoff_expired", {"container": "a"})
    await ours.running()
    await ours.assert_whole()
    await ours.delete()


async def test_a_second_worker_for_the_node_is_refused_and_the_first_keeps_serving(
    node: FaultyNode, tmp_path: Path
) -> None:
    (tmp_path / "same-state").mkdir()
    (tmp_path / "other-state").mkdir()
    with node.worker_process(tmp_path / "same-state", "--state-dir", str(node.worker.state_dir)) as second:
        assert await refusal(second) == (
            f"state directory {node.worker.state_dir} is in use by the worker in process {node.worker.pid}: "
            "one worker serves a node"
        )
    # As from another machine: the lock is not visible there, but the server knows the worker.
    with node.worker_process(tmp_path / "other-state") as third:
        sentence = await refusal(third)
        assert sentence.startswith(f"node {node.name} is served by another worker, {node.name}/")
        assert sentence.endswith(": stop it, or give this one another name (--node)")
    pod = await node.apply()
    await pod.running()
    await pod.assert_whole()
    await pod.delete()


async def test_a_worker_refuses_to_start_beside_a_kubelet(node: FaultyNode, tmp_path: Path) -> None:
    async with stranger(node, tmp_path, name="kubelets", uid=str(uuid.uuid4()), attempt=0):
        with node.worker_process(tmp_path) as worker:
            assert "has pods of a kubelet (default/kubelets)" in await refusal(worker)


async def refusal(worker: NodeProcess) -> str:
    """The one sentence that a worker prints when it ends because it cannot serve."""
    assert await worker.ended() == 2
    assert worker.output.read_text() == "", "it has never served"
    sentences = [line for line in worker.log.read_text().splitlines() if line.startswith("syncpod worker: ")]
    assert "Traceback" not in worker.log.read_text()
    (sentence,) = sentences
    return sentence.removeprefix("syncpod worker: ")
