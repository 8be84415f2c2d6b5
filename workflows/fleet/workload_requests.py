"""The requests of a workload's workflow to nodes: to survey them, to run the workload's pods, and to end the pods.

Each request is a step of the fleet's own worker. It ends with the answer folded into the state, or with a pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from syncpod.fleet.offers import NodeOffer
    from syncpod.messages.fleet import PodsChanged
    from syncpod.messages.identity import Message
    from syncpod.messages.node import PodKey
    from syncpod.messages.workload import (
        PLACE_PODS,
        SURVEY_NODES,
        WITHDRAW_PODS,
        PlacePods,
        PodsPlaced,
        PodsWithdrawn,
        Survey,
        Surveyed,
        WithdrawPods,
    )
    from syncpod.pod import pod_to_wire
    from workflows.entity import decoded
    from workflows.fleet import workload_news, workload_placement
    from workflows.fleet.open_requests import OpenRequests
    from workflows.fleet.workload_state import WorkloadState

_ANSWER: Final = timedelta(seconds=60)
_RETRY: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=30)
)
_PLACED_AGAIN: Final = timedelta(seconds=10)
"""The first pause before a pod that fits no node is tried again, and the pause after a failed request."""
_ROOM_AGAIN: Final = timedelta(seconds=5)
"""The shortest pause between two tries, or two surveys, if both follow because a node takes pods again. After a network
fault, many nodes take pods again one after the other."""
_LONGEST_PAUSE: Final = timedelta(seconds=60)
_SHOWN: Final = 200
"""The most nodes whose refusals are kept for a pod that fits no node."""
_SURVEYED_AGAIN: Final = timedelta(seconds=60)
"""The time between two surveys of the nodes for a DaemonSet, or of nodes that have not yet reported their pods."""
_UNREAD_AGAIN: Final = timedelta(seconds=5)
"""The time until the next survey after one that could not read every node. It doubles with each such survey in a row,
up to :data:`_SURVEYED_AGAIN`."""

Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True)
class _Seen:
    """The result of a survey."""

    found: Surveyed
    nodes: tuple[NodeOffer, ...]
    """The nodes that the survey found, updated by their reports since it began."""
    reports: Sequence[PodsChanged]
    """The nodes' reports since the survey began, oldest first."""

    @property
    def is_outdated(self) -> bool:
        """Whether these reports show that another survey would find more.

        Replay: it is always False for a survey of an earlier version.
        """
        reports = self.reports if self.found.unseen is not None else ()
        return any(workload_news.is_outdated(self.found.nodes, news) for news in reports)


