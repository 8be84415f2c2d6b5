"""The node's workflow on a real server, with real workflows of pods; only the pods' own steps are scripted.

Each history is replayed from its start; `make test-all` also replays it at every workflow task.

Holds: A node reaches the state that its lists ask for, even if messages are lost on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_type_hints

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities import pod_workflows
from activities.registry import node_steps
from syncpod.lifecycle.version import DECISION_VERSION, build_id
from syncpod.messages.identity import NodeFacts, pod_workflow_id
from syncpod.messages.node import (
    LIST_LIMIT,
    NODE_WORKFLOW,
    NodeStepName,
    NodeView,
    PodWorkflowResult,
    PodWorkflowResults,
    node_workflow_id,
)
from syncpod.temporal.pod_orders import PodOrders
from tests.workflows.sandbox import sandboxed_runner
from tests.workflows.scripted import DIGEST, ScriptedNode
from tests.workflows.test_signal_floods import flood
from workflows.node.decide import AT_ONCE
from workflows.node.steps import NODE_STEPS
from workflows.node.workflow import PART, NodeWorkflow
from workflows.pod.workflow import PodWorkflow

PATIENCE = 60.0


@dataclass
class NodeUnderTest:
    """One node's workflow, and the pods that it makes."""

    client: Client
    scripted: ScriptedNode
    made: list[str] = field(default_factory=list)
    suffix: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    deleted: list[tuple[str, datetime]] = field(default_factory=list)
    """The deletions that the node is notified of as its own: the workflow's id, and the time."""

    @property
    def name(self) -> str:
        return self.scripted.queue.removeprefix("node/")

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(node_workflow_id(self.name))

    async def start(self, **more: Any) -> None:
        await self.client.start_workflow(
            NODE_WORKFLOW,
            {"node": self.name, **more},
            id=node_workflow_id(self.name),
            task_queue=self.scripted.queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        )

    def pod(self, base: str, image: str = "busybox:1", **metadata: Any) -> dict[str, Any]:
        """A pod under a name of this test's own."""
        name = f"{base}-{self.suffix}"
        self.made.append(name)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"containers": [{"name": "main", "image": image}], "terminationGracePeriodSeconds": 1},
        }

    async def sync(self, source: str, *pods: Any, **more: Any) -> None:
        await self.handle.signal("sync_pods", {"source": source, "pods": list(pods), **more})

    async def view(self) -> NodeView:
        return NodeView.model_validate(await self.handle.query("node"))

    async def until(self, seen: Callable[[NodeView], Any]) -> NodeView:
        async with asyncio.timeout(PATIENCE):
            while True:
                view = await self.view()
                if seen(view):
                    return view
                await asyncio.sleep(0.05)

    async def settled(self) -> NodeView:
        """Wait until every pod's workflow has got all orders."""
        return await self.until(lambda view: all(each.state == "applied" for each in view.desired))

    async def event(self, reason: str, text: str = "") -> str:
        """Wait for an event; returns its message."""
        view = await self.until(lambda view: _messages(view, reason, text))
        return _messages(view, reason, text)[0]

    async def running(self, base: str) -> dict[str, Any] | None:
        """The pod with this name in its workflow's answer; None if no workflow is open."""
        handle = self.client.get_workflow_handle(pod_workflow_id("default", f"{base}-{self.suffix}"))
        try:
            description = await handle.describe()
        except RPCError:
            return None
        if description.status is None or description.status.name != "RUNNING":
            return None
        pod: dict[str, Any] = await handle.query("pod")
        return pod

    async def pod_until(self, base: str, seen: Callable[[dict[str, Any] | None], Any]) -> dict[str, Any] | None:
        async with asyncio.timeout(PATIENCE):
            while True:
                pod = await self.running(base)
                if seen(pod):
                    return pod
                await asyncio.sleep(0.05)


def _messages(view: NodeView, reason: str, text: str) -> list[str]:
    return [each.message for each in view.events if each.reason == reason and text in each.message]


