"""NodeWorkflow: one durable run per node, which keeps the node to its desired list of pods.

::

      sync_pods, apply, delete, node_status ──► inbox ──► absorb ──► plan ──► a step for each pod that is behind
                                                  ▲                              │ apply or delete to `pod/…`
                                                  └──────────── outcome ◄────────┘

What a pod does is its own workflow's; this one only tells it. Steps run beside one another, one per pod. Mirrors the
kubelet's sync loop over its configuration (kubelet.go, v1.36, syncLoopIteration, HandlePodAdditions and its siblings).

Only this module is loaded by the Temporal sandbox for each run, so it is small; all else is pure and passed through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.version import decisions_of, too_old
    from syncpod.messages.node import NODE_MEMO, NODE_WORKFLOW, NodeSummary, PodWorkflowResult, node_workflow_id
    from syncpod.pod import PodInvalid, admit
    from workflows.alarm import Alarm
    from workflows.entity import decisions_taken
    from workflows.node import absorb, decide, report
    from workflows.node.decide import Action, Plan
    from workflows.node.inbox import NodeInbox
    from workflows.node.state import NodeState
    from workflows.node.steps import NODE_RETRY, NODE_STEPS

PART = 256
"""Signals absorbed between two pauses: a fraction of a second, with as many pods known as there may be."""

PAUSE = timedelta(milliseconds=1)
"""Between two parts: the workflow task ends."""


@workflow.defn(name=NODE_WORKFLOW)
class NodeWorkflow:
    """A node's desired pods, for as long as the node has a name."""

    @workflow.init
    def __init__(self, start_input: Any = None) -> None:
        self.inbox = NodeInbox()
        self.alarm = Alarm()
        self.busy: dict[str, asyncio.Task[None]] = {}
        self.woken = False
        self.renewed = False
        self.published: NodeSummary | None = None
        decisions = decisions_taken()
        self.state, self.refusal = begin(start_input, workflow.info().workflow_id, workflow.now(), decisions=decisions)

    @workflow.run
    async def run(self, start_input: Any = None) -> None:
        """Keep the node to its list, for ever."""
        if self.refusal:
            raise ApplicationError(self.refusal, type="Invalid", non_retryable=True)
        while True:
            await self.take_in()
            decide.tidy(self.state, workflow.now())
            due = self.is_due()
            room = 0 if due else decide.AT_ONCE - len(self.busy)
            plan = decide.plan(self.state, workflow.now(), self.busy, room=room)
            for action in plan.actions:
                self.begin(action)
            self.publish()
            if due and self.quiet():  # Replay: no await from here to the raise
                workflow.continue_as_new(next_input(self.state))
            await self.wait(plan)

    # --- one step -----------------------------------------------------------------------------------------------------

    def begin(self, action: Action) -> None:
        """Have a pod's workflow told, beside all others."""
        decide.begin(self.state, action)
        spec = NODE_STEPS[action.name]
        activity: workflow.ActivityHandle[Any] = workflow.start_activity(
            action.name.value,
            action.input,
            start_to_close_timeout=spec.start_to_close,
            retry_policy=NODE_RETRY,
            priority=spec.priority,
            summary=action.summary,
            result_type=RawValue,  # a result that nobody can decode fails the step, and not the workflow task
        )

        async def run() -> None:
            try:
                result = decoded(await activity)
            except ActivityError as error:
                reason, message = why(error)
                decide.failed(self.state, action, reason, message, workflow.now())
            else:
                decide.finished(self.state, action, result, workflow.now())
            del self.busy[action.key]
            self.woken = True

        self.busy[action.key] = asyncio.create_task(run())

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, plan: Plan) -> None:
        """Wait for a signal, for a step's end, or for the end of the earliest back-off."""

        def ready() -> bool:
            return bool(self.inbox) or self.woken or self.alarm.rang or (self.is_due() and self.quiet())

        summary = f"back-off {plan.waits_for}"
        self.alarm.set(plan.retry_at, summary)
        await self.until(ready)
        if self.alarm.rang:
            self.alarm.clear()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait for a condition; what ``temporal workflow cancel`` asks for meanwhile is refused."""
        while not ready():
            try:
                await workflow.wait_condition(ready)
            except asyncio.CancelledError:
                self.refuse_to_end()

    def refuse_to_end(self) -> None:
        """Go on, and show that a cancellation was not obeyed."""
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        self.state.reject(workflow.now(), "cancel", "a node has no end; cordon and drain it, or terminate its workflow")

    # --- looking ------------------------------------------------------------------------------------------------------

    async def take_in(self) -> None:
        """Absorb everything pending, in the order of arrival; of very much a part in each workflow task."""
        self.drain(PART)
        while self.inbox:
            pause = asyncio.create_task(workflow.sleep(PAUSE, summary=f"{len(self.inbox)} signals are yet to be taken"))
            await self.until(pause.done)
            self.drain(PART)

    def drain(self, most: int | None = None) -> None:
        """Absorb what is pending, in the order of arrival, at most so many signals; None = all."""
        self.woken = False
        for name, args in self.inbox.take(most):
            if many := absorb.too_many(name, args):
                self.state.reject(workflow.now(), f"signal {name}", many)
            else:
                absorb.absorb(self.state, name, args, workflow.now())

    def quiet(self) -> bool:
        """Say whether nothing is pending or under way and no handler runs: a run may be left only then."""
        return not self.inbox and not self.woken and not self.busy and workflow.all_handlers_finished()

    def is_due(self) -> bool:
        """Say whether this run should continue as new: by its length, for a newer worker's decisions, or as asked."""
        info, limit = workflow.info(), self.state.max_events
        return (
            info.is_continue_as_new_suggested()
            or 0 < limit <= info.get_current_history_length()
            or self.renewed
            or self.state.decision_version < decisions_of(info.get_current_build_id())
        )

    # --- telling ------------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Keep in the memo what is to be read while no worker answers, and show the node in the UI."""
        summary = report.summary(self.state)
        if self.published is None:
            self.published = recorded()
        if summary != self.published:
            workflow.upsert_memo({NODE_MEMO: summary.model_dump(mode="json", by_alias=True)})
            self.published = summary
        workflow.set_current_details(report.details(self.state, workflow.now()))

    # --- signals: collect, never await, never raise -------------------------------------------------------------------

    def put(self, name: str, args: Sequence[Any]) -> None:
        """Collect one signal."""
        self.inbox.put(name, args)

    @workflow.signal
    def sync_pods(self, *args: Any) -> None:
        """Take the full list of one source: ``{"source": "file", "pods": [<v1 Pod>, …]}``."""
        self.put("sync_pods", args)

    @workflow.signal
    def recall_pods(self, *args: Any) -> None:
        """Take what the node's records know as made for lists, of which this run may know nothing."""
        self.put("recall_pods", args)

    @workflow.signal(name="apply")
    def apply_later(self, *args: Any) -> None:
        """Make or change one pod: ``{"pod": <v1 Pod>}``."""
        self.put("apply", args)

    @workflow.signal(name="delete")
    def delete_later(self, *args: Any) -> None:
        """End one pod: ``{"namespace": "default", "name": "web", "gracePeriodSeconds": 30}``."""
        self.put("delete", args)

    @workflow.signal
    def node_status(self, *args: Any) -> None:
        """Take what the node's agent says of its node."""
        self.put("node_status", args)

    @workflow.signal
    def renew(self, *args: Any) -> None:
        """Continue as new at the next quiet point: what follows can be taken over by any worker, an older one too."""
        self.renewed = self.woken = True

    @workflow.signal(dynamic=True)
    def unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        known = "sync_pods, recall_pods, apply, delete, node_status, renew"
        self.state.reject(workflow.now(), f"signal {name}", f"unknown, with {len(args)} payloads; known: {known}")
        self.woken = True

    # --- updates: validated before anything is written ----------------------------------------------------------------

    @workflow.update
    async def apply(self, *args: Any) -> dict[str, Any]:
        """Make or change one pod; returns at once, and its workflow is told next."""
        return await self.change("apply", args)

    @apply.validator
    def check_apply(self, *args: Any) -> None:
        """Refuse a document by the path of what is wrong."""
        self.check("apply", args)
        try:
            admit(args[0]["pod"])
        except PodInvalid as wrong:
            raise ApplicationError(str(wrong), type="Invalid", non_retryable=True) from None

    @workflow.update
    async def delete(self, *args: Any) -> dict[str, Any]:
        """End one pod; returns at once, and its workflow is told next."""
        return await self.change("delete", args)

    @delete.validator
    def check_delete(self, *args: Any) -> None:
        """Refuse a wrong payload, and a pod that a list governs."""
        self.check("delete", args)

    @workflow.update
    async def cordon(self, *_args: Any) -> dict[str, Any]:
        """Take no new pod but from lists; those that are there go on."""
        return await self.change("cordon", ())

    @workflow.update
    async def uncordon(self, *_args: Any) -> dict[str, Any]:
        """Take new pods again."""
        return await self.change("uncordon", ())

    async def change(self, name: str, args: tuple[Any, ...]) -> dict[str, Any]:
        """Carry an accepted update out, after what came before it; what that has made impossible is refused here."""
        if self.inbox:
            await workflow.wait_condition(lambda: not self.inbox)
        self.woken = True
        try:
            absorb.change(self.state, name, args, workflow.now())
        except Exception as wrong:  # noqa: BLE001  # Replay: any other exception would fail the workflow task for ever
            raise ApplicationError(absorb.sentence(wrong), type="Invalid", non_retryable=True) from None
        return {"name": self.state.name, "unschedulable": self.state.unschedulable}

    def check(self, name: str, args: tuple[Any, ...]) -> None:
        """Try a change on a copy of the state, so that nothing is written for what is wrong."""
        if self.refusal:
            raise ApplicationError(self.refusal, type="Invalid", non_retryable=True)
        try:
            absorb.change(self.state.model_copy(deep=True), name, args, workflow.now())
        except Exception as wrong:  # noqa: BLE001  # refused, whatever it is: a validator that raises else is a defect
            raise ApplicationError(absorb.sentence(wrong), type="Invalid", non_retryable=True) from None

    # --- queries ------------------------------------------------------------------------------------------------------

    @workflow.query
    def node(self) -> dict[str, Any]:
        """Return the whole node (:class:`syncpod.messages.node.NodeView`)."""
        return report.view(self.state, workflow.now()).model_dump(mode="json", by_alias=True)


