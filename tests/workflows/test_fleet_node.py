"""The workflow of a fleet's node on a real server. The node's answers are scripted; its activities are real.

Holds: A run with a large snapshot still does its work.
Holds: A fleet ends no pod of a node whose list it does not know.
Holds: A node's workflow keeps its state within one payload, even if the node lies.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle, WorkflowHistory, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.fleet_node import fleet_answers
from syncpod.agent.fleet.member import lacking, why_stale
from syncpod.cli.view.fleet_description import describe_node
from syncpod.lifecycle.version import build_id
from syncpod.messages.fleet import (
    FLEET_NODE_WORKFLOW,
    OWNER_ANNOTATION,
    STALE_INTENT,
    TAKE_INTENT,
    Attend,
    Attended,
    FleetNodeReport,
    FleetNodeView,
    Intent,
    IntentTaken,
    PodReport,
    WhoAsks,
    fleet_node_id,
)
from syncpod.messages.node import NodeCondition, PodKey
from tests.agent.waiting import pauses, until_asked
from tests.workflows.scripted import DIGEST
from workflows.fleet.node import ABSENT_AGAIN, DOUBTED, FleetNodeWorkflow
from workflows.runner import workflow_runner

PATIENCE = 60.0


def pod(name: str, image: str = "busybox:1") -> dict[str, Any]:
    """A pod's manifest."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


@dataclass
class ScriptedMember:
    """A node whose answers a test sets."""

    taken: Intent = field(default_factory=Intent)
    pods: dict[str, PodReport] = field(default_factory=dict)
    number: int = 1
    lists: list[int] = field(default_factory=list)
    """The generations of the lists that it received."""
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    awaits: bool = False
    """Whether a request for changes waits here, since there are none."""
    last: FleetNodeReport | None = None
    """Its report when its worker is stopped properly; None: no report."""

    async def recall(self, _asked: WhoAsks) -> Intent:
        return self.taken

    async def take(self, intent: Intent) -> IntentTaken:
        self.lists.append(intent.generation)
        if why := why_stale(self.taken, intent):
            raise ApplicationError(why, type=STALE_INTENT, non_retryable=True)
        self.taken = intent
        await self.tell()
        return IntentTaken(generation=intent.generation)

    async def attend(self, asked: Attend) -> Attended:
        self.awaits = asked.version == str(self.number)
        try:
            async with self.news:
                await self.news.wait_for(lambda: asked.version != str(self.number))
        finally:
            self.awaits = False
        there = tuple(PodKey(namespace=each.namespace, name=each.name) for each in self.pods.values())
        return Attended(
            version=str(self.number),
            generation=self.taken.generation,
            lacks=lacking(asked, self.taken.generation),
            present=there,
            node=FleetNodeReport(ready=True, labels={"disk": "ssd"}, allocatable={"cpu": "2"}),
            pods=tuple(self.pods.values()),
        )

    def farewell(self) -> Attended:
        return Attended(node=self.last) if self.last is not None else Attended()

    async def has(self, *pods: PodReport) -> None:
        """Report these pods, and no others, from now on."""
        self.pods = {each.key: each for each in pods}
        await self.tell()

    async def tell(self) -> None:
        async with self.news:
            self.number += 1
            self.news.notify_all()

    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.taken.pods]


