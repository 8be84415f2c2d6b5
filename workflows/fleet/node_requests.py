"""The requests of a fleet's workflow to its node, one at a time of each kind, and the use of the answers.

A node may be stolen. So its answers are bounded, and after wrong answers the pauses between requests grow.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType

with workflow.unsafe.imports_passed_through():
    from syncpod.messages.fleet import (
        ATTEND,
        ATTEND_SECONDS,
        RECALL_INTENT,
        STALE_INTENT,
        TAKE_INTENT,
        Attend,
        Attended,
        Intent,
        IntentTaken,
        WhoAsks,
        fleet_node_id,
    )
    from syncpod.messages.fleet_objects import SEAL_OBJECTS, ObjectsSealed, SealObjects
    from syncpod.messages.identity import Message
    from syncpod.messages.workload import ANNOUNCE_ROOM, Room
    from workflows.entity import PAUSE, decoded
    from workflows.event_log import clipped
    from workflows.fleet import node_changes
    from workflows.fleet.claimed_pods import ClaimedPods
    from workflows.fleet.lives import CLOSE_SECONDS
    from workflows.fleet.node_changes import PLACED_LIMIT
    from workflows.fleet.node_state import FleetNodeState
    from workflows.fleet.report_bounds import why_too_large

_CHECKED: Final = 128
"""The most pods that are checked in one workflow task, which takes a tenth of a second."""
_ANSWER: Final = timedelta(seconds=30)
"""How long a node may take to accept a list: it writes the list to its disk, and updates its own workflow."""
_ROOM: Final = timedelta(seconds=60)
"""The timeout for notifying workloads of a node's room. After this time the workloads have tried again anyway."""
_RETRY: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=6,
)
"""After these attempts the request is built anew: the node may have a new certificate, and the old request is sealed
for the earlier one."""
BEAT: Final = 0.4
"""The heartbeat timeout of ``attend``, as a share of the node's grace. When it has passed, ``attend`` is sent again."""
_ONCE: Final = RetryPolicy(maximum_attempts=1)
_PAUSE: Final = timedelta(seconds=5)
"""The pause after a node has answered with an error. It is also the first pause after a node has announced a newer list
for the second time."""
_LONGEST_PAUSE: Final = timedelta(minutes=5)
REPORTS: Final = 20
"""The most reports of a node within :data:`REPORTS_WITHIN`. An honest node waits a second before each."""
REPORTS_WITHIN: Final = timedelta(seconds=10)

Answer = TypeVar("Answer", bound=Message)


