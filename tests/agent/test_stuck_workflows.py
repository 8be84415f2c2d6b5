"""Pod workflows whose tasks keep failing are restarted without losing state.

Holds: No history wedges a pod or a node.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.enums.v1 import EventType, ResetReapplyExcludeType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest, ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue
from temporalio.converter import WorkflowSerializationContext
from temporalio.exceptions import TerminatedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from syncpod.agent import stuck_workflows
from syncpod.agent.ended_runs import EndedRuns
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.stuck_workflows import StuckWorkflows
from syncpod.lifecycle.version import build_id
from syncpod.messages.identity import PodRef
from syncpod.messages.signature import Keys
from syncpod.messages.signed import Marked
from syncpod.messages.steps import Outcome
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.pod import Pod
from syncpod.signing.keys import make_signing_keys
from syncpod.temporal.plugin import DATA_CONVERTER, syncpod_plugin
from syncpod.temporal.queries import AskAgain
from syncpod.temporal.signing import signing_converter
from syncpod.temporal.workflow_watch import WAS_RESET, Published
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.agent.waiting import until_asked
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.workflows.scripted import DIGEST, ScriptedNode, container, start_pod, until
from workflows.pod import absorb
from workflows.pod.display import Display
from workflows.pod.workflow import PodWorkflow
from workflows.runner import workflow_runner

POISON = {"type": "poison"}


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def client(temporal_server: DevServer) -> Client:
    return await connect(temporal_server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])


class Healer:
    """The agent's check of workflows' tasks, for a scripted node."""

    def __init__(self, client: Client, node: ScriptedNode, context: NodeContext) -> None:
        self.client, self.node, self.context = client, node, context
        self.loop = asyncio.get_running_loop()
        self.heals = True
        self.ended_runs = EndedRuns(client)
        self.forget()
        self.failures: list[str] = []
        self.resumed: list[PodRef] = []
        self._telling: list[asyncio.Task[None]] = []

    def forget(self) -> None:
        """Restart: forget everything that is not on disk."""
        self.published_pods = PublishedPods(self.context)
        self.stuck = StuckWorkflows(
            self.client,
            self.context,
            task_queue=self.node.queue,
            published=self.published_pods,
            has_attributes=lambda: False,
            resume=self._resume,
        )

    def published(self, workflow_id: str, run_id: str, published: Published) -> None:
        def take() -> None:
            self.published_pods.take(workflow_id, run_id, published)
            self.stuck.went_on(workflow_id, run_id)

        self.loop.call_soon_threadsafe(take)

    def pods(self) -> Sequence[Published]:
        return ()

    def has_ended(self, workflow_id: str, run_id: str) -> bool:
        return self.ended_runs.has_ended(workflow_id, run_id)

    def task_failed(self, workflow_id: str, run_id: str, why: str) -> None:
        self.failures.append(why)
        if self.heals:
            self.loop.call_soon_threadsafe(self.stuck.failed, workflow_id, run_id, why)

    def _resume(self, ref: PodRef) -> None:
        self.resumed.append(ref)
        handle = self.client.get_workflow_handle(f"pod/{ref.namespace}/{ref.name}")

        async def tell() -> None:
            await self.node.tell(handle, await self.node.list(ref.uid), "Boot")

        self._telling.append(asyncio.create_task(tell()))


@pytest.fixture
def context(tmp_path: Path) -> NodeContext:
    return NodeContext(
        name="scripted", state_dir=tmp_path, memory_dir=tmp_path / "memory", log_dir=tmp_path / "log", cluster="c/n"
    )


@pytest_asyncio.fixture(loop_scope="session")
async def node() -> ScriptedNode:
    return ScriptedNode()


@pytest_asyncio.fixture(loop_scope="session")
async def healer(client: Client, node: ScriptedNode, context: NodeContext) -> AsyncIterator[Healer]:
    context = NodeContext(
        name=node.queue.removeprefix("node/"),
        state_dir=context.state_dir,
        memory_dir=context.memory_dir,
        log_dir=context.log_dir,
        cluster=context.cluster,
    )
    healer = Healer(client, node, context)
    yield healer
    await healer.stuck.close()
    await healer.ended_runs.close()


@asynccontextmanager
async def worker(client: Client, node: ScriptedNode, healer: Healer) -> AsyncIterator[None]:
    plugin = syncpod_plugin(
        workflows=[PodWorkflow], activities=list(node.activities()), runner=workflow_runner(), watch=healer
    )
    async with Worker(client, task_queue=node.queue, build_id=build_id("syncpod-test", DIGEST), plugins=[plugin]):
        yield


def manifest(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "100m"}}}],
        },
    }


def restarts(pod: dict[str, Any]) -> int:
    return int(container(pod, "web").get("restartCount", -1))


def is_running(pod: dict[str, Any]) -> bool:
    return "running" in container(pod, "web").get("state", {})


async def crashed_once(client: Client, node: ScriptedNode, name: str) -> WorkflowHandle[Any, Any]:
    """Start a pod whose container crashed once and runs again."""
    started = await start_pod(client, node, manifest(name))
    handle = client.get_workflow_handle(started.id)
    await until(handle, is_running)
    await node.tell(handle, await node.exits(f"uid-{name}", "web", 3))
    await until(handle, lambda pod: restarts(pod) == 1 and is_running(pod))
    return handle


async def restarted(handle: WorkflowHandle[Any, Any], first: str, times: int = 1) -> dict[str, Any]:
    """Wait until the workflow has been restarted; return the event about that."""

    async def is_told() -> bool:
        return (await handle.describe()).run_id != first and sum(e["count"] for e in await told(handle)) >= times

    async def told(handle: WorkflowHandle[Any, Any]) -> list[dict[str, Any]]:
        try:
            events = await handle.query("events", rpc_timeout=timedelta(seconds=2))
        except Exception:  # noqa: BLE001  # it may be stuck once more
            return []
        return [event for event in events if event["reason"] == "WorkflowRestarted"]

    await until_asked(is_told)
    return (await told(handle))[-1]


def poisoned(known: Callable[..., None]) -> Callable[..., None]:
    """A defect in the workflow: one signal fails every task that takes it."""

    def absorb_or_fail(state: Any, name: str, args: tuple[Any, ...], now: Any) -> None:
        if args and args[0] == POISON:
            raise RuntimeError("a poison signal")
        known(state, name, args, now)

    return absorb_or_fail


async def test_a_poison_signal_loses_nothing_of_a_pod(
    client: Client, node: ScriptedNode, healer: Healer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absorb, "absorb", poisoned(absorb.absorb))
    async with worker(client, node, healer):
        handle = await crashed_once(client, node, "poisoned")
        first = (await handle.describe()).run_id
        steps = node.steps("uid-poisoned")
        await handle.signal("set_condition", POISON)

        event = await restarted(handle, first)
        pod = await until(handle, is_running)
        assert restarts(pod) == 1 and pod["metadata"]["uid"] == "uid-poisoned"
        assert container(pod, "web")["lastState"]["terminated"]["exitCode"] == 3
        assert node.steps("uid-poisoned") == steps, "no container was touched"
        assert "a poison signal" in event["message"] and "without 1 later signal(s)" in event["message"]
        history = await handle.query("history")
        assert [each["subject"] for each in history if each["kind"] == "exit"] == ["web"]

        # The next crash is held back as the second one: the back-off has been kept.
        await node.tell(handle, await node.exits("uid-poisoned", "web", 3))
        held = await until(handle, lambda pod: "waiting" in container(pod, "web").get("state", {}))
        assert container(held, "web")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        await handle.terminate()


async def test_a_pod_whose_task_returns_more_than_a_server_takes_is_begun_anew(
    client: Client, node: ScriptedNode, healer: Healer, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = absorb.absorb

    def absorb_too_much(state: Any, name: str, args: tuple[Any, ...], now: Any) -> None:
        if args and args[0] == POISON:
            workflow.upsert_memo({"large": "x" * 3 * 2**20})
        else:
            known(state, name, args, now)

    monkeypatch.setattr(absorb, "absorb", absorb_too_much)
    async with worker(client, node, healer):
        handle = await crashed_once(client, node, "too-large")
        first, steps = (await handle.describe()).run_id, node.steps("uid-too-large")
        await handle.signal("set_condition", POISON)
        event = await restarted(handle, first)
        assert "the server did not take the result of its task, which may be too large" in event["message"]
        assert restarts(await until(handle, is_running)) == 1
        assert node.steps("uid-too-large") == steps, "no container was touched"
        await handle.terminate()


async def test_newest_signals_are_carried_over_from_a_history_that_cannot_be_replayed(
    client: Client, node: ScriptedNode, healer: Healer, context: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(Display, "write_attributes", one_timer_more(Display.write_attributes))
        async with worker(client, node, healer):
            handle = await crashed_once(client, node, "nondeterministic")
    first = (await handle.describe()).run_id
    steps = node.steps("uid-nondeterministic")
    # What is on disk is enough: the next worker has seen no task of the run.
    pod_directory(context, "uid-nondeterministic").mkdir(parents=True)
    await healer.published_pods.flush()
    healer.forget()
    async with worker(client, node, healer):
        await forget_sticky(client, handle)
        await handle.signal("set_condition", {"type": "example.com/late", "status": "True"})
        event = await restarted(handle, first)
        pod = await until(handle, is_running)
        assert "ondeterminis" in event["message"] and "without" not in event["message"]
        assert restarts(pod) == 1
        assert "example.com/late" in {condition["type"] for condition in pod["status"]["conditions"]}
        assert node.steps("uid-nondeterministic") == steps, "no container was touched"
        assert [ref.uid for ref in healer.resumed] == ["uid-nondeterministic"]
        await handle.signal("delete_pod", {})
        await handle.result()


async def test_a_signal_that_the_stuck_run_has_refused_has_no_effect_in_the_new_run(
    client: Client, node: ScriptedNode, healer: Healer, context: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal with the name of an update is refused at once; its name is valid among those that are passed on."""
    with monkeypatch.context() as planted:
        planted.setattr(Display, "write_attributes", one_timer_more(Display.write_attributes))
        async with worker(client, node, healer):
            handle = await crashed_once(client, node, "refused")
            pod_directory(context, "uid-refused").mkdir(parents=True)
            await healer.published_pods.flush()
            for name in ("delete", "resize", "nonsuch"):
                await handle.signal(name, {})
    first, steps = (await handle.describe()).run_id, node.steps("uid-refused")
    healer.forget()
    async with worker(client, node, healer):
        await forget_sticky(client, handle)
        await handle.signal("set_condition", {"type": "example.com/late", "status": "True"})
        await restarted(handle, first)
        pod = await until(
            handle, lambda shown: "example.com/late" in {each["type"] for each in shown["status"]["conditions"]}
        )
        assert is_running(pod) and "deletionTimestamp" not in pod["metadata"]
        assert not [each for each in await handle.query("events") if each["reason"] == "Rejected"]
        assert node.steps("uid-refused") == steps
        await handle.terminate()


