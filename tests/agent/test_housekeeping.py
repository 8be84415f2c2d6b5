"""Housekeeping removes only unneeded things of the node itself, and no pod delays another.

Holds: The run of a deleted pod ends once nothing of the pod runs, and the node removes the rest.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn, cast
from unittest.mock import AsyncMock

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.housekeeping import dead_containers as module
from syncpod.agent.housekeeping import removals
from syncpod.agent.housekeeping.dead_containers import ContainerGc
from syncpod.agent.housekeeping.orphans import Killer, Orphans
from syncpod.agent.housekeeping.removals import Removals
from syncpod.agent.housekeeping.report import NodeReporter
from syncpod.agent.pod_workflows import PodWorkflows
from syncpod.cri.port import CriRuntime
from syncpod.housekeeping_settings import housekeeping_settings
from syncpod.lifecycle.container_gc import ContainerGcPolicy
from syncpod.lifecycle.observed import ContainerRuntimeState, ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.orphans import Standing
from syncpod.messages.identity import EndedLife, PodRef, pod_workflow_id
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.report import Orphan, Remains, read_node_report
from syncpod.node.tombstones import write_tombstone
from syncpod.pod import Pod
from syncpod.settings.values import SettingsInvalid
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.agent.listings import unavailable
from tests.agent.waiting import until

CLUSTER = "c/default"
START = datetime(2026, 1, 1, tzinfo=UTC)


def listing(uid: str = "u1", *states: ContainerRuntimeState, ready: bool = True) -> ObservedPod:
    """Return a pod whose container `web` has had instances in these states, oldest first."""
    return ObservedPod(
        uid=uid,
        name=f"name-{uid}",
        namespace="default",
        sandboxes=(ObservedSandbox(id=f"{uid}-s", state="SANDBOX_READY" if ready else "SANDBOX_NOTREADY"),),
        containers=tuple(
            ObservedContainer(
                id=f"{uid}-{number}",
                name="web",
                state=state,
                sandbox_id=f"{uid}-s",
                restart_count=number,
                created_at=START + timedelta(minutes=number),
            )
            for number, state in enumerate(states)
        ),
    ).ordered()


@dataclass
class Runtime:
    """A collector that removes the chosen containers; pods in `refuses`, `busy` and `hangs` are kept."""

    pods: dict[str, ObservedPod] = field(default_factory=dict)
    refuses: str = ""
    busy: str = ""
    hangs: set[str] = field(default_factory=set)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to let the hanging removals continue."""
    removed: list[str] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    cleared: list[str] = field(default_factory=list)
    asked: int = 0

    def has(self, *pods: ObservedPod) -> None:
        self.pods = {pod.uid: pod for pod in pods}

    def listings(self) -> tuple[ObservedPod, ...]:
        return tuple(self.pods.values())

    async def collect(self, uid: str, choose: Callable[[ObservedPod], Collection[str]]) -> tuple[int, int]:
        self.asked += 1
        if uid in self.hangs:
            await self.answers.wait()
        if uid == self.refuses:
            raise unavailable()
        if uid == self.busy:
            return 0, 0
        chosen = [id_ for id_ in sorted(choose(self.pods[uid]))]
        self.removed += chosen
        left = tuple(each for each in self.pods[uid].containers if each.id not in chosen)
        self.pods[uid] = self.pods[uid].model_copy(update={"containers": left})
        return len(chosen), 0

    async def empty(self, uid: str) -> bool:
        self.emptied.append(uid)
        return True

    async def remove(self, life: EndedLife, is_gone: Callable[[PodRef, bool], Awaitable[bool]]) -> bool:
        gone = await is_gone(life.ref, life.ref.uid in self.pods)
        if gone:
            self.cleared.append(life.ref.uid)
        return gone


@pytest.fixture
def node(tmp_path: Path) -> NodeContext:
    return NodeContext(name="n", state_dir=tmp_path, memory_dir=tmp_path / "m", log_dir=tmp_path / "l", cluster=CLUSTER)


def note(node: NodeContext, uid: str, **record: Any) -> None:
    """Write a pod's record to disk."""
    pod = Pod.model_validate({"metadata": {"name": f"name-{uid}", "namespace": "default", "uid": uid}})
    pod_directory(node, uid).mkdir(parents=True, exist_ok=True)
    write_pod_record(node, PodRecord(pod=pod, **{"cluster": CLUSTER, **record}))


