"""WorkloadWorkflow: one durable run per workload of a fleet, on the fleet's cluster.

::

    apply, delete ──► document ─┐
    pods_changed ──► its pods ──┼─► decide ──► pods to create ──► survey_nodes ──► place ──► place_pods ──► FleetNode
    one timer ──────────────────┘        └───► pods to remove ──► withdraw_pods ──► FleetNode

The workflow chooses a node for each pod from what the survey found. A node that has changed since then refuses, and the
pod is placed anew. :mod:`syncpod.fleet.rollout`, :mod:`syncpod.fleet.daemons` and :mod:`syncpod.fleet.lone_pods` decide
what happens next.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from syncpod.fleet.offers import NodeOffer
    from syncpod.fleet.rollout import WorkloadDecision
    from syncpod.lifecycle.version import too_old
    from syncpod.messages.fleet import PodsChanged
    from syncpod.messages.identity import Message
    from syncpod.messages.node import PodKey
    from syncpod.messages.signed import Commands
    from syncpod.messages.workload import (
        PLACE_PODS,
        SURVEY_NODES,
        WITHDRAW_PODS,
        WORKLOAD_MEMO,
        WORKLOAD_WORKFLOW,
        Pause,
        PlacePods,
        PodsPlaced,
        PodsWithdrawn,
        RolloutRestart,
        Survey,
        Surveyed,
        Undo,
        Undone,
        WithdrawPods,
        WorkloadSummary,
    )
    from syncpod.pod import pod_to_wire
    from workflows.entity import Entity, decisions_taken, decoded, invalid
    from workflows.fleet import workload_changes, workload_report
    from workflows.fleet.inbox import FleetInbox
    from workflows.fleet.under_way import UnderWay
    from workflows.fleet.workload_state import WorkloadState
    from workflows.rejections import Rejected, sentence

_PART: Final = 256
_ANSWER: Final = timedelta(seconds=60)
_RETRY: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=30)
)
_PLACED_AGAIN: Final = timedelta(seconds=10)
"""The first pause before a pod that fits no node is tried again, and the pause after a failed question."""
_LONGEST_PAUSE: Final = timedelta(seconds=60)
_SHOWN: Final = 200
"""The most nodes whose refusals are kept for a pod that fits no node."""
_DECISIONS: Final = 8
"""The most decisions in one workflow task."""
_SURVEYED_AGAIN: Final = timedelta(seconds=60)
"""How often the nodes are surveyed for a DaemonSet, and those for a workload that have not said yet what they have."""

Answer = TypeVar("Answer", bound=Message)


@workflow.defn(name=WORKLOAD_WORKFLOW)
class WorkloadWorkflow:
    """A Deployment, a DaemonSet or a single Pod, until it is deleted and its last pod is gone."""

    @workflow.init
    def __init__(self, start_input: Any = None) -> None:
        self.commands, decisions = Commands(start_input), decisions_taken()
        self.state, self.refusal = _begun(self.commands.input, decisions)
        self.entity = Entity(self, self.state, FleetInbox(), self.commands, part=_PART)
        self.busy = UnderWay(self.entity.wake)
        self.nodes: tuple[NodeOffer, ...] | None = None
        """The nodes of this run's last survey; None = there was none yet."""
        self.asked: set[str] = set()
        """Pods that a node is being asked to run right now."""
        self.heard: list[PodsChanged] = []
        """What nodes that are being surveyed have reported since then, oldest first."""
        self.retry_at: datetime | None = None
        self.retry_pause = _PLACED_AGAIN
        self.surveyed_at: datetime | None = None
        self.decided: WorkloadDecision | None = None
        self.published: WorkloadSummary | None = None
        self.owner = workflow.info().workflow_id

    @workflow.run
    async def run(self, _start_input: Any = None) -> None:
        """Keep the workload as its document says, until it is deleted."""
        if self.refusal:
            raise invalid(self.refusal)
        while True:
            await self.entity.take_in()
            # Replay: nothing is awaited from here to the wait, or a change that came in between would wait for the
            # alarm.
            due = self.entity.is_due()
            self.decide()
            if not due:
                self.begin_all()
            self.publish()
            if workload_changes.is_over(self.state) and not self.busy and workflow.all_handlers_finished():
                return
            if due and self.entity.is_quiet():
                if await self.entity.is_still_quiet_in_the_next_task():
                    # Replay: nothing is awaited between that check and this, or an update could be lost.
                    # The memo too, so that the newest key encrypts it: one that is carried over stays as it is.
                    memo = _memo(workload_report.summary(self.state, self.decided))
                    workflow.continue_as_new(next_input(self.state), memo=memo)
                continue
            self.entity.alarm.set(self.next_alarm(), "until the next time something is due")
            await self.entity.wait(lambda due=due: due and self.entity.is_quiet())  # type: ignore[misc]

    # --- deciding -----------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        """Decide which pods to create and which to remove, as long as one decision leads to another."""
        state, now = self.state, workflow.now()
        if state.deleting:
            workload_changes.withdraw_all(state)  # each time: pods that a survey finds only now are removed too
            return
        for _ in range(_DECISIONS):
            self.decided = decided = workload_changes.decision(state, self.nodes, now)
            workload_changes.carry_out(state, decided, now)
            if not (decided.create or decided.withdraw or decided.rolled_back or decided.became_good):
                break
        state.forget_templates(workload_changes.asked_for(state))

    def next_alarm(self) -> datetime | None:
        """Return when the alarm must ring; None = never."""
        moments = [self.decided.look_again] if self.decided is not None else []
        if self.retry_at is not None and "place" not in self.busy and workload_changes.unplaced(self.state):
            moments.append(self.retry_at)
        if self.needs_surveys() and self.surveyed_at is not None and "survey" not in self.busy:
            moments.append(self.surveyed_at + _SURVEYED_AGAIN)
        return min((moment for moment in moments if moment is not None), default=None)

    def needs_surveys(self) -> bool:
        """Say whether the nodes must be surveyed at times: for a DaemonSet, and until each has said what it has."""
        return self.is_daemon_set() or not self.state.is_known or bool(self.state.missed)

    def is_daemon_set(self) -> bool:
        """Say whether the workload is a DaemonSet, which has to know every node."""
        return self.state.document is not None and self.state.document.get("kind") == "DaemonSet"

    # --- asking nodes -------------------------------------------------------------------------------------------------

    def begin_all(self) -> None:
        """Begin all questions to nodes that are due."""
        now = workflow.now()
        names = workload_changes.unplaced(self.state)
        if names and "place" not in self.busy and (self.retry_at is None or now >= self.retry_at):
            self.busy.begin("place", self.place(names))
        is_survey_due = self.surveyed_at is None or now >= self.surveyed_at + _SURVEYED_AGAIN
        changed = [name for name in workload_changes.outdated(self.state) if name not in self.asked]
        if changed and "change" not in self.busy:
            self.busy.begin("change", self.send_change(changed))
        is_needless = self.state.deleting and self.state.is_known and not self.state.missed
        needs_surveys = self.state.document is not None and self.needs_surveys()
        if needs_surveys and is_survey_due and "survey" not in self.busy and not is_needless:
            self.busy.begin("survey", self.survey())
        for node, names in workload_changes.to_prove(self.state).items():
            if f"prove {node}" not in self.busy:
                self.busy.begin(f"prove {node}", self.prove(node, names))
        for node, keys in workload_changes.to_withdraw(self.state, self.asked).items():
            if f"withdraw {node}" not in self.busy:
                self.busy.begin(f"withdraw {node}", self.withdraw(node, keys))

    async def survey(self) -> None:
        """Learn which nodes there are, and which pods of this workload they already have."""
        missed = () if self.is_daemon_set() or not self.state.is_known else self.state.missed
        asked = Survey(owner=self.owner, nodes=missed)
        self.heard.clear()
        found = await self.call(SURVEY_NODES, asked, Surveyed, summary="which nodes are there?")
        # Replay: this is the time of the task that has the answer; the next survey is timed from it.
        self.surveyed_at = workflow.now()
        if found is None:
            return
        if not missed:
            self.nodes = found.nodes
        workload_changes.surveyed(self.state, found, self.surveyed_at, self.heard)
        self.heard.clear()

    async def place(self, names: Sequence[str]) -> None:
        """Choose nodes for pods, and ask the nodes to run them."""
        state = self.state
        asked = Survey(owner=self.owner, pods=workload_changes.samples(state))
        found = await self.call(SURVEY_NODES, asked, Surveyed, summary=f"nodes for {len(names)} pods")
        self.retry_at = workflow.now() + self.retry_pause
        self.retry_pause = min(self.retry_pause * 2, _LONGEST_PAUSE)
        if found is None:
            return
        # Replay: checked after the await, since pods may have been withdrawn meanwhile. No await until all are noted.
        # A node that has not answered yet gets no more pods: what it was sent last is in no survey.
        silent = [node.name for node in found.nodes if f"place {node.name}" in self.busy]
        nodes = [node for node in found.nodes if node.name not in silent]
        names = [name for name in names if workload_changes.may_be_placed(state, name, silent)]
        unheard = f"; no answer yet from {', '.join(silent)}" if silent else ""
        by_node: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for name, (pod, placement) in workload_changes.placements(state, names, nodes, self.owner).items():
            trouble = placement.summary + unheard
            state.refusals = () if placement.node else tuple(map(str, placement.nodes[:_SHOWN]))
            if placement.node:
                # Noted before the node is asked: the pod may be there even if the answer is lost.
                state.pods[name].node, state.pods[name].trouble = placement.node, ""
                by_node.setdefault(placement.node, []).append((name, pod_to_wire(pod)))
            elif state.pods[name].trouble != trouble:
                state.pods[name].trouble = trouble
                state.event(workflow.now(), "Warning", "FailedScheduling", f"{name}: {trouble}")
        # Replay: nodes are sorted, so that they are asked in the same order each time. Pods are noted as asked for
        # before anything is awaited: if a withdrawal overtook its request, the node would ignore the withdrawal.
        for node, pods in sorted(by_node.items()):
            self.asked.update(name for name, _ in pods)
            self.busy.begin(f"place {node}", self.place_on(node, pods, names))

    async def place_on(self, node: str, pods: Sequence[tuple[str, dict[str, Any]]], chosen: Sequence[str]) -> None:
        """Ask a node to run pods. `chosen` are all pods for which nodes were chosen together.

        The next pods are placed at once if all these are, and otherwise after a pause: a node that does not answer
        holds up no other for longer than that.
        """
        asked = PlacePods(node=node, owner=self.owner, pods=tuple(document for _, document in pods))
        names = [name for name, _ in pods]
        answer = await self.call(PLACE_PODS, asked, PodsPlaced, summary=f"{', '.join(names)} on {node}")
        self.asked.difference_update(names)
        why = "its answer cannot be read" if answer is None else answer.refused
        if not why:
            self.state.event(workflow.now(), "Normal", "Placed", f"{', '.join(names)} on {node}")
            if all(self.state.pods[name].node for name in chosen if name in self.state.pods) and not (
                self.asked.intersection(chosen)
            ):
                self.retry_at, self.retry_pause = None, _PLACED_AGAIN
            return
        for name in names:
            if (pod := self.state.pods.get(name)) is not None:
                pod.node, pod.trouble = "", why
        self.state.event(workflow.now(), "Warning", "FailedPlacement", f"{', '.join(names)} on {node}: {why}")

    async def send_change(self, names: Sequence[str]) -> None:
        """Send the newest document of a single Pod to its nodes, which change it in place."""
        state, asked = self.state, workload_changes.asked_for(self.state)
        for name in names:
            if name not in state.pods:
                continue  # it went while another copy was being changed
            pod = pod_to_wire(workload_changes.pod_to_run(state, name))
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
        """Tell a node's workflow how the workload itself would make pods that it has adopted there."""
        state = self.state
        pods = tuple(pod_to_wire(workload_changes.pod_to_run(state, name)) for name in names)
        asked = PlacePods(node=node, owner=self.owner, pods=pods, adopted=True)
        called = ", ".join(state.pod_name(name) for name in names)
        answer = await self.call(PLACE_PODS, asked, PodsPlaced, summary=f"{called}, adopted on {node}")
        if answer is not None:
            workload_changes.proof_sent(state, names)

    async def withdraw(self, node: str, keys: tuple[PodKey, ...]) -> None:
        """Ask a node to end pods, and forget those that it does not have."""
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
        """Have the fleet's worker do something; None if that failed, after a pause."""
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

    # --- telling ------------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Write the memo that lists show, and the workload's page in the UI."""
        summary = workload_report.summary(self.state, self.decided)
        if summary != self.published:
            workflow.upsert_memo(_memo(summary))
            self.published = summary
        workflow.set_current_details(workload_report.details(self.state, self.decided))

    # --- what the entity asks of its workflow -------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Handle `pods_changed`, and show any other or invalid signal as a rejection."""
        if name != "pods_changed":
            self.state.reject(workflow.now(), f"signal {name}", "unknown; known: pods_changed, renew")
            return
        try:
            news = PodsChanged.model_validate(args[0] if len(args) == 1 else None)
        except ValueError as wrong:
            self.state.reject(workflow.now(), f"signal {name}", sentence(wrong))
            return
        workload_changes.pods_reported(self.state, news, workflow.now())
        if "survey" in self.busy and (not self.state.is_known or news.node in self.state.missed):
            self.heard.append(news)
        if self.retry_at is not None and news.gone:  # there may be room now
            self.retry_at = min(self.retry_at, workflow.now() + timedelta(seconds=1))
        if self.nodes is not None:
            self.nodes = workload_changes.with_cordon(self.nodes, news)
            if workload_changes.is_outdated(self.nodes, news):
                self.surveyed_at = None

    def on_cancel(self) -> None:
        """Go on, and show that a cancellation was not obeyed."""
        self.state.reject(workflow.now(), "cancel", "to end the workload, send the update `delete`")

    def refuse(self, name: str, why: str) -> None:
        """Show that a signal was not accepted, and why."""
        self.state.reject(workflow.now(), f"signal {name}", why)

    def is_at_rest(self) -> bool:
        """Say whether the workflow is waiting for no answer."""
        return not self.busy

    def sentence(self, wrong: Exception) -> str:
        """Return one sentence that says why an update is refused."""
        return sentence(wrong)

    # --- signals, updates, queries ------------------------------------------------------------------------------------

    @workflow.signal
    def pods_changed(self, *args: Any) -> None:
        """Take a node's report of pods (:class:`syncpod.messages.fleet.PodsChanged`)."""
        self.entity.put("pods_changed", args)

    @workflow.signal
    def renew(self, *args: Any) -> None:
        """Continue as new at the next quiet point."""
        if self.entity.is_accepted("renew", args):
            self.entity.renew()

    @workflow.signal(dynamic=True)
    def unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        self.entity.put(name, args)

    @workflow.update
    async def apply(self, *args: Any) -> dict[str, Any]:
        """Adopt the document of an apps/v1 Deployment or DaemonSet, or of a v1 Pod."""
        given = self.entity.obey("apply", args)
        warnings: list[str] = []

        def change() -> None:
            warnings.extend(workload_changes.apply(self.state, self.owner, _only(given), workflow.now()))

        await self.entity.change(change)
        return {"warnings": warnings}

    @apply.validator
    def check_apply(self, *args: Any) -> None:
        """Refuse a document that is invalid, or of another workload."""
        if self.refusal:
            raise invalid(self.refusal)
        given = self.entity.allow("apply", args)
        copy = self.state.model_copy(deep=True)
        self.entity.attempt(lambda: _ignored(workload_changes.apply(copy, self.owner, _only(given), workflow.now())))

    @workflow.update
    async def undo(self, *args: Any) -> dict[str, Any]:
        """Apply an earlier template again: ``{"toRevision": 3}``."""
        given = self.entity.obey("undo", args)
        done: list[Undone] = []

        def change() -> None:
            done.append(workload_changes.undo(self.state, self.owner, _given(Undo, given), workflow.now()))

        await self.entity.change(change)
        return done[0].model_dump(mode="json", by_alias=True)

    @undo.validator
    def check_undo(self, *args: Any) -> None:
        """Refuse an undo that is not possible."""
        if self.refusal:
            raise invalid(self.refusal)
        given = self.entity.allow("undo", args)
        copy = self.state.model_copy(deep=True)
        self.entity.attempt(
            lambda: _ignored(workload_changes.undo(copy, self.owner, _given(Undo, given), workflow.now()))
        )

    @workflow.update
    async def restart(self, *args: Any) -> dict[str, Any]:
        """Replace all pods, as in a rollout: ``{"at": "2026-01-31T12:00:00Z"}``."""
        given = self.entity.obey("restart", args)
        await self.entity.change(
            lambda: workload_changes.restart(self.state, self.owner, _given(RolloutRestart, given), workflow.now())
        )
        return {}

    @restart.validator
    def check_restart(self, *args: Any) -> None:
        """Refuse a restart that is not possible."""
        if self.refusal:
            raise invalid(self.refusal)
        given, copy = self.entity.allow("restart", args), self.state.model_copy(deep=True)
        self.entity.attempt(
            lambda: workload_changes.restart(copy, self.owner, _given(RolloutRestart, given), workflow.now())
        )

    @workflow.update
    async def pause(self, *args: Any) -> dict[str, Any]:
        """Pause rollouts, or resume them: ``{"paused": false}``."""
        given = self.entity.obey("pause", args)
        await self.entity.change(lambda: workload_changes.pause(self.state, _given(Pause, given), workflow.now()))
        return {}

    @pause.validator
    def check_pause(self, *args: Any) -> None:
        """Refuse what is no Deployment."""
        if self.refusal:
            raise invalid(self.refusal)
        given, copy = self.entity.allow("pause", args), self.state.model_copy(deep=True)
        self.entity.attempt(lambda: workload_changes.pause(copy, _given(Pause, given), workflow.now()))

    @workflow.update
    async def delete(self, *args: Any) -> dict[str, Any]:
        """Remove all pods, and then end this workflow."""
        self.entity.obey("delete", args)

        def change() -> None:
            workload_changes.delete(self.state, workflow.now())
            if self.state.missed:
                self.surveyed_at = None  # it ends only when these have answered, so they are asked at once

        await self.entity.change(change)
        return {"pods": len(self.state.pods)}

    @delete.validator
    def check_delete(self, *args: Any) -> None:
        """Refuse whoever may not command the fleet."""
        if self.refusal:
            raise invalid(self.refusal)
        self.entity.allow("delete", args)

    @workflow.query
    def workload(self) -> dict[str, Any]:
        """Return the whole workload (:class:`syncpod.messages.workload.WorkloadView`)."""
        return workload_report.view(self.state, self.decided).model_dump(mode="json", by_alias=True)

    @workflow.query
    def template(self, revision: str = "") -> dict[str, Any] | None:
        """Return the template with this revision; None if it is not remembered."""
        return self.state.templates.get(revision)


