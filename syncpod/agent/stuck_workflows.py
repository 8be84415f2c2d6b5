"""Replaces the run of a workflow whose tasks fail again and again.

Temporal retries a failed workflow task for ever, until new code is deployed. Until then nothing manages the pod, and if
a history cannot be replayed, new code does not help either. But the node has the last state that the workflow
published, and the runtime has the containers. So the run is terminated and another one is started from that state, in
one call to the server: no container is touched, and the pod always has a workflow. The node's own workflow is replaced
in the same way.

These starts are tried in turn, as long as the new run completes no task:
1. from the last published state, with the signals that came after it;
2. from the same state without these signals, one of which may make each task fail;
3. from the node's record of the pod, as ``syncpod adopt --force`` does: back-offs, events and history are empty then. A
   node's workflow starts with the node's name and whether the node is cordoned, and the agent sends it the rest.

A workflow that is neither a pod's nor this node's own, but is on the node's task queue, is terminated instead.

A pod's run that the server has terminated, for instance because its history was too large, is replaced in the same way:
nobody ordered its end, and the pod is still there.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any, Final

from temporalio.api.common.v1 import Payloads, WorkflowExecution
from temporalio.api.enums.v1 import EventType, WorkflowExecutionStatus
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowHistoryEventFilterType
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all
from syncpod.agent.new_starts import Kind, NodeStarts, PodStarts, RunStart
from syncpod.agent.published_pods import PublishedPods
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.node import node_workflow_id
from syncpod.messages.signature import Keys
from syncpod.messages.signed import Accepted, Commands, first_and_more, microseconds, plain, taken
from syncpod.node.workflow_snapshots import WorkflowSnapshot
from syncpod.temporal.plugin import verifying_converter
from syncpod.temporal.workflow_watch import WAS_RESET
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

FAILURES: Final = 3
"""How many consecutive failures of the same task make a run count as stuck."""
PAUSES: Final = (10.0, 300.0)
"""Seconds between the first and the second restart of a workflow; doubled with each restart, up to the second value."""
FORGET_SECONDS: Final = 600.0
"""Seconds that a workflow must run after a restart before its earlier restarts no longer count."""
SIGNALS_BYTES: Final = 512 * 1024
"""The most bytes of signals in a start. A server accepts 2 MiB in one payload, which also contains the state."""
_NO_INPUT: Final = "its input cannot be decoded, so it never began"
_FOREIGN: Final = "it is on this node's task queue, and no workflow of this node's"
_THE_SERVER: Final = "history-service"
"""The server's identity in events with which it terminates a run that exceeds a limit, such as the history's size."""
_RPC: Final = timedelta(seconds=5)
_RETRY_SECONDS: Final = 1.0


@dataclass
class _Failing:
    """One workflow whose tasks fail, or have failed."""

    run_id: str = ""
    failures: int = 0
    """Failures of the run's tasks since one of them was last completed."""
    why: str = ""
    """The error of the last failure."""
    restarts: int = 0
    without_progress: int = 0
    """How many of the latest restarts led to runs that have completed no task."""
    left: int = 0
    """How many signals the next run will lack: those that the runs without progress have received or left out."""
    restarted_at: float = 0.0
    """Time of the last restart, by the loop's clock."""
    task: asyncio.Task[None] | None = None