@workflow.defn(name="OwnerUnderTest")
class Owner:
    """Collects the messages to the owner of pods."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def pods_changed(self, news: dict[str, Any]) -> None:
        self.told.append(news)

    @workflow.update
    async def news(self) -> list[dict[str, Any]]:
        await workflow.wait_condition(lambda: bool(self.told))
        return self.told


@dataclass
class Fleet:
    """One node's workflow, and the worker of its fleet."""

    client: Client
    name: str
    queue: str
    member: ScriptedMember = field(default_factory=ScriptedMember)
    started: list[str] = field(default_factory=list)

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(fleet_node_id(self.name))

    def node(self) -> Worker:
        """The node's worker, which polls one queue of the fleet's server."""
        return Worker(
            self.client,
            task_queue=fleet_node_id(self.name),
            activities=fleet_answers(self.member),
            graceful_shutdown_timeout=timedelta(milliseconds=100),  # as a node's own, which leaves room for answers
        )

    async def start(self, **more: Any) -> None:
        await self.client.start_workflow(
            FLEET_NODE_WORKFLOW,
            {"fleet": "f", "node": self.name, **more},
            id=fleet_node_id(self.name),
            task_queue=self.queue,
        )

    @property
    def owner_id(self) -> str:
        return f"workload/Deployment/default/{self.name}"

    async def owner(self) -> WorkflowHandle[Any, Any]:
        handle = await self.client.start_workflow(Owner.run, id=self.owner_id, task_queue=f"owner-{self.queue}")
        self.started.append(handle.id)
        return handle

    async def place(self, *pods: Any, owner: str = "") -> None:
        await self.handle.execute_update("place", {"owner": owner, "pods": list(pods)})

    async def withdraw(self, *names: str) -> None:
        pods = [{"name": each} for each in names]
        await self.handle.execute_update("withdraw", {"pods": pods, "reason": "not wanted"})

    async def view(self) -> FleetNodeView:
        return FleetNodeView.model_validate(await self.handle.query("fleet_node"))

    async def until(self, seen: Callable[[FleetNodeView], Any]) -> FleetNodeView:
        deadline, pause = time.monotonic() + PATIENCE, pauses(0.02)
        while not seen(view := await self.view()):
            assert time.monotonic() < deadline, view.model_dump_json(indent=1)
            await asyncio.sleep(next(pause))
        return view