def next_input(state: WorkloadState) -> dict[str, Any]:
    """Return the input of the run that follows this one."""
    return {"snapshot": state.model_dump(mode="json", exclude_defaults=True), "decisions": state.decision_version}


def _begun(start: Any, decisions: int) -> tuple[WorkloadState, str]:
    """Return the state that a run begins with, and "" or the sentence that says why it cannot begin."""
    if refusal := too_old(decisions):
        return WorkloadState(), refusal
    given = start if isinstance(start, dict) else {}
    limit = given.get("maxEvents", 0)
    state = WorkloadState(max_events=limit if isinstance(limit, int) else 0)
    if "snapshot" in given:
        try:
            state = WorkloadState.model_validate(given["snapshot"])
        except ValueError as wrong:
            return WorkloadState(), f"snapshot: {wrong}"
    state.decision_version = decisions
    return state, ""


def _memo(summary: WorkloadSummary) -> dict[str, Any]:
    return {WORKLOAD_MEMO: summary.model_dump(mode="json", by_alias=True)}


def _only(given: tuple[Any, ...]) -> Any:
    """Return the one payload of an update. Raises Rejected."""
    if len(given) != 1:
        raise Rejected(f"takes one object, got {len(given)} payloads")
    return given[0]


def _given(kind: type[Answer], given: tuple[Any, ...]) -> Answer:
    """Return the payload of an update. Raises ValidationError, Rejected."""
    return kind.model_validate(_only(given), extra="forbid")


def _ignored(_value: object) -> None:
    """Discard a result, so that a lambda returns None."""
