"""Makes a node a member of its fleet: receives the fleet's list of pods, and reports the pods' states.

The list is sent to the node's own workflow as the source ``fleet``. That workflow starts and ends the pods, so they do
not depend on the fleet's server. (Pods of the directory of manifests take another path: `DesiredPods` sends their
orders.) This module only passes lists in one direction and reports in the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from syncpod.agent.fleet.contact import Contact
from syncpod.agent.fleet.kept_intent import keep_intent, read_intent
from syncpod.agent.fleet.objects import FleetObjects
from syncpod.agent.fleet.received_key import fleet_key_id, received_key
from syncpod.agent.fleet.remote_commands import RemoteCommands
from syncpod.agent.fleet.reports import FleetReports
from syncpod.fleet.when_lost import WAIT, WhenLost, when_lost
from syncpod.go_durations import go_duration
from syncpod.messages.fleet import (
    ATTEND_SECONDS,
    COALESCED_SECONDS,
    FLEET_SOURCE,
    FOREIGN_INTENT,
    STALE_INTENT,
    Attend,
    Attended,
    Intent,
    IntentTaken,
    Spoken,
    WhoAsks,
)
from syncpod.messages.fleet_objects import SealedKey
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.node import NodeView, SyncPods
from syncpod.messages.remote_command import RemoteCommand, RemoteCommandPiece
from syncpod.pod import PodInvalid, admit_pod
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import forget_earlier_keys, keep_received_key

log = logging.getLogger(__name__)

PARTING_SECONDS: Final = 1.0
"""Seconds that a leaving node waits for the fleet's next request, to send its last report in the answer."""
LOOK_SECONDS: Final = 0.25
"""Seconds between two checks of the states that the node's workflows publish."""

Answer = TypeVar("Answer", bound=Spoken)