async def passed_on(context: NodeContext, events: Sequence[HistoryEvent], keys: Keys | None = None) -> list[str]:
    """The names of the commands that a new run gets in place of one with this history, without a stored state."""

    async def history() -> AsyncIterator[HistoryEvent]:
        for number, event in enumerate(events, 1):
            event.event_id = event.event_id or number
            yield event

    pod_directory(context, "uid-noted").mkdir(parents=True, exist_ok=True)
    write_pod_record(context, PodRecord(pod=Pod.model_validate(manifest("noted")), incarnation="1", admitted=True))
    run = Mock(fetch_history_events=history)
    client = Mock(namespace="default", data_converter=DATA_CONVERTER, get_workflow_handle=Mock(return_value=run))
    stuck = StuckWorkflows(
        client,
        context,
        task_queue="node/scripted",
        published=PublishedPods(context),
        has_attributes=lambda: False,
        resume=lambda _: None,
        keys=keys,
    )
    client.start_workflow = AsyncMock()
    info = Mock(execution=Mock(run_id="run"), status=WorkflowExecutionStatus.TERMINATED)
    info.type.name = "PodWorkflow"
    described = Mock(workflow_execution_info=info)
    described.execution_config.task_queue.name = "node/scripted"
    client.workflow_service.describe_workflow_execution = AsyncMock(return_value=described)
    stuck._limit_passed = AsyncMock(return_value="too large")  # type: ignore[method-assign]
    assert await stuck.begin_anew(PodRef(namespace="default", name="noted", uid="uid-noted"))
    _, start = client.start_workflow.await_args.args
    return [name for name, _ in start["restarted"]["signals"]]


