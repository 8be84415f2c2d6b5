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
    from syncpod.messages.fleet import (
        ATTEND,
        FLEET_NODE_MEMO,
        FLEET_NODE_WORKFLOW,
        RECALL_INTENT,
        TAKE_INTENT,
        FleetNodeSummary,
        Place,
        PodsChanged,
        Withdraw,
        fleet_node_id,
    )
    from syncpod.messages.fleet_objects import FleetObjectRef
    from syncpod.messages.signed import Marked, microseconds, plain
    from syncpod.messages.workload import ANNOUNCE_ROOM
    from workflows.described import NOTHING, takes
    from workflows.entity import Entity, decisions_taken, invalid
    from workflows.fleet import node_changes, node_report
    from workflows.fleet.inbox import FleetInbox
    from workflows.fleet.node_questions import NodeQuestions
    from workflows.fleet.node_state import FleetNodeState
    from workflows.fleet.signed import fleet_commands, require_its_history
    from workflows.fleet.under_way import UnderWay
    from workflows.rejections import sentence

_PART: Final = 256
DOUBTED: Final = 16
"""The most owners that are signalled at a time of those that perhaps do not exist."""
ABSENT_AGAIN: Final = timedelta(seconds=5)
"""How long the place of an owner that was found absent again stays taken."""


