"""Serves reads of this node's pods from the states that their workflows have published, without a Temporal query.

A query would be answered by the same worker, but it goes through the server, may cause a replay from the start, and
waits behind all other workflow tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from temporalio.client import WorkflowExecution

from syncpod.agent.open_pods import OpenPods, OpenPodsUnknown
from syncpod.agent.orphaned_pods import OrphanedPod, OrphanedPods
from syncpod.agent.pod_reads import PodWithoutWorkflow, PodWithUnreported, RecordedPod
from syncpod.agent.probing.unreported import UnreportedFailures
from syncpod.agent.published_pods import PublishedPods, PublishedRun
from syncpod.api.client import ANSWER_SECONDS
from syncpod.api.listed import Recorded
from syncpod.api.listed_node import ListedNode
from syncpod.api.source import CannotSay, SourcePod
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.node import NodeView, node_workflow_id
from syncpod.messages.running_steps import PendingStep, RunningStep, steps_of
from syncpod.node.loop_stalls import read_loop_stall
from syncpod.temporal.pod_search_attributes import attribute
from syncpod.translation.context import NodeContext

_FEW: Final = 50
"""The most open pods without a published state that are checked again on the server, with one call for each."""
_LOOKS: Final = 10
_LOOK_SECONDS: Final = 0.1
"""A pod that has just started is checked for a published state `_LOOKS` times, with `_LOOK_SECONDS` between the
checks."""
_PREFIX: Final = "pod/"
_ONLY_OWN: Final = "this worker knows no node but its own, and that one once its workflow has had a task here"


class NodePods:
    """The pods of one node, a :class:`syncpod.api.source.PodSource`. Belongs to the agent's event loop."""

    def __init__(
        self,
        node: NodeContext,
        published: PublishedPods,
        *,
        open_pods: OpenPods | None = None,
        orphaned: OrphanedPods | None = None,
        unreported: Callable[[str], Sequence[UnreportedFailures]] = lambda _: (),
        running: Collection[RunningStep] = (),
        settle_journal: Callable[[], Awaitable[str]] | None = None,
        refresh_report: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Answer from the `published` states. Without `open_pods`, a read fails if it depends on which pods are open.

        `orphaned` finds pods that run without a workflow; they are listed beside the open ones, with a mark.
        `unreported` takes a pod's UID, and returns failures of its probes that were not sent to its workflow yet.
        `running` has the steps that are under way. `settle_journal` brings the journal up to date, and `refresh_report`
        the node's report.
        """
        self._node = node
        self._published = published
        self._open_pods = open_pods
        self._orphaned = orphaned
        self._unreported = unreported
        self._running = running
        self._settle_journal, self._refresh_report = settle_journal, refresh_report

    @property
    def state_dir(self) -> Path:
        """The node's state directory."""
        return self._node.state_dir

    @property
    def node(self) -> str:
        """The node's name."""
        return self._node.name

    async def open_pods(
        self,
        namespace: str | None,
        names: Collection[str],
        *,
        parts: Collection[str] = (),
        nodes: Collection[str] = (),
        recorded: bool = False,
    ) -> Sequence[SourcePod]:
        """Return the open pods of a namespace, as :class:`syncpod.api.source.PodSource` describes.

        Raises CannotSay, also if the server does not list the pods, or if this worker has no state of one of their
        runs.
        """
        if set(nodes) - {self.node}:
            raise CannotSay
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                workflows, executions = await self._open(namespace, names, recorded=recorded)
                known = {*workflows, *(each.id for each in executions)}
                orphan = await self._without_workflow(namespace, names, known)
        except (OpenPodsUnknown, TimeoutError) as unknown:
            raise CannotSay from unknown
        runs = ((each, run) for each in workflows if (run := self._published.newest(each)) is not None)
        return [
            *(self._known_pod(*each) for each in runs),
            *map(_as_recorded, executions),
            *(self._as_orphan(each, self._published.newest(each.workflow_id)) for each in orphan),
        ]

    async def orphan_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        """Return the pods that run without a workflow. Raises CannotSay.

        With `names`, the server is asked only about the named pods that run here.
        """
        if self._open_pods is None:
            raise CannotSay
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                known = () if names else await self._open_pods.listed(namespace)
                orphan = await self._without_workflow(namespace, names, known)
                if orphan:
                    await self._open_pods.require_own()
        except (OpenPodsUnknown, TimeoutError) as unknown:
            raise CannotSay from unknown
        return [self._as_orphan(each, self._published.newest(each.workflow_id)) for each in orphan]

    async def last_pods(self, namespace: str, names: Collection[str], parts: Collection[str]) -> Sequence[SourcePod]:
        """Return the pods if all are open: a pod that has ended may have run on another node. Raises CannotSay."""
        found = await self.open_pods(namespace, names)
        if set(names) - {one.name for one in found}:
            raise CannotSay
        return found

    def why_recorded(self, pods: Sequence[SourcePod]) -> Sequence[str]:
        """Return why some of `pods` come from the server's records, as one sentence; empty if none do."""
        if all(one.recorded is None for one in pods):
            return ()
        return ("the worker of this node has just begun, and has not come to all pods yet",)

    def known_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        """Return the pods whose published state this worker has."""
        if namespace is not None and names:
            ids: Collection[str] = [pod_workflow_id(namespace, name) for name in names]
        else:
            ids = [each for each in self._published.pods() if each.startswith(f"{_PREFIX}{namespace or ''}")]
        found = (self._known_pod(each, run) for each in ids if (run := self._published.newest(each)) is not None)
        return [one for one in found if namespace in (None, one.namespace)]

    async def pending_steps(self, one: SourcePod) -> Sequence[PendingStep]:
        """Return a pod's pending activities from the server, which is not called if the pod has no step under way.

        Raises CannotSay.
        """
        if not one.reads.steps():
            return ()
        if self._open_pods is None:
            raise CannotSay
        try:
            return await self._open_pods.pending_steps(pod_workflow_id(one.namespace, one.name))
        except OpenPodsUnknown as unknown:
            raise CannotSay from unknown

    async def nodes(self) -> tuple[Sequence[ListedNode], Sequence[str]]:
        """Return this worker's node. Raises CannotSay, also if the server has any other."""
        own = await self.node_named(self.node, at_once=False)
        try:
            has_others = self._open_pods is None or await self._open_pods.has_other_nodes(self.node)
        except OpenPodsUnknown as unknown:
            raise CannotSay from unknown
        if has_others:
            raise CannotSay(_ONLY_OWN)
        return [own], ()

    async def node_named(self, name: str, *, at_once: bool) -> ListedNode:
        """Return this worker's node. Raises CannotSay for any other, or if its workflow published nothing here."""
        workflow_id = node_workflow_id(name)
        run = self._published.newest(workflow_id) if name == self.node else None
        if run is None:
            raise CannotSay(_ONLY_OWN)
        if not at_once:
            await self._require_open(workflow_id, run.run_id)
        view = NodeView.model_validate(await asyncio.to_thread(run.published.node))
        stall = await asyncio.to_thread(read_loop_stall, self.state_dir)
        return ListedNode(name, view, current=True, heard=datetime.now(UTC), lives=True, stall=stall)

    def steps_under_way(self) -> Sequence[dict[str, Any]]:
        """Return a JSON object that describes each step under way."""
        return steps_of(self._running)

    async def settle_journal(self) -> str:
        """Write the states that were published so far to the journal; return why that fails, "" if it does not."""
        return "" if self._settle_journal is None else await self._settle_journal()

    async def refresh_report(self) -> None:
        """Look for orphans, and write the node's report."""
        if self._refresh_report is not None:
            await self._refresh_report()

    # --- open workflows -----------------------------------------------------------------------------------------------

    async def _open(
        self, namespace: str | None, names: Collection[str], *, recorded: bool
    ) -> tuple[list[str], list[WorkflowExecution]]:
        """Return the open workflows whose state this worker has, and the server's records of the others.

        Records are returned only if the caller accepts them (`recorded`) and this worker lacks the states of many
        pods. Raises OpenPodsUnknown.
        """
        if self._open_pods is None:
            raise OpenPodsUnknown
        executions: dict[str, WorkflowExecution] = {}
        if names:
            runs = await self._open_pods.named(namespace or "default", list(names))
        else:
            executions = await self._open_pods.listed(namespace)
            runs = {each: listed.run_id for each, listed in executions.items()}
        for _ in range(_LOOKS):
            unknown = [each for each, run_id in runs.items() if not self._knows(each, run_id)]
            if not unknown:
                return list(runs), []
            if len(unknown) > _FEW:
                found = [executions[each] for each in unknown if each in executions]
                if recorded and len(found) == len(unknown) and self._open_pods.are_ours(found):
                    return [each for each in runs if each not in unknown], found
                break
            still = await self._open_pods.still_open(unknown)
            runs = {each: run_id for each, run_id in runs.items() if each not in unknown} | still
            if not all(self._knows(each, run_id) for each, run_id in still.items()):
                await asyncio.sleep(_LOOK_SECONDS)
        raise OpenPodsUnknown

    async def _require_open(self, workflow_id: str, run_id: str) -> None:
        """Raise CannotSay unless this is the workflow's open run."""
        if self._open_pods is None:
            raise CannotSay
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._open_pods.require_own()
                if (await self._open_pods.still_open([workflow_id])).get(workflow_id) != run_id:
                    raise CannotSay
        except (OpenPodsUnknown, TimeoutError) as unknown:
            raise CannotSay from unknown

    async def _without_workflow(
        self, namespace: str | None, names: Collection[str], known: Collection[str]
    ) -> list[OrphanedPod]:
        """Return the requested pods that run without a workflow. Raises OpenPodsUnknown."""
        if self._orphaned is None:
            return []
        return await self._orphaned.among(namespace, names, known)

    def _knows(self, workflow_id: str, run_id: str) -> bool:
        known = self._published.newest(workflow_id)
        return known is not None and known.run_id == run_id

    # --- one pod ------------------------------------------------------------------------------------------------------

    def _known_pod(self, workflow_id: str, run: PublishedRun) -> SourcePod:
        published, unreported = run.published, tuple(self._unreported(run.published.uid))
        return SourcePod(
            *_key(workflow_id), run.run_id, PodWithUnreported(published, unreported) if unreported else published
        )

    def _as_orphan(self, orphan: OrphanedPod, run: PublishedRun | None) -> SourcePod:
        """Return a pod without a workflow: its last published state, marked."""
        listing = orphan.listing
        last = run if run is not None and run.published.uid == listing.uid else None
        reads = PodWithoutWorkflow(self.state_dir, orphan, last.published if last is not None else None)
        return SourcePod(listing.namespace, listing.name, last.run_id if last is not None else "", reads)


def _key(workflow_id: str) -> tuple[str, str]:
    namespace, _, name = workflow_id.removeprefix(_PREFIX).partition("/")
    return namespace, name


def _as_recorded(execution: WorkflowExecution) -> SourcePod:
    """Return a pod from its workflow's search attributes."""
    columns = Recorded(attribute(execution, "PodStatus") or "", attribute(execution, "PodRestarts"))
    return SourcePod(*_key(execution.id), execution.run_id, RecordedPod(execution), columns)
