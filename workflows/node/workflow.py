"""NodeWorkflow: one durable run per node, which keeps the node's desired pods running.

::

      sync_pods, apply, delete, node_status ──► inbox ──► absorb ──► plan ──► steps for the pods that are behind
                                                  ▲                              │ apply or delete to `pod/…`
                                                  └──────────── outcome ◄────────┘

Each pod's own workflow decides what the pod does; this one only tells it. Steps run concurrently, one per pod, but one
for all pods that are to start at the same time, and one for all that are to end.
Mirrors the kubelet's sync loop over its configuration (kubelet.go, v1.36, syncLoopIteration, HandlePodAdditions and its
siblings).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.version import too_old
    from syncpod.messages.node import (
        NODE_MEMO,
        NODE_WORKFLOW,
        Cordon,
        DeleteFromNode,
        NodeStatus,
        NodeStepName,
        NodeSummary,
        PodWorkflowResult,
        PodWorkflowResults,
        RecallPods,
        StaticPods,
        SyncPods,
        node_workflow_id,
    )
    from syncpod.messages.signed import Commands, Refused, first_and_more, plain, unsigned
    from syncpod.pod import PodInvalid, admit
    from workflows.described import NOTHING, takes
    from workflows.entity import Entity, decisions_taken, decoded, invalid
    from workflows.node import absorb, decide, report
    from workflows.node.decide import Step
    from workflows.node.inbox import NodeInbox
    from workflows.node.published import PublishedNode, next_input
    from workflows.node.state import NodeState
    from workflows.node.steps import NODE_RETRY, NODE_STEPS
    from workflows.rejections import sentence
    from workflows.restarted import CannotBeginAnew, restarted, signals_left

APPLY = '{"pod": <v1 Pod>}'
"""The payload of `apply`."""
PART = 256
"""Signals absorbed per workflow task. That takes a fraction of a second, even with the largest number of pods."""


@workflow.defn(name=NODE_WORKFLOW)
class NodeWorkflow:
    """A node's desired pods, for as long as the node has a name."""

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
        """Pods whose workflows have not answered when they were told together with others."""
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
                self.tell(step)
            self.publish()
            if due and self.entity.is_quiet():
                await self.continue_as_new()
            else:
                self.entity.alarm.set(plan.retry_at, f"back-off {plan.waits_for}")
                await self.wait(due)

    async def wait(self, due: bool) -> None:
        """Wait for news or for the alarm. If the run is due to continue as new, also wait until it is quiet."""
        await self.entity.wait(lambda: due and self.entity.is_quiet())

    async def continue_as_new(self) -> None:
        """Continue as new, unless something comes in meanwhile."""
        if await self.entity.is_still_quiet_in_the_next_task():
            # Replay: nothing is awaited between that check and this, or a signal could be lost.
            workflow.continue_as_new(next_input(self.state))

    # --- one step -----------------------------------------------------------------------------------------------------

    def tell(self, step: Step) -> None:
        """Begin to tell one or several pods' workflows something, concurrently with all other steps."""
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

        telling = asyncio.create_task(run())
        self.busy.update((action.key, telling) for action in step.actions)

    def finished(self, step: Step, results: Sequence[PodWorkflowResult | None]) -> None:
        """Record what the workflows have answered. One that has not is told alone, at once."""
        for action, result in zip(step.actions, results, strict=True):
            if result is None:
                self.alone.add(action.key)
            else:
                self.alone.discard(action.key)
                decide.finished(self.state, action, result, workflow.now())

    def failed(self, step: Step, reason: str, message: str) -> None:
        """Record that a step has failed: each of its pods is told again, after a back-off."""
        for action in step.actions:
            self.alone.discard(action.key)
            decide.failed(self.state, action, reason, message, workflow.now())

    # --- what the entity asks of its workflow -------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Fold one signal into the state."""
        if many := absorb.too_many(name, args):
            self.state.reject(workflow.now(), f"signal {name}", many)
        else:
            absorb.absorb(self.state, name, args, workflow.now())

    def on_cancel(self) -> None:
        """Continue, and show that a cancellation was not obeyed."""
        self.state.reject(workflow.now(), "cancel", "a node has no end; cordon and drain it, or terminate its workflow")

    def refuse(self, name: str, why: str) -> None:
        """Show that a signal was not accepted, and why."""
        self.state.reject(workflow.now(), f"signal {name}", why)

    def is_at_rest(self) -> bool:
        """Say whether no pod's workflow is being told anything."""
        return not self.busy

    def sentence(self, wrong: Exception) -> str:
        """Return one sentence that says why an update is refused."""
        return sentence(wrong)

    # --- telling ------------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Write to the memo what must be readable while no worker answers, and show the node in the UI."""
        summary = report.summary(self.state)
        if self.published is None:
            self.published = recorded()
        if summary != self.published:
            workflow.upsert_memo({NODE_MEMO: summary.model_dump(mode="json", by_alias=True)})
            self.published = summary
        workflow.set_current_details(report.details(self.state, workflow.now()))
        self.hand_out()

    def hand_out(self) -> None:
        """Give the node's agent the state from which it can begin the workflow anew; costs no history."""
        hand = workflow.extern_functions().get("syncpod_publish")
        # Replay: the agent has been given it before; nothing here may change the state or give a command.
        if hand is not None and not workflow.unsafe.is_replaying():
            info = workflow.info()
            now = PublishedNode(self.state.as_it_is(), workflow.now(), info.get_current_history_length())
            hand(info.run_id, now)

    # --- signals: collect, never await, never raise -------------------------------------------------------------------

    @workflow.signal(
        description=takes(
            SyncPods, "The full list of one source: v1 Pods. A pod of the source that the list omits is ended"
        )
    )
    def sync_pods(self, *args: Any) -> None:
        """Take the full list of one source: ``{"source": "file", "pods": [<v1 Pod>, …]}``."""
        self.entity.receive("sync_pods", args)

    @workflow.signal(
        description=takes(
            StaticPods, "From the agent: the pods that it runs for its directory of manifests. It asks for nothing"
        )
    )
    def static_pods(self, *args: Any) -> None:
        """Take what the node's agent runs for its directory of manifests."""
        self.entity.receive("static_pods", args)

    @workflow.signal(description=takes(RecallPods, "From the agent: pods that were made for lists"))
    def recall_pods(self, *args: Any) -> None:
        """Take the pods that the node's records show as made for lists; this run may not know them."""
        self.entity.receive("recall_pods", args)

    @workflow.signal(name="apply", description=takes(APPLY, "Make or change one pod"))
    def apply_later(self, *args: Any) -> None:
        """Make or change one pod: ``{"pod": <v1 Pod>}``."""
        self.entity.receive("apply", args)

    @workflow.signal(name="delete", description=takes(DeleteFromNode, "End one pod that was applied by itself"))
    def delete_later(self, *args: Any) -> None:
        """End one pod: ``{"namespace": "default", "name": "web", "gracePeriodSeconds": 30}``."""
        self.entity.receive("delete", args)

    @workflow.signal(description=takes(NodeStatus, "From the agent: the state of the node"))
    def node_status(self, *args: Any) -> None:
        """Take the report of the node's agent."""
        self.entity.receive("node_status", args)

    @workflow.signal(description=takes(NOTHING, "Continue as new at the next quiet point"))
    def renew(self, *args: Any) -> None:
        """Continue as new at the next quiet point: any worker, even an older one, can take over the next run."""
        if self.entity.is_accepted("renew", args):
            self.entity.renew()

    @workflow.signal(dynamic=True, description="A signal of any other name is shown as a rejection")
    def unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        known = "sync_pods, static_pods, recall_pods, apply, delete, node_status, renew"
        self.state.reject(workflow.now(), f"signal {name}", f"unknown, with {len(args)} payloads; known: {known}")
        self.entity.wake()

    # --- updates: validated before anything is written ----------------------------------------------------------------

    @workflow.update(description=takes(APPLY, "Make or change one pod; the pod's workflow is told next"))
    async def apply(self, *args: Any) -> dict[str, Any]:
        """Make or change one pod. Returns at once; the pod's workflow is told next."""
        return await self.change("apply", args)

    @apply.validator
    def check_apply(self, *args: Any) -> None:
        """Refuse an invalid document, with the path of the wrong field."""
        (given,) = self.check("apply", args)
        try:
            admit(given["pod"])
        except PodInvalid as wrong:
            raise invalid(str(wrong)) from None

    @workflow.update(
        description=takes(DeleteFromNode, "End one pod that was applied by itself; its workflow is told next")
    )
    async def delete(self, *args: Any) -> dict[str, Any]:
        """End one pod. Returns at once; the pod's workflow is told next."""
        return await self.change("delete", args)

    @delete.validator
    def check_delete(self, *args: Any) -> None:
        """Refuse a wrong payload, and a pod that a list governs."""
        self.check("delete", args)

    @workflow.update(name="sync_pods", description=takes(SyncPods, "The full list of one source, as with the signal"))
    async def sync_pods_now(self, *args: Any) -> None:
        """Take the full list of one source, as the signal does; an update reaches a workflow at rest sooner."""
        self.entity.put("sync_pods", self.entity.obey("sync_pods", args))

    @sync_pods_now.validator
    def check_sync_pods(self, *args: Any) -> None:
        """Refuse whoever may not command the node. What is wrong with a list is shown, as with the signal."""
        if self.refusal:
            raise invalid(self.refusal)
        self.entity.allow("sync_pods", args)

    @workflow.update(description=takes(Cordon, "Take no new pods except from lists; existing pods keep running"))
    async def cordon(self, *args: Any) -> dict[str, Any]:
        """Take no new pods except from lists; existing pods keep running."""
        return await self.change("cordon", args)

    @cordon.validator
    def check_cordon(self, *args: Any) -> None:
        """Refuse whoever may not command the node."""
        self.check("cordon", args)

    @workflow.update(description=takes(Cordon, "Take new pods again"))
    async def uncordon(self, *args: Any) -> dict[str, Any]:
        """Take new pods again."""
        return await self.change("uncordon", args)

    @uncordon.validator
    def check_uncordon(self, *args: Any) -> None:
        """Refuse whoever may not command the node."""
        self.check("uncordon", args)

    async def change(self, name: str, args: tuple[Any, ...]) -> dict[str, Any]:
        """Carry out an accepted update after the signals before it, which may have made it impossible."""
        given = self.entity.obey(name, args)
        await self.entity.change(lambda: absorb.change(self.state, name, given, workflow.now()))
        return {"name": self.state.name, "unschedulable": self.state.unschedulable}

    def check(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Try a change on a copy of the state, so that a wrong one is refused before anything is written.

        Returns what the update was given.
        """
        if self.refusal:
            raise invalid(self.refusal)
        given = self.entity.allow(name, args)
        self.entity.attempt(lambda: absorb.change(self.state.model_copy(deep=True), name, given, workflow.now()))
        return given

    # --- queries ------------------------------------------------------------------------------------------------------

    @workflow.query(
        description="The whole node: desired pods with their states, conditions, capacity, sources and events"
    )
    def node(self) -> dict[str, Any]:
        """Return the whole node (:class:`syncpod.messages.node.NodeView`)."""
        return PublishedNode(self.state, workflow.now()).node()


def initial_state(start: Any, workflow_id: str, now: datetime, *, decisions: int) -> tuple[NodeState, str]:
    """Return the state a run begins with, and "" or the sentence that says why it cannot begin.

    `start` is ``{"node": <name>}``, or what :func:`next_input` has returned. `decisions` is the version of the run's
    decisions. ``"restarted"`` beside either says that the run replaces one that could not go on. Raises CannotBeginAnew
    if such a run cannot begin.
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
    if workflow_id != node_workflow_id(state.name):
        return NodeState(), f"node: must be the one of the workflow id {workflow_id}, is {state.name!r}"
    state.decision_version = decisions
    return state, ""


def recorded() -> NodeSummary | None:
    """Return the summary that earlier runs left in the memo; None if there is none that can be read."""
    try:
        return NodeSummary.model_validate(plain(workflow.memo_value(NODE_MEMO, None)))
    except ValueError:
        return None


def answers(step: Step, returned: Any) -> Sequence[PodWorkflowResult | None]:
    """Return a step's results, one for each of its actions, None for an action that has none.

    An unreadable result of a step for one pod counts as an empty one; that of a step for several pods as none at all.
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
