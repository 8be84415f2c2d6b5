"""NodeWorkflow: one durable run per node, which keeps the node's desired pods running.

::

      sync_pods, apply, delete, node_status ──► inbox ──► absorb ──► plan ──► steps for the pods that are behind
                                                  ▲                              │ apply or delete to `pod/…`
                                                  └──────────── outcome ◄────────┘

Each pod's own workflow decides what the pod does; this workflow only sends it orders. Steps run concurrently, one for
each pod; but all pods that start at the same time share one step, and all pods that end at the same time share another.
Mirrors the kubelet's sync loop over its configuration (kubelet.go, v1.36, syncLoopIteration, HandlePodAdditions and its
siblings).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.version import too_old
    from syncpod.messages.command_table import SignalSpec, UpdateSpec
    from syncpod.messages.node import (
        NODE_MEMO,
        NODE_WORKFLOW,
        NodeStepName,
        NodeSummary,
        PodWorkflowResult,
        PodWorkflowResults,
        node_workflow_id,
    )
    from syncpod.messages.node_commands import APPLY, NODE, NODE_COMMANDS, SYNC_PODS_NOW
    from syncpod.messages.signed import Commands, Refused, first_and_more, plain, unsigned
    from syncpod.messages.worker_functions import PUBLISH
    from workflows.entity import Entity, decisions_taken, decoded, invalid, next_input, worker_function
    from workflows.handlers import UNKNOWN, query_handler, takes, unknown_signal
    from workflows.node import absorb, decide, report
    from workflows.node.decide import NodeStep
    from workflows.node.inbox import NodeInbox
    from workflows.node.published import PublishedNode
    from workflows.node.state import NodeState
    from workflows.node.steps import NODE_RETRY, NODE_STEPS
    from workflows.restarted import CannotBeginAnew, restarted, signals_left

PART = 256
"""Signals absorbed per workflow task. That takes a fraction of a second, even with the largest number of pods."""


@workflow.defn(name=NODE_WORKFLOW)
@takes(NODE_COMMANDS)
class NodeWorkflow:
    """A node's desired pods. The workflow has no end of its own."""

    @workflow.init
    def __init__(self, *inputs: Any) -> None:
        start_input, more = first_and_more(inputs)
        self.commands, decisions = Commands(start_input, more=more), decisions_taken()
        self.state, self.refusal = NodeState(), self.commands.refusal
        if not self.refusal:
            self.state, self.refusal = initial_state(
                self.commands.input, workflow.info().workflow_id, workflow.now(), decisions=decisions
            )
            self.state.accepted = self.commands.accepted_before(self.state.accepted)
        self.entity = Entity(self, self.state, NodeInbox(), self.commands, part=PART)
        for name, args in signals_left(self.commands.input) if not self.refusal else ():
            self.entity.put(name, args)
        self.busy: dict[str, asyncio.Task[None]] = {}
        self.alone: set[str] = set()
        """Pods whose workflows did not answer an order to several pods: their next order is a step of its own."""
        self.published: NodeSummary | None = None

    @workflow.run
    async def run(self, *_inputs: Any) -> None:
        """Keep the node's desired pods running, forever."""
        if self.refusal:
            raise invalid(self.refusal)
        while True:
            await self.entity.take_in()
            decide.tidy(self.state, workflow.now())
            due = self.entity.is_due()
            room = 0 if due else decide.AT_ONCE - len(self.busy)
            plan = decide.plan(self.state, workflow.now(), self.busy, room=room)
            for step in decide.steps(plan.actions, self.alone):
                self.begin(step)
            self.publish()
            if due and self.entity.is_quiet():
                await self.continue_as_new()
            else:
                self.entity.alarm.set(plan.retry_at, f"back-off {plan.waits_for}")
                await self.wait(due)

    async def wait(self, due: bool) -> None:
        """Wait for a signal, an answer or the alarm; or, if the run is due to continue as new, until it is quiet."""
        await self.entity.wait(lambda: due and self.entity.is_quiet())

    async def continue_as_new(self) -> None:
        """Continue as new, unless something comes in meanwhile."""
        if await self.entity.is_still_quiet_in_the_next_task():
            # Replay: nothing is awaited between the check above and this call, or a signal could be lost.
            workflow.continue_as_new(next_input(self.state))

    # --- one step -----------------------------------------------------------------------------------------------------

    def begin(self, step: NodeStep) -> None:
        """Begin a step, which sends orders to pods' workflows, concurrently with all other steps."""
        for action in step.actions:
            decide.record_step(self.state, action)
        spec = NODE_STEPS[step.name]
        activity: workflow.ActivityHandle[Any] = workflow.start_activity(
            step.name.value,
            step.input,
            start_to_close_timeout=spec.start_to_close,
            retry_policy=NODE_RETRY,
            priority=spec.priority,
            summary=step.summary,
            result_type=RawValue,  # a result that nobody can decode must not fail the workflow task
        )

        async def run() -> None:
            try:
                returned = decoded(await activity)
            except ActivityError as error:
                self.failed(step, *why(error))
            else:
                if isinstance(returned, Refused):
                    self.failed(step, "UnsignedResult", unsigned("the step's result", returned.why))
                else:
                    self.finished(step, answers(step, returned))
            for action in step.actions:
                del self.busy[action.key]
            self.entity.wake()

        running = asyncio.create_task(run())
        self.busy.update((action.key, running) for action in step.actions)

    def finished(self, step: NodeStep, results: Sequence[PodWorkflowResult | None]) -> None:
        """Record the workflows' answers. A workflow that has not answered gets its order again at once, alone."""
        for action, result in zip(step.actions, results, strict=True):
            if result is None:
                self.alone.add(action.key)
            else:
                self.alone.discard(action.key)
                decide.finished(self.state, action, result, workflow.now())

    def failed(self, step: NodeStep, reason: str, message: str) -> None:
        """Record that a step has failed: the orders to its pods are repeated after a back-off."""
        for action in step.actions:
            self.alone.discard(action.key)
            decide.failed(self.state, action, reason, message, workflow.now())

    # --- called by the entity -----------------------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Fold one signal into the state."""
        if many := absorb.too_many(name, args):
            self.state.reject(workflow.now(), f"signal {name}", many)
        else:
            absorb.absorb(self.state, name, args, workflow.now())

    def on_cancel(self) -> None:
        """Go on, and show that the cancellation is refused."""
        self.state.reject(workflow.now(), "cancel", "a node has no end; cordon and drain it, or terminate its workflow")
        self.show()  # this refusal does not wake the loop, which would show it otherwise

    def refuse(self, name: str, why: str) -> None:
        """Show that a signal was not accepted, and why."""
        self.state.reject(workflow.now(), f"signal {name}", why)

    def is_at_rest(self) -> bool:
        """Say whether no order to a pod's workflow is under way."""
        return not self.busy

    # --- publishing ---------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Write the memo, with the facts that must be readable while no worker answers, and show the node in the UI."""
        summary = report.summary(self.state)
        if self.published is None:
            self.published = recorded()
        if summary != self.published:
            workflow.upsert_memo({NODE_MEMO: summary.model_dump(mode="json", by_alias=True)})
            self.published = summary
        self.show()
        self.hand_out()

    def show(self) -> None:
        """Show the node in the UI; costs no history."""
        workflow.set_current_details(report.details(self.state, workflow.now()))

    def hand_out(self) -> None:
        """Give the node's agent the state from which it can begin the workflow anew; costs no history."""
        if (publish := worker_function(PUBLISH)) is not None:
            info = workflow.info()
            now = PublishedNode(self.state.as_it_is(), workflow.now(), info.get_current_history_length())
            publish(info.run_id, now)

    # --- signals and updates (`syncpod.messages.node_commands`) -------------------------------------------------------

    def receive(self, signal: SignalSpec[Any], args: Sequence[Any]) -> None:
        """Collect a signal; never awaits or raises."""
        self.entity.receive(signal, args)

    @workflow.signal(dynamic=True, description=UNKNOWN)
    def receive_unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        self.entity.refuse(name, unknown_signal(NODE_COMMANDS, name, len(args)))

    async def change(self, update: UpdateSpec[Any], args: Sequence[Any]) -> dict[str, Any] | None:
        """Carry out an accepted update. Returns before the orders to the pods' workflows are sent."""
        given = self.entity.obey(update, args)
        if update.name == SYNC_PODS_NOW.name:
            self.entity.put(update.name, given)  # like the signal, but delivered sooner to a workflow at rest
            return None
        await self.entity.change(lambda: absorb.change(self.state, update.name, given, workflow.now()))
        return {"name": self.state.name, "unschedulable": self.state.unschedulable}

    def check(self, update: UpdateSpec[Any], args: Sequence[Any]) -> None:
        """Try an update on a copy of the state, so that a wrong one is refused before anything is written.

        A list is not tried: its problems are shown as events, as with the signal.
        """
        if self.refusal:
            raise invalid(self.refusal)
        given = self.entity.allow(update, args)
        if update.name == SYNC_PODS_NOW.name:
            return
        copy = self.state.model_copy(deep=True)
        self.entity.attempt(lambda: absorb.change(copy, update.name, given, workflow.now()))
        if update.name == APPLY.name:
            self.entity.attempt(lambda: absorb.require_valid(*given))

    # --- queries ------------------------------------------------------------------------------------------------------

    @query_handler(NODE)
    def node(self) -> dict[str, Any]:
        """Return the whole node (:class:`syncpod.messages.node.NodeView`)."""
        return PublishedNode(self.state, workflow.now()).node()


