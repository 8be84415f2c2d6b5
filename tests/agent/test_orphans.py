"""Orphans on real runtimes: killed only on evidence, otherwise reported; pods of other nodes are never touched.

Holds: A pod without a workflow is killed only if the server's own records prove it an orphan.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from temporalio.service import RPCError, RPCStatusCode

from activities import step_attempt
from activities.between.collection import Collector
from activities.between.orphans import OrphanEnder
from activities.node.fences import FenceClaim
from protos.cri.v1 import api_pb2 as cri
from syncpod.agent.housekeeping import duplicates as module
from syncpod.agent.housekeeping import orphans
from syncpod.agent.housekeeping.duplicates import Duplicates
from syncpod.agent.housekeeping.orphans import Orphans, pause_seconds
from syncpod.agent.housekeeping.removals import Removals
from syncpod.agent.pod_workflows import PodWorkflows
from syncpod.cri.port import ContainerSummary
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.orphans import Coverage, Standing, duplicates
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.messages.steps import CreateSandbox, KillTarget, Outcome
from syncpod.node.inventory import take_inventory
from syncpod.node.reader import PodReader
from syncpod.node.tombstones import tombstone_at
from syncpod.translation import names
from tests.activities.bench import POLITE, Bench, PodOnBench, bench_of, container
from tests.activities.test_collection import never_asked
from tests.activities.test_fences import EARLY, Actor, settle
from tests.agent.waiting import until
from tests.node.owned_pods import owned_pod
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX
from tests.runtimes.sweep import sweep

ELSEWHERE = "another-cluster/default"
FRESH = Coverage(sources_ready=True, since=datetime(2100, 1, 1, tzinfo=UTC))
"""The server's history of a node that began after all running containers were made."""
OLD = Coverage(sources_ready=True, since=datetime.now(UTC) - timedelta(days=30))


@dataclass
class Workflows:
    """Temporal's data: the state of each pod's workflow by UID. If `away`, the server does not answer."""

    standings: dict[str, Standing] = field(default_factory=dict)
    away: bool = False

    async def open(self) -> dict[str, str]:
        if self.away:
            raise RPCError("no connection", RPCStatusCode.UNAVAILABLE, b"")
        return {}  # visibility never catches up, so each pod is queried

    async def standing(self, ref: PodRef) -> Standing:
        return self.standings.get(ref.uid, "unknown")