@contextlib.asynccontextmanager
async def served(node: NodeUnderTest, **options: Any) -> AsyncIterator[None]:
    """Run a worker of the node."""
    given = {"build_id": build_id("syncpod-test", DIGEST), "workflow_runner": sandboxed_runner(), **options}

    def deleted(workflow_id: str, command: str, since: datetime) -> None:
        assert command == "delete"
        node.deleted.append((workflow_id, since))

    of_node = node_steps(PodOrders(node.client, lambda: node.scripted.facts, own_command=deleted))
    async with Worker(
        node.client,
        task_queue=node.scripted.queue,
        workflows=[PodWorkflow, NodeWorkflow],
        activities=[*node.scripted.activities(), *of_node],
        **given,
    ):
        yield


@contextlib.asynccontextmanager
async def ended(node: NodeUnderTest) -> AsyncIterator[None]:
    """End the node's workflow and those of its pods afterwards."""
    yield
    for workflow_id in [node_workflow_id(node.name), *(pod_workflow_id("default", n) for n in node.made)]:
        try:
            await node.client.get_workflow_handle(workflow_id).terminate()
        except RPCError:
            continue


@pytest_asyncio.fixture(loop_scope="session")
async def node_under_test(client: Client, worker_options: dict[str, Any]) -> AsyncIterator[NodeUnderTest]:
    under_test = NodeUnderTest(client, ScriptedNode())
    async with served(under_test, **worker_options), ended(under_test):
        await under_test.start()
        yield under_test


async def test_a_list_controls_only_pods_of_its_own_source(node_under_test: NodeUnderTest) -> None:
    node = node_under_test
    web, job, other = node.pod("web"), node.pod("job"), node.pod("other")
    await node.sync("crew", web, job)
    await node.sync("team", other)
    view = await node.until(lambda view: len(view.desired) == 3 and all(e.state == "applied" for e in view.desired))
    assert {name: source.pods for name, source in view.sources.items()} == {"crew": 2, "team": 1}
    pod = await node.pod_until("web", bool)
    assert pod is not None
    assert pod["metadata"]["annotations"]["kubernetes.io/config.source"] == "crew"
    assert pod["metadata"]["uid"] == next(e.uid for e in view.desired if e.name == web["metadata"]["name"])

    await node.sync("crew", web)
    await node.pod_until("job", lambda pod: pod is None)
    assert await node.running("other")
    assert (await node.running("web") or {})["metadata"]["uid"] == pod["metadata"]["uid"]

    await node.sync("team")
    await node.pod_until("other", lambda pod: pod is None)
    assert await node.running("web")