def initial_state(start: Any, workflow_id: str, now: datetime, *, decisions: int) -> tuple[NodeState, str]:
    """Return the state that a run begins with, and why the run cannot begin; "" if it can.

    `start` is ``{"node": <name>}``, or the result of :func:`next_input`. `decisions` is the version of the run's
    decisions. ``"restarted"`` in the input means that the run replaces a run that could not go on. Raises
    CannotBeginAnew if such a run cannot begin.
    """
    replaced = restarted(start)
    state, refusal = _begun(start, workflow_id, now, decisions)
    if replaced is not None:
        if refusal:
            raise CannotBeginAnew(refusal)
        state.event(now, "Warning", "WorkflowRestarted", replaced.sentence)
    return state, refusal


def _begun(start: Any, workflow_id: str, now: datetime, decisions: int) -> tuple[NodeState, str]:
    if refusal := too_old(decisions):
        return NodeState(), refusal
    if not isinstance(start, dict):
        return NodeState(), 'input: must be {"node": <name>}'
    if "snapshot" in start:
        written_by = start.get("decisions")
        if refusal := too_old(written_by if type(written_by) is int else 0):
            return NodeState(), f"snapshot: {refusal}"
        try:
            state = NodeState.model_validate(start["snapshot"])
        except ValueError as wrong:
            return NodeState(), f"snapshot: {wrong}"
    else:
        limit = start.get("maxEvents", 0)
        state = NodeState(since=now, max_events=limit if isinstance(limit, int) else 0)
        state.name = start["node"] if isinstance(start.get("node"), str) else ""
        state.unschedulable = start.get("unschedulable") is True
        if isinstance(ended := start.get("ended"), str):
            state = _after_another(state, start, ended, now)
    if workflow_id != node_workflow_id(state.name):
        return NodeState(), f"node: must be the one of the workflow id {workflow_id}, is {state.name!r}"
    state.decision_version = decisions
    return state, ""