class FleetMembership:
    """One node in one fleet. All methods belong to one event loop."""

    def __init__(
        self,
        invitation: Invitation,
        state_dir: Path,
        reports: FleetReports,
        *,
        contact: Contact,
        remote_commands: RemoteCommands,
        objects: FleetObjects,
        tell: Callable[[SyncPods], Awaitable[None]],
        open_pods: Callable[[], Awaitable[dict[str, str]]],
    ) -> None:
        """Make the node a member with these parts.

        `contact` has the time of the last contact with the fleet. `remote_commands` runs commands for the fleet, and
        `objects` keeps its ConfigMaps and Secrets. `tell` sends the list to the node's own workflow. `open_pods`
        returns the pod UIDs of the node's open workflows by workflow id. Both raise RPCError.
        """
        self._invitation, self._fleet, self._node = invitation, invitation.fleet, invitation.node
        self._state_dir, self._reports = state_dir, reports
        self._contact, self._tell, self._open_pods = contact, tell, open_pods
        self._remote_commands = remote_commands
        self._objects, self._are_objects_kept = objects, False
        self._stopped: dict[str, str] = {}
        """By ``namespace/name``: why a pod of the list must not run now."""
        self._intent: Intent | None = None
        """The list on disk; None = not read yet."""
        self._is_complete = False
        """Whether every open pod has published a state to this worker."""
        self._parting, self._has_parted = "", asyncio.Event()
        """Why the node leaves ("" = it does not), and whether its last report was sent."""
        self._missing_before: set[str] = set()
        """The pods that were missing at the last check."""
        self._turn = asyncio.Lock()
        """Held while a list is stored and passed on, so that a newer list cannot overtake it."""

    # --- the fleet's requests -----------------------------------------------------------------------------------------

    async def recall(self, asked: WhoAsks) -> Intent:
        """Return the newest list that this fleet has given the node; generation 0 if there is none."""
        self._require(asked)
        kept = await self._kept()
        return kept if kept.fleet == self._fleet else Intent(fleet=self._fleet, node=self._node)

    async def take(self, intent: Intent) -> IntentTaken:
        """Store the list, and send it to the node's workflow, which runs its pods.

        Raises ApplicationError if the list is refused, RPCError, OSError.
        """
        self._require(intent)
        async with self._turn:
            kept = await self._kept()
            if kept.fleet == self._fleet and (why := why_stale(kept, intent)):
                raise _refused(f"node {self._node} already has {why}", STALE_INTENT)
            # The disk comes first: if the node acted on a list and then lost it, an older list could undo it.
            await asyncio.to_thread(keep_intent, self._state_dir, intent)
            self._intent = intent
            # Objects come before the pods that refer to them.
            unkept = await self._keep_objects(intent)
            if not self._objects.needs_earlier:
                await asyncio.to_thread(forget_earlier_keys, self._state_dir)
            self._stopped |= self._must_not_run(intent)
            refused = await self._send_list(intent)
            # This comes last: the list that was just kept is sealed with both the earlier and the new key, an older
            # list only with the earlier one.
            untaken = await asyncio.to_thread(self._take_key, intent.key)
        taken = IntentTaken(generation=intent.generation, refused=refused, objects=unkept, key=untaken)
        return self._signed(taken)

    def trust(self, invitation: Invitation) -> None:
        """Trust the fleet's new key in `invitation` from now on, and report that to the fleet."""
        self._invitation = invitation
        self._objects.trust(invitation.fleet_key)
        self._reports.trust(fleet_key_id(invitation))

    def _take_key(self, sealed: SealedKey | None) -> str:
        """Store the fleet's new key, if there is one; the link then notices it. Return why the key is refused, or "".

        Raises OSError.
        """
        if sealed is not None:
            try:
                keep_received_key(self._state_dir, self._invitation, received_key(self._invitation, sealed))
            except ValueError as wrong:
                return str(wrong)
        return ""

    async def dismiss(self) -> None:
        """End all pods of the fleet: the node was removed from the fleet while it had no contact.

        Raises RPCError, OSError; then call it again.
        """
        async with self._turn:
            kept = await self._kept()
            if kept.fleet != self._fleet or not (kept.pods or kept.objects):
                return
            # The number is higher, since a list that the fleet sent before the removal may still arrive.
            empty = Intent(fleet=self._fleet, node=self._node, generation=kept.generation + 1)
            await self._send_list(empty)
            # The workflow comes first, unlike with a list: an interrupted dismissal is repeated.
            await asyncio.to_thread(keep_intent, self._state_dir, empty)
            self._intent = empty
            await self._keep_objects(empty)
            log.warning("%d pods end: the fleet that gave them to this node has removed it", len(kept.pods))

    async def _keep_objects(self, intent: Intent) -> dict[str, str]:
        unkept = await asyncio.to_thread(self._objects.keep, intent.objects)
        self._are_objects_kept = True
        return unkept

    async def attend(self, asked: Attend) -> Attended:
        """Return the changes since a version, as soon as there are any, or none after the requested time."""
        self._require(asked)
        await self._until_complete()
        loop = asyncio.get_running_loop()
        end = loop.time() + min(asked.seconds, ATTEND_SECONDS)
        if asked.version:
            await asyncio.sleep(COALESCED_SECONDS)  # a busy node reports many changes together
        while self._parting or (news := await self._news(asked.version)) is None:
            if self._parting and not self._has_parted.is_set():
                return self.farewell()
            generation = self._generation(await self._kept())
            if loop.time() > end or lacking(asked, generation):
                news = Attended(version=asked.version, generation=generation)
                break
            await asyncio.sleep(LOOK_SECONDS)
        return self._signed(news.model_copy(update={"lacks": lacking(asked, news.generation)}))

    async def part(self, why: str) -> None:
        """Report to the fleet that the node leaves, and why. Otherwise the fleet would notice only the node's silence.

        The report is the answer to the fleet's next request. Returns once it is sent, or after `PARTING_SECONDS`
        without a request. Later requests are not answered with reports.
        """
        self._parting = why
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PARTING_SECONDS):
                await self._has_parted.wait()

    def farewell(self) -> Attended:
        """Return the leaving node's last report; an empty one at a second call, or if it has never reported."""
        if not (self._parting and self._is_complete) or self._has_parted.is_set():
            return Attended()
        self._has_parted.set()
        return self._signed(Attended(node=self._reports.of_leaving_node(self._parting)))

    def _signed(self, answer: Answer) -> Answer:
        """Return `answer` with its sender, so that the fleet can distinguish two machines with one invitation."""
        return answer.model_copy(update={"life": self._reports.life, "machine": self._reports.machine()})

    async def run(self, asked: RemoteCommand) -> RemoteCommandPiece:
        """Run a command for the fleet, or continue one. Raises ApplicationError."""
        self._require(asked)
        return await self._remote_commands.answer(asked)

    async def _news(self, version: str) -> Attended | None:
        await self._reports.look_at_runtime()
        kept = await self._kept()
        keys = [key for each in kept.pods if (key := _key_of(each))] if kept.fleet == self._fleet else []
        return self._reports.changed(version, self._generation(kept), keys, self._stopped)

    def _generation(self, kept: Intent) -> int:
        """Return the generation of this fleet's list; 0 if the stored list is another fleet's."""
        return kept.generation if kept.fleet == self._fleet else 0

    async def _until_complete(self) -> None:
        """Wait until every open pod has published its state: a pod without one must not be reported as gone."""
        while not self._is_complete:
            with contextlib.suppress(RPCError):
                self._is_complete = self._reports.is_complete(await self._open_pods())
            if not self._is_complete:
                await asyncio.sleep(COALESCED_SECONDS)

    # --- the node's own workflow --------------------------------------------------------------------------------------

    async def send_again(self, view: NodeView | None) -> None:
        """Send the list again if the workflow does not have it, or if another client has ended one of its pods.

        `view` is the state of the node's workflow; None = it does not run. A pod counts as ended only if it is missing
        at two consecutive calls: it may be just starting, or ending because of a newer list. Raises RPCError, OSError.
        """
        kept = await self._kept()
        if kept.fleet != self._fleet or not kept.generation:
            return
        if not self._are_objects_kept:  # after a reboot the objects in memory are gone
            await self._keep_objects(kept)
        missing = set() if view is None else await self._missing(kept, view)
        if view is not None and FLEET_SOURCE in view.sources and not missing & self._missing_before:
            self._missing_before = missing
            return
        self._missing_before = set()
        async with self._turn:
            kept = await self._kept()
            log.warning("list %d of the fleet is sent again: %s", kept.generation, _why(missing))
            await self._send_list(kept)

    async def mind_silence(self) -> None:
        """Stop pods whose permitted time without contact is over, and start them again once the contact is steady.

        Raises RPCError, OSError.
        """
        async with self._turn:
            kept = await self._kept()
            if kept.fleet != self._fleet:
                return
            stopped = {} if self._contact.is_steady() else dict(self._stopped)
            stopped |= self._must_not_run(kept)
            if stopped.keys() == self._stopped.keys():
                return
            before, self._stopped = self._stopped, stopped
            log.warning("pods that must not run without the fleet: %s", _changes(before, stopped))
            try:
                await self._send_list(kept)
            except BaseException:
                self._stopped = before  # the next call tries again
                raise

    def _must_not_run(self, intent: Intent) -> dict[str, str]:
        """Return why pods must not run now, by key: the fleet may have replaced them while the node had no contact.

        This includes pods of a list that arrives only after the gap.
        """
        absent = self._contact.absent_seconds()
        rules = {_key_of(document): _rule(document) for document in intent.pods}
        return {
            key: f"the node has had no contact with its fleet for {go_duration(rule.after)}"
            for key, rule in rules.items()
            if rule.action == "stop-after" and absent >= rule.after.total_seconds()
        }

    async def _missing(self, kept: Intent, view: NodeView) -> set[str]:
        """Return the keys of pods that the node's workflow has started, and that have no open workflow now."""
        began = {
            f"{each.namespace}/{each.name}"
            for each in view.desired
            if each.source == FLEET_SOURCE and each.state == "applied"
        }
        there = await self._open_pods()
        keys = {key for each in kept.pods if (key := _key_of(each)) in began} - self._stopped.keys()
        return {key for key in keys if pod_workflow_id(*key.split("/", 1)) not in there}

    async def _send_list(self, intent: Intent) -> dict[str, str]:
        """Send the list to the node's workflow. Return why pods are invalid on any node, by key."""
        refused: dict[str, str] = {}
        pods = []
        for document in intent.pods:
            if _key_of(document) in self._stopped:
                continue
            try:
                admit_pod(document)
            except PodInvalid as wrong:
                refused[_key_of(document) or "?"] = str(wrong)
            else:
                pods.append(document)
        await self._tell(SyncPods(source=FLEET_SOURCE, pods=tuple(pods)))
        return refused

    async def _kept(self) -> Intent:
        if self._intent is None:
            self._intent = await asyncio.to_thread(read_intent, self._state_dir)
        return self._intent

    def _require(self, asked: WhoAsks) -> None:
        if (asked.fleet, asked.node) != (self._fleet, self._node):
            why = f"this is node {self._node} of fleet {self._fleet}, not {asked.node} of {asked.fleet}"
            raise _refused(why, FOREIGN_INTENT)


