"""The pods of all nodes of a Temporal namespace, for the node API's handlers where no worker's socket answers.

Visibility lists the open pods, and queries of their workflows return the rest. Pods of this machine's node are read
from its worker, if there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api import client as node_api
from syncpod.api.label_selector import Selector
from syncpod.api.source import CannotSay, SourcePod
from syncpod.cli.fetched import FetchedPod, notes_of_silent
from syncpod.cli.machine.settings import settings
from syncpod.cli.temporal.pod_reads import QUERY_DEADLINE, ask_read_pods, read_records
from syncpod.cli.temporal.pods import handle_of, list_pods, orphan_pods, read_ended, read_pods, with_last_state
from syncpod.cli.view.history_lines import from_events
from syncpod.journal.reading import NoJournal, lives_of
from syncpod.journal.records import SENDER
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.queries import read_events, read_history, write_events, write_history
from syncpod.messages.running_steps import PendingStep
from syncpod.node.orphan_mark import why_orphaned
from syncpod.temporal.pending_steps import pending_steps

_ALL: Final = Selector(())
_QUERIES: Final[Mapping[str, type[Any]]] = {"plan": dict, "history": list, "events": list}
"""The parts of a pod that are queries of its workflow, besides the pod itself, with the type of each answer."""


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
    lines = [line for line in records.lines if line.kind != SENDER]
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

    Its methods raise RPCError for what the server refuses, and Failure for a name that is not a pod's.
    """

    def __init__(self, client: Client) -> None:
        """Read through this client."""
        self._client = client
        self._silent: dict[str, FetchedPod] = {}
        """The pods that did not answer, by workflow id."""

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
            read = await read_pods(self._client, [(space, name) for name in names])
            found = [one for one in read if one is not None]
            if len(found) < len(read):
                found += await orphan_pods(self._client, space, [*names])
        else:
            found = await list_pods(self._client, namespace, _ALL, nodes=nodes or None)
        if not recorded:
            found = await asyncio.to_thread(lambda: [*map(with_last_state, found)])
        return await self._as_source_pods(found, parts)

    async def orphan_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        """Return this machine's pods that run without a workflow."""
        return await self._as_source_pods(await orphan_pods(self._client, namespace, [*names]), ())

    async def last_pods(self, namespace: str, names: Collection[str], parts: Collection[str]) -> Sequence[SourcePod]:
        """Return the newest runs of these pods, as far as the server keeps them."""
        open_ones = await self.open_pods(namespace, names, parts=parts)
        ended = [name for name in names if name not in {one.name for one in open_ones}]
        found = [one for name in ended if (one := await read_ended(self._client, namespace, name)) is not None]
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
        asked = [key for key, one in zip(ids, found, strict=True) if one.current and not why_orphaned(one.wire)]
        answers = await asyncio.gather(
            *(ask_read_pods(self._client, asked, part, result_type=_QUERIES[part]) for part in wanted)
        )
        known: dict[str, dict[str, Any]] = {key: {} for key in ids}
        for part, some in zip(wanted, answers, strict=True):
            for key, answer in zip(asked, some, strict=True):
                known[key] |= {part: _readable(part, answer)} if answer is not None else {}
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
