"""Reads pods over a command's connection to Temporal: for commands, and for the node API's handlers in their process.

Commands that show pods use the handlers (`syncpod.cli.node_api`). Commands that change or end pods, or wait for them,
use this source itself: a v1 Pod does not say whether a silent pod's node is away or busy, or its workflow stuck, and a
wait must not end by the last state on this machine. A read here costs the server one request, at most every
OPEN_SECONDS; one by the worker's handlers costs three, as the worker checks first that the server is its own.

Visibility lists the open pods. A pod of this machine's node is read from its worker, if there is one; the workflows of
others are queried. A pod that does not answer is returned as the server recorded it last, and marked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api import client as node_api
from syncpod.api import statuses
from syncpod.api.label_selector import Selector
from syncpod.api.listed_node import ListedNode
from syncpod.api.source import CannotSay, SourcePod
from syncpod.cli.fetched import FetchedPod, notes_of_silent
from syncpod.cli.machine.settings import settings
from syncpod.cli.orphan_notes import orphans_here
from syncpod.cli.temporal.liveness import judged, own_worker, unserved_queue
from syncpod.cli.temporal.nodes import list_nodes, notes_of_ended, read_node, why_absent
from syncpod.cli.temporal.pod_queries import (
    QUERY_DEADLINE,
    OpenRuns,
    answered_pod,
    execution_of,
    is_open,
    published_here,
    query_or_record,
    query_pod,
    read_records,
    recorded_state,
    with_last_state,
)
from syncpod.cli.temporal.pods import handle_of, not_found, require_answer
from syncpod.cli.view.history_lines import from_events
from syncpod.journal.reading import NoJournal, lives_of
from syncpod.journal.records import SENDER
from syncpod.messages.identity import POD_WORKFLOW, pod_workflow_id
from syncpod.messages.queries import read_events, read_history, write_events, write_history
from syncpod.messages.running_steps import PendingStep
from syncpod.node.orphan_mark import why_orphaned
from syncpod.pod import Pod
from syncpod.settings.worker_record import serving
from syncpod.temporal.pending_steps import pending_steps
from syncpod.temporal.pod_search_attributes import node_of, open_pods, recorded_as
from syncpod.temporal.workflow_starts import ENDED

_ALL: Final = Selector(())
_QUERIES: Final[Mapping[str, type[Any]]] = {"plan": dict, "history": list, "events": list}
"""The parts of a pod that are queries of its workflow, besides the pod itself, with the type of each answer."""
_RPC: Final = timedelta(seconds=5)
_AT_ONCE: Final = 500
"""Maximum number of queries at the same time."""
_AT_ONCE_AGAIN: Final = 50
"""Maximum number of queries at the same time, except for a list. A command may call these reads repeatedly."""
_ENOUGH: Final = 50
"""If this many pods of a node have not answered, and none of its pods has, its other pods are not queried."""

_Answer = TypeVar("_Answer")


def _readable(part: str, answer: Any) -> Any:
    """Return an answer in the form of this version's models. Raises Failure if they cannot read it."""
    if part == "history":
        return write_history(read_records(read_history, answer, part))
    if part == "events":
        return write_events(read_records(read_events, answer, part))
    return answer


def _journaled(state_dir: Path, one: FetchedPod) -> dict[str, Any]:
    """Return the history and the events of a pod from the node's journal; {} if it has no records of it. Blocks."""
    try:
        lives = lives_of(state_dir, *one.key)
    except NoJournal:
        return {}
    records = next((each for each in reversed(lives) if each.life.uid == one.pod.metadata.uid), None)
    if records is None:
        return {}
    lines = [line for line in records.entries if line.kind != SENDER]
    return {"history": write_history(lines), "events": write_events(records.events)}