class NodeRequests:
    """The requests to one node. Each ends with the answer folded into the state, or with a pause."""

    def __init__(self, state: FleetNodeState) -> None:
        self.state = state
        self.sent = 0
        """The generation that the running `take_intent` carries."""
        self.missed = False
        """The last `attend` ended because heartbeats were missing."""
        self.refused_since: datetime | None = None
        """Since when all reports of the node have been refused."""

    async def recall(self) -> None:
        """Request from the node the list that this fleet last sent it."""
        asked = WhoAsks(fleet=self.state.fleet, node=self.state.name)
        recalled = await self.call(RECALL_INTENT, asked, Intent, summary="which list does the node have?")
        if recalled is not None:
            await self.take_over(recalled, replaces=False)

    async def send_list(self) -> None:
        """Send the node its newest list, with the objects that its pods refer to."""
        # Replay: the list and its generation are read together, before any await, since the workflow compares the
        # generation later.
        intent = node_changes.sending(self.state, workflow.now())
        self.sent = intent.generation
        sealed = await self.seal_objects()
        if sealed is None:
            return
        intent = intent.model_copy(update={"objects": sealed.objects, "key": sealed.key})
        summary = f"intent {intent.generation}: {len(intent.pods)} pods"
        asked = workflow.now()
        answer = await self.call(TAKE_INTENT, intent, IntentTaken, summary=summary)
        if answer is not None:
            node_changes.note_life(self.state, answer, asked, workflow.now())
        if answer is not None and answer.generation != intent.generation:
            await self.note_trouble(TAKE_INTENT, f"it has acknowledged list {answer.generation}, not {self.sent}")
        elif answer is not None:
            node_changes.taken(self.state, answer, workflow.now())

    async def seal_objects(self) -> ObjectsSealed | None:
        """Return the fleet's objects that the pods refer to, sealed for the node; None if that fails for now.

        If the node trusts an earlier key of the fleet, the answer also has the message about the key in use.
        """
        if not self.state.needs_objects() and not self.state.needs_key():
            self.state.referred = ()
            return ObjectsSealed()
        try:
            returned: RawValue = await workflow.execute_activity(
                SEAL_OBJECTS,
                SealObjects(
                    node=self.state.name,
                    unproven=tuple(key for key, placed in sorted(self.state.placed.items()) if placed.recalled),
                    trusted=self.state.report.fleet_key,
                ),
                start_to_close_timeout=_ANSWER,
                retry_policy=_RETRY,
                summary="objects that its pods refer to",
                result_type=RawValue,
            )
        except ActivityError as error:
            if not isinstance(error.cause, CancelledError):
                await self.note_trouble(TAKE_INTENT, _why(error))
            return None
        answer = _read(decoded(returned), ObjectsSealed)
        if answer is None:
            await self.note_trouble(TAKE_INTENT, "the objects that its pods refer to cannot be read")
            return None
        node_changes.sealed(self.state, answer, workflow.now())
        return answer

    async def announce_room(self) -> None:
        """Notify workloads whose pods wait for a node, so that they try again now instead of after their own pauses."""
        try:
            await workflow.execute_activity(
                ANNOUNCE_ROOM,
                Room(node=self.state.name),
                start_to_close_timeout=_ANSWER,
                schedule_to_close_timeout=_ROOM,
                retry_policy=_RETRY,
                summary="workloads with pods that wait for a node try again",
                result_type=RawValue,
            )
        except ActivityError as error:
            if not isinstance(error.cause, CancelledError):
                text = f"workloads with waiting pods could not be notified of room: {_why(error)}"
                self.state.event(workflow.now(), "Warning", "FailedOwner", text)

    async def attend(self) -> None:
        """Wait until something changes on the node, or the node falls silent."""
        state = self.state
        if (early := self.early()) > timedelta():  # the pause began in an earlier run
            await workflow.sleep(early, summary=f"{state.name} reports too often")
        grace = timedelta(seconds=state.grace)
        beat = grace * BEAT
        # A node that is joining or already silent may begin the request at any time.
        begin_within = None if state.presence in ("Joining", "Unknown") else grace - beat if self.missed else grace
        # A node that is back may have no change. With an empty version it answers at once, and is Unknown no longer.
        version = "" if state.presence == "Unknown" else state.version
        asked = workflow.now()
        longest = CLOSE_SECONDS if state.lives.are_doubtful(asked) else ATTEND_SECONDS
        try:
            returned: RawValue = await workflow.execute_activity(
                ATTEND,
                Attend(
                    fleet=state.fleet, node=state.name, version=version, seconds=longest, taken=state.settled_generation
                ),
                task_queue=fleet_node_id(state.name),
                start_to_close_timeout=timedelta(seconds=ATTEND_SECONDS) + grace,
                schedule_to_start_timeout=begin_within,
                heartbeat_timeout=beat,
                retry_policy=_ONCE,
                summary=f"wait for a change on {state.name}",
                result_type=RawValue,
            )
        except ActivityError as error:
            if isinstance(error.cause, TimeoutError) and error.cause.type == TimeoutType.HEARTBEAT and not self.missed:
                self.missed = True  # perhaps its worker was just restarted, and answers the next request
            elif isinstance(error.cause, TimeoutError):
                node_changes.fell_silent(state, workflow.now())
            elif not isinstance(error.cause, CancelledError):
                await self.note_trouble(ATTEND, _why(error))
            return
        self.missed = False
        answer = _read(decoded(returned), Attended)
        why = "its report cannot be read" if answer is None else why_too_large(state, answer)
        if answer is None or why:
            self.refused_since = self.refused_since or workflow.now()
            # The node is not Unknown at once: perhaps only this worker of the fleet lacks the node's newest key.
            if workflow.now() - self.refused_since >= grace:
                node_changes.reports_refused(state, workflow.now())
            await self.note_trouble(ATTEND, why)
            return
        self.refused_since = None
        node_changes.attended(state, answer, workflow.now())
        node_changes.note_life(state, answer, asked, workflow.now())
        if state.is_recalled and answer.generation > state.generation:
            why = f"node {state.name} has list {answer.generation}, which is newer than {state.generation}"
            await self.recall_newer(why)
        await self.keep_pace()

    async def keep_pace(self) -> None:
        """Pause if the node reports more often than an honest one does: each report costs the fleet's worker time."""
        self.state.reported = (*self.state.reported, workflow.now())[-REPORTS:]
        if self.early() <= timedelta():
            self.state.troubles.pop(ATTEND, None)
            return
        within = _seconds(REPORTS_WITHIN)
        self.state.troubles[ATTEND] = (
            f"it has reported {REPORTS} times within {within}: the next request follows {within} later"
        )
        await workflow.sleep(REPORTS_WITHIN, summary=f"{self.state.name} reports too often")

    def early(self) -> timedelta:
        """Return how long a node gets no request, as it reports too often; 0 or less means that it may get one now."""
        reported = self.state.reported
        return reported[0] + REPORTS_WITHIN - workflow.now() if len(reported) >= REPORTS else timedelta()

    async def call(self, name: str, asked: Message, answer: type[Answer], *, summary: str) -> Answer | None:
        """Send the node a request that it answers at once. None = no valid answer came; the state has the reason."""
        try:
            returned: RawValue = await workflow.execute_activity(
                name,
                asked,
                task_queue=fleet_node_id(self.state.name),
                start_to_close_timeout=_ANSWER,
                retry_policy=_RETRY,
                summary=summary,
                result_type=RawValue,
            )
        except ActivityError as error:
            cause = error.cause
            # Only a request that sends the node a list allows the answer that the node has a newer one.
            if name == TAKE_INTENT and isinstance(cause, ApplicationError) and cause.type == STALE_INTENT:
                await self.recall_newer(cause.message)
            elif not isinstance(cause, CancelledError):
                await self.note_trouble(name, _why(error))
            return None
        read = _read(decoded(returned), answer)
        if read is None:
            await self.note_trouble(name, f"its answer to {name} cannot be read")
        else:
            self.state.troubles.pop(name, None)
        return read

    async def recall_newer(self, why: str) -> None:
        """Request the node's list, and take it over: it is newer, since the fleet's database is an older backup.

        If the node announces a newer list again and again, the pause before this request doubles each time, up to five
        minutes.
        """
        state = self.state
        state.event(workflow.now(), "Warning", "StaleIntent", why)
        if (times := node_changes.stale(state, workflow.now())) > 1:
            pause = min(_PAUSE * 2 ** min(times - 2, 10), _LONGEST_PAUSE)
            state.troubles[TAKE_INTENT] = (
                f"it has announced a newer list {times} times: the list is requested in {_seconds(pause)}"
            )
            await workflow.sleep(pause, summary=f"pause before the newer list of {state.name} is requested again")
        asked = WhoAsks(fleet=state.fleet, node=state.name)
        recalled = await self.call(RECALL_INTENT, asked, Intent, summary="the node has a newer list: request it")
        if recalled is not None:
            await self.take_over(recalled, replaces=True)

    async def take_over(self, recalled: Intent, *, replaces: bool) -> None:
        """Check the list that the node claims to have, and take it over; a long list takes several workflow tasks."""
        claims, pods = ClaimedPods(), recalled.pods[:PLACED_LIMIT]
        if len(recalled.pods) > PLACED_LIMIT:
            claims.wrong.append(
                f"pods: must be no more than {PLACED_LIMIT}, are {len(recalled.pods)}: the others are left out"
            )
        for first in range(0, len(pods), _CHECKED):
            if first:
                await workflow.sleep(PAUSE, summary=f"{len(pods) - first} pods are yet to be checked")
            claims.add(pods[first : first + _CHECKED], first)
        node_changes.recalled(self.state, recalled, claims, workflow.now(), replaces=replaces)

    async def note_trouble(self, name: str, why: str) -> None:
        """Show that the node did not answer a request as it should, and pause before the next one."""
        self.state.troubles[name] = clipped(why)
        self.state.event(workflow.now(), "Warning", "FailedNode", why)
        await workflow.sleep(_PAUSE, summary=f"pause before the next request to {self.state.name}")


def _seconds(pause: timedelta) -> str:
    return f"{pause.total_seconds():g} s"


def _why(error: ActivityError) -> str:
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return f"{cause.type or 'Error'}: {cause.message}"
    return f"{type(cause).__name__}: {cause}" if cause is not None else str(error)


def _read(said: Any, answer: type[Answer]) -> Answer | None:
    """Return a node's answer; None if it is not valid."""
    try:
        return answer.model_validate(said)
    except ValueError:
        return None
