"""FleetObjectWorkflow: one durable run per ConfigMap or Secret of a fleet. The run cannot decrypt the content.

::

    put, delete ──► sealed for the fleet ──► announce_object ──► nodes whose pods refer to it are sent their lists anew
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.version import DECISION_VERSION, too_old
    from syncpod.messages.command_table import Nothing, SignalSpec, UpdateSpec
    from syncpod.messages.fleet_commands import DELETE_OBJECT, FLEET_OBJECT_COMMANDS, IS_DELETING, PUT, SEALED
    from syncpod.messages.fleet_objects import (
        ANNOUNCE_OBJECT,
        FLEET_OBJECT_MEMO,
        FLEET_OBJECT_WORKFLOW,
        FleetObjectRef,
        FleetObjectView,
        PutObject,
        SealedObject,
        object_id,
    )
    from syncpod.messages.signed import Accepted
    from workflows.effects import Effect, effects
    from workflows.entity import Entity, SignalQueue, decisions_taken, invalid, next_input
    from workflows.fleet.signed import fleet_commands, require_its_history
    from workflows.handlers import query_handler, takes
    from workflows.rejections import Rejected

_PART: Final = 256
_RETRY: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=30)
)
_ANSWER: Final = timedelta(seconds=120)


class ObjectState(BaseModel):
    """The snapshot. Mutable; changed only between two awaits of the workflow."""

    model_config = ConfigDict(extra="ignore")

    put: PutObject | None = None
    """The object as last put; None = nothing has been put yet."""
    decision_version: int = DECISION_VERSION
    since: datetime | None = None
    announced: str = ""
    """The version that was last announced to the nodes."""
    deleting: bool = False
    max_events: int = 0
    accepted: Accepted = Accepted()


@workflow.defn(name=FLEET_OBJECT_WORKFLOW)
@takes(FLEET_OBJECT_COMMANDS)
class FleetObjectWorkflow:
    """A ConfigMap or a Secret, until it is deleted."""

    @workflow.init
    def __init__(self, *inputs: Any) -> None:
        self.commands, decisions = fleet_commands(inputs), decisions_taken()
        self.state, refusal = _begun(self.commands.input, decisions)
        self.refusal = self.commands.refusal or refusal
        self.state.accepted = self.commands.accepted_before(self.state.accepted)
        self.entity = Entity(self, self.state, SignalQueue(), self.commands, part=_PART)
        self.updates = effects(Effect(PUT, self.put), Effect(DELETE_OBJECT, self.delete))
        self.is_busy = False

    @workflow.run
    async def run(self, *_inputs: Any) -> None:
        """Keep the object, until it is deleted."""
        require_its_history(self.commands)
        if self.refusal:
            raise invalid(self.refusal)
        while True:
            await self.entity.take_in()
            put = self.state.put
            if put is not None and (self.state.deleting or put.version != self.state.announced):
                await self.announce(put)
                continue
            if self.state.deleting and workflow.all_handlers_finished():
                return
            due = self.entity.is_due()
            if due and self.entity.is_quiet():
                if await self.entity.is_still_quiet_in_the_next_task():
                    # Replay: nothing is awaited between the check above and this call, or an update could be lost. The
                    # memo is sent again, so that the newest key encrypts it: a memo that is carried over keeps the old
                    # key.
                    workflow.continue_as_new(next_input(self.state), memo=_memo(self.state))
                continue
            await self.entity.wait(lambda due=due: due and self.entity.is_quiet())  # type: ignore[misc]

    async def announce(self, put: PutObject) -> None:
        """Announce to the nodes that the object has changed, or is gone."""
        deleting = self.state.deleting
        if deleting:
            self.state.put = None  # before the announcement: notified nodes request the object at once
        self.is_busy = True
        ref = FleetObjectRef(kind=put.kind, namespace=put.namespace, name=put.name)
        telling = workflow.start_activity(
            ANNOUNCE_OBJECT,
            ref,
            start_to_close_timeout=_ANSWER,
            retry_policy=_RETRY,
            summary=f"{put.kind.lower()} {put.name} {'is gone' if deleting else 'has changed'}",
            result_type=RawValue,
        )
        await self.entity.until(telling.done)
        self.is_busy = False
        # After a deletion no version counts as announced: the same content may have been applied again meanwhile.
        self.state.announced = "" if deleting else put.version

    # --- called by the entity -----------------------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Ignore signals: this workflow has none of its own."""

    def on_cancel(self) -> None:
        """Go on, and show that the cancellation is refused: only the update `delete` ends an object."""
        workflow.set_current_details("Last rejected: cancel: to end the object, send the update `delete`")

    def refuse(self, name: str, why: str) -> None:
        """Do nothing: a refused signal changes nothing here."""

    def is_at_rest(self) -> bool:
        """Say whether no step is under way."""
        return not self.is_busy

    # --- signals, updates, queries ------------------------------------------------------------------------------------

    def receive(self, signal: SignalSpec[Any], args: Sequence[Any]) -> None:
        """Obey `renew`, the only signal; never awaits or raises."""
        self.entity.receive(signal, args)

    @workflow.signal(dynamic=True, description="A signal of any other name is ignored")
    def receive_unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Ignore a signal of an unknown name."""

    async def change(self, update: UpdateSpec[Any], args: Sequence[Any]) -> dict[str, Any]:
        """Carry out an accepted update."""
        given, answer = self.entity.obey(update, args), dict[str, Any]()

        def change() -> None:
            answer.update(self.updates[update.name](self.state, given, workflow.now()))

        await self.entity.change(change)
        return answer

    def check(self, update: UpdateSpec[Any], args: Sequence[Any]) -> None:
        """Refuse a command that is not accepted, an invalid object, and one that belongs to another workflow."""
        if self.refusal:
            raise invalid(self.refusal)
        given = self.entity.allow(update, args)
        if update.name == PUT.name:
            self.entity.attempt(lambda: Effect(PUT, _require_own)(self.state, given, workflow.now()))

    def put(self, state: ObjectState, given: PutObject, now: datetime) -> dict[str, Any]:
        """Store this content; return whether it was created, configured or unchanged."""
        before = state.put
        if given.replaces:
            self.replace(given)
            return {"change": "unchanged"}
        state.put, state.since, state.deleting = given, state.since or now, False
        workflow.upsert_memo(_memo(state))
        same = before is not None and before.version == given.version
        return {"change": "created" if before is None else "unchanged" if same else "configured"}

    def delete(self, state: ObjectState, _: Nothing, _now: datetime) -> dict[str, Any]:
        """Delete the object, on the nodes too."""
        state.deleting = True
        return {}

    def replace(self, given: PutObject) -> None:
        """Store the same content, sealed for another key of the fleet, unless the content has changed meanwhile.

        Nodes are not notified.
        """
        state = self.state
        if state.put is None or state.deleting or state.put.version != given.replaces:
            return
        if state.announced == given.replaces:
            state.announced = given.version
        state.put = state.put.model_copy(update=given.model_dump(include={"version", "metadata", "sealed"}))
        workflow.upsert_memo(_memo(state))

    @query_handler(SEALED)
    def sealed(self) -> dict[str, Any] | None:
        """Return the sealed object (:class:`syncpod.messages.fleet_objects.SealedObject`); None = it is gone."""
        put = self.state.put
        return SealedObject.model_validate(put.model_dump()).model_dump(mode="json", by_alias=True) if put else None

    @query_handler(IS_DELETING)
    def is_deleting(self) -> bool:
        """Say whether the object is being deleted; False if it was put again meanwhile."""
        return self.state.deleting


def _begun(start: Any, decisions: int) -> tuple[ObjectState, str]:
    if refusal := too_old(decisions):
        return ObjectState(), refusal
    given = start if isinstance(start, dict) else {}
    try:
        state = ObjectState.model_validate(given.get("snapshot", {}))
    except ValueError as wrong:
        return ObjectState(), f"snapshot: {wrong}"
    state.decision_version = decisions
    return state, ""


def _require_own(_state: ObjectState, put: PutObject, _now: datetime) -> None:
    """Raise Rejected for an object that belongs to another workflow."""
    if object_id(put.kind, put.namespace, put.name) != workflow.info().workflow_id:
        raise Rejected(f"must be {workflow.info().workflow_id}, is {put.key}")


def _memo(state: ObjectState) -> dict[str, Any]:
    return {FLEET_OBJECT_MEMO: _view(state).model_dump(mode="json", by_alias=True)}


def _view(state: ObjectState) -> FleetObjectView:
    put = state.put or PutObject()
    return FleetObjectView(
        kind=put.kind,
        namespace=put.namespace,
        name=put.name,
        type=put.type,
        keys=put.keys,
        version=put.version,
        since=state.since,
    )