@workflow.defn(name=FLEET_NODE_WORKFLOW)
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
        self.entity = Entity(self, self.state, FleetInbox(), self.commands, part=_PART)
        self.busy = UnderWay(self.entity.wake)
        self.node = NodeQuestions(self.state)
        self.trusted = self.state.report.fleet_key
        self.doubted: set[str] = set()
        """Owners that are being signalled, and perhaps do not exist: no more than :data:`DOUBTED`."""
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
                self.entity.renew()  # this history has answers that only the earlier key opens
            self.trusted = self.state.report.fleet_key
            due = self.entity.is_due()
            if not due:
                self.ask()
            self.tell_owners()
            self.publish()
            self.tell_waiting()
            if due:
                await self.leave()
            else:
                await self.entity.wait(lambda: False)

    async def leave(self) -> None:
        """Cancel what is under way on the node, and continue as new. The next run asks for the same again."""
        for name in (RECALL_INTENT, TAKE_INTENT, ATTEND, ANNOUNCE_ROOM):
            self.busy.cancel(name)
        # Signals to owners are finished first: the next run does not know which ones this run had begun to send.
        # Replay: a cancelled step is over only when the server has said so. A run that ended earlier would lose that.
        await self.entity.until(lambda: not self.busy)
        if await self.entity.is_still_quiet_in_the_next_task():
            # Replay: nothing is awaited between that check and this, or an update could be lost.
            # The memo too, so that the newest key encrypts it: one that is carried over stays as it is.
            workflow.continue_as_new(next_input(self.state), memo=_memo(node_report.summary(self.state)))

    async def end(self) -> None:
        """Tell owners that their pods here are gone. The node is not asked anything any more."""
        self.publish()
        for name in (RECALL_INTENT, TAKE_INTENT, ATTEND, ANNOUNCE_ROOM):
            self.busy.cancel(name)
        while self.state.untold or self.busy:
            self.tell_owners()
            await self.entity.until(lambda: not self.busy)
        # Replay: if the run ended before a handler has returned, that handler's answer would be lost.
        await self.entity.until(workflow.all_handlers_finished)

    # --- asking the node ----------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask the node for its list, send it a newer one, and wait for changes on it."""
        state = self.state
        if not state.is_recalled:
            self.busy.begin(RECALL_INTENT, self.node.recall())
        elif state.generation > state.taken:
            if TAKE_INTENT in self.busy and self.node.sent < state.generation:
                self.busy.cancel(TAKE_INTENT)  # its end wakes the workflow, which then sends the newer list
            self.busy.begin(TAKE_INTENT, self.node.send_list())
        self.busy.begin(ATTEND, self.node.attend())

    # --- telling ------------------------------------------------------------------------------------------------------

    def tell_owners(self) -> None:
        """Tell each owner which of its pods have changed, with one signal at a time to each.

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
            # Replay: no await between reading the news and taking it from `untold`. A later change is told next time.
            news = state.news(owner, state.untold.pop(owner))
            self.busy.begin(f"tell {owner}", self.tell(owner, news))

    def tell_waiting(self) -> None:
        """Tell workloads whose pods wait for a node that this one takes pods again.

        After the memo is written, which surveys read. What a run has not told when it ends is not told.
        """
        if self.state.is_open and not self.was_open:
            self.busy.begin(ANNOUNCE_ROOM, self.node.announce_room())
        self.was_open = self.state.is_open

    async def tell(self, owner: str, news: PodsChanged) -> None:
        """Signal one owner. One that was known to be absent, and still is, keeps its place for a while."""
        try:
            # Replay: numbered by the workflow, since its owner goes by the order of what each node tells it.
            self.state.told = max(self.state.told + 1, microseconds(workflow.now()))
            marked = Marked(news, "signal/pods_changed", self.state.told)
            await workflow.get_external_workflow_handle(owner).signal("pods_changed", marked)
        except FailureError as error:
            text = f"cannot tell the owner {owner} about {len(news.pods)} pods: {error.message}"
            self.state.event(workflow.now(), "Warning", "FailedOwner", text)
            if owner in self.state.absent and not self.state.removed:
                await workflow.sleep(ABSENT_AGAIN, summary=f"{owner} does not exist")
            self.state.heard(owner, is_there=False)
        else:
            self.state.heard(owner, is_there=True)
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
        workflow.set_current_details(node_report.details(self.state))

    # --- what the entity asks of its workflow -------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Handle `object_changed` and `key_changed`, and show any other or invalid signal as a rejection."""
        if name == "key_changed":
            node_changes.key_changed(self.state)
            return
        if name == "object_changed":
            try:
                ref = FleetObjectRef.model_validate(args[0] if len(args) == 1 else None)
            except ValueError as wrong:
                self.state.reject(workflow.now(), f"signal {name}", sentence(wrong))
                return
            node_changes.object_changed(self.state, ref.key)
            return
        self.state.reject(workflow.now(), f"signal {name}", "unknown; known: key_changed, object_changed, renew")

    def on_cancel(self) -> None:
        """Go on, and show that a cancellation was not obeyed."""
        self.state.reject(workflow.now(), "cancel", "to remove the node from its fleet, use `syncpod fleet remove`")

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

    @workflow.signal(description=takes(NOTHING, "Continue as new at the next quiet point"))
    def renew(self, *args: Any) -> None:
        """Continue as new at the next quiet point."""
        if self.entity.is_accepted("renew", args):
            self.entity.renew()

    @workflow.signal(description=takes(FleetObjectRef, "A ConfigMap or a Secret has changed"))
    def object_changed(self, *args: Any) -> None:
        """Learn that an object has changed (:class:`syncpod.messages.fleet_objects.FleetObjectRef`)."""
        # A copy only has the list sent anew. So none is remembered: no later command can keep one out.
        if why := self.commands.refusal_of("signal/object_changed", args):
            self.refuse("object_changed", why)
            self.entity.wake()
            return
        self.entity.put("object_changed", [plain(each) for each in args])

    @workflow.signal(description=takes(NOTHING, "The fleet uses another sealing key"))
    def key_changed(self, *args: Any) -> None:
        """Learn that the fleet uses another sealing key."""
        if self.entity.is_accepted("key_changed", args):
            self.entity.put("key_changed", [])

    @workflow.signal(
        dynamic=True, description="What a node reports, and a signal of any other name, which is shown as a rejection"
    )
    def unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        self.entity.put(name, args)

    @workflow.update(description=takes(Place, "Run pods on the node for a workload"))
    async def place(self, *args: Any) -> dict[str, Any]:
        """Run pods on the node: ``{"owner": "workload/…", "pods": [<v1 Pod>, …]}``."""
        return await self.change("place", args)

    @place.validator
    def check_place(self, *args: Any) -> None:
        """Refuse pods that the node cannot take."""
        self.check("place", args)

    @workflow.update(description=takes(Withdraw, "End pods on the node"))
    async def withdraw(self, *args: Any) -> dict[str, Any]:
        """End pods on the node: ``{"pods": [{"namespace": "default", "name": "web"}], "reason": "…"}``."""
        return await self.change("withdraw", args)

    @withdraw.validator
    def check_withdraw(self, *args: Any) -> None:
        """Refuse an invalid payload."""
        self.check("withdraw", args)

    @workflow.update(description=takes(NOTHING, "Place no new pods on the node; existing ones keep running"))
    async def cordon(self, *args: Any) -> dict[str, Any]:
        """Place no new pods on the node. Existing ones keep running."""
        return await self.change("cordon", args)

    @cordon.validator
    def check_cordon(self, *args: Any) -> None:
        """Refuse whoever may not command the fleet."""
        self.check("cordon", args)

    @workflow.update(description=takes(NOTHING, "Place new pods on the node again"))
    async def uncordon(self, *args: Any) -> dict[str, Any]:
        """Place new pods on the node again."""
        return await self.change("uncordon", args)

    @uncordon.validator
    def check_uncordon(self, *args: Any) -> None:
        """Refuse whoever may not command the fleet."""
        self.check("uncordon", args)

    @workflow.update(
        description=takes(
            NOTHING, "Place no new pods on the node, and have their owners move its existing pods elsewhere"
        )
    )
    async def drain(self, *args: Any) -> dict[str, Any]:
        """Place no new pods on the node, and have their owners move its existing pods elsewhere."""
        return await self.change("drain", args)

    @drain.validator
    def check_drain(self, *args: Any) -> None:
        """Refuse whoever may not command the fleet."""
        self.check("drain", args)

    @workflow.update(description=takes(NOTHING, "Remove the node from the fleet"))
    async def remove(self, *args: Any) -> dict[str, Any]:
        """Remove the node from the fleet. The caller has made sure that the node can do no harm."""
        return await self.change("remove", args)

    @remove.validator
    def check_remove(self, *args: Any) -> None:
        """Refuse whoever may not command the fleet."""
        self.check("remove", args)

    async def change(self, name: str, args: tuple[Any, ...]) -> dict[str, Any]:
        """Carry out an accepted update. An update before it may have made it impossible."""
        given = self.entity.obey(name, args)
        await self.entity.change(lambda: node_changes.change(self.state, name, given, workflow.now()))
        return {"node": self.state.name, "generation": self.state.generation}

    def check(self, name: str, args: tuple[Any, ...]) -> None:
        """Try a change on a copy of the state, so that an invalid one is refused before anything is written."""
        if self.refusal:
            raise invalid(self.refusal)
        given = self.entity.allow(name, args)
        copy = self.state.model_copy(deep=True)
        self.entity.attempt(lambda: node_changes.change(copy, name, given, workflow.now()))

    @workflow.query(description="The whole node: presence, pods, capacity and events")
    def fleet_node(self) -> dict[str, Any]:
        """Return the whole node (:class:`syncpod.messages.fleet.FleetNodeView`)."""
        return node_report.view(self.state).model_dump(mode="json", by_alias=True)

    @workflow.query(description="The list of pods that the node should run")
    def intent(self) -> dict[str, Any]:
        """Return the list of pods that the node should run (:class:`syncpod.messages.fleet.Intent`)."""
        return self.state.intent().model_dump(mode="json", by_alias=True)


def next_input(state: FleetNodeState) -> dict[str, Any]:
    """Return the input of the run that follows this one."""
    return {"snapshot": state.model_dump(mode="json", exclude_defaults=True), "decisions": state.decision_version}


def _begun(start: Any, workflow_id: str, decisions: int) -> tuple[FleetNodeState, str]:
    """Return the state that a run begins with, and "" or the sentence that says why it cannot begin."""
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