@dataclass
class Scene:
    """A node on a runtime, Temporal's data about it, and its watcher for orphans."""

    bench: Bench
    workflows: Workflows = field(default_factory=Workflows)
    coverage: Coverage = FRESH
    raw: list[str] = field(default_factory=list)
    ended_by_the_server: set[str] = field(default_factory=set)
    orphans: Orphans = field(init=False)
    killer: OrphanEnder = field(init=False)
    handed_over: list[EndedLife] = field(default_factory=list)
    """The lives of killed pods whose remains the node is to remove."""

    def __post_init__(self) -> None:
        node = self.bench.node
        self.killer = OrphanEnder(node)

        async def coverage() -> Coverage:
            return self.coverage

        self.orphans = Orphans(
            node.context,
            cast("PodWorkflows", self.workflows),
            node.cri,
            self.killer,
            coverage,
            begin_anew=self.begin_anew,
            hand_over=self.handed_over.append,
        )

    async def begin_anew(self, ref: PodRef) -> bool:
        return ref.uid in self.ended_by_the_server

    async def look(self) -> dict[str, tuple[bool, str, str]]:
        """Run one check and wait for its result; return each finding: whether it was killed, and the reasons.

        The remains of killed pods are removed.
        """
        found = await self.orphans.round()
        await self.killed()
        for life in self.handed_over:
            assert await Collector(self.bench.node).remove(life, never_asked)
        return {each.uid or each.id: (not each.left, each.why, each.left) for each in found}

    async def killed(self) -> None:
        """Wait until the check's kills have ended."""
        while under_way := self.orphans._under_way:
            await asyncio.wait(tuple(under_way.values()))

    async def pod(self, standing: Standing = "unknown", *, cluster: str = "", **spec: Any) -> PodOnBench:
        """A running pod that belongs to a Temporal cluster (by default this one), with this state of its workflow."""
        pod = self.bench.pod(container(command=POLITE), **spec)
        here = self.bench.node.context
        self.bench.node.context = replace(here, cluster=cluster or here.cluster)
        await pod.create_sandbox()
        await pod.start()
        self.bench.node.context = here
        self.workflows.standings[pod.uid] = standing
        return pod

    async def raw_sandbox(self, labels: dict[str, str], cluster: str) -> str:
        """A sandbox that somebody made with raw CRI calls."""
        name = f"raw-{uuid.uuid4().hex[:6]}"
        namespaces = cri.NamespaceOption(network=cri.NamespaceMode.NODE, pid=cri.NamespaceMode.CONTAINER)
        config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=name, uid=name, namespace="default"),
            log_directory=str(self.bench.node.context.log_dir / name),
            labels=labels,
            annotations={names.CLUSTER_ANNOTATION: cluster},
            linux=cri.LinuxPodSandboxConfig(
                cgroup_parent=f"{self.bench.runtime.cgroup_parent}/{name}" if self.bench.runtime.cgroup_parent else "",
                security_context=cri.LinuxSandboxSecurityContext(namespace_options=namespaces),
            ),
        )
        sandbox = await self.bench.cri.run_pod_sandbox(config)
        self.raw.append(sandbox)
        return sandbox

    async def raw_container(self, sandbox: str, name: str, labels: dict[str, str], **more: Any) -> str:
        """A container that somebody made and started with raw CRI calls, in any sandbox."""
        status = await self.bench.cri.pod_sandbox_status(sandbox)
        metadata = cri.PodSandboxMetadata(
            name=status.name, uid=status.uid, namespace=status.namespace, attempt=status.attempt
        )
        directory = str(self.bench.node.context.log_dir / f"{status.namespace}_{status.name}_{status.uid}")
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name, attempt=9),
            image=cri.ImageSpec(image=BUSYBOX, user_specified_image=BUSYBOX),
            command=POLITE,
            log_path=f"{name}.log",
            labels=labels,
            linux=cri.LinuxContainerConfig(
                security_context=cri.LinuxContainerSecurityContext(
                    namespace_options=cri.NamespaceOption(
                        network=cri.NamespaceMode.NODE, pid=cri.NamespaceMode.CONTAINER
                    )
                )
            ),
            **more,
        )
        made = await self.bench.cri.create_container(
            sandbox, config, cri.PodSandboxConfig(metadata=metadata, log_directory=directory)
        )
        await self.bench.cri.start_container(made)
        return made

    async def alive(self) -> set[str]:
        """The ids of all running containers, whoever made them."""
        return {each.id for each in await self.bench.cri.list_containers() if each.state == "running"}


@pytest_asyncio.fixture
async def scene(runtime: Containerd, tmp_path: Path) -> AsyncIterator[Scene]:
    async with bench_of(runtime, tmp_path) as bench:
        # A name that no other test's node has: this one lists all that is its own.
        context = replace(bench.node.context, name=f"n-{uuid.uuid4().hex[:8]}")
        bench.node.context, bench.node.reader = context, PodReader(bench.cri, boot=1, owner=context.name)
        scene = Scene(bench)
        try:
            yield scene
        finally:
            await bench.drain()
            for sandbox in scene.raw:
                for each in await bench.cri.list_containers(sandbox_id=sandbox):
                    await bench.cri.stop_container(each.id, timeout_seconds=0)
            await sweep(bench.cri, {names.NODE_LABEL: context.name})


