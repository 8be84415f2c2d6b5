"""PodWorkflow: one durable run per pod.

::

      signals, updates ──► inbox ──► absorb ──► status ──► next_step ──┬─► a step ──► its result ──┐
                             ▲                                         ├─► a pull, concurrently     │
                             │                                         └─► wait (one timer)        │
                             └─────────────────────────────────────────────────────────────────────┘

The loop takes everything pending, decides once, runs one step, and begins again with the newer view. When nothing may
run, it waits for a signal or for the earliest deadline. An update does not cancel a running step: the step finishes,
and then the loop decides again. A deletion cancels steps that can be interrupted. A call that was already sent to the
runtime runs to its end in the activity, which then returns its outcome.

Workers run this without Temporal's sandbox; its tests run it inside (:mod:`workflows.runner`). Everything that a run
calls decides its commands, so a change there may need another ``DECISION_VERSION`` (docs/upgrading.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from syncpod.messages.command_table import SignalSpec, UpdateSpec
    from syncpod.messages.identity import POD_WORKFLOW
    from syncpod.messages.pod_card import POD_MEMO, sender_in
    from syncpod.messages.pod_commands import APPLY, DELETE_POD, EVENTS, HISTORY, PLAN, POD, POD_COMMANDS, Change
    from syncpod.messages.signed import Commands, first_and_more, plain
    from syncpod.pod import pod_to_wire
    from workflows.entity import Entity, decisions_taken, invalid
    from workflows.handlers import UNKNOWN, query_handler, takes, unknown_signal
    from workflows.pod import (
        absorb,
        decide,
        desired,
        report,
        start,
        sync,
        verdicts,
    )
    from workflows.pod.decision import Decision
    from workflows.pod.display import Display
    from workflows.pod.inbox import PART, PodInbox
    from workflows.pod.pipelining import Pipeline
    from workflows.pod.state import PodState
    from workflows.pod.step_runner import StepRunner, arm, is_overlong
    from workflows.pod.worker_hooks import WorkerHooks
    from workflows.restarted import signals_left

CANCEL: Final = (
    "the cancellation is refused, since it has no payload that could be signed: "
    "the signal `delete_pod` and the update `delete` take one (`--input '{}'`), and end the pod"
)
"""The refusal of a request to cancel the workflow, where commands are signed."""


def _memo() -> object:
    """Return the pod's memo, which the server gives to each run; None if it cannot be decoded."""
    try:
        return plain(workflow.memo_value(POD_MEMO, None))  # only shown to people, since a memo is not signed
    except (KeyError, ValueError, RuntimeError):  # another client wrote a memo that this converter cannot decode
        return None