async def told(owner: WorkflowHandle[Any, Any]) -> list[dict[str, Any]]:
    """Wait for the first message to an owner, and return it."""
    news: list[dict[str, Any]] = await owner.execute_update("news")
    return news


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(client: Client, worker_options: dict[str, Any]) -> AsyncIterator[Fleet]:
    suffix = uuid.uuid4().hex[:8]
    fleet = Fleet(client, f"n-{suffix}", f"fleet-{suffix}")
    owners = Worker(client, task_queue=f"owner-{fleet.queue}", workflows=[Owner], workflow_runner=workflow_runner())
    fleets = Worker(
        client,
        task_queue=fleet.queue,
        workflows=[FleetNodeWorkflow],
        build_id=build_id("syncpod-test", DIGEST),
        **worker_options,
    )
    async with owners, fleets:
        yield fleet
        for each in [fleet_node_id(fleet.name), *fleet.started]:
            if (await client.get_workflow_handle(each).describe()).close_time is None:
                await client.get_workflow_handle(each).terminate()


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_is_given_what_is_placed_and_its_reports_are_shown(fleet: Fleet) -> None:
    await fleet.start()
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")
        await fleet.place(pod("web"), pod("db"))
        await fleet.until(lambda view: view.taken == view.generation)
        assert fleet.member.names() == ["db", "web"]
        await fleet.member.has(
            PodReport(name="web", status="Running", ready=True), PodReport(name="db", status="Pending")
        )
        view = await fleet.until(lambda view: all(each.report for each in view.placed))
        assert [(each.name, each.state, each.report and each.report.status) for each in view.placed] == [
            ("db", "taken", "Pending"),
            ("web", "taken", "Running"),
        ]
        assert view.labels == {"disk": "ssd"}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_withdrawn_pod_is_ending_until_the_node_no_longer_has_it(fleet: Fleet) -> None:
    await fleet.start()
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")
        await fleet.place(pod("web"))
        await fleet.member.has(PodReport(name="web", status="Running"))
        await fleet.until(lambda view: view.placed[0].report)
        await fleet.withdraw("web")
        await fleet.until(lambda view: view.taken == view.generation and not fleet.member.taken.pods)
        assert [(each.name, each.state, each.why) for each in (await fleet.view()).placed] == [
            ("web", "ending", "not wanted")
        ]
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await fleet.place(pod("web"))
        assert "still ending" in str(refused.value.cause)
        await fleet.member.has()
        await fleet.until(lambda view: not view.placed)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_fleet_that_forgot_a_node_asks_it_before_it_ends_anything(fleet: Fleet) -> None:
    document = pod("web")
    document["metadata"]["annotations"] = {OWNER_ANNOTATION: fleet.owner_id}
    fleet.member.taken = Intent(fleet="f", node=fleet.name, generation=57, pods=(document,))
    owner = await fleet.owner()
    await fleet.start()
    async with fleet.node():
        view = await fleet.until(lambda view: view.placed and view.taken == view.generation)
        assert view.generation == 58
        assert fleet.member.names() == ["web"]
        assert view.placed[0].owner == owner.id
        assert "Recalled" in {each.reason for each in view.events}
        assert await told(owner)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_whose_workload_was_deleted_is_shown_as_nobodys_until_the_workload_is_back(fleet: Fleet) -> None:
    document = pod("web")
    document["metadata"]["annotations"] = {OWNER_ANNOTATION: fleet.owner_id}
    fleet.member.taken = Intent(fleet="f", node=fleet.name, generation=57, pods=(document,))
    await fleet.start()
    async with fleet.node():
        view = await fleet.until(lambda view: view.placed and view.placed[0].is_orphan)
        lines = [line.split() for line in describe_node(view, datetime.now(UTC))]
        (line,) = [words for words in lines if words[1:2] == ["web"]]
        assert f"{fleet.owner_id} (gone) its workload is gone: apply it, or delete the pod" in " ".join(line)
        await fleet.owner()
        await fleet.member.has(PodReport(name="web", status="Running"))
        await fleet.until(lambda view: not view.placed[0].is_orphan)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_fleet_restored_from_an_older_state_takes_the_newer_list_of_its_node(fleet: Fleet) -> None:
    await fleet.start()
    async with fleet.node():
        await fleet.until(lambda view: view.taken and view.presence == "Ready")
        fleet.member.taken = Intent(fleet="f", node=fleet.name, generation=40, pods=(pod("newer"),))
        await fleet.place(pod("older"))
        view = await fleet.until(lambda view: view.taken > 40)
        assert [each.name for each in view.placed] == ["newer"]
        assert "StaleIntent" in {each.reason for each in view.events}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_restored_fleet_that_has_given_more_commands_than_its_backup_lacks_ends_nothing_newer(
    fleet: Fleet,
) -> None:
    await fleet.start()
    async with fleet.node():
        view = await fleet.until(lambda view: view.presence == "Ready" and view.taken == view.generation)
    lost = Intent(fleet="f", node=fleet.name, generation=view.generation + 2, stamp=1, pods=(pod("newer"),))
    fleet.member.taken = lost
    for name in ("a", "b", "c"):  # before the node answers
        await fleet.place(pod(name))
    async with fleet.node():
        view = await fleet.until(lambda view: [each.name for each in view.placed] == ["newer"])
        assert "StaleIntent" in {each.reason for each in view.events}
        assert fleet.member.names() == ["newer"]
        await fleet.place(pod("next"))
        await fleet.until(lambda view: view.taken == view.generation)
        assert fleet.member.names() == ["newer", "next"]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_restored_from_a_backup_is_sent_its_list_again(fleet: Fleet) -> None:
    """Before, it ran its old list until the fleet's next command for it."""
    await fleet.start()
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")
        await fleet.place(pod("web"))
        await fleet.until(lambda view: view.taken == view.generation)
        backup = fleet.member.taken
        await fleet.withdraw("web")
        await fleet.place(pod("db"))
        await fleet.until(lambda view: view.taken == view.generation)
        newest = fleet.member.taken.generation
        assert fleet.member.names() == ["db"]
    fleet.member.taken = backup
    await fleet.member.has(PodReport(name="web", status="Running"))
    async with fleet.node():
        view = await fleet.until(lambda view: view.taken == newest and fleet.member.names() == ["db"])
    (event,) = [each for each in view.events if each.reason == "LostIntent"]
    assert event.type == "Warning" and event.message.startswith(
        f"the node has list {backup.generation}, although it had taken list {newest}: "
    )
    assert fleet.member.lists[-2:] == [newest, newest], "no command was needed for that, and it was sent once"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_restored_fleet_learns_of_a_newer_list_from_the_report_of_its_node(fleet: Fleet) -> None:
    await fleet.start()
    async with fleet.node():
        await fleet.until(lambda view: view.taken and view.presence == "Ready")
        fleet.member.taken = Intent(fleet="f", node=fleet.name, generation=40, pods=(pod("newer"),))
        await fleet.member.tell()
        view = await fleet.until(lambda view: view.taken > 40)
        assert [each.name for each in view.placed] == ["newer"]
        assert "StaleIntent" in {each.reason for each in view.events}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_that_claims_what_is_no_pod_is_still_shown_and_removed(fleet: Fleet) -> None:
    """A stolen node has its list recalled at any time, by the claim that it has a newer one."""
    await fleet.start()
    async with fleet.node():
        await fleet.until(lambda view: view.taken and view.presence == "Ready")
        claimed = ({**pod("wrong"), "spec": {"containers": 5}}, *(pod(f"web-{number}") for number in range(200)))
        fleet.member.taken = Intent(fleet="f", node=fleet.name, generation=40, pods=claimed)
        await fleet.place(pod("older"))
        view = await fleet.until(lambda view: view.taken > 40)
        assert len(view.placed) == 200
        assert "pods[0]: spec.containers" in next(one.message for one in view.events if one.reason == "RefusedClaim")
    await fleet.handle.execute_update("remove")
    await fleet.handle.result()