class StuckWorkflows:
    """Replaces the stuck workflows of one node. All methods belong to the agent's event loop."""

    def __init__(
        self,
        client: Client,
        node: NodeContext,
        *,
        task_queue: str,
        published: PublishedPods,
        has_attributes: Callable[[], bool],
        resume: Callable[[PodRef], None],
        keys: Keys | None = None,
    ) -> None:
        """Replace stuck workflows on `task_queue`, from the states in `published`.

        `has_attributes` returns whether the namespace has our search attributes. `resume` sends a pod's new run the
        listing and the probe results. With `keys`, commands are signed: only signals with a valid signature are passed
        on, because the new start is signed by this node.
        """
        self._client = client
        self._converter = client.data_converter if keys is None else verifying_converter(keys)
        self._is_signed = keys is not None
        self._task_queue = task_queue
        self._published = published
        self._resume = resume
        self._node = node.name
        self._pods = PodStarts(node, has_attributes)
        self._nodes = NodeStarts(client, node, has_attributes)
        self._failing: dict[str, _Failing] = {}
        self._beginning: set[str] = set()
        """Ids of the workflows that are being restarted because the server has terminated them."""

    def failed(self, workflow_id: str, run_id: str, why: str) -> None:
        """Note that a task of this run has failed here, and check whether the run is stuck."""
        known = self._failing.setdefault(workflow_id, _Failing())
        if known.run_id != run_id:
            known.run_id, known.failures = run_id, 0
        known.failures += 1
        known.why = why
        if known.task is None or known.task.done():
            known.task = asyncio.create_task(self._heal(workflow_id, known), name=f"stuck {workflow_id}")

    def went_on(self, workflow_id: str, run_id: str) -> None:
        """Note that a task of this run ended without a failure."""
        known = self._failing.get(workflow_id)
        if known is None:
            return
        known.failures = known.without_progress = 0
        if asyncio.get_running_loop().time() - known.restarted_at > FORGET_SECONDS and _is_idle(known):
            del self._failing[workflow_id]

    async def begin_anew(self, ref: PodRef) -> bool:
        """Restart a pod's workflow if the server has terminated it because of a limit; say whether that was so.

        If the run is terminated repeatedly, the pauses between restarts grow as for a stuck one. On a node whose
        commands are signed, the start is signed, and therefore accepted, even if another client terminated the run.
        Raises RPCError.
        """
        workflow_id = pod_workflow_id(ref.namespace, ref.name)
        described = await self._describe_newest(workflow_id)
        if described is None or not self._is_ours(workflow_id, described):
            return False
        info = described.workflow_execution_info
        if info.status != WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED:
            return False
        if not (why := await self._limit_passed(workflow_id, info.execution.run_id)):
            return False
        known = self._failing.setdefault(workflow_id, _Failing())
        if workflow_id not in self._beginning and self._pause(known) <= 0:
            self._beginning.add(workflow_id)
            try:
                known.run_id, known.failures, known.why = info.execution.run_id, 0, f"the server has ended it: {why}"
                await self._restart(workflow_id, known, described, uid=ref.uid)
            finally:
                self._beginning.discard(workflow_id)
        return True

    async def _limit_passed(self, workflow_id: str, run_id: str) -> str:
        """Return the server's reason if it has itself terminated a run; "" if another client has."""
        handle = self._client.get_workflow_handle(workflow_id, run_id=run_id)
        last = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
        async for event in last:
            ended = event.workflow_execution_terminated_event_attributes
            if ended.identity == _THE_SERVER:
                return ended.reason
        return ""

    async def close(self) -> None:
        """Cancel the restarts; the next worker will have the same failures."""
        tasks = [each.task for each in self._failing.values() if each.task is not None]
        await cancel_all(tasks)

    async def _heal(self, workflow_id: str, known: _Failing) -> None:
        """Restart a workflow if the server's description shows that it is stuck. Retries while the server is away."""
        is_logged = False
        while known.failures:
            try:
                described = await self._describe(workflow_id, known.run_id)
                if described is None or not _is_stuck(described, known.failures):
                    return
                if (pause := self._pause(known)) > 0:
                    await asyncio.sleep(pause)
                    continue
                await self._restart(workflow_id, known, described)
            except (RPCError, OSError) as error:
                # A busy server may also refuse the completion of a task: that does not mean that the run is stuck.
                if known.failures >= FAILURES and not is_logged:
                    log.warning("workflow %s is stuck, and cannot be begun anew yet: %s", workflow_id, error)
                    is_logged = True
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def _pause(self, known: _Failing) -> float:
        """Return the seconds until the next restart is due; zero or less if it is due."""
        if not known.restarts:
            return 0.0
        first, longest = PAUSES
        pause = min(longest, first * 2.0 ** min(known.restarts - 1, 10))
        if known.without_progress in (1, 2):
            pause = 0.0  # the next kind of start is tried at once
        return known.restarted_at + pause - asyncio.get_running_loop().time()

    async def _describe(self, workflow_id: str, run_id: str) -> DescribeWorkflowExecutionResponse | None:
        """Return the server's description of a workflow; None if this run is no longer the open one, or is not ours."""
        described = await self._describe_newest(workflow_id)
        if described is None:
            return None
        info = described.workflow_execution_info
        is_open = (
            info.execution.run_id == run_id
            and info.status == WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
            and self._is_ours(workflow_id, described)
        )
        return described if is_open else None

    async def _describe_newest(self, workflow_id: str) -> DescribeWorkflowExecutionResponse | None:
        """Return the server's description of a workflow's newest run; None if there is none. Raises RPCError."""
        try:
            return await self._client.workflow_service.describe_workflow_execution(
                DescribeWorkflowExecutionRequest(
                    namespace=self._client.namespace, execution=WorkflowExecution(workflow_id=workflow_id)
                ),
                retry=True,
                timeout=_RPC,
            )
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise

    def _is_ours(self, workflow_id: str, described: DescribeWorkflowExecutionResponse) -> bool:
        return (
            described.workflow_execution_info.type.name == self._kind(workflow_id).workflow_type
            and described.execution_config.task_queue.name == self._task_queue
        )

    def _is_foreign(self, workflow_id: str) -> bool:
        """Say whether the workflow is neither a pod's nor this node's own, so that it need not continue."""
        return self._kind(workflow_id) is self._nodes and workflow_id != node_workflow_id(self._node)

    def _kind(self, workflow_id: str) -> Kind:
        return self._pods if workflow_id.startswith("pod/") else self._nodes

    async def _restart(
        self, workflow_id: str, known: _Failing, described: DescribeWorkflowExecutionResponse, *, uid: str = ""
    ) -> None:
        """Start the new run. With `uid`, it replaces an ended run, and only if the pod still has this UID."""
        is_foreign = self._is_foreign(workflow_id)
        start = None if is_foreign else await self._start(workflow_id, known, described)
        if uid and start is not None and (start.ref is None or start.ref.uid != uid):
            return  # the name is another pod's now
        why = " ".join(known.why.split())[:300]
        # The workflow id must become free if its pod is gone, or if the run's input cannot be decoded.
        is_open = not uid
        if (
            start is None
            and is_open
            and (is_foreign or known.why == WAS_RESET or not await self._has_input(workflow_id, known.run_id))
        ):
            reason = _FOREIGN if is_foreign else WAS_RESET if known.why == WAS_RESET else _NO_INPUT
            await self._client.get_workflow_handle(workflow_id, run_id=known.run_id).terminate(reason=reason)
            since = _FOREIGN if is_foreign else "the node has nothing of its pod"
            log.warning("workflow %s is terminated, since %s: %s", workflow_id, since, why)
            return
        if start is None:
            log.error("workflow %s is stuck, and the node has no state to begin it anew from: %s", workflow_id, why)
            return
        restarted = {"why": why, "since": start.since, "signals": start.signals, "left_out": start.left_out}
        await self._client.start_workflow(
            self._kind(workflow_id).workflow_type,
            {**start.input, "restarted": restarted},
            id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
            **start.arguments,
        )
        known.restarts += 1
        known.without_progress += 1
        known.left = len(start.signals) + start.left_out
        known.failures = 0
        known.restarted_at = asyncio.get_running_loop().time()
        metrics.workflow_restarts.add(1)
        log.warning("workflow %s was stuck, and is begun anew from %s: %s", workflow_id, start.since, why)
        if start.ref is not None:
            self._resume(start.ref)

    async def _has_input(self, workflow_id: str, run_id: str) -> bool:
        """Say whether a run's input can be decoded."""
        place = WorkflowSerializationContext(namespace=self._client.namespace, workflow_id=workflow_id)
        run = self._client.get_workflow_handle(workflow_id, run_id=run_id)
        async for event in run.fetch_history_events(page_size=1):
            try:
                await self._converter.with_context(place).decode(
                    event.workflow_execution_started_event_attributes.input.payloads
                )
            except Exception:  # noqa: BLE001  # whoever started it may have sent anything, and a converter raises anything
                return False
            return True
        return True

    async def _start(
        self, workflow_id: str, known: _Failing, described: DescribeWorkflowExecutionResponse
    ) -> RunStart | None:
        """Return how to start the new run; None if the node has neither a state nor a record to start from."""
        kind = self._kind(workflow_id)
        snapshot = await self._published.snapshot(workflow_id) if known.without_progress < 2 else None
        start = kind.going_on(snapshot) if snapshot is not None else await kind.afresh(workflow_id, described)
        if start is None:
            return None
        signals = await self._signals(workflow_id, known.run_id, snapshot)
        if known.without_progress:
            start.left_out = known.left + len(signals)
        else:
            start.signals, start.left_out = _fitting(signals)
        return start

    async def _signals(
        self, workflow_id: str, run_id: str, snapshot: WorkflowSnapshot | None
    ) -> list[tuple[str, list[Any]]]:
        """Return the run's signals and accepted updates that `snapshot` does not include yet, oldest first.

        It leaves out signals that the agent sends again, signals that cannot be decoded (as the SDK does), and all that
        the run has refused: signals of unknown names, updates that have failed, and, on a node that requires
        signatures, commands without a valid one. The commands that it returns are added to the snapshot's accepted
        commands.
        """
        found: dict[int, tuple[str, list[Any]]] = {}
        place = WorkflowSerializationContext(namespace=self._client.namespace, workflow_id=workflow_id)
        converter, accepted = self._converter.with_context(place), _accepted(snapshot)
        async for event in self._client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history_events():
            if snapshot is None and event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                accepted = await _accepted_before(event, converter)
            found.pop(_failed_update(event), None)
            purpose, input = _command_in(event)
            name = self._kind(workflow_id).passed_on.get(purpose, "")
            if not name or _is_in(event, run_id, snapshot):
                continue
            try:
                args = await converter.decode(input.payloads)
            except Exception:  # noqa: BLE001  # a converter may raise anything, and the signal stays in the history
                continue
            if self._is_signed:
                accepted, refusal = taken(accepted, purpose, args)
                if refusal:
                    continue
            found[event.event_id] = (name, [plain(each) for each in args])
        if snapshot is not None and accepted != Accepted():
            snapshot.next_input["snapshot"]["accepted"] = accepted.model_dump()
        return list(found.values())