@workflow.defn(name=POD_WORKFLOW)
@takes(POD_COMMANDS)
class PodWorkflow:
    """The life of one pod, from its first apply to its deletion.

    `takes` makes a handler for each signal and update of `POD_COMMANDS`. Their effects are in `absorb.SIGNALS` and
    `absorb.UPDATES`.
    """

    @workflow.init
    def __init__(self, *inputs: Any) -> None:
        info = workflow.info()
        start_input, more = first_and_more(inputs)
        self.commands = Commands(start_input, more=more)
        given, decisions = self.commands.input, decisions_taken()
        self.state, self.refusal = PodState(), self.commands.refusal
        if not self.refusal:
            self.state, self.refusal = start.initial_state(
                given,
                info.workflow_id,
                workflow.now(),
                start.ids_of_run(info.original_execution_run_id),
                info.task_queue,
                decisions=decisions,
                memo=_memo(),
            )
            self.state.accepted = self.commands.accepted_before(self.state.accepted)
        if self.refusal and start.is_of_schedule(info.workflow_id):
            self.refusal = start.OF_SCHEDULE
        self.entity = Entity(self, self.state, PodInbox(), self.commands, part=PART)
        for name, args in signals_left(given) if not self.refusal else ():
            self.entity.put(name, args)
        self.planned: tuple[str, ...] = ()
        self.worker_hooks = WorkerHooks(self.state.pod)
        self.display = Display(self.state, sender_in(_memo()), self.worker_hooks)
        self.steps = StepRunner(self.state, self.entity, self.display, self.worker_hooks)
        self.pipeline = Pipeline(self.steps)
        self.is_new = not self.refusal and start.is_new_by_update(given)

    @workflow.run
    async def run(self, *_inputs: Any) -> dict[str, Any]:
        """Run the pod until it is deleted; returns the Pod with its final status."""
        if self.refusal:
            if not self.commands.refusal and start.by_update(self.commands.input):
                return {"rejected": self.refusal}  # the update's caller gets the refusal
            raise invalid(self.refusal)
        while True:
            await self.entity.take_in()
            self.worker_hooks.deciding()
            self.catch_up()
            decision = self.decide()
            self.worker_hooks.decided(decision)
            if self.pipeline.ahead is not None:
                await self.pipeline.go_on(self.pipeline.ahead, decision)
            elif decision.failure is not None:
                verdicts.fail(self.state, decision.failure, workflow.now())
            elif is_overlong(self.state) and (self.steps.pulls or self.entity.is_quiet()):
                await self.leave_between_steps()
            elif decision.step is not None:
                await self.pipeline.take(decision.step)
            elif self.state.removed and self.entity.is_quiet():
                return self.end()
            elif self.entity.is_due() and self.entity.is_quiet():
                await self.continue_as_new()
            else:
                self.display.write_attributes(rests=not self.steps.pulls)
                self.display.show()
                if not self.steps.pulls:
                    self.worker_hooks.rested(self.state)
                await self.wait(decision)

    def catch_up(self) -> None:
        """Bring the state up to the current time and to everything absorbed, before anything is decided."""
        sync.catch_up(self.state, workflow.now(), self.display.holds, under_way=self.pipeline.inputs_ahead)

    def decide(self) -> Decision:
        """Return the next decision, and record its plan and its holds."""
        state, now = self.state, workflow.now()
        decision = decide.next_step(state, now, pulling=self.steps.pulls)
        if decision.failure is not None:
            return decision
        if decision.holds != self.display.holds:
            begun = [hold for hold in decision.holds if hold not in self.display.holds]
            self.display.holds = decision.holds
            report.note_holds(state, begun, now)
            report.update_status(state, self.display.holds, now, under_way=self.pipeline.inputs_ahead)
        report.note_decision(state, decision.plan, self.planned, now)
        self.planned = decision.plan
        return decision

    # --- leaving the run ----------------------------------------------------------------------------------------------

    async def leave_between_steps(self) -> None:
        """Continue as new at once; if pulls prevent that, cancel them first. The next run begins them again."""
        if not self.steps.pulls:
            # Replay: nothing is awaited between the check that the run is quiet and this call, or a signal could be
            # lost.
            self.worker_hooks.rested(self.state)
            workflow.continue_as_new(start.next_input(self.state))
        await self.steps.cancel_pulls()

    async def continue_as_new(self) -> None:
        """Continue as new, unless something comes in meanwhile."""
        if await self.entity.is_still_quiet_in_the_next_task():
            # Replay: nothing is awaited between the check above and this call, or a signal could be lost.
            self.worker_hooks.rested(self.state)
            workflow.continue_as_new(start.next_input(self.state))

    def end(self) -> dict[str, Any]:
        """Return the result of a pod that is gone, or begin the pod that was applied during its deletion."""
        # Replay: nothing is awaited between the check that the run is quiet and the return or the raise.
        self.worker_hooks.rested(self.state)
        self.worker_hooks.arm_backoffs(())  # otherwise they would end back-offs of the next pod of this name
        if self.state.successor is None:
            self.display.write_attributes()
        self.display.show(is_gone=True)
        if self.state.successor is not None:
            workflow.continue_as_new(desired.successor_of(self.state))
        return pod_to_wire(desired.as_pod(self.state))

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, decision: Decision) -> None:
        """Wait for a signal or for the earliest deadline."""
        arm(self.state, self.entity.alarm, decision)
        self.worker_hooks.arm_backoffs(decision.holds)
        due = self.entity.is_due()  # Replay: this is called here, and not within the wait's condition (see is_due).
        await self.entity.wait(lambda: (self.state.removed or due) and self.entity.is_quiet())

    # --- called by the entity -----------------------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Fold one signal into the state."""
        absorb.absorb(self.state, name, args, workflow.now())

    def on_cancel(self) -> None:
        """Treat a request to cancel as a deletion. Where commands are signed, refuse it, since it cannot be signed."""
        if self.commands.signed:
            self.refuse("cancel", CANCEL)
            self.display.show()  # this refusal does not wake the loop, which would show it otherwise
        else:
            self.entity.put(DELETE_POD.name, ({},))

    def refuse(self, name: str, why: str) -> None:
        """Show that a signal was not accepted, and why."""
        self.state.reject(workflow.now(), name, why)

    def is_at_rest(self) -> bool:
        """Say whether no pull is under way; the loop waits for every other step itself."""
        return not self.steps.pulls

    # --- signals and updates (`syncpod.messages.pod_commands`) --------------------------------------------------------

    def receive(self, signal: SignalSpec[Any], args: Sequence[Any]) -> None:
        """Collect a signal; never awaits or raises."""
        self.entity.receive(signal, args)

    @workflow.signal(dynamic=True, description=UNKNOWN)
    def receive_unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        self.entity.refuse(name, f"signal {name}: {unknown_signal(POD_COMMANDS, name, len(args))}")

    async def change(self, update: UpdateSpec[Any], args: Sequence[Any]) -> dict[str, Any]:
        """Carry out an accepted update after the earlier signals, which may have made the update impossible."""
        given, answer = self.entity.obey(update, args), dict[str, Any]()

        def change() -> None:
            with self.state.all_or_nothing():
                answer.update(absorb.UPDATES[update.name](self.state, given, workflow.now()))

        await self.entity.change(change)
        return self.as_created(answer) if update.name == APPLY.name else answer

    def as_created(self, applied: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to an apply: `created` in place of `unchanged` for the first apply of a new pod's run.

        That apply has most likely started the run, since the start and the update arrive together.
        """
        created = {"change": Change.CREATED.value} if self.is_new and applied["change"] == Change.UNCHANGED else {}
        self.is_new = False
        return applied | created

    def check(self, update: UpdateSpec[Any], args: Sequence[Any]) -> None:
        """Try an update on a copy of the state, so that a wrong one is refused before anything is written."""
        if self.refusal:
            raise invalid(self.refusal)
        if self.state.removed:
            raise ApplicationError("the pod is gone; apply it again", type="Gone", non_retryable=True)
        given = self.entity.allow(update, args)
        self.entity.attempt(lambda: absorb.check(self.state, update.name, given, workflow.now()))

    # --- queries ------------------------------------------------------------------------------------------------------

    @query_handler(POD)
    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status, as ``kubectl get -o json`` has it."""
        return self.display.as_published().pod()

    @query_handler(PLAN)
    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        """Return the steps that would be taken now, or after `candidate` was applied.

        If `update` is ``resize``, `candidate` is the argument of that update.
        """
        published = self.display.as_published()
        with workflow.unsafe.sandbox_unrestricted():  # `workflow.now()` is the last task's time
            return published.plan(plain(candidate), plain(update))

    @query_handler(HISTORY)
    def history(self) -> list[dict[str, Any]]:
        """Return each decision, step, signal and exit with time, reason and attempt, oldest first."""
        return self.display.as_published().history()

    @query_handler(EVENTS)
    def events(self) -> list[dict[str, Any]]:
        """Return the pod's events in the kubelet's words, rejections among them, oldest first."""
        return self.display.as_published().events()