@pytest.mark.asyncio(loop_scope="session")
async def test_owners_that_do_not_exist_are_told_a_few_at_a_time_and_not_again_at_once(fleet: Fleet) -> None:
    """A stolen node claims pods of as many workloads as it likes, and reports them changed again and again."""
    names = [f"web-{number}" for number in range(2 * DOUBTED + 1)]
    claimed = [pod(name) for name in names]
    for document in claimed:
        document["metadata"]["annotations"] = {OWNER_ANNOTATION: f"{fleet.owner_id}-{document['metadata']['name']}"}
    fleet.member.taken = Intent(fleet="f", node=fleet.name, generation=57, pods=tuple(claimed))
    await fleet.start()
    async with fleet.node():
        await fleet.until(lambda view: view.placed and all(each.is_orphan for each in view.placed))
        await fleet.member.has(*(PodReport(name=name, status="Running") for name in names))

        async def are_kept() -> bool:
            return at_once(await fleet.handle.fetch_history())[1] >= DOUBTED

        await until_asked(are_kept)
        assert at_once(await fleet.handle.fetch_history()) == (DOUBTED, DOUBTED)


def at_once(history: WorkflowHistory) -> tuple[int, int]:
    """Return the most concurrent signals, and the most owners that kept their turn after a signal."""
    signals = kept = most_signals = most_kept = 0
    for event in history.events:
        signals += event.HasField("signal_external_workflow_execution_initiated_event_attributes")
        signals -= event.HasField("signal_external_workflow_execution_failed_event_attributes")
        if event.HasField("timer_started_event_attributes"):
            kept += event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta() == ABSENT_AGAIN
        kept -= event.HasField("timer_fired_event_attributes")
        most_signals, most_kept = max(most_signals, signals), max(most_kept, kept)
    return most_signals, most_kept


@pytest.mark.asyncio(loop_scope="session")
async def test_a_silent_node_is_unknown_and_takes_the_newest_list_when_it_is_back(fleet: Fleet) -> None:
    owner = await fleet.owner()
    await fleet.start(graceSeconds=2)
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")
        await fleet.place(pod("web"), owner=owner.id)
        await fleet.until(lambda view: view.taken == view.generation)
    view = await fleet.until(lambda view: view.presence == "Unknown")
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await fleet.place(pod("new"))
    assert "Unknown, and takes no new pods" in str(refused.value.cause)
    await fleet.withdraw("web")
    assert [each.state for each in (await fleet.view()).placed] == ["ending"]
    async with fleet.node():
        view = await fleet.until(lambda view: view.presence == "Ready" and view.taken == view.generation)
        await fleet.until(lambda view: not view.placed)
    assert fleet.member.lists == sorted(fleet.member.lists)
    assert {each["presence"] for each in await told(owner)} >= {"Ready", "Unknown"}
    assert "NodeNotReady" in {each.reason for each in view.events}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_whose_worker_is_stopped_in_order_is_known_to_be_away_at_once_and_loses_no_pod(
    fleet: Fleet,
) -> None:
    await fleet.start()
    why = "the node's worker was stopped in order"
    condition = NodeCondition(type="Ready", status="False", reason="KubeletNotReady", message=why)
    fleet.member.last = FleetNodeReport(labels={"disk": "ssd"}, conditions=(condition,))
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")
        await fleet.place(pod("web"))
        await fleet.member.has(PodReport(name="web", status="Running"))
        await fleet.until(lambda view: any(each.status == "Running" for each in _reports(view)) and fleet.member.awaits)
    away = await fleet.until(lambda view: view.presence == "NotReady")
    assert any(each.reason == "NodeNotReady" and each.message.endswith(f": {why}") for each in away.events)
    assert [each.status for each in _reports(away)] == ["Running"], "what it reported last"
    fleet.member.number += 1
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")


