"""Pods whose workflows Temporal lost: none is killed, and their owner can adopt or prune each.

Holds: A node runs at most one pod per name.
Holds: An adopted pod is not restarted.
Holds: A pod without a workflow is killed only if the server's own records prove it an orphan.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest_asyncio
from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError

from protos.cri.v1 import api_pb2 as cri
from syncpod.cri.client import CriClient
from syncpod.cri.port import SandboxStatus
from syncpod.messages.node import node_workflow_id
from syncpod.node.report import NodeReport, Orphan, read_node_report
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from syncpod.translation.names import NODE_LABEL, POD_UID_LABEL
from tests.agent.waiting import until_asked
from tests.e2e.clients import syncpod, temporal
from tests.e2e.engine import PATIENCE, RUNS, EngineNode, LivePod, Pods, conditions_of, shell, status_of
from tests.fork_server import start_worker
from tests.runtimes.runtime import Runtime
from tests.runtimes.sweep import sweep
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.node_process import NodeProcess

CRASHES_ONCE = f"test -e /scratch/was-here || {{ touch /scratch/was-here; exit 3; }}; {RUNS}"
SCRATCH = {"name": "scratch", "emptyDir": {}}
MOUNT = [{"name": "scratch", "mountPath": "/scratch"}]
STATIC = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static"}}
READY = {"exec": {"command": ["true"]}, "periodSeconds": 3600}
"""A probe that runs once an hour: a pod that is ready right after its adoption has kept its earlier result."""


class OrphanNode(EngineNode):
    """A node that searches for orphans often, and a server whose database can be lost."""

    def start(self, directory: Path, *more: str) -> None:
        settings = ("--cgroup-parent", self.runtime.cgroup_parent) if self.runtime.cgroup_parent else ()
        self.worker = NodeProcess(
            directory,
            *settings,
            "--manifests",
            str(self.manifests),
            *more,
            runtime=self.runtime.endpoint,
            temporal=self.server.address,
            node=self.name,
            start=start_worker,
            SYNCPOD_ORPHANS_PERIOD="300ms",
        )

    @property
    def manifests(self) -> Path:
        """The directory of the node's static pods' manifests."""
        return self.server.directory / "manifests"

    async def lose_the_database(self) -> None:
        """Kill worker and server, delete the server's database, and start both again."""
        with self.stopped("--adopt-cluster") as database:
            for path in database:
                path.unlink()
        await self.up_again()

    @contextlib.contextmanager
    def stopped(self, *flags: str) -> Iterator[list[Path]]:
        """Kill worker and server, yield the database's files, and start both again, the worker with these flags."""
        self.worker.kill()
        self.server.kill()
        yield list(self.server.directory.glob("temporal.db*"))
        self.server.start()
        self.start(self.worker.state_dir.parent, *flags)

    async def up_again(self) -> None:
        """Wait until the worker serves, and connect to the server."""
        self.client = await connect(self.server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
        await self.worker.ready()

    @property
    def report(self) -> NodeReport:
        return read_node_report(self.worker.state_dir) or NodeReport()

    async def orphans(self, *keys: str) -> dict[str, Orphan]:
        """Wait until exactly these are listed as orphans, by UID or runtime id."""

        async def so() -> bool:
            return {each.uid or each.id for each in self.report.orphans} == set(keys)

        try:
            await until_asked(so, patience=PATIENCE)
        except TimeoutError:
            raise AssertionError(f"{self.report.orphans} instead of {keys}\n{self.said}") from None
        return {each.uid or each.id: each for each in self.report.orphans}

    async def nothing_is_left(self, uid: str) -> None:
        """Wait until no directories, logs or cgroups of a pod are left; they are removed after its containers."""

        async def so() -> bool:
            return (self.directories(uid), self.cgroups(uid)) == ([], [])

        await until_asked(so, patience=PATIENCE)

    async def sources_are_ready(self) -> None:
        """Wait until the node's workflow knows that every source of pods has reported."""
        last: dict[str, Any] | Exception | None = None

        async def ready() -> bool:
            nonlocal last
            try:
                view = last = await self.client.get_workflow_handle(node_workflow_id(self.name)).query("node")
            except (RPCError, WorkflowQueryFailedError) as not_there_yet:
                last = not_there_yet
                return False
            return bool(view["sourcesReady"])

        try:
            await until_asked(ready, patience=PATIENCE)
        except TimeoutError:
            raise AssertionError(f"{last}\n{self.said}") from None

    async def run_sandbox(self, labels: dict[str, str], like: SandboxStatus | None = None, attempt: int = 0) -> str:
        """Make a sandbox by a raw call: one without a pod, or a second one for the pod of `like`."""
        name = like.name if like is not None else f"orphan-{uuid.uuid4().hex[:6]}"
        uid = like.uid if like is not None else name
        namespaces = cri.NamespaceOption(network=cri.NamespaceMode.NODE, pid=cri.NamespaceMode.CONTAINER)
        return await self.cri.run_pod_sandbox(
            cri.PodSandboxConfig(
                metadata=cri.PodSandboxMetadata(name=name, uid=uid, namespace="default", attempt=attempt),
                log_directory=str(self.worker.state_dir.parent / "logs" / f"default_{name}_{uid}"),
                labels=labels,
                annotations=dict(like.annotations) if like is not None else {},
                linux=cri.LinuxPodSandboxConfig(
                    cgroup_parent=f"{self.runtime.cgroup_parent}/{uid}" if self.runtime.cgroup_parent else "",
                    security_context=cri.LinuxSandboxSecurityContext(namespace_options=namespaces),
                ),
            )
        )


@pytest_asyncio.fixture(loop_scope="session")
async def orphaned(runtime: Runtime, tmp_path: Path) -> AsyncIterator[OrphanNode]:
    with await asyncio.to_thread(DevServer.launch) as server:
        client = await connect(server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
        async with CriClient(runtime.endpoint) as runtime_client:
            name = f"n-{uuid.uuid4().hex[:8]}"
            node = OrphanNode(name, server, runtime, client, runtime_client, worker=None)  # type: ignore[arg-type]
            node.manifests.mkdir()
            node.start(tmp_path)
            try:
                await node.worker.ready()
                yield node
            finally:
                node.worker.kill()
                await sweep(runtime_client, {NODE_LABEL: name})


async def has_come(pod: LivePod) -> bool:
    """Return whether the pod has a workflow that answers."""
    try:
        return bool(await pod.get())
    except RPCError:
        return False


async def alive(pod: LivePod) -> list[str]:
    return sorted(each.id for each in await pod.containers() if each.state == "running")


@dataclass
class Population:
    """Pods of every kind on a node, and their state from before the database was lost."""

    web: LivePod
    """A pod with a container that crashed once, and one whose probe succeeded once."""
    job: LivePod
    """A finished pod."""
    stale: LivePod
    doomed: LivePod
    static: LivePod
    """A pod with a manifest."""
    orphan: str = ""
    """A sandbox without a pod."""
    as_it_was: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The pods' documents before the loss, by name."""
    instances: dict[str, list[str]] = field(default_factory=dict)
    """The containers that ran, by the name of their pod."""

    def uid(self, pod: LivePod) -> str:
        return str(self.as_it_was[pod.name]["metadata"]["uid"])

    @property
    def applied(self) -> tuple[LivePod, ...]:
        return self.web, self.job, self.stale, self.doomed

    @property
    def running(self) -> tuple[LivePod, ...]:
        return self.web, self.stale, self.doomed, self.static

    async def alive(self) -> dict[str, list[str]]:
        """The running containers, by the name of their pod."""
        return {pod.name: await alive(pod) for pod in self.running}


async def populated(node: OrphanNode) -> Population:
    """Apply the pods, and wait until each is in its intended state."""
    pods, on_node = Pods(node), {"hostNetwork": True}
    crashing = shell("crashing", CRASHES_ONCE, volumeMounts=MOUNT)
    web = await pods.apply("web", shell("web", readinessProbe=READY), crashing, volumes=[SCRATCH], **on_node)
    job = await pods.apply("job", shell("main", "exit 0"), restartPolicy="Never", **on_node)
    stale = await pods.apply("stale", shell("main"), **on_node)
    doomed = await pods.apply("doomed", shell("main"), **on_node)
    (node.manifests / "static.json").write_text(
        json.dumps({**STATIC, "spec": {**on_node, "containers": [shell("main")]}})
    )
    static = pods.know({"metadata": {"name": f"static-{node.name}"}})
    await until_asked(lambda: has_come(static), patience=PATIENCE)
    here = Population(web, job, stale, doomed, static)
    for pod in here.running:
        await pod.running(**({"crashing": 1} if pod is web else {}))
    await job.phase("Succeeded")
    await web.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    here.as_it_was = {pod.name: await pod.get() for pod in here.applied}
    here.instances = await here.alive()
    here.orphan = await node.run_sandbox({NODE_LABEL: node.name})
    return here


async def test_a_lost_database_kills_no_pod_and_running_pods_can_be_adopted_or_pruned(orphaned: OrphanNode) -> None:
    """Row 11: an empty server is no evidence; a pod whose own workflow was ended is killed as an orphan, with 1 s."""
    node = orphaned
    here = await populated(node)
    await node.lose_the_database()
    for pod in (*here.applied, here.static):
        pod.handle = node.client.get_workflow_handle(pod.handle.id)
    await node.sources_are_ready()
    found = await node.orphans(*map(here.uid, here.applied), here.orphan)
    assert {each.why.rpartition(" ")[0] for each in found.values()} == {"it belongs to the Temporal cluster"}
    assert all(each.left for each in found.values())
    await until_asked(lambda: has_come(here.static), patience=PATIENCE)
    await here.static.running()  # its manifest is unchanged, so it is the same pod and is adopted automatically
    assert await here.alive() == here.instances
    shown = (await syncpod(node, "node")).out
    assert all(f"default/{pod.name}" in shown for pod in here.applied)
    assert "<unidentified sandbox>" in shown

    await adopted_by_their_owner(node, here)
    await adopted_anew_by_force(node, here)
    await pruned_by_their_owner(node, here)
    assert await alive(here.web) == here.instances[here.web.name]
    await node.orphans()
    await a_pod_like_any_other(node, here.web, here.uid(here.web))
    await here.job.delete()
    (node.manifests / "static.json").unlink()
    await here.static.gone()


async def adopted_by_their_owner(node: OrphanNode, here: Population) -> None:
    """Adopt a running pod and a finished one: both stay unchanged, and no container is started."""
    web, job = here.web, here.job
    plan = await syncpod(node, "adopt", "--all", "--dry-run")
    assert (plan.code, len(plan.out.splitlines())) == (0, 4), plan
    assert f"pod/{web.name} adopted (dry run); running: crashing, web" in plan.out.splitlines()
    assert "Note: objects that name no pod cannot be adopted (1 found)" in plan.err
    adopted = await syncpod(node, "adopt", web.name, f"pod/{job.name}", "-o", "name")
    assert (adopted.code, sorted(adopted.out.split())) == (0, sorted([f"pod/{web.name}", f"pod/{job.name}"])), adopted
    seen = await web.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    assert await alive(web) == here.instances[web.name]
    assert [status_of(seen, name)["restartCount"] for name in ("web", "crashing")] == [0, 1]
    assert seen["metadata"]["uid"] == here.uid(web)
    assert seen["status"]["startTime"] == here.as_it_was[web.name]["metadata"]["creationTimestamp"]
    assert (await job.phase("Succeeded"))["metadata"]["uid"] == here.uid(job)
    steps = await job.scheduled()
    assert steps[0] == "create_sandbox • adopt pod: what runs of the pod is taken over"
    assert not [step for step in steps if step.startswith("start_")]
    as_it_was = status_of(here.as_it_was[job.name], "main")
    assert as_it_was["containerID"] == status_of(await job.get(), "main")["containerID"]


async def adopted_anew_by_force(node: OrphanNode, here: Population) -> None:
    """A pod with a workflow is adopted only by force, which replaces the workflow and nothing else."""
    web = here.web
    again = await syncpod(node, "adopt", web.name)
    assert (again.code, again.out) == (1, "")
    assert "has an open workflow" in again.err
    replaced = await syncpod(node, "adopt", web.name, "--force")
    assert (replaced.code, replaced.out) == (0, f"pod/{web.name} adopted; running: crashing, web\n"), replaced
    seen = await web.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    assert (await alive(web), status_of(seen, "crashing")["restartCount"]) == (here.instances[web.name], 1)
    await node.orphans(here.uid(here.stale), here.uid(here.doomed), here.orphan)


async def pruned_by_their_owner(node: OrphanNode, here: Population) -> None:
    """Prune the others: one by its name, then all remaining ones. A pod with a workflow is refused."""
    stale, doomed = here.stale, here.doomed
    refused = await syncpod(node, "prune", here.web.name)
    assert refused.code == 1 and "`syncpod delete` ends it" in refused.err
    would = await syncpod(node, "prune", "--all", "--dry-run")
    assert f"pod/{stale.name} pruned (dry run): kills main" in would.out.splitlines()
    pruned = await syncpod(node, "prune", stale.name, "--now")
    assert (pruned.code, pruned.out) == (0, f"pod/{stale.name} pruned\n"), pruned
    assert (await stale.sandboxes(), await stale.containers()) == ([], [])
    node.assert_nothing_left(here.uid(stale))
    everything = await syncpod(node, "prune", "--all")
    lines = ["", f"pod/{doomed.name} pruned", f"sandbox/{here.orphan} pruned"]
    assert sorted(everything.out.split("\n")) == lines, everything
    node.assert_nothing_left(here.uid(doomed))


async def a_pod_like_any_other(node: OrphanNode, pod: LivePod, uid: str) -> None:
    """Duplicate sandboxes of an adopted pod are resolved; if its workflow is ended from outside, the pod is killed."""
    first = await pod.sandbox()
    await node.run_sandbox(dict(first.labels), first, attempt=first.attempt + 1)
    await pod.until(lambda pod: status_of(pod, "web").get("restartCount") == 1)
    await pod.until(lambda pod: pod["status"]["phase"] == "Running")
    assert [each.attempt for each in await pod.sandboxes() if each.state == "SANDBOX_READY"] == [first.attempt + 2]
    await temporal(node, "workflow", "terminate", "--workflow-id", pod.handle.id)

    async def killed() -> bool:
        return not await node.cri.list_pod_sandboxes(labels={POD_UID_LABEL: uid})

    await until_asked(killed, patience=PATIENCE)
    await node.orphans()
    await node.nothing_is_left(uid)
    why = f"killed pod default/{pod.name} (uid {uid}): its workflow has ended"

    async def said() -> bool:
        return why in node.worker.log.read_text()

    try:
        await until_asked(said, patience=PATIENCE)
    except TimeoutError:
        raise AssertionError(node.said) from None


async def test_a_static_pod_keeps_running_after_the_loss_of_node_state_and_database(orphaned: OrphanNode) -> None:
    """A static pod's manifest and the runtime have everything needed; other pods are left until a manifest is named."""
    node, pods = orphaned, Pods(orphaned)
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [shell("main")]}
    (node.manifests / "static.json").write_text(json.dumps({**STATIC, "spec": spec}))
    static = pods.know({"metadata": {"name": f"static-{node.name}"}})
    await until_asked(lambda: has_come(static), patience=PATIENCE)
    other = await pods.apply("other", shell("main"), hostNetwork=True)
    for pod in (static, other):
        await pod.running()
    before, ran, uid = await static.get(), await alive(other), (await other.get())["metadata"]["uid"]
    node.worker.kill()
    shutil.rmtree(node.worker.state_dir)
    await node.lose_the_database()
    static.handle = node.client.get_workflow_handle(static.handle.id)
    await until_asked(lambda: has_come(static), patience=PATIENCE)
    after = await static.running()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert status_of(after, "main")["containerID"] == status_of(before, "main")["containerID"]
    assert await alive(other) == ran
    refused = await syncpod(node, "adopt", other.name)
    assert refused.code == 1 and "`syncpod adopt -f FILE` reads the manifest" in refused.err
    manifest = node.server.directory / "other.json"
    changed = {**other.document["spec"], "containers": [shell("main") | {"image": "other:1"}, shell("more")]}
    manifest.write_text(json.dumps({**other.document, "spec": changed}))
    refused = await syncpod(node, "adopt", "-f", str(manifest))
    assert refused.code == 1 and "spec.containers[0].image: main runs with another image than other:1" in refused.err
    manifest.write_text(json.dumps(other.document))
    adopted = await syncpod(node, "adopt", "-f", str(manifest))
    assert (adopted.code, adopted.out) == (0, f"pod/{other.name} adopted; running: main\n"), adopted
    other.handle = node.client.get_workflow_handle(other.handle.id)
    assert (await other.running())["metadata"]["uid"] == uid and await alive(other) == ran
    await other.delete()
    (node.manifests / "static.json").unlink()
    await static.gone()


async def test_a_restored_database_does_not_recreate_deleted_pods(orphaned: OrphanNode, tmp_path: Path) -> None:
    node, pods = orphaned, Pods(orphaned)
    gone = await pods.apply("gone", shell("main"), hostNetwork=True)
    stays = await pods.apply("stays", shell("main"), hostNetwork=True)
    for pod in (gone, stays):
        await pod.running()
    ran, uid = await alive(stays), (await gone.get())["metadata"]["uid"]
    copy = tmp_path / "copy"
    copy.mkdir()
    with node.stopped() as database:
        for path in database:
            shutil.copy2(path, copy)
    await node.up_again()
    for pod in (gone, stays):
        pod.handle = node.client.get_workflow_handle(pod.handle.id)
        await pod.running()
    await gone.delete()
    with node.stopped() as database:
        for path in database:
            path.unlink()
        for path in copy.iterdir():
            shutil.copy2(path, node.server.directory)
    await node.up_again()
    for pod in (gone, stays):
        pod.handle = node.client.get_workflow_handle(pod.handle.id)
    final = await gone.gone()
    assert (final["metadata"]["uid"], final["status"]["reason"]) == (uid, "PodDeleted")
    assert "this node deleted the pod at" in final["status"]["message"]
    assert f"pod default/{gone.name} (uid {uid}) was deleted, and its workflow is back" in node.worker.log.read_text()
    await stays.running()
    assert await alive(stays) == ran
    document = pods.know(gone.document)
    await document.apply(document.document)
    await document.running()  # a pod that is applied again is another pod
    await document.delete()
    await stays.delete()


async def test_a_pod_applied_after_a_database_loss_waits_for_the_running_one(orphaned: OrphanNode) -> None:
    """A pod that is applied instead of adopted does not run twice. Its event names two remedies, and both work."""
    node, pods = orphaned, Pods(orphaned)
    port = shell("main", ports=[{"containerPort": 64321, "hostPort": 64321, "protocol": "UDP"}])
    cat = await pods.apply("cat", port, hostNetwork=True)
    dog = await pods.apply("dog", shell("main"), hostNetwork=True)
    for pod in (cat, dog):
        await pod.running()
    elders = {pod.name: (await pod.get())["metadata"]["uid"] for pod in (cat, dog)}
    await node.lose_the_database()
    await (await pods.apply("bird", shell("main"), hostNetwork=True)).running()  # for this, the node counts its pods
    heirs = []
    for pod in (cat, dog):
        heir = pods.know(pod.document)
        await heir.apply(heir.document)
        told = await heir.event("FailedCreatePodSandBox")
        assert f"another pod default/{pod.name} (uid {elders[pod.name]}) runs on this node" in told["message"]
        assert {each.uid for each in await pod.sandboxes()} == {elders[pod.name]}
        assert len(await alive(pod)) == 1
        heirs.append(heir)
    new_cat, new_dog = heirs

    plan = await syncpod(node, "prune", "--all", "--dry-run")
    assert sorted(plan.out.splitlines()) == sorted(
        f"pod/{name} (uid {uid}) pruned (dry run): kills main" for name, uid in elders.items()
    ), plan
    refused = await syncpod(node, "adopt", dog.name)
    assert (refused.code, refused.out) == (1, "")
    assert f"`syncpod delete pod {dog.name}` ends the other one" in refused.err

    pruned = await syncpod(node, "prune", cat.name, "--now")
    assert (pruned.code, pruned.out) == (0, f"pod/{cat.name} (uid {elders[cat.name]}) pruned\n"), pruned
    await new_cat.running()
    assert {each.uid for each in await cat.sandboxes()} == {(await new_cat.get())["metadata"]["uid"]}

    kept = await alive(dog)
    deleted = await syncpod(node, "delete", "pod", dog.name)
    assert deleted.code == 0, deleted
    adopted = await syncpod(node, "adopt", dog.name)
    assert (adopted.code, adopted.out) == (0, f"pod/{dog.name} adopted; running: main\n"), adopted
    assert (await alive(dog), (await new_dog.get())["metadata"]["uid"]) == (kept, elders[dog.name])
    await new_dog.delete()
    await new_cat.delete()