def begin(start: Any, workflow_id: str, now: datetime, *, decisions: int) -> tuple[NodeState, str]:
    """Return the state a run begins with, and "" or the sentence that says why it cannot begin.

    `start` is ``{"node": <name>}``, or what :func:`next_input` has returned. `decisions` is the version of the run's
    decisions. Never raises.
    """
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
    if workflow_id != node_workflow_id(state.name):
        return NodeState(), f"node: must be the one of the workflow id {workflow_id}, is {state.name!r}"
    state.decision_version = decisions
    return state, ""


def next_input(state: NodeState) -> dict[str, Any]:
    """Return the input of the run that follows this one."""
    snapshot = state.model_dump(mode="json", exclude_defaults=True)
    return {"snapshot": snapshot, "decisions": state.decision_version}


def recorded() -> NodeSummary | None:
    """Return what the memo has, as earlier runs have left it."""
    try:
        return NodeSummary.model_validate(workflow.memo_value(NODE_MEMO, None))
    except ValueError:
        return None


def decoded(result: RawValue) -> PodWorkflowResult:
    """Return what a step has returned; one that cannot be decoded (somebody completed it by hand) says nothing."""
    try:
        return PodWorkflowResult.model_validate(workflow.payload_converter().from_payload(result.payload))
    except Exception:  # noqa: BLE001  # a converter may raise anything, and this result is in the history for ever
        return PodWorkflowResult()


def why(error: ActivityError) -> tuple[str, str]:
    """Return a failed step's reason, in one word, and its message."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return cause.type or "Error", cause.message
    return (type(cause).__name__, str(cause)) if cause is not None else (type(error).__name__, str(error))
