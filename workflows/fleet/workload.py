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
from datetime import datetime
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from syncpod.fleet.rollout import WorkloadDecision
    from syncpod.lifecycle.version import too_old
    from syncpod.messages.fleet import PodsChanged
    from syncpod.messages.identity import Message
    from syncpod.messages.signed import Received, microseconds, plain
    from syncpod.messages.workload import (
        WORKLOAD_MEMO,
        WORKLOAD_WORKFLOW,
        Pause,
        RolloutRestart,
        Room,
        Undo,
        Undone,
        WorkloadSummary,
    )
    from workflows.described import NOTHING, takes
    from workflows.entity import Entity, decisions_taken, invalid
    from workflows.fleet import workload_changes, workload_report
    from workflows.fleet.inbox import FleetInbox
    from workflows.fleet.signed import fleet_commands, require_its_history
    from workflows.fleet.under_way import UnderWay
    from workflows.fleet.workload_questions import WorkloadQuestions
    from workflows.fleet.workload_state import WorkloadState
    from workflows.rejections import Rejected, sentence

_PART: Final = 256
_DECISIONS: Final = 8
"""The most decisions in one workflow task."""

Given = TypeVar("Given", bound=Message)


@workflow.defn(name=WORKLOAD_WORKFLOW)
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
        self.entity = Entity(self, self.state, FleetInbox(), self.commands, part=_PART)
        self.busy = UnderWay(self.entity.wake)
        self.owner = workflow.info().workflow_id
        self.questions = WorkloadQuestions(self.state, self.owner, self.busy)
        self.decided: WorkloadDecision | None = None
        self.published: WorkloadSummary | None = None

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
                self.questions.begin_all()
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
            self.decided = decided = workload_changes.decision(state, self.questions.nodes, now)
            workload_changes.carry_out(state, decided, now)
            if not (decided.create or decided.withdraw or decided.rolled_back or decided.became_good):
                break
        state.forget_templates(workload_changes.asked_for(state))

    def next_alarm(self) -> datetime | None:
        """Return when the alarm must ring; None = never."""
        moments = [self.questions.next_due(), self.decided.look_again if self.decided is not None else None]
        return min((moment for moment in moments if moment is not None), default=None)

    # --- telling ------------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Write the memo that lists show, and the workload's page in the UI."""
        summary = workload_report.summary(self.state, self.decided)
        if summary != self.published:
            workflow.upsert_memo(_memo(summary))
            self.published = summary
        workflow.set_current_details(workload_report.details(self.state, self.decided, self.questions.asked))

    # --- what the entity asks of its workflow -------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Handle `pods_changed`, and show any other or invalid signal as a rejection."""
        if name == "room":
            self.questions.room()
            return
        if name != "pods_changed":
            self.state.reject(workflow.now(), f"signal {name}", "unknown; known: pods_changed, renew, room")
            return
        try:
            news = PodsChanged.model_validate(args[0] if len(args) == 1 else None)
        except ValueError as wrong:
            self.state.reject(workflow.now(), f"signal {name}", sentence(wrong))
            return
        workload_changes.pods_reported(self.state, news, workflow.now())
        self.questions.hear(news)

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

    @workflow.signal(
        description=takes(PodsChanged, "From the node's own workflow in the fleet: what has become of pods")
    )
    def pods_changed(self, *args: Any) -> None:
        """Take a node's report of pods (:class:`syncpod.messages.fleet.PodsChanged`)."""
        why = self.commands.refusal_of("signal/pods_changed", args)
        signed = [each for each in args if isinstance(each, Received)]
        if not why and not all(workload_changes.is_news(self.state, each) for each in signed):
            why = self.commands.refused("signal/pods_changed", "it is a copy of what its node said before")
        if why:
            self.refuse("pods_changed", why)
            self.entity.wake()
            return
        self.entity.put("pods_changed", [plain(each) for each in args])

    @workflow.signal(description=takes(Room, "A node takes new pods now"))
    def room(self, *args: Any) -> None:
        """Learn that a node takes pods now (:class:`syncpod.messages.workload.Room`)."""
        # A copy only has the nodes surveyed once more. So none is remembered: no later command can keep one out.
        if why := self.commands.refusal_of("signal/room", args):
            self.refuse("room", why)
            self.entity.wake()
            return
        self.entity.put("room", [])

    @workflow.signal(description=takes(NOTHING, "Continue as new at the next quiet point"))
    def renew(self, *args: Any) -> None:
        """Continue as new at the next quiet point."""
        if self.entity.is_accepted("renew", args):
            self.entity.renew()

    @workflow.signal(dynamic=True, description="A signal of any other name is shown as a rejection")
    def unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        self.entity.put(name, args)

    @workflow.update(
        description=takes(
            "an apps/v1 Deployment or DaemonSet, or a v1 Pod", "The desired workload: make it, or change it"
        )
    )
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

    @workflow.update(description=takes(Undo, "Apply an earlier template again"))
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

    @workflow.update(description=takes(RolloutRestart, "Replace all pods, as in a rollout"))
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

    @workflow.update(description=takes(Pause, "Pause rollouts, or resume them"))
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

    @workflow.update(description=takes(NOTHING, "Remove all pods, and then end this workflow"))
    async def delete(self, *args: Any) -> dict[str, Any]:
        """Remove all pods, and then end this workflow."""
        self.entity.obey("delete", args)

        def change() -> None:
            workload_changes.delete(self.state, workflow.now())
            if self.state.missed:
                self.questions.survey_anew()  # it ends only when these have answered, so they are asked at once

        await self.entity.change(change)
        return {"pods": len(self.state.pods)}

    @delete.validator
    def check_delete(self, *args: Any) -> None:
        """Refuse whoever may not command the fleet."""
        if self.refusal:
            raise invalid(self.refusal)
        self.entity.allow("delete", args)

    @workflow.query(description="The whole workload: its pods, its rollout and its events")
    def workload(self) -> dict[str, Any]:
        """Return the whole workload (:class:`syncpod.messages.workload.WorkloadView`)."""
        whole = workload_report.view(self.state, self.decided, self.questions.asked)
        return whole.model_dump(mode="json", by_alias=True)

    @workflow.query(description="The template with the revision that is the argument; null if it is not remembered")
    def template(self, revision: str = "") -> dict[str, Any] | None:
        """Return the template with this revision; None if it is not remembered."""
        return self.state.templates.get(plain(revision))


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


def _given(kind: type[Given], given: tuple[Any, ...]) -> Given:
    """Return the payload of an update. Raises ValidationError, Rejected."""
    return kind.model_validate(_only(given), extra="forbid")


def _ignored(_value: object) -> None:
    """Discard a result, so that a lambda returns None."""