def _reports(view: FleetNodeView) -> list[PodReport]:
    return [each.report for each in view.placed if each.report is not None]


@pytest.mark.asyncio(loop_scope="session")
async def test_what_cannot_be_placed_is_refused_in_one_sentence(fleet: Fleet) -> None:
    await fleet.start()
    with pytest.raises(WorkflowUpdateFailedError) as early:
        await fleet.place(pod("web"))
    assert "is Joining, and takes no new pods" in str(early.value.cause)
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")
        await fleet.place(pod("web"), owner="")
        for asked, said in (
            ({"pods": [{**pod("x"), "spec": {"containers": []}}]}, "pods[0]: spec.containers"),
            ({"pods": [pod("a"), pod("a")]}, "pods: must have different names"),
            ({"pods": [], "color": "red"}, "color"),
        ):
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await fleet.handle.execute_update("place", asked)
            assert said in str(refused.value.cause)
        await fleet.handle.execute_update("cordon")
        with pytest.raises(WorkflowUpdateFailedError) as cordoned:
            await fleet.place(pod("late"))
        assert "is cordoned" in str(cordoned.value.cause)
        await fleet.place(pod("web", "busybox:2"))
        await fleet.handle.execute_update("uncordon")
        await fleet.place(pod("late"))
        for signal, said in (
            ("object_changed", "signal object_changed: "),
            ("obj", "known: key_changed, object_changed, renew"),
        ):
            await fleet.handle.signal(signal, 7)
            await fleet.until(lambda view, said=said: any(said in each.message for each in view.events))  # type: ignore[misc]


@pytest.mark.asyncio(loop_scope="session")
async def test_the_run_continues_as_new_and_loses_nothing(fleet: Fleet) -> None:
    await fleet.start(maxEvents=60)
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")
        first = (await fleet.handle.describe()).run_id
        for number in range(12):
            await fleet.place(pod(f"web-{number}"))
        view = await fleet.until(lambda view: view.taken == view.generation)
        assert len(view.placed) == 12
        assert len(fleet.member.names()) == 12
        assert (await fleet.handle.describe()).run_id != first


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_with_many_large_pods_is_given_the_newest_list(fleet: Fleet) -> None:
    """Its snapshot alone is larger than what other runs may grow to; each run still does its work."""
    await fleet.start()
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")
        for first in (0, 40, 80):
            large = [pod(f"web-{number}") for number in range(first, first + 40)]
            for each in large:
                each["metadata"]["annotations"] = {"note": "x" * 6000}
            await fleet.place(*large)
        await fleet.until(lambda view: view.taken == view.generation)
        await fleet.handle.signal("renew")
        await fleet.place(pod("newest"))
        await fleet.member.has(PodReport(name="newest", status="Running", ready=True))
        view = await fleet.until(lambda view: any(each.report for each in view.placed))
        await fleet.until(lambda view: view.taken == view.generation)
        assert len(view.placed) == len(fleet.member.names()) == 121


# --- a stolen node ----------------------------------------------------------------------------------------------------


