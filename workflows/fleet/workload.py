"""WorkloadWorkflow: one durable run per workload of a fleet, on the fleet's cluster.

::

    apply, delete ──► document ─┐
    pods_changed ──► its pods ──┼─► decide ──► pods to create ──► survey_nodes ──► place ──► place_pods ──► FleetNode
    one timer ──────────────────┘        └───► pods to remove ──► withdraw_pods ──► FleetNode

The workflow chooses a node for each pod from those that the survey found. A node that has changed since then refuses
the pod, which is then placed anew. :mod:`syncpod.fleet.rollout`, :mod:`syncpod.fleet.daemons` and
:mod:`syncpod.fleet.bare_pods` decide what happens next.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from syncpod.fleet.rollout import WorkloadDecision
    from syncpod.lifecycle.version import too_old
    from syncpod.messages.command_table import Copies, SignalSpec, UpdateSpec
    from syncpod.messages.fleet import PodsChanged
    from syncpod.messages.fleet_commands import DELETE, PODS_CHANGED, ROOM, TEMPLATE, WORKLOAD, WORKLOAD_COMMANDS
    from syncpod.messages.signed import Received, microseconds, plain
    from syncpod.messages.workload import (
        WORKLOAD_MEMO,
        WORKLOAD_WORKFLOW,
        Room,
        WorkloadSummary,
    )
    from workflows.effects import Effect, effects
    from workflows.entity import Entity, SignalQueue, decisions_taken, invalid, next_input
    from workflows.fleet import workload_news, workload_report, workload_rollout, workload_updates
    from workflows.fleet.open_requests import OpenRequests
    from workflows.fleet.signed import fleet_commands, require_its_history
    from workflows.fleet.workload_requests import WorkloadRequests
    from workflows.fleet.workload_state import WorkloadState
    from workflows.handlers import UNKNOWN, query_handler, takes, unknown_signal
    from workflows.rejections import Rejected, sentence

_PART: Final = 256
_DECISIONS: Final = 8
"""The most decisions in one workflow task."""


@workflow.defn(name=WORKLOAD_WORKFLOW)
@takes(WORKLOAD_COMMANDS)
class WorkloadWorkflow:
    """A Deployment, a DaemonSet or a single Pod, until it is deleted and its last pod is gone."""

    @workflow.init
    def __init__(self, *inputs: Any) -> None:
        self.commands, decisions = fleet_commands(inputs), decisions_taken()
        self.state, refusal = _begun(self.commands.input, decisions)
        self.refusal = self.commands.refusal or refusal
        self.state.accepted = self.commands.accepted_before(self.state.accepted)
        if not self.state.heard_from:
            self.state.heard_from = microseconds(workflow.info().workflow_start_time)
        self.entity = Entity(self, self.state, SignalQueue(), self.commands, part=_PART)
        self.busy = OpenRequests(self.entity.wake)
        self.owner = workflow.info().workflow_id
        self.requests = WorkloadRequests(self.state, self.owner, self.busy)
        self.signals = effects(Effect(PODS_CHANGED, self.pods_changed), Effect(ROOM, self.room))
        self.updates = workload_updates.updates_of(self.owner)
        self.decided: WorkloadDecision | None = None
        self.noted: WorkloadSummary | None = None
        """The `noted` summary at the last write of the memo; None = not written yet."""

    @workflow.run
    async def run(self, *_inputs: Any) -> None:
        """Keep the workload as its document says, until it is deleted."""
        require_its_history(self.commands)
        if self.refusal:
            raise invalid(self.refusal)
        while True:
            await self.entity.take_in()
            # Replay: nothing is awaited from here to the wait, or a change that came in between would wait for the
            # alarm.
            due = self.entity.is_due()
            self.decide()
            if not due:
                self.requests.begin_all()
            self.publish()
            if workload_rollout.is_over(self.state) and not self.busy and workflow.all_handlers_finished():
                return
            if due and self.entity.is_quiet():
                if await self.entity.is_still_quiet_in_the_next_task():
                    # Replay: nothing is awaited between the check above and this call, or an update could be lost. The
                    # memo is sent again, so that the newest key encrypts it: a memo that is carried over keeps the old
                    # key.
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
            workload_rollout.withdraw_all(state)  # each time: pods that a survey finds only now are removed too
            return
        for _ in range(_DECISIONS):
            self.decided = decided = workload_rollout.decision(state, self.requests.nodes, now, self.requests.unread())
            workload_rollout.carry_out(state, decided, now)
            if not (decided.create or decided.withdraw or decided.rolled_back or decided.became_good):
                break
        state.forget_templates(state.asked_for())

    def next_alarm(self) -> datetime | None:
        """Return when the alarm must ring; None = never."""
        moments = [self.requests.next_due(), self.decided.look_again if self.decided is not None else None]
        return min((moment for moment in moments if moment is not None), default=None)

    # --- memo and page ------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Write the memo that lists show, and the workload's page in the UI."""
        noted = workload_report.noted(self.state, self.decided)
        if noted != self.noted:
            workflow.upsert_memo(_memo(workload_report.summary(self.state, self.decided)))
            self.noted = noted
        self.show()

    def show(self) -> None:
        """Show the workload in the UI; costs no history."""
        workflow.set_current_details(workload_report.details(self.state, self.decided, self.requests.asked))

    # --- called by the entity -----------------------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Fold one signal into the state, or show it as a rejection."""
        try:
            self.signals[name](self.state, args, workflow.now())
        except (Rejected, ValueError) as wrong:
            self.state.reject(workflow.now(), f"signal {name}", sentence(wrong))

    def pods_changed(self, state: WorkloadState, news: PodsChanged, now: datetime) -> None:
        """Take a node's report of pods."""
        workload_news.pods_reported(state, news, now)
        self.requests.take_report(news)

    def room(self, _state: WorkloadState, _room: Room, _now: datetime) -> None:
        """Take the signal that a node takes new pods again."""
        self.requests.room()

    def on_cancel(self) -> None:
        """Go on, and show that the cancellation is refused."""
        self.state.reject(workflow.now(), "cancel", "to end the workload, send the update `delete`")
        self.show()  # this refusal does not wake the loop, which would show it otherwise

    def refuse(self, name: str, why: str) -> None:
        """Show that a signal was not accepted, and why."""
        self.state.reject(workflow.now(), f"signal {name}", why)

    def is_at_rest(self) -> bool:
        """Say whether the workflow awaits no answer."""
        return not self.busy

    # --- signals, updates, queries ------------------------------------------------------------------------------------

    def receive(self, signal: SignalSpec[Any], args: Sequence[Any]) -> None:
        """Collect a signal; never awaits or raises. A copy of a node's message is known by its number, and refused."""
        signed = [each for each in args if isinstance(each, Received)]
        if signal.copies is Copies.JUDGED and not all(workload_news.is_news(self.state, each) for each in signed):
            purpose = f"signal/{signal.name}"
            why = self.commands.refusal_of(purpose, args)
            why = why or self.commands.refused(purpose, "it is a copy of an earlier message of the node")
            self.entity.refuse(signal.name, why)
        else:
            self.entity.receive(signal, args)

    @workflow.signal(dynamic=True, description=UNKNOWN)
    def receive_unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        self.entity.refuse(name, unknown_signal(WORKLOAD_COMMANDS, name, len(args)))

    async def change(self, update: UpdateSpec[Any], args: Sequence[Any]) -> dict[str, Any]:
        """Carry out an accepted update. An earlier update may have made this one impossible."""
        given, answer = self.entity.obey(update, args), dict[str, Any]()

        def change() -> None:
            answer.update(self.updates[update.name](self.state, given, workflow.now()))

        await self.entity.change(change)
        if update.name == DELETE.name and self.state.missed:
            self.requests.survey_anew()  # the workload ends only when the missed nodes have answered
        return answer

    def check(self, update: UpdateSpec[Any], args: Sequence[Any]) -> None:
        """Try an update on a copy of the state, so that a wrong one is refused before anything is written."""
        if self.refusal:
            raise invalid(self.refusal)
        given, copy = self.entity.allow(update, args), self.state.model_copy(deep=True)
        self.entity.attempt(lambda: self.updates[update.name](copy, given, workflow.now()))

    @query_handler(WORKLOAD)
    def workload(self) -> dict[str, Any]:
        """Return the whole workload (:class:`syncpod.messages.workload.WorkloadView`)."""
        whole = workload_report.view(self.state, self.decided, self.requests.asked)
        return whole.model_dump(mode="json", by_alias=True)

    @query_handler(TEMPLATE)
    def template(self, revision: str = "") -> dict[str, Any] | None:
        """Return the template with this revision; None if it is no longer kept."""
        return self.state.templates.get(plain(revision))


def _begun(start: Any, decisions: int) -> tuple[WorkloadState, str]:
    """Return the state that a run begins with, and why the run cannot begin; "" if it can."""
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