def _after_another(state: NodeState, start: dict[str, Any], ended: str, now: datetime) -> NodeState:
    """Return the state of a run that begins from the agent's record, after a person has ended the node's last run."""
    known = {name: start[name] for name in ("cordoned_by", "events", "status") if name in start}
    with suppress(ValueError):  # written in another form by another version: the agent reports its status again
        state = NodeState.model_validate({**state.model_dump(exclude_defaults=True), **known})
    kept = "; it stays cordoned" if state.unschedulable else ""
    state.event(now, "Warning", "WorkflowEnded", f"{ended[:1].upper()}{ended[1:]}; its worker has begun it again{kept}")
    return state


def recorded() -> NodeSummary | None:
    """Return the summary that earlier runs left in the memo; None if there is none that can be read."""
    try:
        return NodeSummary.model_validate(plain(workflow.memo_value(NODE_MEMO, None)))
    except ValueError:
        return None


def answers(step: NodeStep, returned: Any) -> Sequence[PodWorkflowResult | None]:
    """Return a step's results, one for each of its actions; None for an action without a result.

    An unreadable result counts as an empty result if the step is for one pod, and as missing if it is for several.
    """
    try:
        if step.name not in (NodeStepName.APPLY_PODS, NodeStepName.DELETE_PODS):
            return (PodWorkflowResult.model_validate(returned),)
        results = PodWorkflowResults.model_validate(returned).results
    except ValueError:
        return (None,) * len(step.actions) if len(step.actions) > 1 else (PodWorkflowResult(),)
    return results if len(results) == len(step.actions) else (None,) * len(step.actions)


def why(error: ActivityError) -> tuple[str, str]:
    """Return a failed step's reason, in one word, and its message."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return cause.type or "Error", cause.message
    return (type(cause).__name__, str(cause)) if cause is not None else (type(error).__name__, str(error))