class WorkloadRequests:
    """The requests of one run: those in progress, and when the next are due."""

    def __init__(self, state: WorkloadState, owner: str, busy: OpenRequests) -> None:
        """Begin with no requests. `owner` is the id of the workload's workflow; `busy` runs the requests."""
        self.state, self.owner, self.busy = state, owner, busy
        self.nodes: tuple[NodeOffer, ...] | None = None
        """The nodes of this run's newest survey, updated by their later reports; None = there was none yet."""
        self.failed: frozenset[str] | None = None
        """The nodes that this survey could not read. Replay: it is None after a survey of an earlier version."""
        self.partial = 0
        """How many surveys in a row could not read every node."""
        self.is_whole = False
        """The newest survey names every node of the fleet. Replay: a survey of an earlier version may omit some; then
        decisions were based on it alone until the next survey."""
        self.asked: set[str] = set()
        """Pods that a node is being requested to run."""
        self.reports: dict[int, list[PodsChanged]] = {}
        """By the number of each survey in progress: the reports of nodes since it began, oldest first."""
        self.surveys = self.newest = 0
        """How many surveys this run has begun, and the number of the one that found `nodes`."""
        self.retry_at: datetime | None = None
        self.tried_at: datetime | None = None
        self.retry_pause = _PLACED_AGAIN
        self.tried: set[str] = set()
        """Pods that were tried lately, and are on no node: other pods do not wait for these."""
        self.surveyed_at: datetime | None = None
        self.room_at: datetime | None = None
        """When the nodes are surveyed for a DaemonSet because a node takes pods again; None = no node does."""

    def next_due(self) -> datetime | None:
        """Return the time of the next request that no event triggers; None = never."""
        moments = []
        if self.retry_at is not None and "place" not in self.busy and workload_placement.unplaced(self.state):
            moments.append(self.retry_at)
        if self.needs_surveys() and "survey" not in self.busy and (survey := self.next_survey()) is not None:
            moments.append(survey)
        return min(moments, default=None)

    def next_survey(self) -> datetime | None:
        """Return when the next survey is due, if surveys are needed; None = at once."""
        if self.surveyed_at is None:
            return None
        later = self.surveyed_at + _SURVEYED_AGAIN
        if self.partial:
            later = min(later, self.surveyed_at + _UNREAD_AGAIN * 2 ** min(self.partial - 1, 8))
        return later if self.room_at is None else min(later, self.room_at)

    def take_report(self, news: PodsChanged) -> None:
        """Use a node's report of its pods for the next surveys and placements. The state already includes it."""
        for reports in self.reports.values():
            reports.append(news)
        if self.retry_at is not None and news.gone:  # there may be room now
            self.retry_at = min(self.retry_at, workflow.now() + timedelta(seconds=1))
        if news.removed and self.failed is not None:
            self.failed -= {news.node}
        if self.nodes is not None:
            if workload_news.is_outdated(self.nodes, news):
                self.survey_anew()
            self.nodes = workload_news.as_reported(self.nodes, news, presence=self.is_whole)

    def room(self) -> None:
        """Retry pods that wait for a node soon, and survey the nodes for a DaemonSet: a node takes pods again."""
        self.retry_pause, soon = _PLACED_AGAIN, workflow.now() + timedelta(seconds=1)
        if self.retry_at is not None and self.tried_at is not None:
            self.retry_at = min(self.retry_at, max(soon, self.tried_at + _ROOM_AGAIN))
        if self.is_per_node() and self.room_at is None:
            self.room_at = max(soon, self.surveyed_at + _ROOM_AGAIN) if self.surveyed_at is not None else soon

    def survey_anew(self) -> None:
        """Make the next survey of the nodes due at once, if surveys are needed."""
        self.surveyed_at = None

    def unread(self) -> frozenset[str]:
        """Return the nodes that should have an offer but have none or an outdated one: their absence proves nothing.

        A node with pods of the workload may be missing from the survey altogether. Then its workflow was just beginning
        a new run, since the removal of a node would be reported.
        """
        if self.failed is None or self.nodes is None:
            return frozenset()
        offered = {node.name for node in self.nodes}
        return self.failed.union(pod.node for pod in self.state.pods.values() if pod.node and pod.node not in offered)

    def needs_surveys(self) -> bool:
        """Say whether the nodes must be surveyed: for a DaemonSet, and until each node has reported its pods."""
        return self.is_per_node() or not self.state.is_known or bool(self.state.missed)

    def is_per_node(self) -> bool:
        """Say whether the workload has a pod on each node, and so needs surveys of all nodes."""
        return self.state.traits is not None and self.state.traits.is_per_node

    def begin_all(self) -> None:
        """Begin all requests that are due."""
        now = workflow.now()
        self.begin_to_place(now)
        survey = self.next_survey()
        is_survey_due = survey is None or now >= survey
        changed = [name for name in workload_placement.outdated(self.state) if name not in self.asked]
        if changed and "change" not in self.busy:
            self.busy.begin("change", self.send_change(changed))
        is_needless = self.state.deleting and self.state.is_known and not self.state.missed
        needs_surveys = self.state.document is not None and self.needs_surveys()
        if needs_surveys and is_survey_due and "survey" not in self.busy and not is_needless:
            self.busy.begin("survey", self.survey())
        for node, names in workload_placement.to_prove(self.state).items():
            if f"prove {node}" not in self.busy:
                self.busy.begin(f"prove {node}", self.prove(node, names))
        for node, keys in workload_placement.to_withdraw(self.state, self.asked).items():
            if f"withdraw {node}" not in self.busy:
                self.busy.begin(f"withdraw {node}", self.withdraw(node, keys))

    def begin_to_place(self, now: datetime) -> None:
        """Choose nodes for pods if that is due: first for those that were not tried yet, then once more for all."""
        is_due = self.retry_at is None or now >= self.retry_at
        if "place" in self.busy or not (is_due or (self.tried and not self.asked)):
            return
        names = workload_placement.unplaced(self.state, self.tried)
        if is_due and not names:
            self.tried.clear()
            names = workload_placement.unplaced(self.state)
        if names:
            self.busy.begin("place", self.place(names, is_retry=is_due))

    async def survey(self) -> None:
        """Survey the nodes: request their offers, and the pods of this workload that they already have."""
        missed = () if self.is_per_node() or not self.state.is_known else self.state.missed
        asked = Survey(owner=self.owner, nodes=missed)
        self.room_at = None  # a message from now on may come too late for this survey
        before = self.partial
        seen = await self.look(asked, summary="which nodes are there?")
        # Replay: this is the time of the task that has the answer; the next survey is timed from it.
        self.surveyed_at = now = workflow.now()
        if seen is None:
            return
        workload_news.surveyed(self.state, seen.found, now, seen.reports)
        # Replay: after a survey of an earlier version, the next one never came sooner.
        is_partial = seen.found.unread is not None and bool(self.unread() or self.state.missed)
        self.partial = before + 1 if is_partial else 0
        if seen.is_outdated and not missed:
            self.survey_anew()

    async def look(self, asked: Survey, *, summary: str) -> _Seen | None:
        """Survey nodes, and update the answer by the nodes' reports since then; None if it failed.

        The newest survey of all nodes is kept, whether or not it was made for placement. A pod that waits for a node
        that the survey does not name is given up.
        """
        self.surveys += 1
        number, reports = self.surveys, self.reports.setdefault(self.surveys, [])
        found = await self.call(SURVEY_NODES, asked, Surveyed, summary=summary)
        del self.reports[number]
        if found is None:
            return None
        if found.unseen is None:
            if not asked.nodes and not asked.pods:
                self.nodes, self.is_whole = found.nodes, False
            return _Seen(found, found.nodes, reports)
        nodes = found.nodes
        for news in reports:
            nodes = workload_news.as_reported(nodes, news)
        if number > self.newest and not asked.nodes:
            self.newest, self.is_whole = number, True
            earlier, self.nodes = self.nodes or (), nodes
            left = {news.node for news in reports if news.removed}
            self.failed = frozenset(found.unread) - left if found.unread is not None else None
            unread = self.unread()
            kept = [node for node in earlier if node.name in unread]
            self.nodes = tuple(sorted([*nodes, *kept], key=lambda node: node.name)) if kept else nodes
            self.partial = self.partial or int(bool(unread))
            names = {*(node.name for node in nodes), *found.unseen}
            workload_news.give_up_unplaced(self.state, lambda node: node not in names, workflow.now())
        return _Seen(found, nodes, reports)

    async def place(self, names: Sequence[str], *, is_retry: bool) -> None:
        """Choose nodes for pods, and send each node its pods.

        With `is_retry`, the pause before the next retry of all pods begins now.
        """
        state = self.state
        asked = Survey(owner=self.owner, pods=workload_placement.samples(state, names))
        seen = await self.look(asked, summary=f"nodes for {len(names)} pods")
        self.tried_at = workflow.now()
        if is_retry or self.retry_at is None:
            self.retry_at = self.tried_at + self.retry_pause
            self.retry_pause = min(self.retry_pause * 2, _LONGEST_PAUSE)
        if seen is None:
            return
        # Replay: this check comes after the await, since pods may have been withdrawn meanwhile. Nothing is awaited
        # until all choices are recorded. A node that has not answered yet gets no more pods: the pods that it was sent
        # last are in no survey.
        silent = [node.name for node in seen.nodes if f"place {node.name}" in self.busy]
        nodes = [node for node in seen.nodes if node.name not in silent]
        self.tried.update(names)
        names = [name for name in names if workload_placement.may_be_placed(state, name, silent)]
        silence = f"; no answer yet from {', '.join(silent)}" if silent else ""
        by_node: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        chosen = workload_placement.placements(state, names, nodes, self.owner, self.tried_at)
        for name, (pod, placement) in chosen.items():
            trouble = placement.summary + silence
            state.refusals = () if placement.node else tuple(map(str, placement.nodes[:_SHOWN]))
            if placement.node:
                # Recorded before the request is sent: the pod may be there even if the answer is lost.
                state.pods[name].node, state.pods[name].trouble = placement.node, ""
                self.tried.discard(name)
                by_node.setdefault(placement.node, []).append((name, pod_to_wire(pod)))
                continue
            self.tried |= workload_placement.like(state, name)
            if state.pods[name].trouble != trouble:
                state.pods[name].trouble = trouble
                state.event(workflow.now(), "Warning", "FailedScheduling", f"{name}: {trouble}")
        # Replay: nodes are sorted, so that the requests have the same order each time. Pods are added to `asked` before
        # anything is awaited: if a withdrawal overtook its request, the node would ignore the withdrawal.
        for node, pods in sorted(by_node.items()):
            self.asked.update(name for name, _ in pods)
            self.busy.begin(f"place {node}", self.place_on(node, pods, tuple(chosen)))

    async def place_on(self, node: str, pods: Sequence[tuple[str, dict[str, Any]]], chosen: Sequence[str]) -> None:
        """Send a node pods to run. `chosen` are all pods for which nodes were chosen together.

        If all of these get placed, the next pods are placed at once, otherwise after a pause. So a node that does not
        answer delays the pods of other nodes no longer than this pause.
        """
        asked = PlacePods(node=node, owner=self.owner, pods=tuple(document for _, document in pods))
        names = [name for name, _ in pods]
        answer = await self.call(PLACE_PODS, asked, PodsPlaced, summary=f"{', '.join(names)} on {node}")
        self.asked.difference_update(names)
        why = "its answer cannot be read" if answer is None else answer.refused
        if not why:
            self.state.event(workflow.now(), "Normal", "Placed", f"{', '.join(names)} on {node}")
            are_placed = all(self.state.pods[name].node for name in chosen if name in self.state.pods)
            is_done = not self.tried.intersection(self.state.pods) and not self.asked.intersection(chosen)
            if are_placed and is_done:
                self.retry_at, self.retry_pause = None, _PLACED_AGAIN
            return
        self.tried.update(names)
        for name in names:
            if (pod := self.state.pods.get(name)) is not None:
                pod.node, pod.trouble = "", why
        self.state.event(workflow.now(), "Warning", "FailedPlacement", f"{', '.join(names)} on {node}: {why}")

    async def send_change(self, names: Sequence[str]) -> None:
        """Send the newest document of a single Pod to its nodes, which change it in place."""
        state, asked = self.state, self.state.asked_for()
        for name in names:
            if name not in state.pods:
                continue  # removed while another copy was being changed
            pod = pod_to_wire(workload_placement.pod_to_run(state, name))
            node, called = state.pods[name].node, state.pod_name(name)
            request = PlacePods(node=node, owner=self.owner, pods=(pod,))
            answer = await self.call(PLACE_PODS, request, PodsPlaced, summary=f"change {called} on {node}")
            if answer is not None and answer.refused:
                text = f"{called} on {node} cannot be changed: {answer.refused}"
                state.event(workflow.now(), "Warning", "FailedPlacement", text)
                await workflow.sleep(_PLACED_AGAIN, summary=f"before {node} is sent the change again")
            elif answer is not None and name in state.pods:
                state.pods[name].revision = asked

    async def prove(self, node: str, names: Sequence[str]) -> None:
        """Send a node's workflow the documents that the workload itself would make for pods adopted there."""
        state = self.state
        pods = tuple(pod_to_wire(workload_placement.pod_to_run(state, name)) for name in names)
        asked = PlacePods(node=node, owner=self.owner, pods=pods, adopted=True)
        called = ", ".join(state.pod_name(name) for name in names)
        answer = await self.call(PLACE_PODS, asked, PodsPlaced, summary=f"{called}, adopted on {node}")
        if answer is not None:
            workload_placement.proof_sent(state, names)

    async def withdraw(self, node: str, keys: tuple[PodKey, ...]) -> None:
        """Order a node to end pods, and forget those that it does not have."""
        pods = self.state.pods
        names = {key.name: name for key in keys if (name := self.state.on_node(key.name, node)) is not None}
        asked = WithdrawPods(node=node, pods=keys, reason=pods[names[keys[0].name]].why)
        summary = f"withdraw {', '.join(key.name for key in keys)} from {node}"
        answer = await self.call(WITHDRAW_PODS, asked, PodsWithdrawn, summary=summary)
        if answer is None:
            return
        ending = {key.name for key in answer.ending}
        for called, name in names.items():
            if called in ending and name in pods:
                pods[name].is_told = True
            else:
                pods.pop(name, None)

    async def call(self, name: str, asked: Message, answer: type[Answer], *, summary: str) -> Answer | None:
        """Run a step on the fleet's worker and return its answer; None if it failed, after a pause."""
        try:
            returned: RawValue = await workflow.execute_activity(
                name,
                asked,
                start_to_close_timeout=_ANSWER,
                retry_policy=_RETRY,
                summary=summary,
                result_type=RawValue,  # a result that cannot be decoded must not fail the workflow task
            )
            return answer.model_validate(decoded(returned))
        except (ActivityError, ValueError) as error:
            self.state.event(workflow.now(), "Warning", "FailedStep", f"{name}: {error}")
            await workflow.sleep(_PLACED_AGAIN, summary=f"before {name} is tried again")
            return None