async def sent(name: str, value: Any, keys: Keys | None = None, number: int = 0) -> HistoryEvent:
    """The event of a run's start, of a signal or of an accepted update."""
    place = WorkflowSerializationContext(namespace="default", workflow_id="pod/default/noted")
    converter = DATA_CONVERTER if keys is None else signing_converter(DATA_CONVERTER, keys, verifies=False)
    kind, _, what = name.partition("/")
    payloads = Payloads(
        payloads=await converter.with_context(place).encode([Marked(value, name, number) if keys else value])
    )
    if kind == "start":
        event = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
        event.workflow_execution_started_event_attributes.input.CopyFrom(payloads)
    elif kind == "signal":
        event = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
        event.workflow_execution_signaled_event_attributes.signal_name = what
        event.workflow_execution_signaled_event_attributes.input.CopyFrom(payloads)
    else:
        event = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)
        request = event.workflow_execution_update_accepted_event_attributes.accepted_request.input
        request.name = what
        request.args.CopyFrom(payloads)
    return event


async def test_an_update_that_has_failed_has_no_effect_in_the_new_run(context: NodeContext) -> None:
    """Signals before it had made it impossible, and its sender got the error."""
    events = [await sent("start", {}), await sent("update/resize", {}), await sent("update/delete", {})]
    for accepted in (2, 3):
        answer = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED)
        completed = answer.workflow_execution_update_completed_event_attributes
        completed.accepted_event_id = accepted
        if accepted == 2:
            completed.outcome.failure.message = "the pod is ending"
        else:
            completed.outcome.success.SetInParent()
        events.append(answer)
    assert await passed_on(context, events) == ["delete_pod"]