def gc(node: NodeContext, runtime: Runtime, policy: ContainerGcPolicy | None = None) -> ContainerGc:
    return ContainerGc(node, runtime, runtime.listings, policy or ContainerGcPolicy())


# --- dead containers --------------------------------------------------------------------------------------------------


async def test_each_minute_all_but_the_newest_dead_containers_are_removed(node: NodeContext) -> None:
    """Row 107: every pod is checked, and the runtime is not called if there is nothing to remove."""
    runtime = Runtime()
    runtime.has(listing("u1", "exited", "exited", "running"), listing("u2", "exited", "exited", "exited"))
    collecting = gc(node, runtime)
    assert await collecting.round(seconds=60) == 3
    assert sorted(runtime.removed) == ["u1-0", "u2-0", "u2-1"]
    runtime.asked = 0
    assert await collecting.round(seconds=60) == 0
    assert (runtime.asked, collecting.total) == (0, 3)


async def test_a_hung_or_busy_pod_delays_no_other_and_is_logged_once(
    node: NodeContext, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 107: containers that cannot be removed now are left for the next round."""
    runtime = Runtime(refuses="u1", busy="u2")
    runtime.has(*(listing(uid, "exited", "exited") for uid in ("u1", "u2", "u3")))
    collecting = gc(node, runtime)
    assert await collecting.round(seconds=60) == 1
    assert await collecting.round(seconds=60) == 0
    assert runtime.removed == ["u3-0"]
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    runtime.refuses = runtime.busy = ""
    assert await collecting.round(seconds=60) == 2


async def test_older_dead_containers_are_removed_soon_after_an_exit(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 108: soon after a container dies, without waiting for the next minute."""
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(module, "_TICK", 0.001)
    runtime = Runtime()
    collecting = gc(node, runtime)
    running = asyncio.create_task(collecting.run())
    try:
        crashed = listing("u1", "exited", "exited")
        runtime.has(crashed)
        collecting.observe(listing("u1", "exited"))
        collecting.observe(crashed)
        await until(lambda: runtime.removed == ["u1-0"])
    finally:
        running.cancel()


async def test_a_hung_removal_delays_no_other_pod_and_no_later_round(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 107: a call to the runtime may take two minutes; other pods are processed meanwhile."""
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(module, "_TICK", 0.001)
    runtime = Runtime(hangs={"u1", "u2"})
    runtime.has(listing("u1", "exited", "exited"))
    collecting = gc(node, runtime)
    running = asyncio.create_task(collecting.run())
    await until(lambda: runtime.asked == 1)
    others = [listing(uid, "exited", "exited") for uid in ("u2", "u3")]
    runtime.has(*runtime.listings(), *others)
    for each in others:
        collecting.observe(each)
    await until(lambda: runtime.removed == ["u3-0"])
    assert runtime.asked == 3, "who hangs is not asked for again meanwhile"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    runtime.hangs.clear()
    assert await collecting.round(seconds=60) == 2, "and is seen to anew by the next life"


async def test_a_hung_removal_is_awaited_only_for_a_limited_time(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 118: neither reclaiming nor an eviction waits for the runtime for ever."""
    monkeypatch.setattr(module, "_TICK", 0.001)
    runtime = Runtime(hangs={"u1"})
    runtime.has(listing("u1", "exited", "exited", ready=False), listing("u2", "exited", "exited"))
    note(node, "u1")
    collecting = gc(node, runtime)
    async with asyncio.timeout(60):
        assert await collecting.round(seconds=0.05) == 1
        assert not await collecting.wait_for_cleanup("u1", seconds=0.05)
        assert (runtime.asked, runtime.removed, runtime.emptied) == (2, ["u2-0"], [])
        runtime.answers.set()
        assert await collecting.wait_for_cleanup("u1", seconds=60)
    assert runtime.removed == ["u2-0", "u1-0", "u1-1"], "what had begun went on"
    assert runtime.emptied == ["u1"]


async def test_an_internal_error_with_one_pod_is_logged_and_delays_no_other(
    node: NodeContext, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 107: no failure is swallowed, and none ends the collection."""
    monkeypatch.setattr(module, "_TICK", 0.001)
    runtime = Runtime()
    collects = runtime.collect

    async def fails(uid: str, choose: Callable[[ObservedPod], Collection[str]]) -> tuple[int, int]:
        if uid == "u1":
            raise ZeroDivisionError
        return await collects(uid, choose)

    monkeypatch.setattr(runtime, "collect", fails)
    runtime.has(listing("u1", "exited", "exited"), listing("u2", "exited", "exited"))
    running = asyncio.create_task(gc(node, runtime).run())
    await until(lambda: runtime.removed == ["u2-0"] and "of pod u1 stay for now" in caplog.text)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_all_dead_containers_are_removed_of_evicted_pods_and_under_pressure_of_finished_ones(
    node: NodeContext,
) -> None:
    """Row 108: an evicted pod keeps nothing; a finished one keeps its last instance until disk space runs out."""
    runtime = Runtime()
    runtime.has(listing("u1", "exited", ready=False), listing("u2", "exited", ready=False), listing("u3", "exited"))
    note(node, "u1", finished=True, evicted=True)
    note(node, "u2", finished=True)
    note(node, "u3")
    collecting = gc(node, runtime)
    await collecting.round(seconds=60)
    assert (runtime.removed, runtime.emptied) == (["u1-0"], ["u1"])
    await collecting.round(seconds=60, finished_too=True)
    assert (runtime.removed, runtime.emptied) == (["u1-0", "u2-0"], ["u1"])


async def test_an_evicted_pod_is_awaited_until_it_has_ended_or_is_removed(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 118: volumes are removed with the containers; if nothing is left, nothing is waited for."""
    monkeypatch.setattr(module, "_TICK", 0.001)
    runtime = Runtime()
    runtime.has(listing("u1", "running"))
    for uid in ("u1", "u2"):
        note(node, uid)
    collecting = gc(node, runtime)
    assert not await collecting.wait_for_cleanup("u1", seconds=0.05)
    assert (runtime.asked, runtime.emptied) == (0, [])
    runtime.has(listing("u1", "exited", ready=False))
    assert await collecting.wait_for_cleanup("u1", seconds=60)
    assert (runtime.removed, runtime.emptied) == (["u1-0"], ["u1"])
    assert await collecting.wait_for_cleanup("u2", seconds=60), "which never had a sandbox"
    assert await collecting.wait_for_cleanup("u3", seconds=60), "of which nothing is left"
    assert runtime.emptied == ["u1", "u2"]


async def test_a_container_that_was_never_started_is_removed_after_a_long_time(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 107: created and never started, for longer than any step could take to start it."""
    runtime = Runtime()
    runtime.has(listing("u1", "exited", "created"))
    collecting = gc(node, runtime)
    await collecting.round(seconds=60)
    assert runtime.removed == []
    monkeypatch.setattr(module, "NEVER_STARTED_SECONDS", 0.0)
    await collecting.round(seconds=60)
    assert runtime.removed == ["u1-1"]


# --- gone pods --------------------------------------------------------------------------------------------------------


@dataclass
class Workflows:
    """Temporal's data: the state of each pod's workflow by UID. If `away`, the server does not answer."""

    standings: dict[str, Standing] = field(default_factory=dict)
    away: bool = False
    asked: list[str] = field(default_factory=list)

    async def open(self) -> dict[str, str]:
        if self.away:
            raise RPCError("no connection", RPCStatusCode.UNAVAILABLE, b"")
        return {pod_workflow_id("default", f"name-{u}"): u for u, how in self.standings.items() if how == "open"}

    async def standing(self, ref: PodRef) -> Standing:
        self.asked.append(ref.uid)
        return self.standings.get(ref.uid, "unknown")


def gone(
    node: NodeContext, workflows: Workflows, runtime: Runtime, *, min_age: float = 0.0, period: float = 60.0
) -> Removals:
    known = cast("PodWorkflows", workflows)
    return Removals(node, known, runtime, runtime.listings, min_age=min_age, period=period)


async def test_remains_of_pods_without_a_workflow_are_removed_if_the_runtime_has_nothing_of_them(
    node: NodeContext,
) -> None:
    """Row 111: directories and logs of pods that are gone, whether their workflow is known to have ended or not."""
    workflows, runtime = Workflows({"open": "open", "closed": "closed", "heir": "another"}), Runtime()
    for uid in ("open", "closed", "heir", "unknown"):
        note(node, uid)
    note(node, "foreign", cluster="other/default")
    note(node, "elder", cluster="")
    assert await gone(node, workflows, runtime).round() == 3
    assert sorted(runtime.cleared) == ["closed", "heir", "unknown"]


async def test_an_unknown_workflow_is_no_reason_to_remove_a_sandbox(node: NodeContext) -> None:
    """Row 110: a dead sandbox of a gone pod is removed only if its own workflow is known to have ended."""
    workflows, runtime = Workflows({"closed": "closed"}), Runtime()
    runtime.has(listing("closed", "exited", ready=False), listing("unknown", "exited", ready=False), listing("alive"))
    for uid in ("closed", "unknown", "alive"):
        note(node, uid)
    await gone(node, workflows, runtime).round()
    assert runtime.cleared == ["closed"]
    assert "alive" not in workflows.asked


async def test_nothing_is_removed_before_the_server_has_answered_or_before_the_minimum_age(node: NodeContext) -> None:
    """Row 111: never before the agent knows the pods."""
    workflows, runtime = Workflows({"u1": "closed"}, away=True), Runtime()
    note(node, "u1")
    assert await gone(node, workflows, runtime).round() == 0
    workflows.away = False
    patient = gone(node, workflows, runtime, min_age=1e9)
    assert await patient.round() == 0
    assert runtime.cleared == []


async def test_a_pod_whose_life_is_noted_as_over_is_removed_at_once_when_the_worker_begins(node: NodeContext) -> None:
    """The last worker may have died before it removed the remains of an ended workflow's pod."""
    workflows, runtime = Workflows({"over": "closed", "open": "open", "other": "closed", "pruned": "closed"}), Runtime()
    for uid in ("over", "open", "other"):
        note(node, uid, incarnation="life-1")
    note(node, "pruned", incarnation="life-1", cluster="lost/default")
    for uid in ("over", "open", "pruned"):
        write_tombstone(node, uid, "life-1")
    write_tombstone(node, "other", "life-0")
    looking = asyncio.create_task(gone(node, workflows, runtime, min_age=1e9, period=1e9).run())
    await until(lambda: len(runtime.cleared) > 1)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    assert sorted(runtime.cleared) == ["over", "pruned"]


async def test_remains_that_cannot_be_removed_are_reported_while_they_stay(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else shows them: the pod's workflow has ended."""
    runtime = Runtime()
    note(node, "u1")
    looking = gone(node, Workflows({"u1": "closed"}), runtime)

    async def is_busy(life: EndedLife, is_gone: Any) -> bool:
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patched:
        patched.setattr(runtime, "remove", is_busy)
        await looking.round()
    why = "Device or resource busy"
    assert looking.remains == (Remains(namespace="default", name="name-u1", uid="u1", why=why),)
    await looking.round()
    assert not looking.remains


async def test_unreadable_records_are_reported_once_while_they_stay_unreadable(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 111: a node that cannot clean up reports that."""
    workflows, runtime = Workflows({"u1": "closed"}), Runtime()
    note(node, "u1")
    looking = gone(node, workflows, runtime)
    orphans = Orphans(
        node,
        cast("PodWorkflows", workflows),
        cast("CriRuntime", runtime),
        cast("Killer", runtime),
        AsyncMock(),
        begin_anew=AsyncMock(return_value=False),
        hand_over=looking.remove,
        period=0.001,
    )
    looks = asyncio.create_task(orphans.run())
    asked: list[None] = []

    def fail(node: object) -> NoReturn:
        asked.append(None)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("syncpod.agent.record_cache.pods_directory", fail)
    assert (await looking.round(), await looking.round()) == (0, 0)
    await until(lambda: len(asked) > 4)
    looks.cancel()
    await asyncio.gather(looks, return_exceptions=True)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sorted(warnings) == [
        "the pods' records cannot be read, so orphans are not looked for: [Errno 5] Input/output error",
        "the pods' records cannot be read, so remains of pods are not looked for: [Errno 5] Input/output error",
    ]
    monkeypatch.undo()
    assert await looking.round() == 1


async def test_a_slow_removal_does_not_delay_that_of_other_pods(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 111: and the removal is not started a second time."""
    monkeypatch.setattr(removals, "ROUND_SECONDS", 0.05)
    workflows, runtime = Workflows(dict.fromkeys(("slow", "quick", "later"), "closed")), Runtime()
    remove, hangs = runtime.remove, asyncio.Event()

    async def remove_slowly(life: EndedLife, is_gone: Any) -> bool:
        if life.ref.uid == "slow":
            await hangs.wait()
        return await remove(life, is_gone)

    monkeypatch.setattr(runtime, "remove", remove_slowly)
    looking = gone(node, workflows, runtime)
    for uid in ("slow", "quick"):
        note(node, uid)
    assert await looking.round() == 1
    note(node, "later")
    await looking.round()
    assert set(runtime.cleared) == {"quick", "later"}
    hangs.set()
    await until(lambda: "slow" in runtime.cleared)
    assert runtime.cleared.count("slow") == 1


async def test_an_internal_error_in_one_removal_affects_no_other(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 111: other removals continue, and after the end of the task it starts again."""
    monkeypatch.setattr(removals, "ROUND_SECONDS", 0.05)
    workflows, runtime = Workflows(dict.fromkeys(("odd", "quick", "slow"), "closed")), Runtime()
    remove, hangs, slow = runtime.remove, asyncio.Event(), list[str]()

    async def remove_with_trouble(life: EndedLife, is_gone: Any) -> bool:
        if life.ref.uid == "odd":
            raise ZeroDivisionError("a defect")
        if life.ref.uid == "slow":
            slow.append(life.ref.uid)
            await hangs.wait()
        return await remove(life, is_gone)

    monkeypatch.setattr(runtime, "remove", remove_with_trouble)
    monkeypatch.setattr(removals, "CLOSE_SECONDS", 0.01)
    for uid in ("odd", "quick", "slow"):
        note(node, uid)
    looking = gone(node, workflows, runtime, period=0.0)
    assert await looking.round() == 1
    assert caplog.text.count("the remains of pod odd stay for now because of a defect") == 1
    running = asyncio.create_task(looking.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    hangs.set()
    assert await looking.round() >= 1
    assert len(slow) == 2
    assert "slow" in runtime.cleared


# --- the report -------------------------------------------------------------------------------------------------------


async def test_the_node_report_has_the_data_of_a_node_object(node: NodeContext) -> None:
    reporter = NodeReporter(
        node.state_dir,
        [("container garbage collection", 60.0, lambda: 7, "dead")],
        orphans=lambda: (Orphan(namespace="default", name="web", uid="u1", why="its workflow has ended"),),
        remains=tuple,
        obstacles=tuple,
    )
    reporter.set_conditions(("DiskPressure",))
    running = asyncio.create_task(reporter.run())
    try:
        await until(lambda: read_node_report(node.state_dir) is not None)
    finally:
        running.cancel()
    report = read_node_report(node.state_dir)
    assert report is not None
    assert [(each.type, each.status, each.reason) for each in report.conditions] == [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "True", "KubeletHasDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ]
    assert ([each.uid for each in report.orphans], [each.done for each in report.chores]) == (["u1"], [7])


# --- settings ---------------------------------------------------------------------------------------------------------


def test_gc_periods_and_retention_default_to_the_kubelets() -> None:
    """Row 107: one minute, no minimum age, one per container, no limit on the node."""
    usual = housekeeping_settings({})
    assert (usual.containers, usual.containers_period) == (ContainerGcPolicy(), 60.0)
    assert (len(usual.eviction.thresholds), usual.eviction_period) == (6, 10.0)
    mine = housekeeping_settings(
        {
            "SYNCPOD_CONTAINER_GC_PER_CONTAINER": "3",
            "SYNCPOD_CONTAINER_GC_PERIOD": "1m30s",
            "SYNCPOD_EVICTION_HARD": "memory.available<1Gi",
        }
    )
    assert (mine.containers.per_container, mine.containers_period) == (3, 90.0)
    assert mine.eviction.thresholds[0].value.number == 1 << 30


def test_every_setting_is_documented() -> None:
    """A setting that the documentation does not mention is useless."""
    read: set[str] = set()

    class Environment(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            read.add(name)
            return default

    housekeeping_settings(Environment())
    documented = (Path(__file__).resolve().parents[2] / "docs" / "housekeeping.md").read_text()
    assert len(read) == 14
    assert [name for name in sorted(read) if f"`{name}`" not in documented] == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("SYNCPOD_CONTAINER_GC_PER_CONTAINER", "0", "at least 1"),
        ("SYNCPOD_CONTAINER_GC_IN_ALL", "many", "whole number"),
        ("SYNCPOD_CONTAINER_GC_PERIOD", "0", "at least 100ms"),
        ("SYNCPOD_GONE_PODS_MIN_AGE", "5", "duration"),
        ("SYNCPOD_EVICTION_HARD", "memory<1Gi", "signals are"),
        ("SYNCPOD_EVICTION_SOFT", "memory.available<1Gi", "SYNCPOD_EVICTION_SOFT_GRACE_PERIOD"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, value: str, says: str) -> None:
    with pytest.raises(SettingsInvalid, match=says) as refused:
        housekeeping_settings({name: value})
    assert str(refused.value).startswith("SYNCPOD_")
