"""A node with a manifest directory: files are added, changed and removed; workers die; the node is drained.

Holds: A node reaches the state that its lists ask for, even if messages are lost on the way.
Holds: No pod of a list outlives its entry.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError

from qa.fault_points import VARIABLE
from syncpod.agent.sources.desired_pods import with_origin
from syncpod.agent.sources.manifest_files import ManifestFiles
from syncpod.cri.client import CriClient
from syncpod.messages.node import FILE_SOURCE, NodeView, node_workflow_id
from syncpod.pod import admit_pod
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from syncpod.temporal.workflow_starts import begin_pod
from tests.agent.waiting import until_asked
from tests.e2e.clients import Result, syncpod
from tests.e2e.engine import EngineNode, LivePod, Pods, shell
from tests.fork_server import start_worker
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.node_process import NodeProcess

PATIENCE = 60.0


class ManifestNode(EngineNode):
    """A node that follows a directory of manifests."""

    manifests: Path

    def start(self, directory: Path, **more: str) -> NodeProcess:
        follows = ("--manifests", str(self.manifests))
        return NodeProcess.of(
            self.runtime, self.server, directory, *follows, node=self.name, start=start_worker, **more
        )

    async def again(self) -> None:
        """Start its worker again, in the same directories."""
        self.worker = self.start(self.worker.state_dir.parent)
        await self.worker.ready()

    def write(self, file: str, base: str, script: str = "") -> LivePod:
        """Write a manifest for a pod, and return the pod."""
        container = shell("main", script) if script else shell("main")
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": base},
            "spec": {"terminationGracePeriodSeconds": 2, "hostNetwork": True, "containers": [container]},
        }
        (self.manifests / file).write_text(json.dumps(pod))
        name = f"{base}-{self.name}"
        return Pods(self).know({"metadata": {"name": name}})

    async def view(self) -> NodeView:
        handle = self.client.get_workflow_handle(node_workflow_id(self.name))
        return NodeView.model_validate(await handle.query("node"))

    async def until(self, seen: Callable[[NodeView], Any]) -> NodeView:
        """Query until `seen` is true; fails with the last answer and the worker's log."""
        deadline, answered = time.monotonic() + PATIENCE, ""
        while time.monotonic() < deadline:
            try:
                view = await self.view()
            except (RPCError, WorkflowQueryFailedError) as error:  # not there yet, or the worker is away
                answered = repr(error)
            else:
                if seen(view):
                    return view
                answered = view.model_dump_json(indent=1)
            await asyncio.sleep(0.1)
        raise AssertionError(f"{self.name} did not come to that:\n{answered}\n{self.said}")

    async def applied(self, *pods: LivePod) -> NodeView:
        """Wait until exactly these pods are desired, and their workflows have been notified."""
        wanted = sorted((pod.name, "applied") for pod in pods)
        return await self.until(lambda view: sorted((each.name, each.state) for each in view.desired) == wanted)