@pytest.mark.parametrize("seconds", [5.0, 0.0])
async def test_pods_that_join_or_leave_a_list_together_are_told_by_one_step(
    node_under_test: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """A pod whose workflow does not answer within that step gets a step of its own at once."""
    monkeypatch.setattr(pod_workflows, "_TOGETHER_SECONDS", seconds)
    node = node_under_test
    await node.sync("crew", *(node.pod(name) for name in ("web", "job", "other")))
    await node.settled()
    await node.sync("crew")
    for name in ("web", "job", "other"):
        await node.pod_until(name, lambda pod: pod is None)
    view = await node.until(lambda view: not view.desired)
    begun = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in (await node.handle.fetch_history()).events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    ways = ("apply_pods", "apply_pod"), ("delete_pods", "delete_pod")
    assert begun == [name for all_, one in ways for name in (all_, *(3 * [one] * (not seconds)))]
    assert not _messages(view, "FailedPodSync", "")


async def test_a_node_knows_which_deletions_of_a_pods_history_are_its_own(node_under_test: NodeUnderTest) -> None:
    node = node_under_test
    await node.sync("crew", node.pod("web"), node.pod("job"))
    await node.settled()
    job, web = (node.client.get_workflow_handle(pod_workflow_id("default", node.made[each])) for each in (1, 0))
    node.scripted.gate["kill_pod"] = asyncio.Event()
    await job.signal("delete_pod", {})  # so it is not the node that ends this one
    await node.pod_until("job", lambda pod: pod and "deletionTimestamp" in pod["metadata"])
    await node.sync("crew")
    await node.until(lambda view: not view.desired)
    ((workflow_id, since),) = node.deleted
    assert workflow_id == web.id
    (line,) = [each for each in await web.query("history") if each["subject"] == "delete"]
    assert datetime.fromisoformat(line["at"]) == since
    node.scripted.gate["kill_pod"].set()
    for name in ("web", "job"):
        await node.pod_until(name, lambda pod: pod is None)


async def _types(handle: WorkflowHandle[Any, Any]) -> list[EventType.ValueType]:
    return [event.event_type for event in (await handle.fetch_history()).events]


async def test_a_changed_pod_of_a_list_starts_after_the_previous_one_has_ended(node_under_test: NodeUnderTest) -> None:
    """Row 8: two static pods with one name never run together."""
    node = node_under_test
    await node.sync("crew", node.pod("web"))
    before = await node.pod_until("web", bool)
    await node.sync("crew", node.pod("web", image="busybox:2"))
    assert before is not None
    after = await node.pod_until("web", lambda pod: pod and pod["metadata"]["uid"] != before["metadata"]["uid"])
    assert after is not None
    assert after["spec"]["containers"][0]["image"] == "busybox:2"
    view = await node.settled()
    assert [each.uid for each in view.desired] == [after["metadata"]["uid"]]


async def test_a_pod_named_by_two_lists_exists_once_and_survives_the_removal_from_one(
    node_under_test: NodeUnderTest,
) -> None:
    node = node_under_test
    of_team, of_crew = node.pod("web", image="busybox:2"), node.pod("web", image="busybox:1")
    await node.sync("crew", of_crew, of_crew)
    assert "same list" in await node.event("Rejected", "another pod")
    await node.sync("team", of_team)
    assert "that of crew counts" in await node.event("DuplicatePod")
    view = await node.settled()
    assert [each.source for each in view.desired] == ["crew"]
    await node.sync("crew")
    pod = await node.pod_until("web", lambda pod: pod and pod["spec"]["containers"][0]["image"] == "busybox:2")
    assert pod is not None
    assert pod["metadata"]["annotations"]["kubernetes.io/config.source"] == "team"
    assert pod["metadata"]["annotations"]["kubernetes.io/config.hash"] == pod["metadata"]["uid"]


async def test_single_pods_are_applied_and_deleted_by_signal_and_by_update(node_under_test: NodeUnderTest) -> None:
    node = node_under_test
    await node.handle.signal("apply", {"pod": node.pod("signalled")})
    await node.handle.execute_update("apply", {"pod": node.pod("updated")})
    for base in ("signalled", "updated"):
        assert await node.pod_until(base, bool)
    view = await node.until(lambda view: not view.desired)
    assert "api" in view.sources
    await node.sync("crew")  # another source's list does not affect them
    await node.handle.signal("delete", {"name": f"signalled-{node.suffix}", "gracePeriodSeconds": 0})
    await node.handle.execute_update("delete", {"namespace": "default", "name": f"updated-{node.suffix}"})
    for base in ("signalled", "updated"):
        await node.pod_until(base, lambda pod: pod is None)
    await node.sync("crew", node.pod("static"))
    await node.settled()
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await node.handle.execute_update("delete", {"name": f"static-{node.suffix}"})
    assert "change it there" in str(refused.value.cause)


async def test_a_cordoned_node_accepts_new_pods_only_from_lists(node_under_test: NodeUnderTest) -> None:
    node = node_under_test
    await node.handle.execute_update("apply", {"pod": node.pod("old")})
    await node.until(lambda view: not view.desired)
    await node.handle.execute_update("cordon", {"by": "syncpod\ncordon, root@vm"})
    told = [each.message for each in (await node.view()).events if each.reason == "NodeNotSchedulable"]
    assert [each.partition(", ")[2] for each in told] == ["by syncpod cordon, root@vm"]
    await node.handle.signal("apply", {"pod": node.pod("new")})
    await node.handle.execute_update("apply", {"pod": node.pod("old", labels={"a": "b"})})
    await node.sync("crew", node.pod("static"))
    assert "cordoned" in await node.event("FailedPodSync", f"new-{node.suffix}")
    assert await node.pod_until("static", bool)
    assert await node.pod_until("old", lambda pod: pod and pod["metadata"].get("labels") == {"a": "b"})
    assert await node.running("new") is None
    view = await node.view()
    (waiting,) = [each for each in view.desired if each.state == "pending"]
    assert (view.unschedulable, waiting.reason) == (True, "Refused")
    assert waiting.retry_at is not None
    assert (await node.handle.describe()).raw_description.workflow_execution_info.memo.fields["node"].data
    await node.handle.execute_update("uncordon")
    await node.handle.execute_update("apply", {"pod": node.pod("new")})
    assert await node.pod_until("new", bool)


async def test_a_refused_pod_is_shown_backs_off_and_is_retried_at_once_when_changed(
    node_under_test: NodeUnderTest,
) -> None:
    node = node_under_test
    wrong = node.pod("web", image="")
    await node.sync("crew", wrong)
    assert "spec.containers[0].image" in await node.event("FailedPodSync")
    (held,) = (await node.view()).desired
    assert (held.state, held.reason, held.retry_at is None) == ("pending", "Refused", False)
    await node.sync("crew", node.pod("web"))
    assert await node.pod_until("web", bool)
    before = await node.running("web")
    await node.sync("crew", wrong)  # the running pod is not ended for one that cannot run
    await node.until(lambda view: view.desired[0].reason == "Refused")
    after = await node.running("web")
    assert before is not None
    assert after is not None
    assert (after["metadata"]["uid"], after["metadata"].get("deletionTimestamp")) == (before["metadata"]["uid"], None)


async def test_invalid_signals_to_a_node_are_rejected_and_end_no_pod(node_under_test: NodeUnderTest) -> None:
    node = node_under_test
    web = node.pod("web")
    await node.sync("crew", web)
    await node.settled()
    poison: list[Any] = [
        ["sync_pods"],
        ["sync_pods", {"source": "crew"}, {}],
        ["sync_pods", 7],
        ["sync_pods", {"source": "api", "pods": []}],
        ["sync_pods", {"source": "file", "pods": []}],
        ["static_pods", {"pods": [{"state": "asleep"}]}],
        ["sync_pods", {"source": "crew", "pods": 3}],
        ["sync_pods", {"source": "big", "pods": [{"metadata": {"name": "a", "x": "x" * (LIST_LIMIT + 1)}}]}],
        ["apply", {"pod": {"metadata": {"name": 5}}}],
        ["delete", {"name": ""}],
        ["node_status", {"conditions": 1}],
        ["nonsense", 1],
    ]
    for name, *args in poison:
        await node.handle.signal(name, args=args)
    await node.handle.cancel()
    view = await node.until(lambda view: len(_messages(view, "Rejected", "")) > len(poison))
    assert _messages(view, "Rejected", "cancel: a node has no end")
    page: Any = await node.handle.query("__temporal_workflow_metadata")
    assert page.current_details.endswith(f"\n\nLast rejected: {_messages(view, 'Rejected', '')[-1]}")
    assert any("must be the name of a list" in message for message in _messages(view, "Rejected", ""))
    await node.sync("crew", {"metadata": {}}, web)
    await node.event("Rejected", "pods[0].metadata.name: required")
    pod = await node.running("web")
    assert pod is not None
    assert "deletionTimestamp" not in pod["metadata"]
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await node.handle.execute_update("apply", {"pod": {"metadata": {"name": "x"}, "spec": {"container": []}}})
    assert "spec.container" in str(refused.value.cause)


async def test_a_flood_of_lists_converges_to_the_last_one_across_continue_as_new(
    client: Client, node_under_test: NodeUnderTest
) -> None:
    node = node_under_test
    await node.handle.terminate()
    await node.start(maxEvents=30)
    first = await node.view()
    status = {"boot": 3, "conditions": [{"type": "Ready", "status": "True"}], "sources": ["file"], "sourcesReady": True}
    await node.handle.signal("node_status", status)
    for number in range(40):
        await node.sync("crew", *(node.pod(f"p{n}") for n in range(number % 3)))
        await node.handle.signal("static_pods", {"boot": 3, "pods": []})
        await node.handle.signal("node_status", {**status, "capacity": {"pods": str(number)}})
    await node.sync("crew", node.pod("last"))
    view = await node.until(
        lambda view: (
            [each.name for each in view.desired] == [f"last-{node.suffix}"] and view.desired[0].state == "applied"
        )
    )
    assert (view.since, view.sources_ready, view.capacity) == (first.since, True, {"pods": "39"})
    assert view.sources["file"].boot == 3
    for n in range(2):
        await node.pod_until(f"p{n}", lambda pod: pod is None)
    described = await node.handle.describe()
    assert described.run_id != described.raw_description.workflow_execution_info.first_run_id


async def test_pods_of_a_list_that_is_larger_than_a_usual_history_are_all_made(node_under_test: NodeUnderTest) -> None:
    """Those that are not made at once are in the next run's snapshot, which alone is as large."""
    node = node_under_test
    pods = [node.pod(f"a{number}") for number in range(AT_ONCE)] + [node.pod(f"b{number}") for number in range(4)]
    for large in pods[AT_ONCE:]:
        large["spec"]["containers"][0]["env"] = [{"name": name, "value": "x" * 100_000} for name in ("ONE", "TWO")]
    await node.sync("crew", *pods)
    await node.until(lambda view: len(view.desired) == len(pods))
    assert {each.state for each in (await node.settled()).desired} == {"applied"}


async def test_a_restarted_node_workflow_ends_recalled_pods_missing_from_its_lists(
    node_under_test: NodeUnderTest,
) -> None:
    node = node_under_test
    web, job, other = node.pod("web"), node.pod("job"), node.pod("other")
    await node.sync("crew", web, job)
    await node.sync("team", other)
    view = await node.until(lambda view: len(view.desired) == 3 and all(e.state == "applied" for e in view.desired))
    made = [{"name": each.name, "uid": each.uid, "source": each.source} for each in view.desired]
    await node.handle.terminate()
    await node.start()
    await node.handle.signal("recall_pods", {"pods": made})
    await node.until(lambda view: {each.source for each in view.desired} == {"crew", "team"})
    await node.sync("crew", node.pod("web", image="busybox:2"))
    await node.pod_until("job", lambda pod: pod is None)
    await node.pod_until("web", lambda pod: pod and pod["spec"]["containers"][0]["image"] == "busybox:2")
    assert await node.running("other")  # its source has not reported yet
    await node.sync("team")
    await node.pod_until("other", lambda pod: pod is None)
    view = await node.until(lambda view: len(view.desired) == 1)
    assert [(each.source, each.name) for each in view.desired] == [("crew", web["metadata"]["name"])]


async def test_an_oversized_list_is_refused_and_the_node_continues(node_under_test: NodeUnderTest) -> None:
    node = node_under_test
    many = [{"metadata": {"name": f"p{number}"}} for number in range(12_000)]
    await node.sync("many", *many)
    assert "pods: must be no more than 4000, there are 12000" in await node.event("Rejected")
    await node.sync("crew", node.pod("web"))
    assert await node.pod_until("web", bool)


async def test_a_repeated_list_recreates_pods_that_were_ended(
    node_under_test: NodeUnderTest,
) -> None:
    node = node_under_test
    team = [node.pod("ended"), node.pod("ending"), node.pod("left-alone")]
    await node.sync("team", *team)
    await node.until(lambda view: len(view.desired) == 3 and all(each.state == "applied" for each in view.desired))
    for pod in team[:2]:
        handle = node.client.get_workflow_handle(pod_workflow_id("default", pod["metadata"]["name"]))
        await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
    await node.pod_until("ended", lambda pod: pod is None)
    await node.pod_until("ending", lambda pod: pod is None or "deletionTimestamp" in pod["metadata"])
    await node.sync("team", *team)
    for base in ("ended", "ending"):
        assert await node.pod_until(base, lambda pod: pod and "deletionTimestamp" not in pod["metadata"])
    view = await node.settled()
    applied = [each for each in view.events if each.reason == "PodApplied"]
    assert [each.count for each in applied if "left-alone" in each.message] == [1]
    assert sorted(each.count for each in applied) == [1, 2, 2]


async def test_a_node_run_is_renewed_by_newer_decisions_or_on_request_without_loss(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = NodeUnderTest(client, ScriptedNode())
    await node.start()

    async def run() -> str:
        return str((await node.handle.describe()).run_id)

    async def another(than: str) -> str:
        async with asyncio.timeout(PATIENCE):
            while True:
                if (newest := await run()) != than:
                    return newest
                await asyncio.sleep(0.05)

    def of(version: int) -> contextlib.AbstractAsyncContextManager[None]:
        """A worker with this version of decisions and without a cache, so that each task is a replay."""
        monkeypatch.setattr("syncpod.lifecycle.version.DECISION_VERSION", version)
        return served(
            node,
            build_id=build_id("syncpod-test", DIGEST),
            workflow_runner=UnsandboxedWorkflowRunner(),  # so that the patched version is the workflow's
            max_cached_workflows=0,
        )

    async with ended(node):
        runs = [await run()]
        async with of(DECISION_VERSION):
            await node.handle.execute_update("cordon")
            await node.sync("crew", node.pod("web"))
            await node.settled()
            assert await run() == runs[0]
        async with of(DECISION_VERSION + 1):
            await node.view()
            assert await run() == runs[-1], "not before something is to be decided"
            await node.handle.signal("node_status", {"boot": 2})
            runs.append(await another(runs[-1]))
            await node.handle.signal("node_status", {"boot": 3})
            await node.until(lambda view: view.boot == 3)
            assert await run() == runs[-1], "once is enough"
        async with of(DECISION_VERSION + 1):
            await node.handle.signal("renew", {})
            runs.append(await another(runs[-1]))
            await node.view()
        async with of(DECISION_VERSION):
            await node.handle.execute_update("uncordon")
            view = await node.settled()
            assert [each.name for each in view.desired] == [f"web-{node.suffix}"]
            assert await run() == runs[-1]
        for each in runs:
            history = await client.get_workflow_handle(node.handle.id, run_id=each).fetch_history()
            types = {event.event_type for event in history.events}
            assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in types
            assert EventType.EVENT_TYPE_MARKER_RECORDED not in types


async def test_node_signals_queued_without_a_worker_are_processed_in_parts_before_an_update(client: Client) -> None:
    node = NodeUnderTest(client, ScriptedNode())
    await node.start()
    wrong = [("apply", {"pod": {"metadata": {"name": ["x"], "number": number}}}) for number in range(PART + 50)]
    async with ended(node):
        await flood(node.handle, wrong)
        await node.handle.signal("apply", {"pod": node.pod("web")})
        cordoned = asyncio.create_task(node.handle.execute_update("cordon"))
        async with served(node, max_cached_workflows=0):
            assert await cordoned
            assert await node.pod_until("web", bool), "it came before the cordon"
        history = await node.handle.fetch_history()
        view = Counter(event.event_type for event in history.events)
        assert view[EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED] == 0
        assert view[EventType.EVENT_TYPE_TIMER_FIRED] == 1, "one pause, two parts"


async def test_a_back_off_keeps_one_timer_despite_other_events(node_under_test: NodeUnderTest) -> None:
    node = node_under_test
    await node.sync("crew", node.pod("web", image=""))
    await node.event("FailedPodSync")
    for number in range(5):
        await node.handle.signal("node_status", {"boot": 1, "capacity": {"pods": str(number)}})
        await node.until(lambda view, n=number: view.capacity == {"pods": str(n)})  # type: ignore[misc]
    await node.sync("team", node.pod("other"))
    assert await node.pod_until("other", bool)
    history = await node.handle.fetch_history()
    types = {event.event_type for event in history.events}
    assert EventType.EVENT_TYPE_TIMER_STARTED in types
    assert EventType.EVENT_TYPE_TIMER_CANCELED not in types


def test_every_node_step_is_registered_with_the_types_of_the_table(client: Client) -> None:
    registered = {
        str(activity._Definition.must_from_callable(step).name): get_type_hints(step)
        for step in node_steps(PodOrders(client, NodeFacts))
    }
    assert registered.keys() == {name.value for name in NODE_STEPS} == {name.value for name in NodeStepName}
    for name, hints in registered.items():
        several = name in (NodeStepName.APPLY_PODS, NodeStepName.DELETE_PODS)
        result = PodWorkflowResults if several else PodWorkflowResult
        assert hints == {"request": NODE_STEPS[NodeStepName(name)].input, "return": result}
