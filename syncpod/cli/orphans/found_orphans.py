"""The pods of this node in the runtime, and whether each has a workflow; for ``adopt`` and ``prune``.

Both commands list the runtime themselves: the report of ``syncpod node`` may be a minute old, or older than the
Temporal server, if that was replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from syncpod.api.views.text import printable
from syncpod.cli.failure import Failure
from syncpod.cli.machine.checked_node import this_node
from syncpod.cli.machine.runtime_choice import endpoint_of
from syncpod.cli.machine.runtime_client import unanswered
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import other_server
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pods import Squatted
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError, TransportFault
from syncpod.node.inventory import take_inventory
from syncpod.node.pod_records import PodRecord, read_pod_records
from syncpod.node.tombstones import tombstone_at
from syncpod.settings.worker_record import serving
from syncpod.translation.context import NodeContext
from syncpod.translation.names import CONTAINER_NAME_LABEL

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.node.inventory import Inventory, Nameless, PodInRuntime

Standing = Literal["open", "another", "none"]
"""The owner of a pod's name. "open": the pod's own open workflow, as far as is known. "another": another pod with an
open workflow, or another orphan that gets the name (`with_one_heir`). "none": no open workflow has the name."""

_AT_ONCE: Final = 50


@dataclass(frozen=True)
class FoundOrphan:
    """A pod in the runtime, its record on disk, and the state of its workflow."""

    pod: PodInRuntime
    record: PodRecord | None
    """The record of this life of the pod; None = this node has none."""
    standing: Standing

    @property
    def called(self) -> str:
        """Its name in output: ``pod/web``, with namespace and UID if they are needed to tell it apart."""
        where = "" if self.pod.namespace == "default" else f" in namespace {self.pod.namespace}"
        which = f" (uid {self.pod.uid})" if self.standing == "another" else ""
        return f"pod/{printable(self.pod.name)}{printable(where)}{printable(which)}"

    @property
    def why(self) -> str:
        """Why it has no workflow."""
        if self.standing == "another":
            return "its name is another pod's now"
        return "its workflow has ended or is missing in the Temporal server"

    @property
    def running(self) -> str:
        """The names of its running containers."""
        running = [each for each in self.pod.containers if each.state == "running"]
        named = sorted(each.labels.get(CONTAINER_NAME_LABEL, each.id) for each in running)
        return printable(", ".join(named)) or "nothing"


@dataclass(frozen=True)
class Here:
    """The node of this machine, and its runtime."""

    node: NodeContext
    endpoint: str
    """The runtime's socket."""


def here() -> Here:
    """Return this machine's node. Raises BadInput if there is none, or no runtime."""
    return Here(this_node(), endpoint_of(settings().state_dir))


async def take_stock(place: Here) -> tuple[Inventory, Mapping[str, PodRecord]]:
    """Return the node's pods in the runtime, and its records of pods by UID. Raises Failure."""
    records = {each.pod.metadata.uid: each for each in await asyncio.to_thread(read_pod_records, place.node)}
    try:
        async with CriClient(place.endpoint) as runtime:
            return await take_inventory(runtime, place.node.name, records), records
    except TransportFault as fault:
        raise unanswered(fault) from None
    except CriError as error:
        raise Failure(f"the runtime at {place.endpoint} does not list its pods: {error.message}") from None


async def chosen(
    client: Client, place: Here, names: Sequence[str], *, namespace: str, keys: Sequence[tuple[str, str]] = ()
) -> tuple[list[FoundOrphan], tuple[Nameless, ...]]:
    """Return the named pods; without names, every pod without a workflow, and the objects that name no pod.

    `keys` names further pods, by namespace and name.

    The runtime may have several pods of one name. At most one of them has a workflow, and the name means the other
    pods. Without names, `namespace` selects the pods; "" = all, and only then the objects. Raises Failure for named
    pods that are not in the runtime, and if the server is not the node's.
    """
    _require_own_server(place)
    inventory, records = await take_stock(place)
    by_name: dict[tuple[str, str], list[PodInRuntime]] = {}
    for pod in inventory.pods.values():
        by_name.setdefault((pod.namespace, pod.name), []).append(pod)
    named = [*((namespace or "default", name) for name in names), *keys]
    if named:
        keys = _present(named, by_name.keys(), place.node.name)
    else:
        keys = sorted(key for key in by_name if namespace in ("", key[0]))
    some = asyncio.Semaphore(_AT_ONCE)

    async def orphan(pod: PodInRuntime) -> FoundOrphan:
        record = records.get(pod.uid)
        fits = record is not None and record.incarnation == pod.incarnation
        async with some:
            return FoundOrphan(pod, record if fits else None, await standing_of(client, pod))

    async def orphans(key: tuple[str, str]) -> list[FoundOrphan]:
        return with_one_heir(await asyncio.gather(*map(orphan, by_name[key])))

    groups = await asyncio.gather(*map(orphans, keys))
    without = [each for group in groups for each in group if each.standing != "open"]
    if not named:
        return without, inventory.nameless if not namespace else ()
    # If all pods of a name have a workflow, they are returned too: the caller refuses each.
    with_one = [each for group in groups if all(one.standing == "open" for one in group) for each in group]
    return [*without, *with_one], ()