@pytest_asyncio.fixture(loop_scope="session")
async def manifest_node(runtime: Runtime, temporal_server: DevServer, tmp_path: Path) -> AsyncIterator[ManifestNode]:
    client = await connect(temporal_server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
    async with CriClient(runtime.endpoint) as cri:
        node = ManifestNode(f"n-{uuid.uuid4().hex[:8]}", temporal_server, runtime, client, cri, worker=None)  # type: ignore[arg-type]
        node.manifests = tmp_path / "manifests"
        node.manifests.mkdir()
        directory = tmp_path / "node"
        directory.mkdir()
        node.worker = node.start(directory)
        try:
            await node.worker.ready()
            yield node
            for path in node.manifests.iterdir():
                path.unlink()
            await node.applied()
        finally:
            node.worker.kill()


async def _runs(pod: LivePod) -> bool:
    return any(each.state == "running" for each in await pod.containers("main"))


async def answered(node: EngineNode, *arguments: str) -> Result:
    """The output of our command about a node. On a busy machine, it may take several attempts."""
    async with asyncio.timeout(PATIENCE):
        while True:
            result = await syncpod(node, *arguments)
            if result.code or "MemoryPressure" in result.out:
                return result


async def _uid(pod: LivePod) -> str:
    return str((await pod.get())["metadata"]["uid"])


async def test_pods_of_manifest_files_survive_changes_worker_kills_and_drains(
    manifest_node: ManifestNode,
) -> None:
    """Row 1: a directory of manifests, one Pod each. Row 2: their names, UIDs and annotations."""
    node = manifest_node
    web, job = await made_by_files(node)
    late = await a_worker_comes_back(node, web, job)
    await a_file_changes(node, web)
    static = await cordoned_and_drained(node, web, late)

    described = await answered(node, "describe", "node", node.name)
    assert described.code == 0, described.err
    for said in ("Unschedulable:", "MemoryPressure", "KubeletReady", "broken.yaml", static.name, "Kernel Version"):
        assert said in described.out
    document = json.loads((await answered(node, "get", "node", node.name, "-o", "json")).out)
    assert (document["kind"], document["spec"]["unschedulable"]) == ("Node", True)
    assert int(document["status"]["capacity"]["memory"].removesuffix("Ki")) > 0


async def made_by_files(node: ManifestNode) -> tuple[LivePod, LivePod]:
    """A file makes a pod. A hidden file and a file without a pod make none, and cause no errors."""
    (node.manifests / ".hidden.yaml").write_text("nonsense: [")
    (node.manifests / "broken.yaml").write_text("kind: Pod\napiVersion: v1\nspec: {containers: 7}\n")
    web, job = node.write("web.json", "web"), node.write("job.json", "job")
    view = await node.applied(web, job)
    assert any("broken.yaml" in each.message for each in view.events if each.reason == "FailedManifest")
    pod = await web.running()
    meta = pod["metadata"]
    assert (meta["namespace"], len(meta["uid"]), pod["spec"]["nodeName"]) == ("default", 32, node.name)
    assert meta["annotations"]["kubernetes.io/config.hash"] == meta["uid"]
    assert meta["annotations"]["kubernetes.io/config.source"] == "file"
    assert {"operator": "Exists", "effect": "NoExecute"} in pod["spec"]["tolerations"]
    return web, job


async def a_worker_comes_back(node: ManifestNode, web: LivePod, job: LivePod) -> LivePod:
    """The worker dies and comes back: nothing is restarted, and changes from in between take effect."""
    instance, life = (await web.instance("main")).id, (await node.until(lambda view: view.sources_ready)).boot
    node.worker.kill()
    (node.manifests / "job.json").unlink()
    late = node.write("late.json", "late")
    await node.again()
    await node.applied(web, late)
    await late.running()
    await job.gone()
    assert (await web.instance("main")).id == instance
    view = await node.until(lambda view: view.sources_ready and view.boot > life)
    assert {each.type: each.status for each in view.conditions}["Ready"] == "True"
    return late


async def a_file_changes(node: ManifestNode, web: LivePod) -> None:
    """A changed file replaces its pod by another; a file that breaks keeps its pod."""
    before = await _uid(web)
    node.write("web.json", "web", script="echo changed; sleep 1000")
    await web.until(lambda pod: pod["metadata"]["uid"] != before)
    changed = await web.running()
    (node.manifests / "web.json").write_text("{")
    await node.until(lambda view: any("web.json" in each.message for each in view.events))
    assert await _uid(web) == changed["metadata"]["uid"]


async def cordoned_and_drained(node: ManifestNode, web: LivePod, late: LivePod) -> LivePod:
    """A cordoned node refuses new pods with one sentence, but accepts its directory's, such as the returned pod."""
    listed = await syncpod(node, "get", "nodes")
    assert listed.code == 0, listed.err
    row = next(line.split() for line in listed.out.splitlines() if line.startswith(node.name))
    assert row[1:3] == ["Ready", "<none>"]
    assert (await syncpod(node, "cordon", node.name)).out == f"node/{node.name} cordoned\n"
    assert (await syncpod(node, "cordon", node.name)).out == f"node/{node.name} already cordoned\n"
    async with node.pods() as pods:
        refused = await syncpod(node, "apply", "-f", "-", stdin=json.dumps(pods.manifest("new", shell("main"))))
        assert (refused.code, "is cordoned, and takes no new pod" in refused.err) == (1, True)
        static = node.write("static.json", "static")
        await node.applied(web, late, static)
        await static.running()
        assert (await syncpod(node, "uncordon", node.name)).out == f"node/{node.name} uncordoned\n"
        await drained(node, pods, static)
    await static.running()
    return static


async def drained(node: ManifestNode, pods: Pods, static: LivePod) -> None:
    """A drain ends the applied pods, and lists those that it keeps."""
    bare = await pods.apply("bare", shell("main"), hostNetwork=True)
    await bare.running()
    kept = await syncpod(node, "drain", node.name)
    assert kept.code == 1
    assert "declare no controller (use --force to override)" in kept.err
    await bare.running()
    forced = await syncpod(node, "drain", node.name, "--force")
    assert (forced.code, forced.out.splitlines()[-1]) == (0, f"node/{node.name} drained"), forced.err
    assert f"pod/{bare.name} evicted" in forced.out
    assert f"default/{static.name}" in forced.err
    await bare.gone()


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
async def test_a_static_pod_ended_by_others_is_recreated(manifest_node: ManifestNode) -> None:
    """Row 9: a pod that is desired again while it ends is created again once it has ended."""
    node = manifest_node
    web = node.write("web.json", "web")
    await node.applied(web)
    before, instance = (await web.running())["metadata"]["uid"], (await web.instance("main")).id
    await web.handle.signal("delete_pod", {"gracePeriodSeconds": 0})

    async def is_another() -> bool:
        return any(each.state == "running" and each.id != instance for each in await web.containers("main"))

    await until_asked(is_another, patience=90, pause=0.5)
    assert (await web.running())["metadata"]["uid"] == before
    await node.until(lambda view: "PodGone" in {each.reason for each in view.events})


def _runs_after(restarts: int, pod: dict[str, Any]) -> bool:
    statuses = pod["status"].get("containerStatuses", ())
    return [(each["restartCount"], *each["state"]) for each in statuses] == [(restarts, "running")]


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
async def test_a_manifest_that_is_back_at_once_restarts_its_pod_whose_restarts_count_on(
    manifest_node: ManifestNode,
) -> None:
    """Row 9: the same pod, as in a kubelet; the second time its count is one more."""
    node = manifest_node
    web = node.write("web.json", "web")
    await node.applied(web)
    before = (await web.running())["metadata"]["uid"]
    path = node.manifests / "web.json"
    text = path.read_text()
    for count in (1, 2):
        instance = (await web.instance("main")).id
        path.unlink()
        path.write_text(text)
        pod = await web.until(partial(_runs_after, count))
        assert pod["metadata"]["uid"] == before
        assert (await web.instance("main")).id != instance


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
async def test_a_changed_manifest_that_sets_its_uid_begins_its_pod_anew_unless_the_pod_can_take_the_change(
    manifest_node: ManifestNode,
) -> None:
    """The containers of a file that was replaced by a rename ran on for ever."""
    node = manifest_node
    web = node.write("web.json", "web")
    await node.applied(web)
    path, uid = node.manifests / "web.json", str(uuid.uuid4())
    pod = json.loads(path.read_text())
    pod["metadata"]["uid"] = uid

    def replace() -> None:
        new = node.manifests / ".new"
        new.write_text(json.dumps(pod))
        new.rename(path)

    replace()
    await web.until(lambda pod: pod["metadata"]["uid"] == uid and pod["status"]["phase"] == "Running")
    before = (await web.instance("main")).id
    pod["metadata"]["labels"] = {"in": "place"}
    replace()
    await web.until(lambda pod: pod["metadata"].get("labels") == {"in": "place"})
    assert (await web.instance("main")).id == before
    pod["spec"]["containers"][0]["env"] = [{"name": "CHANGED", "value": "1"}]
    replace()
    after = await web.until(lambda pod: pod["spec"]["containers"][0].get("env") and pod["status"]["phase"] == "Running")
    assert (after["metadata"]["uid"], (await web.instance("main")).id != before) == (uid, True)
    await node.until(lambda view: any("begins anew" in each.message for each in view.events))


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
async def test_a_manifest_removed_while_the_nodes_workflow_is_down_removes_its_pod(
    manifest_node: ManifestNode,
) -> None:
    """If the node's workflow is restarted, it gets the pods from lists and the node's condition again."""
    node = manifest_node
    web, job = node.write("web.json", "web"), node.write("job.json", "job")
    await node.applied(web, job)
    before = (await web.running())["metadata"]["uid"]
    await job.running()
    await node.client.get_workflow_handle(node_workflow_id(node.name)).terminate()
    (node.manifests / "job.json").unlink()  # the agent signals this at once, which restarts the workflow
    await until_asked(lambda: _ended(job), patience=120, pause=0.5)
    assert (await web.running())["metadata"]["uid"] == before

    async def is_told() -> bool:
        """The job need not wait for the node's workflow, which is told of the node's condition later."""
        view = await node.applied(web)
        return view.boot > 0 and view.sources_ready and bool(view.conditions)

    await until_asked(is_told, patience=120, pause=0.5)


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
async def test_a_worker_killed_between_a_pods_early_end_and_the_list_leaves_what_the_manifests_say(
    manifest_node: ManifestNode, tmp_path: Path
) -> None:
    """The agent has ended two pods, and the node's workflow has notified neither. One file is back at the start."""
    node = manifest_node
    web, job, other = (node.write(f"{name}.json", name) for name in ("web", "job", "other"))
    life = (await node.applied(web, job, other)).boot
    for pod in (web, job, other):
        await pod.running()
    uid, instance = await _uid(web), (await other.instance("main")).id
    node.worker.kill()
    node.worker = node.start(
        node.worker.state_dir.parent, **{VARIABLE: f"record={tmp_path / 'calls'},pod={job.name},kill=1"}
    )
    await node.worker.ready()
    await node.until(lambda view: view.boot > life and view.sources_ready)
    handle = node.client.get_workflow_handle(node_workflow_id(node.name))
    await handle.terminate()  # the next run does not know yet that there were pods, and so tells none to end
    text = (node.manifests / "web.json").read_text()
    for file in ("web.json", "job.json"):
        (node.manifests / file).unlink()
    assert await node.worker.ended() == -signal.SIGKILL
    steps = [event.activity_task_scheduled_event_attributes async for event in handle.fetch_history_events()]
    assert [each.activity_type.name for each in steps if each.activity_type.name.startswith("delete")] == []
    (node.manifests / "web.json").write_text(text)
    await node.again()
    await job.gone()
    await node.applied(web, other)
    await until_asked(lambda: _runs(web), patience=90, pause=0.5)
    assert (await _uid(web), (await other.instance("main")).id) == (uid, instance)


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
async def test_pods_of_manifests_begin_and_end_without_a_step_of_the_nodes_workflow(
    manifest_node: ManifestNode,
) -> None:
    node = manifest_node
    first = node.write("first.json", "first")
    await node.applied(first)
    await first.running()
    web = node.write("web.json", "web")
    view = await node.applied(first, web)
    await web.running()
    assert [each.message.split()[1] for each in view.events if each.reason == "PodApplied"] == [
        f"default/{each.name}" for each in (first, web)
    ]
    handle = node.client.get_workflow_handle(node_workflow_id(node.name))
    (node.manifests / "web.json").unlink()
    await web.gone()
    view = await node.applied(first)
    assert [each.message for each in view.events if each.reason == "PodDeleted"] == [
        f"default/{web.name}: no longer in file"
    ]
    steps = [each.activity_task_scheduled_event_attributes async for each in handle.fetch_history_events()]
    assert [each.activity_type.name for each in steps if each.activity_type.name] == []


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
async def test_pods_that_a_dead_worker_had_begun_and_told_nobody_of_become_what_the_manifests_say(
    manifest_node: ManifestNode, tmp_path: Path
) -> None:
    """One's file is there at the next start: it runs, once. The other's is not: it ends."""
    node = manifest_node
    web = node.write("web.json", "web")
    await node.applied(web)
    node.worker.kill()
    kept, lost = (node.write(f"{name}.json", name) for name in ("kept", "lost"))
    for document in ManifestFiles(node.manifests, node.name, tmp_path).look().pods:
        if not document["metadata"]["name"].startswith("web"):
            pod = admit_pod(with_origin(document, FILE_SOURCE, datetime.now(UTC).isoformat()))
            assert await begin_pod(node.client, pod, node.name, has_attributes=True)
    (node.manifests / "lost.json").unlink()
    await node.again()
    await kept.running()
    instance = (await kept.instance("main")).id
    await until_asked(lambda: _ended(lost), patience=120, pause=0.5)
    await node.applied(web, kept)
    assert (await kept.instance("main")).id == instance


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
async def test_the_nodes_page_names_applied_pods_that_are_not_ready_without_an_event(
    manifest_node: ManifestNode,
) -> None:
    """The node's workflow gets no reports of applied pods; its page reads them when it is opened."""
    node = manifest_node
    handle = node.client.get_workflow_handle(node_workflow_id(node.name))

    async def page() -> str:
        shown = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        return str(shown.current_details)

    async with node.pods() as pods:
        fine, broken = await pods.apply("fine", shell("main")), await pods.apply("broken", shell("main", "exit 3"))
        await fine.running()

        async def is_ready() -> bool:
            return "- Ready: True" in await page()

        await until_asked(is_ready, patience=90)
        crashed, others = f"- **default/{broken.name}**: CrashLoopBackOff, ", "1 not ready, 1 ready or completed"

        async def is_told() -> bool:
            return others in (told := await page()) and crashed in told

        await until_asked(is_told, patience=90)
        told = await page()
        assert f"**{node.name}**" in told and "- Ready: True" in told
        assert "main: CrashLoopBackOff: " in told and f"- **default/{fine.name}**: Running" in told
        history = [event.SerializeToString() async for event in handle.fetch_history_events()]
        assert any(node.name.encode() in event for event in history)
        assert not any(broken.name.encode() in event for event in history)


async def _ended(pod: LivePod) -> bool:
    return not await pod.containers("main")
