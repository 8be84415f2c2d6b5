"""FleetNodeWorkflow: one durable run per node of a fleet, on the fleet's cluster.

::

    place, withdraw, cordon ──► intent, numbered ──► take_intent ──► the node's own workflow (sync_pods)
                                                                          │
    owners ◄── pods_changed ◄── presence, pods ◄── attend ◄───────────────┘

Its activities `recall_intent`, `take_intent` and `attend` run on a queue that only the node polls. `attend` waits there
for a change, and heartbeats meanwhile, so a node where nothing happens costs six events of history in ten minutes. A
node that was cut off takes the newest list when it is back. `seal_objects` runs on the fleet's own queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.version import too_old
    from syncpod.messages.command_table import SignalSpec, UpdateSpec
    from syncpod.messages.fleet import (
        ATTEND,
        FLEET_NODE_MEMO,
        FLEET_NODE_WORKFLOW,
        RECALL_INTENT,
        TAKE_INTENT,
        FleetNodeSummary,
        PodsChanged,
        fleet_node_id,
    )
    from syncpod.messages.fleet_commands import FLEET_NODE, FLEET_NODE_COMMANDS, INTENT, PODS_CHANGED
    from syncpod.messages.signed import Marked, microseconds, plain
    from syncpod.messages.workload import ANNOUNCE_ROOM
    from workflows.entity import Entity, SignalQueue, decisions_taken, invalid, next_input
    from workflows.fleet import node_changes, node_report
    from workflows.fleet.node_requests import NodeRequests
    from workflows.fleet.node_state import FleetNodeState
    from workflows.fleet.open_requests import OpenRequests
    from workflows.fleet.signed import fleet_commands, require_its_history
    from workflows.handlers import UNKNOWN, query_handler, takes, unknown_signal
    from workflows.rejections import Rejected, sentence

_PART: Final = 256
DOUBTED: Final = 16
"""The most owners of doubtful existence that are signalled at the same time."""
ABSENT_AGAIN: Final = timedelta(seconds=5)
"""How long an owner keeps its place among the :data:`DOUBTED` ones after another vain signal."""


@workflow.defn(name=FLEET_NODE_WORKFLOW)
@takes(FLEET_NODE_COMMANDS)
class FleetNodeWorkflow:
    """The pods that a fleet wants on one node, and the node's reports, for as long as the node is in the fleet."""

    @workflow.init
    def __init__(self, *inputs: Any) -> None:
        self.commands, decisions = fleet_commands(inputs), decisions_taken()
        self.state, refusal = _begun(self.commands.input, workflow.info().workflow_id, decisions)
        self.refusal = self.commands.refusal or refusal
        self.state.accepted = self.commands.accepted_before(self.state.accepted)
        if self.state.since is None:
            self.state.since = self.state.presence_since = workflow.now()
        self.entity = Entity(self, self.state, SignalQueue(), self.commands, part=_PART)
        self.busy = OpenRequests(self.entity.wake)
        self.node = NodeRequests(self.state)
        self.trusted = self.state.report.fleet_key
        self.doubted: set[str] = set()
        """Owners of doubtful existence that are being signalled: no more than :data:`DOUBTED`."""
        self.published: FleetNodeSummary | None = None
        self.was_open = self.state.is_open

    @workflow.run
    async def run(self, *_inputs: Any) -> None:
        """Keep the node informed of the pods that it should run, until it is removed from the fleet."""
        require_its_history(self.commands)
        if self.refusal:
            raise invalid(self.refusal)
        while True:
            await self.entity.take_in()
            if self.state.removed:
                await self.end()
                return
            # Replay: nothing is awaited from here to the wait. A message that came in between would not wake the
            # workflow, and would be handled too late.
            if self.trusted and self.trusted != self.state.report.fleet_key:
                self.entity.renew()  # the history so far has answers that only the earlier key decrypts
            self.trusted = self.state.report.fleet_key
            due = self.entity.is_due()
            if not due:
                self.send_requests()
            self.signal_owners()
            self.publish()
            self.announce_room()
            if due:
                await self.leave()
            else:
                await self.entity.wait(lambda: False)

    async def leave(self) -> None:
        """Cancel the requests to the node, and continue as new. The next run sends them again."""
        for name in (RECALL_INTENT, TAKE_INTENT, ATTEND, ANNOUNCE_ROOM):
            self.busy.cancel(name)
        # Signals to owners are finished first: the next run does not know which signals this run had begun to send.
        # Replay: a cancelled step is over only when the server has recorded it. A run that ended earlier would lose the
        # cancellation.
        await self.entity.until(lambda: not self.busy)
        if await self.entity.is_still_quiet_in_the_next_task():
            # Replay: nothing is awaited between the check above and this call, or an update could be lost. The memo is
            # sent again, so that the newest key encrypts it: a memo that is carried over keeps the old key.
            workflow.continue_as_new(next_input(self.state), memo=_memo(node_report.summary(self.state)))

    async def end(self) -> None:
        """Signal to owners that their pods here are gone. The node gets no requests any more."""
        self.publish()
        for name in (RECALL_INTENT, TAKE_INTENT, ATTEND, ANNOUNCE_ROOM):
            self.busy.cancel(name)
        while self.state.untold or self.busy:
            self.signal_owners()
            await self.entity.until(lambda: not self.busy)
        # Replay: if the run ended before a handler has returned, that handler's answer would be lost.
        await self.entity.until(workflow.all_handlers_finished)

    # --- requests to the node -----------------------------------------------------------------------------------------

    def send_requests(self) -> None:
        """Begin the requests that are due: recall the node's list, or send it a newer one, and wait for changes."""
        state = self.state
        if not state.is_recalled:
            self.busy.begin(RECALL_INTENT, self.node.recall())
        elif state.generation > state.taken:
            if TAKE_INTENT in self.busy and self.node.sent < state.generation:
                self.busy.cancel(TAKE_INTENT)  # the request's end wakes the workflow, to send the newer list
            self.busy.begin(TAKE_INTENT, self.node.send_list())
        self.busy.begin(ATTEND, self.node.attend())

    # --- signals to owners, memo and page -----------------------------------------------------------------------------

    def signal_owners(self) -> None:
        """Signal to each owner which of its pods have changed, one signal at a time for each.

        Owners that perhaps do not exist wait for one another: a stolen node can claim hundreds of pods, each with an
        owner of its own.
        """
        state = self.state
        known = state.known_owners() if state.untold else frozenset()
        for owner in [each for each in state.untold if f"tell {each}" not in self.busy]:
            if owner not in known:
                if len(self.doubted) >= DOUBTED:
                    continue
                self.doubted.add(owner)
            # Replay: nothing is awaited between reading the news and taking it from `untold`. A later change goes with
            # the next message.
            news = state.news(owner, state.untold.pop(owner))
            self.busy.begin(f"tell {owner}", self.signal_owner(owner, news))

    def announce_room(self) -> None:
        """Notify workloads with pods that wait for a node: this node takes pods again.

        Call it after the memo is written, since the workloads' surveys read the memo. A change that a run has not
        announced before its end is lost.
        """
        if self.state.is_open and not self.was_open:
            self.busy.begin(ANNOUNCE_ROOM, self.node.announce_room())
        self.was_open = self.state.is_open

    async def signal_owner(self, owner: str, news: PodsChanged) -> None:
        """Signal one owner. If it was absent before and still is, its place stays taken for :data:`ABSENT_AGAIN`."""
        try:
            # Replay: the workflow numbers its messages, since the owner orders each node's messages by their numbers.
            self.state.told = max(self.state.told + 1, microseconds(workflow.now()))
            marked = Marked(news, f"signal/{PODS_CHANGED.name}", self.state.told)
            await workflow.get_external_workflow_handle(owner).signal(PODS_CHANGED.name, marked)
        except FailureError as error:
            text = f"the report of {len(news.pods)} pods cannot be sent to their owner {owner}: {error.message}"
            self.state.event(workflow.now(), "Warning", "FailedOwner", text)
            if owner in self.state.absent and not self.state.removed:
                await workflow.sleep(ABSENT_AGAIN, summary=f"{owner} does not exist")
            self.state.note_owner(owner, is_there=False)
        else:
            self.state.note_owner(owner, is_there=True)
        finally:
            self.doubted.discard(owner)

    def publish(self) -> None:
        """Write the memo that lists of nodes show, and the node's page in the UI."""
        summary = node_report.summary(self.state)
        if self.published is None:
            self.published = _recorded()
        if summary != self.published:
            workflow.upsert_memo(_memo(summary))
            self.published = summary
        self.show()

    def show(self) -> None:
        """Show the node in the UI; costs no history."""
        workflow.set_current_details(node_report.details(self.state))

    # --- called by the entity -----------------------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Fold one signal into the state, or show it as a rejection."""
        try:
            node_changes.SIGNALS[name](self.state, args, workflow.now())
        except (Rejected, ValueError) as wrong:
            self.state.reject(workflow.now(), f"signal {name}", sentence(wrong))

    def on_cancel(self) -> None:
        """Go on, and show that the cancellation is refused."""
        self.state.reject(workflow.now(), "cancel", "to remove the node from its fleet, use `syncpod fleet remove`")
        self.show()  # this refusal does not wake the loop, which would show it otherwise

    def refuse(self, name: str, why: str) -> None:
        """Show that a signal was not accepted, and why."""
        self.state.reject(workflow.now(), f"signal {name}", why)

    def is_at_rest(self) -> bool:
        """Say whether the workflow awaits no answer."""
        return not self.busy

    # --- signals, updates, queries ------------------------------------------------------------------------------------

    def receive(self, signal: SignalSpec[Any], args: Sequence[Any]) -> None:
        """Collect a signal; never awaits or raises."""
        self.entity.receive(signal, args)

    @workflow.signal(dynamic=True, description=UNKNOWN)
    def receive_unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        self.entity.refuse(name, unknown_signal(FLEET_NODE_COMMANDS, name, len(args)))

    async def change(self, update: UpdateSpec[Any], args: Sequence[Any]) -> dict[str, Any]:
        """Carry out an accepted update. An earlier update may have made this one impossible."""
        given = self.entity.obey(update, args)
        await self.entity.change(lambda: node_changes.change(self.state, update.name, given, workflow.now()))
        return {"node": self.state.name, "generation": self.state.generation}

    def check(self, update: UpdateSpec[Any], args: Sequence[Any]) -> None:
        """Try a change on a copy of the state, so that an invalid one is refused before anything is written."""
        if self.refusal:
            raise invalid(self.refusal)
        given = self.entity.allow(update, args)
        copy = self.state.model_copy(deep=True)
        self.entity.attempt(lambda: node_changes.change(copy, update.name, given, workflow.now()))

    @query_handler(FLEET_NODE)
    def fleet_node(self) -> dict[str, Any]:
        """Return the whole node (:class:`syncpod.messages.fleet.FleetNodeView`)."""
        return node_report.view(self.state).model_dump(mode="json", by_alias=True)

    @query_handler(INTENT)
    def intent(self) -> dict[str, Any]:
        """Return the list of pods that the node should run (:class:`syncpod.messages.fleet.Intent`)."""
        return self.state.intent().model_dump(mode="json", by_alias=True)