@dataclass(frozen=True)
class Answers:
    """The answers of a pod's workflow. A method raises CannotSay if its answer is missing."""

    document: dict[str, Any]
    answers: Mapping[str, Any] = field(default_factory=dict)

    def pod(self) -> dict[str, Any]:
        """Return the whole Pod; if it did not answer, as far as it is known."""
        return self.document

    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        """Return the steps that would be taken now. Raises CannotSay for a changed pod, `candidate`."""
        return dict(self._answer("plan" if candidate is None else "plan of another pod"))

    def history(self) -> list[dict[str, Any]]:
        """Return the pod's history."""
        return list(self._answer("history"))

    def events(self) -> list[dict[str, Any]]:
        """Return the pod's events."""
        return list(self._answer("events"))

    def steps(self) -> list[str]:
        """Raise CannotSay: no query of the workflow returns steps."""
        return list(self._answer("steps"))

    def _answer(self, part: str) -> Any:
        if part not in self.answers:
            raise CannotSay
        return self.answers[part]


class TemporalPods:
    """The pods of a Temporal namespace, a :class:`syncpod.api.source.PodSource`. Belongs to one event loop.

    Commands that apply, change or end pods, or wait for them, read the pods here, over the connection that they have.
    Methods raise RPCError if the server refuses a call, and Squatted if another kind of workflow has a pod's name.
    """

    def __init__(self, client: Client) -> None:
        """Read through this client.

        One instance queries the server for a pod's open run only every `OPEN_SECONDS`: a command that waits for pods
        keeps its instance, and each other read has its own.
        """
        self._client = client
        self._open_runs = OpenRuns(client)
        self._silent: dict[str, FetchedPod] = {}
        """The pods that did not answer the API's handlers, by workflow id."""

    # --- for commands -------------------------------------------------------------------------------------------------

    async def read(self, namespace: str, name: str, *, at_once: bool = False) -> FetchedPod | None:
        """Return one pod; None if there is none, or it has ended. Raises Squatted if another workflow has the name.

        With `at_once`, a pod of this machine's node is returned as the worker has published it. The server is not
        queried, so somebody may just have terminated the pod's workflow.
        """
        if at_once and own_worker(self._client) is not None:
            workflow_id = pod_workflow_id(namespace, name)
            if (ours := (await published_here([workflow_id], "pod")).get(workflow_id)) is not None:
                return ours.pod
        return (await self.read_all([(namespace, name)]))[0]

    async def read_all(self, keys: Sequence[tuple[str, str]]) -> list[FetchedPod | None]:
        """Return the pods of these namespaces and names, in this order; None for each that is not there, or has ended.

        Pods of this machine's node are read from the node in one request. Only a few pods are queried at the same time:
        if all pods of a large node were, the node could do nothing else. Raises Squatted if another kind of workflow
        has one of the names.
        """
        ids = [pod_workflow_id(*key) for key in keys]
        published = await published_here(ids, "pod")
        unserved = "" if len(published) == len(ids) else await unserved_queue(self._client)
        few = asyncio.Semaphore(_AT_ONCE_AGAIN)

        async def read(workflow_id: str) -> FetchedPod | None:
            ours = published.get(workflow_id)
            async with few:
                if ours is not None and await self._open_runs.has(workflow_id, ours.run_id):
                    return ours.pod
                return await query_or_record(self._client, workflow_id, None, unserved)

        fetched_pods = await asyncio.gather(*map(read, ids))
        found = iter(await judged(self._client, [one for one in fetched_pods if one is not None]))
        return [None if one is None else next(found) for one in fetched_pods]

    async def required(self, namespace: str, name: str) -> FetchedPod:
        """Return one pod from its workflow's answer. Raises Failure if there is no such pod, or it does not answer."""
        fetched = await self.read(namespace, name)
        if fetched is None:
            raise not_found(name, namespace)
        return require_answer(fetched)

    async def listed(
        self, namespace: str | None, selector: Selector, *, nodes: Collection[str] | None = None
    ) -> list[FetchedPod]:
        """Return the pods of a namespace (None = all) that the selector selects, in order of namespace and name.

        With `nodes`, only pods of these nodes. The list comes from visibility, which may lag by a moment. Pods of this
        machine's node are read from the node in one request; the workflows of others are queried. Pods that run on this
        machine's node without a workflow are included, marked.
        """
        executions = await self._open_executions(namespace)
        if nodes is not None:
            executions = {id_: one for id_, one in executions.items() if node_of(one) in nodes}
        found = await judged(self._client, await self._read_listed(executions))
        orphans = [one for one in await self.orphans(namespace) if nodes is None or one.pod.spec.node_name in nodes]
        fetched_pods = [fetched for fetched in (*found, *orphans) if selector.matches(fetched.pod.metadata.labels)]
        return sorted(fetched_pods, key=lambda fetched: fetched.key)

    async def orphans(self, namespace: str | None, names: Sequence[str] = ()) -> list[FetchedPod]:
        """Return the pods that run on this machine's node without a workflow, marked; with `names`, only these."""
        found = await asyncio.to_thread(orphans_here, namespace, names)
        if found and serving(settings().state_dir) is None:  # these pods run; some of them may have a workflow
            some = asyncio.Semaphore(_AT_ONCE_AGAIN)
            attended = await asyncio.gather(*(self._has_workflow(wire["metadata"], some) for wire in found))
            found = [wire for wire, has_one in zip(found, attended, strict=True) if not has_one]
        return [FetchedPod(Pod.model_validate(wire), wire, current=True) for wire in found]

    async def recorded(self, namespace: str | None) -> list[Pod]:
        """Return the open pods of a namespace (None = all) as Temporal last recorded them: names, UIDs, phases."""
        executions = await self._open_executions(namespace)
        pods = [recorded_as(execution) for execution in executions.values()]
        return sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))

    async def answer(self, key: tuple[str, str], query: str, *args: Any, result_type: type[_Answer]) -> _Answer:
        """Return the answer of a pod's workflow, open or closed. Raises the errors of `query_pod`.

        `key` is the pod's namespace and name. If no worker serves the workflow's queue, this fails at once, and not
        after QUERY_DEADLINE.
        """
        workflow_id, handle = pod_workflow_id(*key), handle_of(self._client, *key)
        answer = (await published_here([workflow_id], query, *args)).get(workflow_id)
        if answer is not None and isinstance(answer.answer, result_type) and await is_open(handle, answer.run_id):
            return answer.answer
        if (queue := await unserved_queue(self._client)) and (await handle.describe()).task_queue == queue:
            raise RPCError(f"no worker serves {queue}", RPCStatusCode.DEADLINE_EXCEEDED, b"")
        return await query_pod(handle, query, *args, result_type=result_type)

    async def answers(
        self, keys: Sequence[tuple[str, str]], query: str, *, result_type: type[_Answer]
    ) -> list[_Answer | None]:
        """Return the answers of the workflows of pods that have just been read, in order; None for a missing answer.

        Since the pods have just been read, the server is not queried again for the open runs.
        """
        ids = [pod_workflow_id(*key) for key in keys]
        published, few = await published_here(ids, query), asyncio.Semaphore(_AT_ONCE_AGAIN)

        async def ask(workflow_id: str) -> _Answer | None:
            ours = published.get(workflow_id)
            if ours is not None and isinstance(ours.answer, result_type):
                return ours.answer
            try:
                async with few:
                    handle = self._client.get_workflow_handle(workflow_id)
                    return await query_pod(handle, query, result_type=result_type)
            except (RPCError, WorkflowQueryFailedError):
                return None

        return await asyncio.gather(*map(ask, ids))

    async def _open_executions(self, namespace: str | None) -> dict[str, WorkflowExecution]:
        return {execution.id: execution async for execution in self._client.list_workflows(open_pods(namespace))}

    async def _read_listed(self, executions: Mapping[str, WorkflowExecution]) -> list[FetchedPod]:
        """Return the pods of these workflows, without those that have ended."""
        published = await published_here(executions.keys(), "pod")
        unserved = "" if len(published) == len(executions) else await unserved_queue(self._client)
        some = asyncio.Semaphore(_AT_ONCE)
        silent, heard = Counter[str](), set[str]()

        async def read(execution: WorkflowExecution) -> FetchedPod | None:
            if (ours := published.get(execution.id)) is not None and ours.run_id == execution.run_id:
                return ours.pod
            queue = execution.task_queue or ""
            async with some:
                if queue not in heard and silent[queue] >= _ENOUGH:
                    return recorded_state(execution)
                fetched = await query_or_record(self._client, execution.id, execution, unserved)
            if fetched is not None and fetched.current:
                heard.add(queue)
            elif fetched is not None:
                silent[queue] += 1
            return fetched

        return [one for one in await asyncio.gather(*map(read, executions.values())) if one]

    async def _has_workflow(self, metadata: Mapping[str, Any], some: asyncio.Semaphore) -> bool:
        """Return whether a workflow of a pod's name is open, or may be."""
        handle = handle_of(self._client, str(metadata.get("namespace") or "default"), str(metadata["name"]))
        try:
            async with some:
                return (await handle.describe(rpc_timeout=_RPC)).status not in ENDED
        except RPCError as error:
            return error.status != RPCStatusCode.NOT_FOUND
        except ValueError:  # a state unknown to the SDK
            return True

    # --- for the API's handlers ---------------------------------------------------------------------------------------

    @property
    def state_dir(self) -> Path:
        """The state directory of this machine."""
        return settings().state_dir

    @property
    def node(self) -> str:
        """Return "": the pods are of several nodes."""
        return ""

    async def open_pods(
        self,
        namespace: str | None,
        names: Collection[str],
        *,
        parts: Collection[str] = ("pod",),
        nodes: Collection[str] = (),
        recorded: bool = False,
    ) -> Sequence[SourcePod]:
        """Return the open pods, and those of this machine that run without a workflow.

        A pod that did not answer is returned in its last published state; with `recorded`, as the server last recorded
        it.
        """
        if names:
            space = namespace or "default"
            read = await self.read_all([(space, name) for name in names])
            found = [one for one in read if one is not None]
            if len(found) < len(read):
                found += await self.orphans(space, [*names])
        else:
            found = await self.listed(namespace, _ALL, nodes=nodes or None)
        if not recorded:
            found = await asyncio.to_thread(lambda: [*map(with_last_state, found)])
        return await self._as_source_pods(found, parts)

    async def orphan_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        """Return this machine's pods that run without a workflow."""
        return await self._as_source_pods(await self.orphans(namespace, [*names]), ())

    async def last_pods(self, namespace: str, names: Collection[str], parts: Collection[str]) -> Sequence[SourcePod]:
        """Return the newest runs of these pods, as far as the server keeps them."""
        open_ones = await self.open_pods(namespace, names, parts=parts)
        ended = [name for name in names if name not in {one.name for one in open_ones}]
        found = [one for name in ended if (one := await self._ended(namespace, name)) is not None]
        return [*open_ones, *await self._as_source_pods(found, parts)]

    def known_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        """Raise CannotSay: no pods are cached here."""
        raise CannotSay

    def why_recorded(self, pods: Sequence[SourcePod]) -> Sequence[str]:
        """Return why some of the pods have not answered: which nodes are away or busy, and what to do."""
        silent = (self._silent.get(pod_workflow_id(*one.key)) for one in pods if one.recorded is not None)
        return notes_of_silent(one for one in silent if one is not None)

    async def pending_steps(self, one: SourcePod) -> Sequence[PendingStep]:
        """Return the pending steps of a pod; none if the server does not answer in time."""
        try:
            return await pending_steps(await handle_of(self._client, *one.key).describe(rpc_timeout=QUERY_DEADLINE))
        except (RPCError, ValueError):  # the pod is gone, or the server is busy: the other parts are returned
            return ()

    async def nodes(self) -> tuple[Sequence[ListedNode], Sequence[str]]:
        """Return all nodes that have a workflow, and a sentence for each whose workflow has ended."""
        found = await list_nodes(self._client)
        return found, await notes_of_ended(self._client, [one.name for one in found])

    async def node_named(self, name: str, *, at_once: bool) -> ListedNode:
        """Return a node. Raises ApiError if it has no workflow. Nothing is cached here: `at_once` changes nothing."""
        node = await read_node(self._client, name)
        if node is None:
            raise statuses.not_found("nodes", name, await why_absent(self._client, name))
        return node

    def steps_under_way(self) -> Sequence[dict[str, Any]]:
        """Return the steps that this machine's worker executes now."""
        return node_api.steps_under_way(self.state_dir)

    async def settle_journal(self) -> str:
        """Make this machine's worker, if there is one, write its journal."""
        return await asyncio.to_thread(node_api.settle_journal, self.state_dir)

    async def refresh_report(self) -> None:
        """Make this machine's worker, if there is one, write its report."""
        await asyncio.to_thread(node_api.refresh_report, self.state_dir)

    # --- the parts of each pod ----------------------------------------------------------------------------------------

    async def _as_source_pods(self, found: Sequence[FetchedPod], parts: Collection[str]) -> list[SourcePod]:
        """Return the pods with these parts of each."""
        ids = [pod_workflow_id(*one.key) for one in found]
        self._silent |= {key: one for key, one in zip(ids, found, strict=True) if not one.current}
        wanted = [part for part in parts if part in _QUERIES]
        asked = [one.key for one in found if one.current and not why_orphaned(one.wire)]
        answers = await asyncio.gather(*(self.answers(asked, part, result_type=_QUERIES[part]) for part in wanted))
        known: dict[str, dict[str, Any]] = {key: {} for key in ids}
        for part, some in zip(wanted, answers, strict=True):
            for pod, answer in zip(asked, some, strict=True):
                known[pod_workflow_id(*pod)] |= {part: _readable(part, answer)} if answer is not None else {}
        silent = {key for key, one in zip(ids, found, strict=True) if not one.current}
        for key, one in zip(ids, found, strict=True):
            if wanted and (why_orphaned(one.wire) or not one.current):
                kept = await asyncio.to_thread(_journaled, self.state_dir, one)
                # If the pod has a workflow, Temporal's events have a newer history, which `_by_events` reads below.
                known[key] |= {part: kept[part] for part in kept if part == "events" or one.current}
        if "history" in wanted:
            for key in (key for key in ids if "history" not in known[key]):
                known[key] |= await self._by_events(key)
                silent.add(key)
        if wanted and len(found) == 1:
            found = [replace(one, run=one.run or await self._run_of(one)) for one in found]
        return [
            SourcePod(
                *one.key,
                one.run,
                Answers(one.document if not one.current else one.wire, known[key]),
                one.recorded if key in silent else None,
            )
            for key, one in zip(ids, found, strict=True)
        ]

    async def _ended(self, namespace: str, name: str) -> FetchedPod | None:
        """Return the last run of a pod that has ended, as far as the server keeps it; None if there is none.

        The closed workflow is queried, for which a worker replays the workflow's history.
        """
        handle = handle_of(self._client, namespace, name)
        execution = await execution_of(handle, None)
        if execution is None or execution.workflow_type != POD_WORKFLOW:
            return None
        try:
            wire = await self.answer((namespace, name), "pod", result_type=dict)
        except (RPCError, WorkflowQueryFailedError):
            return (await judged(self._client, [recorded_state(execution)]))[0]
        pod = answered_pod(wire, handle.id)
        return None if pod is None else FetchedPod(pod, wire, current=True, run=execution.run_id)

    async def _run_of(self, one: FetchedPod) -> str:
        try:
            return (await handle_of(self._client, *one.key).describe()).run_id
        except (RPCError, ValueError):
            return ""

    async def _by_events(self, workflow_id: str) -> dict[str, Any]:
        """Return the history of a pod that does not answer, from the events of its last run; {} if there is none."""
        events = self._client.get_workflow_handle(workflow_id).fetch_history_events()
        try:
            return {"history": write_history(from_events([event async for event in events]))}
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return {}
            raise