def _command_in(event: HistoryEvent) -> tuple[str, Payloads]:
    """Return an event's command: the purpose under which it was signed, "" if there is none, and its payloads."""
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
        signal = event.workflow_execution_signaled_event_attributes
        return f"signal/{signal.signal_name}", signal.input
    update = event.workflow_execution_update_accepted_event_attributes.accepted_request.input
    return f"update/{update.name}" if update.name else "", update.args


def _failed_update(event: HistoryEvent) -> int:
    """Return the number of the event that accepted the update that fails in `event`; 0 if no update fails in it."""
    completed = event.workflow_execution_update_completed_event_attributes
    return completed.accepted_event_id if completed.outcome.HasField("failure") else 0


async def _accepted_before(started: HistoryEvent, converter: DataConverter) -> Accepted:
    """Return the signed commands that count as accepted when a run begins, given the run's first event.

    If the run's input cannot be decoded, no command from before its start counts as accepted.
    """
    try:
        start, _ = first_and_more(
            await converter.decode(started.workflow_execution_started_event_attributes.input.payloads)
        )
        given = plain(start)
        continued = given.get("snapshot", {}).get("accepted", {}) if isinstance(given, dict) else {}
        return Commands(start).accepted_before(Accepted.model_validate(continued))
    except Exception:  # noqa: BLE001  # whoever started it may have sent anything, and a converter raises anything
        return Accepted(floor=microseconds(started.event_time.ToDatetime(tzinfo=UTC)))