def _refused(why: str, kind: str) -> ApplicationError:
    """Log a refusal in one line, and return it as an error that the SDK does not log with a traceback."""
    log.warning("a request of the fleet is refused: %s", why)
    return ApplicationError(why, type=kind, non_retryable=True, category=ApplicationErrorCategory.BENIGN)


def why_stale(kept: Intent, intent: Intent) -> str:
    """Return a phrase about the list `kept` if the node must not replace it by `intent`; "" if it may.

    There are two reasons. First, `kept` may be newer than `intent`. Second, the fleet's database may have been restored
    from a backup that lacks `kept`. Then `kept` is newer than the last list that the fleet has recorded as taken
    (`intent.taken`), and is neither `intent` nor a list that the fleet has recorded as sent later (`intent.after`).
    """
    if kept.generation > intent.generation:
        return f"list {kept.generation}, which is newer than {intent.generation}"
    if kept.generation > intent.taken and kept.stamp not in (intent.stamp, *intent.after):
        return f"list {kept.generation}, which is missing in the fleet's database, as list {intent.generation} shows"
    return ""


def lacking(asked: Attend, generation: int) -> int:
    """Return the generation of the list that the node must have if its own list is older; 0 if it is not.

    The node had taken that list before the request was made, so its disk has been restored from a backup since.
    """
    return asked.taken if generation < asked.taken else 0


def _why(missing: set[str]) -> str:
    if not missing:
        return "the node's workflow has no record of it"
    return f"another client has ended {', '.join(sorted(missing)[:5])}"


def _rule(document: Any) -> WhenLost:
    """Return the pod's rule for a node without contact; the default if its annotations are invalid."""
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    try:
        return when_lost(annotations)
    except ValueError:
        return WAIT


def _changes(before: Mapping[str, str], stopped: Mapping[str, str]) -> str:
    """Return a sentence that names the pods that stop, and those that may run again."""
    stop, run = sorted(stopped.keys() - before.keys()), sorted(before.keys() - stopped.keys())
    parts = [f"{', '.join(stop)} stop"] if stop else []
    return "; ".join([*parts, *([f"{', '.join(run)} may run again"] if run else [])])


def _key_of(document: Any) -> str:
    """Return ``namespace/name`` of a pod's document; "" if it has no name."""
    meta = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        return ""
    return f"{meta.get('namespace') or 'default'}/{meta['name']}"