async def without_workflow_here(client: Client) -> tuple[list[FoundOrphan], tuple[Nameless, ...]]:
    """Return everything that runs on this node without a workflow: pods, and objects of no pod. Raises Failure."""
    place = here()
    found, nameless = await chosen(client, place, (), namespace="")
    return [one for one in await staying(place, found) if one.pod.is_alive], nameless


def _require_own_server(place: Here) -> None:
    if address := other_server(place.node.state_dir):
        raise Failure(
            f"the Temporal server at {address} has no record of the workflows of node {place.node.name}: "
            "name the node's own in TEMPORAL_ADDRESS, or give the node to this one with `syncpod up --adopt-cluster`"
        )


def _present(named: Sequence[tuple[str, str]], there: Collection[tuple[str, str]], node: str) -> list[tuple[str, str]]:
    """Return namespace and name of each named pod, once. Raises Failure for pods that are not in the runtime."""
    keys = list(dict.fromkeys(named))
    if missing := [key for key in keys if key not in there]:
        raise Failure(
            "\n".join(
                f'pod "{name}": nothing of it is in the runtime in namespace {namespace} of node {node}'
                for namespace, name in missing
            )
        )
    return keys


def with_one_heir(namesakes: Sequence[FoundOrphan]) -> list[FoundOrphan]:
    """Return the pods of one name, with the standing "none" for at most one of them: only one pod can get the name.

    The newest pod without a workflow gets it, or rather the newest with running containers, if there is one. The
    standing of the other pods without a workflow becomes "another".
    """
    if not any(each.standing == "none" for each in namesakes):
        return list(namesakes)
    heir = max((each for each in namesakes if each.standing == "none"), key=_claim)
    return [
        each if each is heir or each.standing != "none" else replace(each, standing="another") for each in namesakes
    ]


def _claim(orphan: FoundOrphan) -> tuple[bool, float, str]:
    """Return the sort key of a pod's claim to its name: whether a container runs, when it was made (s), its UID."""
    made = orphan.pod.made_at
    return orphan.pod.running > 0, made.timestamp() if made is not None else 0.0, orphan.pod.uid


async def staying(place: Here, orphans: Sequence[FoundOrphan]) -> list[FoundOrphan]:
    """Return these pods except deleted ones, whose remains the node removes by itself."""
    return [each for each in orphans if not await asyncio.to_thread(is_leaving, place, each)]


def is_leaving(place: Here, orphan: FoundOrphan) -> bool:
    """Return whether a pod's life is over: nothing of it runs, and its node removes the remains. Blocks."""
    pod = orphan.pod
    if pod.is_alive:
        return False
    return orphan.record is None or tombstone_at(place.node, pod.uid, pod.incarnation) is not None


def refusal_of_open(place: Here, name: str) -> str:
    """Return why a pod with an open workflow is left alone, with a hint if the node has no worker. Blocks."""
    if serving(place.node.state_dir) is not None:
        return printable(f'pod "{name}" has an open workflow, which looks after it')
    return printable(
        f'pod "{name}" has an open workflow, which looks after it once a worker serves this node again (`syncpod up`)'
    )


def taken(orphan: FoundOrphan) -> str:
    """Return why a pod cannot be adopted while another pod has its name, and what can be done."""
    pod = orphan.pod
    flag = "" if pod.namespace == "default" else f" -n {pod.namespace}"
    return printable(
        f'pod "{pod.name}" (uid {pod.uid}) cannot be adopted, since its name is another pod\'s now: '
        f"`syncpod prune{flag} {pod.name}` removes it, or `syncpod delete{flag} pod {pod.name}` ends the other one, "
        f"and then it can be adopted"
    )


async def standing_of(client: Client, pod: PodInRuntime) -> Standing:
    """Return a pod's standing, by a query to the workflow with its name.

    The workflow counts as this pod's unless it answers with another UID. If it does not answer, it counts too: its
    recorded UID may be that of an earlier pod of the name.
    """
    try:
        fetched = await TemporalPods(client).read(pod.namespace, pod.name)
    except Squatted:  # `start_for` terminates that workflow
        return "none"
    if fetched is None:
        return "none"
    return "another" if fetched.current and fetched.pod.metadata.uid not in ("", pod.uid) else "open"