def _begun(start: Any, workflow_id: str, decisions: int) -> tuple[FleetNodeState, str]:
    """Return the state that a run begins with, and why the run cannot begin; "" if it can."""
    if refusal := too_old(decisions):
        return FleetNodeState(), refusal
    if not isinstance(start, dict):
        return FleetNodeState(), 'input: must be {"fleet": <id>, "node": <name>}'
    if "snapshot" in start:
        try:
            state = FleetNodeState.model_validate(start["snapshot"])
        except ValueError as wrong:
            return FleetNodeState(), f"snapshot: {wrong}"
    else:
        limit = start.get("maxEvents", 0)
        state = FleetNodeState(max_events=limit if isinstance(limit, int) else 0)
        state.fleet, state.name = str(start.get("fleet", "")), str(start.get("node", ""))
        grace = start.get("graceSeconds")
        state.grace = float(grace) if isinstance(grace, int | float) and grace > 0 else state.grace
    if not state.fleet:
        return state, "fleet: required"
    if workflow_id != fleet_node_id(state.name):
        return state, f"node: must match the workflow id {workflow_id}, is {state.name!r}"
    state.decision_version = decisions
    return state, ""


def _memo(summary: FleetNodeSummary) -> dict[str, Any]:
    return {FLEET_NODE_MEMO: summary.model_dump(mode="json", by_alias=True)}


def _recorded() -> FleetNodeSummary | None:
    """Return the summary that an earlier run left in the memo; None if there is none, or it cannot be read."""
    try:
        return FleetNodeSummary.model_validate(plain(workflow.memo_value(FLEET_NODE_MEMO, None)))
    except ValueError:
        return None