async def test_a_signed_command_that_was_too_old_for_the_run_has_no_effect_in_the_new_one(
    context: NodeContext, tmp_path: Path
) -> None:
    """Anybody may send a copy of a command to an earlier pod of that name. No stored state says which were accepted."""
    keys = make_signing_keys(tmp_path)
    begun = [{"pod": {}}, {"snapshot": {"accepted": {"floor": 5, "numbers": [8]}}}]
    for start, expected in zip(begun, (["restart", "backoff_expired"], ["backoff_expired"]), strict=True):
        events = [
            await sent("start", start, keys, 7),
            await sent("signal/delete_pod", {}, keys, 4),
            await sent("signal/restart", {}, keys, 8),
            await sent("signal/backoff_expired", {}, keys, 9),
            await sent("signal/backoff_expired", {}, keys, 9),
        ]
        assert await passed_on(context, events, keys) == expected


async def test_an_accepted_update_missing_in_the_stored_state_is_carried_over(
    client: Client, node: ScriptedNode, healer: Healer, context: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker was killed before the update's changes were on disk."""
    with monkeypatch.context() as planted:
        planted.setattr(Display, "write_attributes", one_timer_more(Display.write_attributes))
        async with worker(client, node, healer):
            handle = await crashed_once(client, node, "updated")
            pod_directory(context, "uid-updated").mkdir(parents=True)
            await healer.published_pods.flush()
            wanted = {"requests": {"cpu": "250m"}}
            await handle.execute_update("resize", {"containers": [{"name": "web", "resources": wanted}]})
            await handle.execute_update("add_ephemeral_container", {"name": "look", "image": "x:1"})
    first = (await handle.describe()).run_id
    healer.forget()
    async with worker(client, node, healer):
        await forget_sticky(client, handle)
        await handle.signal("set_condition", {"type": "example.com/late", "status": "True"})
        await restarted(handle, first)
        pod = await until(handle, lambda shown: "ephemeralContainers" in shown["spec"])
        (web,) = pod["spec"]["containers"]
        assert web["resources"]["requests"]["cpu"] == "250m"
        assert [each["name"] for each in pod["spec"]["ephemeralContainers"]] == ["look"]
        await handle.terminate()


def one_timer_more(known: Callable[..., None]) -> Callable[..., None]:
    """A worker with different workflow code, which sets an additional timer."""

    def write_attributes(self: Display, *, rests: bool = False) -> None:
        known(self, rests=rests)
        self.extra = asyncio.ensure_future(workflow.sleep(3600))  # type: ignore[attr-defined]

    return write_attributes


async def forget_sticky(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    execution = WorkflowExecution(workflow_id=handle.id)
    request = ResetStickyTaskQueueRequest(namespace=client.namespace, execution=execution)
    await client.workflow_service.reset_sticky_task_queue(request)


async def test_without_a_stored_state_a_pod_is_restarted_from_its_record(
    client: Client, node: ScriptedNode, healer: Healer, context: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(Display, "write_attributes", one_timer_more(Display.write_attributes))
        async with worker(client, node, healer):
            handle = await crashed_once(client, node, "recorded")
    published = healer.published_pods.newest(handle.id)
    assert published is not None
    pod = Pod.model_validate(published.published.pod())
    incarnation = published.published.next_input()["snapshot"]["incarnation"]
    pod_directory(context, "uid-recorded").mkdir(parents=True)
    pod_directory(context, "uid-noted").mkdir(parents=True, exist_ok=True)
    write_pod_record(context, PodRecord(pod=pod, incarnation=incarnation, admitted=True))
    first = (await handle.describe()).run_id
    healer.forget()
    node.script["create_sandbox"].append(lambda _: Outcome.ADOPTED)
    async with worker(client, node, healer):
        await forget_sticky(client, handle)
        await node.tell(handle, await node.list("uid-recorded"), "Boot")
        event = await restarted(handle, first)
        wire = await until(handle, is_running)
        assert "its node's record" in event["message"]
        assert restarts(wire) == 1 and wire["metadata"]["uid"] == "uid-recorded"
        assert node.steps("uid-recorded").count("start_container web") == 2, "no container was started again"
        await handle.terminate()


async def test_a_transient_task_failure_restarts_no_workflow(
    client: Client, node: ScriptedNode, healer: Healer, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [RuntimeError("once"), RuntimeError("twice")]
    known = absorb.absorb

    def fail_twice(state: Any, name: str, args: tuple[Any, ...], now: Any) -> None:
        if name == "set_condition" and failing:
            raise failing.pop(0)
        known(state, name, args, now)

    monkeypatch.setattr(absorb, "absorb", fail_twice)
    async with worker(client, node, healer):
        handle = await crashed_once(client, node, "passing")
        first = (await handle.describe()).run_id
        await handle.signal("set_condition", {"type": "example.com/a", "status": "True"})
        await until(handle, lambda pod: "example.com/a" in {each["type"] for each in pod["status"]["conditions"]})
        assert healer.failures and (await handle.describe()).run_id == first
        await handle.terminate()


async def test_a_manual_reset_recovers_the_workflow_and_is_left_alone(
    client: Client, node: ScriptedNode, healer: Healer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`temporal workflow reset`, to the last task before the signal that fails every task."""
    monkeypatch.setattr(absorb, "absorb", poisoned(absorb.absorb))
    healer.heals = False
    async with worker(client, node, healer):
        handle = await crashed_once(client, node, "reset")
        first = (await handle.describe()).run_id
        steps = node.steps("uid-reset")
        await handle.signal("set_condition", POISON)
        await until_asked(lambda: is_failing(healer))
        healer.heals = True
        completed = [
            event.event_id
            async for event in handle.fetch_history_events()
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        ]
        await client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=first),
                reason="by hand",
                workflow_task_finish_event_id=completed[-1],
                request_id="by-hand",
                reset_reapply_exclude_types=[ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL],
            )
        )
        await node.tell(handle, await node.list("uid-reset"), "Boot")
        pod = await until(handle, lambda pod: is_running(pod) and restarts(pod) == 1)
        assert container(pod, "web")["lastState"]["terminated"]["exitCode"] == 3
        assert node.steps("uid-reset") == steps, "no container was touched"
        events = await handle.query("events")
        assert not [event for event in events if event["reason"] == "WorkflowRestarted"]
        await handle.terminate()


async def test_a_run_that_ended_with_untaken_signals_still_answers(
    client: Client, node: ScriptedNode, healer: Healer
) -> None:
    """As a reset ends a run. Its replay meets signals that no task takes any more."""
    async with worker(client, node, healer):
        handle = await start_pod(client, node, manifest("ended"))
        await until(handle, is_running)
        run = client.get_workflow_handle(handle.id, run_id=(await handle.describe()).run_id)
    await handle.signal("set_condition", {"type": "example.com/ready", "status": "True"})
    await handle.terminate()
    async with worker(client, node, healer):
        pod = await run.query("pod")
    assert is_running(pod)
    assert "example.com/ready" not in [condition["type"] for condition in pod["status"]["conditions"]]
    assert not healer.failures


async def ended_by_the_server(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    """Send large signals without a worker until the history is too large and the server ends the run."""
    signal, large = {"type": "example.com/large", "status": "True"}, "x" * 1_900_000
    for _ in range(40):
        try:
            await handle.signal("set_condition", {**signal, "message": large})
        except RPCError as error:
            assert "exceeds limit" in error.message
            break
    assert (await handle.describe()).status == WorkflowExecutionStatus.TERMINATED


async def test_a_run_that_the_server_ends_for_its_size_is_begun_anew(
    client: Client, node: ScriptedNode, healer: Healer
) -> None:
    async with worker(client, node, healer):
        handle = await crashed_once(client, node, "too-large")
    first, ref = (await handle.describe()).run_id, PodRef(name="too-large", namespace="default", uid="uid-too-large")
    steps = node.steps(ref.uid)
    await ended_by_the_server(client, handle)
    async with worker(client, node, healer):
        await healer.stuck.begin_anew(ref.model_copy(update={"uid": "another"}))
        assert (await handle.describe()).run_id == first, "it was not that pod's"
        assert await healer.stuck.begin_anew(ref)
        event = await restarted(handle, first)
        pod = await until(handle, is_running)
        assert "the server has ended it: Workflow history size exceeds limit." in event["message"]
        assert restarts(pod) == 1 and pod["metadata"]["uid"] == ref.uid
        assert node.steps(ref.uid) == steps, "no container was touched"
        assert not await healer.stuck.begin_anew(ref), "it is open"
        await handle.terminate("by hand")
        assert not await healer.stuck.begin_anew(ref), "somebody has decided that it is to end"


@pytest.mark.parametrize(("failures", "lines"), [(1, 0), (3, 1)])
async def test_a_busy_server_does_not_make_workflows_count_as_stuck_and_is_logged_once(
    context: NodeContext,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failures: int,
    lines: int,
) -> None:
    monkeypatch.setattr(stuck_workflows, "_RETRY_SECONDS", 0)
    busy = [RPCError("Timeout expired", RPCStatusCode.CANCELLED, b"")] * 3
    answers = [*busy, RPCError("gone", RPCStatusCode.NOT_FOUND, b"")]
    describe = AsyncMock(side_effect=answers)
    server = Mock(namespace="default", workflow_service=Mock(describe_workflow_execution=describe))
    stuck = StuckWorkflows(
        server,
        context,
        task_queue="node/scripted",
        published=PublishedPods(context),
        has_attributes=lambda: False,
        resume=lambda _: None,
    )
    for _ in range(failures):
        stuck.failed("pod/default/web", "run", "Timeout expired")
    await until_asked(lambda: asyncio.sleep(0, describe.await_count == len(answers)))
    await stuck.close()
    assert [line.message for line in caplog.records] == lines * [
        "workflow pod/default/web is stuck, and cannot be begun anew yet: Timeout expired"
    ]


async def is_failing(healer: Healer) -> bool:
    return len(healer.failures) >= 2


async def test_a_reset_run_is_terminated_if_nothing_is_left_of_its_pod(
    client: Client, node: ScriptedNode, healer: Healer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a node whose commands are signed; else the pod's name would be taken for ever."""

    def failed(workflow_id: str, run_id: str, why: str) -> None:
        healer.loop.call_soon_threadsafe(healer.stuck.failed, workflow_id, run_id, WAS_RESET)

    monkeypatch.setattr(healer, "task_failed", failed)
    monkeypatch.setattr("workflows.pod.start.initial_state", Mock(side_effect=RuntimeError))
    async with worker(client, node, healer):
        handle = await start_pod(client, node, manifest("reset-and-gone"))
        with pytest.raises(WorkflowFailureError) as ended:
            async with asyncio.timeout(60):
                await handle.result()
    assert isinstance(ended.value.cause, TerminatedError)
    assert str(ended.value.cause) == WAS_RESET


async def test_a_start_that_nobody_can_decode_does_not_keep_its_name(
    client: Client, node: ScriptedNode, healer: Healer
) -> None:
    """Anybody who reaches the server can send one. Its tasks fail before the workflow's code runs."""
    document = manifest("undecodable")
    payload = Payload(metadata={"encoding": b"json/plain"}, data=b'{"pod":')
    async with worker(client, node, healer), asyncio.timeout(120):
        squatter = await client.start_workflow(
            "PodWorkflow", RawValue(payload), id="pod/default/undecodable", task_queue=node.queue
        )
        with pytest.raises(WorkflowFailureError) as ended:
            await squatter.result()
        assert isinstance(ended.value.cause, TerminatedError)
        await until(await start_pod(client, node, document), is_running)
