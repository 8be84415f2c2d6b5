"""Deletes pods of nodes without a fleet: a signal to the pod's workflow ends the pod on its node."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from syncpod.cli.console import program, remark
from syncpod.cli.deletion import DeletionResult, Going, NotThere
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.input.deletion_request import Deleting, Selection, Thing
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.machine.settings import settings
from syncpod.cli.orphan_notes import orphan_of, way_for
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_deletion import request_deletion, source_notes, why_not_gone, why_silent_pod_is_left
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pod_waits import until_gone
from syncpod.cli.temporal.pods import not_found
from syncpod.cli.temporal.unserved import end_if_never_run, end_without_node, never_served
from syncpod.settings.worker_record import read_worker_record, serving

_UNSERVED_SECONDS: Final = 15.0
"""How long the command waits for pods of this machine's node while no worker serves it. A worker that is being
restarted is back sooner."""
_LOOK_SECONDS: Final = 1.0


class OwnPods:
    """Deletes pods by signals. Temporal keeps them while a node is away. Implements `syncpod.cli.deletion.Owner`."""

    def __init__(
        self, client: Client, how: Deleting, grace: int | None, leave_order: Callable[[FetchedPod], bool]
    ) -> None:
        """Delete with `grace` seconds; None = each pod's own grace period.

        `leave_order` writes the tombstone of a pod that ended without its node, and returns whether it was written; it
        blocks.
        """
        self._client, self._how, self._grace, self._leave_order = client, how, grace, leave_order
        self._ending: dict[Thing, FetchedPod] = {}

    async def selected(self, selection: Selection) -> list[Thing]:
        """Return the selected pods. Raises Failure."""
        pods = await TemporalPods(self._client).listed(selection.namespace, selection.conditions)
        fields = selection.fields
        return [Thing("Pod", *one.key) for one in pods if not fields.fields or fields.matches(one.document)]

    async def look(self, thing: Thing) -> DeletionResult:
        """Return the notes about a pod that would be deleted. Raises NotThere and Failure."""
        return DeletionResult(
            notes=source_notes(await self._required(thing, TemporalPods(self._client).read(*thing[1:])))
        )

    async def end(self, thing: Thing) -> DeletionResult:
        """Signal a pod to end. Raises NotThere and Failure."""
        asked = request_deletion(self._client, *thing[1:], self._grace)
        fetched = self._ending[thing] = await self._required(thing, asked)
        gone = partial(until_gone, self._client, *fetched.key, fetched.pod.metadata.uid)
        return DeletionResult(notes=source_notes(fetched), going=[Going(thing, gone, partial(self._why, fetched))])

    async def begun(self, going: Sequence[Going]) -> Sequence[Going]:
        """Print why the silent pods do not end, and return the pods to wait for.

        With ``--force``, pods that have never run, or whose node is away, are ended here, and not returned.
        """
        silent = [each for each in going if not self._ending[each.thing].current]
        ended = await self._forced(silent) if self._how.force else set()
        silent = [each for each in silent if each.thing not in ended]
        nodes = {each.thing: self._ending[each.thing].pod.spec.node_name or "" for each in silent}
        unserved = await never_served(self._client, nodes.values())
        for node in unserved:
            names = ", ".join(each.thing.name for each in silent if nodes[each.thing] == node)
            remark(
                f"Note: no worker has ever polled for node {node}, so nothing ends {names} there; --force ends it here"
            )
        self._note([each for each in silent if nodes[each.thing] not in unserved])
        return [each for each in going if each.thing not in ended]

    async def until_in_vain(self, left: Callable[[], Sequence[Going]]) -> None:
        """Return once only pods of this machine's node are left, and no worker has served it for _UNSERVED_SECONDS."""
        state_dir, loop = settings().state_dir, asyncio.get_running_loop()
        since = loop.time()
        while loop.time() < since + _UNSERVED_SECONDS:
            nodes = {self._ending[each.thing].pod.spec.node_name for each in left()}
            ours = await asyncio.to_thread(read_worker_record, state_dir)
            if ours is None or nodes != {ours.node} or await asyncio.to_thread(serving, state_dir) is not None:
                since = loop.time()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _required(self, thing: Thing, found: Awaitable[FetchedPod | None]) -> FetchedPod:
        """Return the found pod. Raises NotThere if there is none, and Failure if it runs without a workflow."""
        if (fetched := await found) is not None:
            return fetched
        if await asyncio.to_thread(orphan_of, thing.namespace, thing.name) is not None:
            raise not_found(thing.name, thing.namespace)
        raise NotThere(no_such_pod(thing.name, thing.namespace))

    async def _why(self, fetched: FetchedPod) -> str:
        try:
            return await why_not_gone(self._client, fetched)
        except RPCError as error:
            raise session.refused(error, session.address_of(self._client)) from None

    async def _forced(self, silent: Sequence[Going]) -> set[Thing]:
        """End the pods among these that have never run, or whose node is away; return the ended ones."""
        ended = set()
        for each in silent:
            fetched = self._ending[each.thing]
            if await end_if_never_run(self._client, fetched):
                ended.add(each.thing)
            elif await end_without_node(self._client, fetched):
                ended.add(each.thing)
                is_ordered = await asyncio.to_thread(self._leave_order, fetched)
                remark(f"Note: {_ended_without_node(fetched, is_ordered=is_ordered)}")
        return ended

    def _note(self, silent: Sequence[Going]) -> None:
        """Print why these pods, which did not answer, do not end: one note for each reason, with the user's choices."""
        for each in silent:
            each.said = why_silent_pod_is_left(self._ending[each.thing])
        pods = [self._ending[each.thing] for each in silent]
        away = {each.said for each, one in zip(silent, pods, strict=True) if not one.lives and not one.stuck}
        for reason in dict.fromkeys(each.said for each in silent):
            of_it = [each.thing.name for each in silent if each.said == reason]
            which = f"pod {of_it[0]}" if len(of_it) == 1 else f"{len(of_it)} pods"
            by_force = f"--force ends {'the pod without its node' if len(of_it) == 1 else 'them without it'}"
            ways = [(self._how.wait, "Ctrl-C ends only this wait"), (not self._how.force, by_force)]
            more = "".join(f"; {way}" for is_open, way in ways if is_open) if reason in away else ""
            remark(f"Note: {which}: {reason}{more}")


def _ended_without_node(one: FetchedPod, *, is_ordered: bool) -> str:
    """Return a sentence about a pod whose workflow was ended while its node is away.

    `is_ordered`: the node's records have the pod's tombstone.
    """
    where, name = one.pod.spec.node_name, one.pod.metadata.name
    ended = f"node {where} is away, so pod {name} has ended without it: its name is free"
    if is_ordered:
        return (
            f"{ended}, and the order to end its containers there is in the node's records: the node's worker ends them "
            f"as soon as it is back (`{shlex.quote(program())} up`)"
        )
    return (
        f"{ended}, but its containers there still run: that node's worker ends them once it is back, unless the node "
        f"requires signed commands, as every node of `up` does; then {way_for('prune', [one.document])} there ends them"
    )