async def test_only_orphans_proven_by_the_servers_records_are_killed_and_completely_removed(
    scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 11: orphans, with a grace of one second; a fresh, empty server is evidence against nobody."""
    mine, ended, lost = await scene.pod("open"), await scene.pod("closed"), await scene.pod("unknown")
    foreign = await scene.pod("closed", cluster=ELSEWHERE)
    unknown = "the Temporal server has no such workflow"
    logs = tmp_path / "foreign"
    async with owned_pod(
        scene.bench.cri, cgroup_parent=scene.bench.runtime.cgroup_parent, logs=logs, owner="somebody-else"
    ) as others:
        await others.run()
        theirs = await others.start()
        before = await scene.alive()

        scene.coverage = Coverage(since=OLD.since)
        unready = "not every source of pods has reported yet"
        elsewhere = (
            False,
            f"it belongs to the Temporal cluster {ELSEWHERE}",
            "this node belongs to another Temporal cluster",
        )
        assert await scene.look() == {
            ended.uid: (False, "its workflow has ended", unready),
            lost.uid: (False, unknown, unready),
            foreign.uid: elsewhere,
        }
        scene.coverage = FRESH
        scene.workflows.standings[ended.uid] = "unknown"
        assert {kill for kill, _, _ in (await scene.look()).values()} == {False}
        assert await scene.alive() >= before

        scene.workflows.standings[ended.uid] = "closed"
        assert await scene.look() == {
            ended.uid: (True, "its workflow has ended", ""),
            lost.uid: (False, unknown, "the node's history does not cover its creation"),
            foreign.uid: elsewhere,
        }
        gone = before - await scene.alive()
        assert len(gone) == 1
        assert (ended.directory.exists(), ended.logs.exists(), ended.cgroups()) == (False, False, [])
        assert (await ended.view()).sandboxes == ()
        assert f"(uid {ended.uid}): its workflow has ended" in caplog.text

        scene.coverage = OLD
        assert (await scene.look())[lost.uid][0]
        assert (await lost.view()).sandboxes == ()
        assert set(await scene.look()) == {foreign.uid}
        assert theirs in await scene.alive()
    assert [each.state for each in (await mine.view()).containers] == ["running"]
    assert [each.state for each in (await foreign.view()).containers] == ["running"]
    assert [each.uid for each in scene.orphans.found] == [foreign.uid]
    assert scene.orphans.total == 2
    assert [life.ref.uid for life in scene.handed_over] == [ended.uid, lost.uid]


async def test_what_a_workflow_has_left_to_the_node_is_no_orphan(scene: Scene) -> None:
    """The node removes it by itself, perhaps only after other pods; nothing is to be said about that."""
    left = await scene.pod("closed")
    assert (await left.delete()).over
    assert await scene.look() == {}
    assert len((await left.view()).sandboxes) == 1


@pytest.mark.parametrize("has_record", [True, False])
async def test_a_worker_that_dies_after_the_kill_of_an_orphan_leaves_its_remains_to_the_next_one(
    scene: Scene, has_record: bool
) -> None:
    """The tombstone shows that the life is over. Removals look only at records; without one it is ended once more."""
    pod, context = await scene.pod("closed"), scene.bench.node.context
    if not has_record:
        (pod.directory / "pod.json").unlink()
    await scene.orphans.round()
    await scene.killed()
    assert [each.ready for each in (await pod.view()).sandboxes] == [False]
    scene.handed_over.clear()  # the worker dies here
    if has_record:
        assert await scene.look() == {}
        known = cast("PodWorkflows", scene.workflows)
        removals = Removals(context, known, Collector(scene.bench.node), lambda: (), min_age=3600.0)
        assert await removals.round() == 1
    else:
        assert list(await scene.look()) == [pod.uid]
    view = await pod.view()
    assert (view.sandboxes, view.containers, pod.directory.exists()) == ((), (), False)
    assert tombstone_at(context, pod.uid, pod.incarnation) is not None


async def test_a_pod_whose_workflow_the_server_has_ended_for_its_size_is_no_orphan(scene: Scene) -> None:
    """That end was not requested, and the workflow is started again."""
    pod = await scene.pod("closed")
    scene.ended_by_the_server.add(pod.uid)
    assert await scene.look() == {}
    assert (await pod.view()).containers[0].state == "running"


def test_rounds_are_the_rarer_the_more_pods_a_node_has() -> None:
    assert [pause_seconds(pods, 60.0) for pods in (0, 110, 2_000)] == [60.0] * 3
    assert pause_seconds(10_000, 60.0) == 300.0
    assert pause_seconds(10_000, 600.0) == 600.0, "no more often than the settings say"


async def test_a_pod_with_a_step_or_a_new_workflow_is_not_killed_as_an_orphan(scene: Scene) -> None:
    """Row 11: it is judged again when it is the pod's turn, after a step that came first."""
    pod = await scene.pod("closed")
    step = Actor(scene.bench.node.fences, 99, ref=pod.ref)
    async with scene.bench.node.fences.acting(pod.ref, FenceClaim(99, 1, EARLY), step):
        await scene.look()
    scene.workflows.away = True
    with pytest.raises(RPCError):
        await scene.look()
    asked = list[PodRef]()
    standing = scene.workflows.standing

    async def applied_meanwhile(ref: PodRef) -> Standing:
        asked.append(ref)
        return "closed" if len(asked) == 1 else "open"

    scene.workflows.away = False
    scene.workflows.standing = applied_meanwhile  # type: ignore[method-assign]
    await scene.look()
    assert len(asked) == 2
    assert [each.state for each in (await pod.view()).containers] == ["running"]
    scene.workflows.standing = standing  # type: ignore[method-assign]
    await scene.look()
    assert (await pod.view()).containers == ()


async def test_a_step_during_the_orphan_check_finds_the_pod_untouched(scene: Scene) -> None:
    """Row 11: a pod that is adopted, or applied again, at that moment is neither stopped nor removed."""
    runs, rests = await scene.pod("closed"), await scene.pod("closed")
    await scene.bench.cri.stop_container((await rests.view()).containers[0].id, timeout_seconds=0)
    before = [await pod.view() for pod in (runs, rests)]
    asked, steps = list[str](), list[asyncio.Task[None]]()

    async def adopted_meanwhile(ref: PodRef) -> Standing:
        asked.append(ref.uid)
        if asked.count(ref.uid) == 2:
            step = Actor(scene.bench.node.fences, 99, ref=ref)
            step.may_end.set()
            steps.append(asyncio.create_task(step.act()))
            await settle()
        return "closed"

    scene.workflows.standing = adopted_meanwhile  # type: ignore[method-assign]
    await scene.look()
    await asyncio.gather(*steps)
    assert len(steps) == 2
    await scene.bench.drain()
    after = [await pod.view() for pod in (runs, rests)]
    assert [(each.sandboxes, each.containers) for each in after] == [(e.sandboxes, e.containers) for e in before]
    assert [pod.directory.exists() for pod in (runs, rests)] == [True, True]


async def test_an_orphans_pre_stop_hook_has_its_full_second(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 11: the grace period begins when the pod is known to be an orphan."""
    pod = await scene.pod("closed")
    hooked = (await pod.view()).containers[0].id
    given: list[str] = []
    elapsed = 0.0
    clock = time.monotonic

    async def asked_slowly(ref: PodRef) -> Standing:
        nonlocal elapsed
        elapsed = 3600.0
        return "closed"

    async def carry_out(
        view: ObservedPod, container: ObservedContainer, target: KillTarget, *, waited_seconds: float
    ) -> None:
        if waited_seconds < target.grace_seconds:
            given.append(target.id)

    monkeypatch.setattr(scene.bench.node.pre_stops, "carry_out", carry_out)
    monkeypatch.setattr(step_attempt, "monotonic", lambda: clock() + elapsed)
    monkeypatch.setattr(orphans, "ORPHAN_GRACE_SECONDS", 60)  # so that no slow machine uses it up
    scene.workflows.standing = asked_slowly  # type: ignore[method-assign]
    await scene.look()
    assert (await pod.view()).containers == ()
    assert given == [hooked]


async def test_a_sandbox_without_a_pod_is_killed_on_evidence_but_not_foreign_containers_in_it(
    scene: Scene,
) -> None:
    """Row 11 (ours): sandboxes and containers with the node's label, without or with labels that name no pod."""
    here, node = scene.bench.node.context, {names.NODE_LABEL: scene.bench.node.context.name}
    pod = await scene.pod("open")
    inside = await scene.raw_container(pod.sandbox_id, "raw", node)
    name = {names.POD_NAME_LABEL: "web", names.POD_NAMESPACE_LABEL: "default"}
    unreadable = {**node, **name, names.POD_UID_LABEL: "../x"}
    alone = await scene.raw_sandbox(unreadable, here.cluster)
    with_one = await scene.raw_container(alone, "main", node)
    another = await scene.raw_sandbox(node, here.cluster)
    mixed = await scene.raw_sandbox(node, here.cluster)
    not_ours = await scene.raw_container(mixed, "main", {"io.example/owner": "somebody"})
    foreign = await scene.raw_sandbox(node, ELSEWHERE)

    found = await scene.look()
    assert set(found) == {inside, alone, another, mixed, foreign}, "with a sandbox goes what is in it"
    assert {kill for kill, _, _ in found.values()} == {False}
    assert found[alone][1:] == ("it names no pod", "the node's history does not cover its creation")
    assert {(each.kind, each.running) for each in scene.orphans.found if each.id in (inside, alone)} == {
        ("container", 1),
        ("sandbox", 1),
    }
    scene.coverage = OLD
    await scene.look()
    assert set(await scene.look()) == {mixed, foreign}
    alive = await scene.alive()
    assert not_ours in alive
    assert alive.isdisjoint({inside, with_one})
    assert [each.state for each in (await pod.view()).containers] == ["running"]


async def test_ending_a_nameless_container_yields_to_a_step_of_its_pod(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 11 (ours): a stop that hangs continues by itself; a container in an unknown state is stopped too."""
    pod = await scene.pod("open")
    inside = await scene.raw_container(pod.sandbox_id, "raw", {names.NODE_LABEL: scene.bench.node.context.name})
    found = (await take_inventory(scene.bench.cri, scene.bench.node.context.name, {})).nameless
    assert [each.id for each in found] == [inside]
    listed, hangs, stops = scene.bench.node.cri.list_containers, asyncio.Event(), list[asyncio.Task[Any]]()

    async def not_known(**chosen: Any) -> tuple[ContainerSummary, ...]:
        return tuple(replace(e, state="unknown") if e.id == inside else e for e in await listed(**chosen))

    def stop(container_id: str, grace_seconds: int) -> asyncio.Task[Any]:
        assert container_id == inside
        stops.append(asyncio.create_task(hangs.wait()))
        return stops[0]

    monkeypatch.setattr(scene.bench.node.cri, "list_containers", not_known)
    monkeypatch.setattr(scene.bench.node.stops, "stop", stop)
    ending = asyncio.create_task(scene.killer.end_nameless(found[0], grace_seconds=1))
    await until(lambda: bool(stops) or ending.done())
    step = Actor(scene.bench.node.fences, 99, ref=pod.ref)
    step.may_end.set()
    async with asyncio.timeout(60):
        await step.act()
    assert await ending == ""
    assert inside in {each.id for each in await listed() if each.state == "running"}
    hangs.set()
    await stops[0]


async def test_the_newest_of_two_running_containers_of_one_name_is_kept_and_nothing_else_touched(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 11 (ours): the kubelet would let both run on."""
    pod = scene.bench.pod(container("main"), container("side"), terminationGracePeriodSeconds=3)
    await pod.create_sandbox()
    elder, side = (await pod.start("main")).id, (await pod.start("side")).id
    labels = {**(await scene.bench.cri.list_containers(sandbox_id=pod.sandbox_id))[0].labels}
    newer = await scene.raw_container(pod.sandbox_id, "main", {**labels, names.CONTAINER_NAME_LABEL: "main"})
    step = Actor(scene.bench.node.fences, 99, ref=pod.ref)
    async with scene.bench.node.fences.acting(pod.ref, FenceClaim(99, 1, EARLY), step):
        assert await scene.killer.end_duplicates(pod.uid, duplicates) == (0, "")
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    watching = Duplicates(scene.killer)
    watching.observe(await pod.view())
    running = asyncio.create_task(watching.run())
    await until(lambda: watching.total == 1)
    watching.observe(await pod.view())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    states = {each.id: each.state for each in (await pod.view()).containers}
    assert states == {elder: "exited", side: "running", newer: "running"}
    assert await scene.killer.end_duplicates(pod.uid, duplicates) == (0, "")


async def test_an_adopted_pod_of_another_cluster_belongs_to_this_one(scene: Scene) -> None:
    """Row 11 (ours): a sandbox's annotation of its cluster can never change, so the pod's record decides."""
    pod = await scene.pod("open", cluster=ELSEWHERE)
    before = await scene.alive()
    assert set(await scene.look()) == {pod.uid}
    adopted = scene.bench.agent.adopted
    request = CreateSandbox(ref=pod.ref, fence=pod.next_fence(), pod=pod.pod, adopt=True)
    result = await pod.step(StepName.CREATE_SANDBOX, request).result()
    assert (result.outcome, result.id, adopted) == (Outcome.ADOPTED, pod.sandbox_id, [pod.ref])
    again = await pod.step(StepName.CREATE_SANDBOX, request.model_copy(update={"fence": pod.next_fence()})).result()
    assert again.outcome == Outcome.ADOPTED, "called twice it is the same as called once"
    assert await scene.alive() >= before
    assert await scene.look() == {}
    scene.workflows.standings[pod.uid] = "closed"
    assert (await scene.look())[pod.uid][0]
    assert (await pod.view()).containers == ()


async def test_duplicates_that_cannot_be_ended_and_internal_errors_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 11 (ours): what prevents the kill is logged once while it stays the same."""
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    asked: list[str] = []

    class Ender:
        async def end_duplicates(self, uid: str, choose: object) -> tuple[int, str]:
            asked.append(uid)
            if len(asked) == 3:
                raise ZeroDivisionError
            return 0, "main did not end within 45 s"

    watching = Duplicates(Ender())
    main = {"name": "main", "state": "running", "sandbox_id": "s"}
    twins = tuple(ObservedContainer(id=f"c{n}", restart_count=n, **main) for n in (0, 1))
    sandboxes = (ObservedSandbox(id="s", state="SANDBOX_READY"),)
    watching.observe(ObservedPod(uid="u1", name="web", namespace="default", sandboxes=sandboxes, containers=twins))
    running = asyncio.create_task(watching.run())
    await until(lambda: len(asked) > 5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == [
        "duplicates in pod default/web stay for now: main did not end within 45 s",
        "duplicates in pod u1 stay for now because of a defect",
    ]