def _accepted(snapshot: WorkflowSnapshot | None) -> Accepted:
    """Return the signed commands that a snapshot's workflow has accepted."""
    said = {} if snapshot is None else snapshot.next_input.get("snapshot", {}).get("accepted", {})
    return Accepted.model_validate(said)


def _is_idle(known: _Failing) -> bool:
    return known.task is None or known.task.done()


def _is_stuck(described: DescribeWorkflowExecutionResponse, failures: int) -> bool:
    """Say whether a run's task has failed too often, by this worker's count or by the server's.

    The server's count includes tasks that timed out, for instance on a busy machine. But this is called only after a
    failure, so timeouts alone do not make a run stuck.
    """
    if not described.HasField("pending_workflow_task"):
        return False
    tries = described.pending_workflow_task.attempt
    return (failures >= FAILURES and tries > 1) or tries > FAILURES


def _is_in(event: HistoryEvent, run_id: str, snapshot: WorkflowSnapshot | None) -> bool:
    """Say whether the snapshot already includes the signal in an event."""
    if snapshot is None:
        return False
    if snapshot.run_id == run_id:
        return event.event_id <= snapshot.history_length
    return event.event_time.ToDatetime(tzinfo=snapshot.at.tzinfo) <= snapshot.at


def _fitting(signals: list[tuple[str, list[Any]]]) -> tuple[list[tuple[str, list[Any]]], int]:
    """Return the newest signals that fit into a start, oldest first, and how many do not fit."""
    room, kept = SIGNALS_BYTES, 0
    for name, args in reversed(signals):
        room -= len(name) + len(json.dumps(args, default=str).encode())
        if room < 0:
            break
        kept += 1
    return signals[len(signals) - kept :], len(signals) - kept