def asked_for(history: WorkflowHistory, activity: str) -> int:
    """Return how many times an activity was scheduled."""
    told = [event.activity_task_scheduled_event_attributes.activity_type.name for event in history.events]
    return told.count(activity)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_that_always_has_a_newer_list_is_asked_ever_more_slowly_and_says_so(fleet: Fleet) -> None:
    class Stubborn(ScriptedMember):
        async def take(self, intent: Intent) -> IntentTaken:
            raise ApplicationError(f"{intent.generation} is old", type=STALE_INTENT, non_retryable=True)

    fleet.member = Stubborn()
    await fleet.start()
    async with fleet.node():
        view = await fleet.until(lambda view: view.trouble)
        assert view.trouble == "it has announced a newer list 2 times: the list is requested in 5 s"
        assert f"Trouble:      {view.trouble}" in describe_node(view, datetime.now(UTC))
        view = await fleet.until(lambda view: "newer list 3 times" in view.trouble and "in 10 s" in view.trouble)
        assert asked_for(await fleet.handle.fetch_history(), TAKE_INTENT) == 3


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_that_has_not_taken_the_list_that_it_was_sent_is_not_asked_at_once(fleet: Fleet) -> None:
    class Forgetful(ScriptedMember):
        async def take(self, intent: Intent) -> IntentTaken:
            return IntentTaken(generation=0)

    fleet.member = Forgetful()
    await fleet.start()
    async with fleet.node():
        view = await fleet.until(lambda view: view.trouble)
        assert view.trouble == "it has acknowledged list 0, not 1"
        assert asked_for(await fleet.handle.fetch_history(), TAKE_INTENT) == 1


@pytest.mark.asyncio(loop_scope="session")
async def test_a_report_that_is_too_large_is_refused_and_the_node_is_unknown_until_it_reports_rightly(
    fleet: Fleet,
) -> None:
    await fleet.start(graceSeconds=2)
    async with fleet.node():
        await fleet.until(lambda view: view.presence == "Ready")
        await fleet.member.has(*(PodReport(name=f"p{number}") for number in range(2001)))
        view = await fleet.until(lambda view: view.trouble)
        assert view.presence == "Ready", "the next report may be right"
        view = await fleet.until(lambda view: view.presence == "Unknown")
        assert view.trouble == "its report is refused: present: must have no more than 2000 pods, has 2001"
        assert view.trouble in {each.message for each in view.events}
        await fleet.member.has()
        view = await fleet.until(lambda view: view.presence == "Ready")
        assert not view.trouble


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("most", [0, 30], ids=["one run", "many runs"])
async def test_a_node_that_reports_without_a_pause_is_made_to_pause(fleet: Fleet, most: int) -> None:
    """Large reports make a run short, so the pause must outlast it."""

    class Talkative(ScriptedMember):
        async def attend(self, _asked: Attend) -> Attended:
            self.number += 1
            return Attended(version=str(self.number), present=(), node=FleetNodeReport(ready=True))

    fleet.member = member = Talkative()
    await fleet.start(maxEvents=most)
    async with fleet.node():
        view = await fleet.until(lambda view: view.trouble)
        assert view.trouble == "it has reported 20 times within 10 s: the next request follows 10 s later"
        assert view.presence == "Ready"
        assert member.number < 40, "a question that is under way as a run ends is asked again by the next one"


@pytest.mark.asyncio(loop_scope="session")
async def test_two_machines_that_answer_as_one_node_are_said_and_get_no_new_pods(fleet: Fleet) -> None:
    class DuplicateNodes(ScriptedMember):
        """Two nodes: the one that polls first answers, without knowing the version of the other's report."""

        asked = 0

        async def attend(self, _asked: Attend) -> Attended:
            self.asked += 1
            if self.asked > 4:
                await asyncio.Event().wait()
            life = str(self.asked % 2)
            return Attended(
                version=life, present=(), node=FleetNodeReport(ready=True), life=life, machine=f"rack-{life}"
            )

    fleet.member = DuplicateNodes()
    await fleet.start()
    async with fleet.node():
        view = await fleet.until(lambda view: view.trouble)
        assert "two machines answer as" in view.trouble and "rack-0 and rack-1" in view.trouble
        assert "Ready,TwoMachines" in "".join(describe_node(view, datetime.now(UTC)))
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await fleet.place(pod("new"))
        assert f"takes no new pods: {view.trouble}" in str(refused.value.cause)
