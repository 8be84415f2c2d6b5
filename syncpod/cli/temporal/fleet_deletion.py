"""Waiting until what is being deleted from a fleet is gone, and saying what that waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from temporalio.client import Client

from syncpod.cli.console import remark
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet, fleet_objects, fleet_workloads
from syncpod.messages.fleet import PlacedPod
from syncpod.messages.workload import WorkloadPod, WorkloadView

SAID_AFTER: Final = 5.0
"""Seconds after which the command prints what it waits for, as `syncpod delete` does."""
_LOOK_SECONDS: Final = 0.3
_FEW: Final = 10
"""For so many more things that are left, the pause between two looks is longer by one."""
_NAMED: Final = 3
"""The most pods of a workload that are named."""


@dataclass(frozen=True)
class Going:
    """Something that is being deleted."""

    what: str
    """In words: ``deployment.apps/web``, ``pod/web on n1``."""
    left: Callable[[], Awaitable[str]]
    """Returns in a few words what its end waits for; "" once it is gone. Raises Failure."""


def workload(client: Client, kind: str, namespace: str, name: str) -> Going:
    """Return a workload that is being deleted; also a single Pod that the fleet has placed."""

    async def left() -> str:
        view = await fleet_workloads.view(client, kind, namespace, name)
        # Applied anew by somebody meanwhile, it is another one.
        return "" if view is None or not view.deleting else why_workload_is_left(view)

    return Going(f"pod/{name}" if kind == fleet_workloads.POD else f"{kind.lower()}.apps/{name}", left)


def fleet_object(client: Client, kind: str, namespace: str, name: str) -> Going:
    """Return a ConfigMap or a Secret that is being deleted."""

    async def left() -> str:
        is_left = await fleet_objects.is_deleting(client, kind, namespace, name)
        return "its nodes are being told" if is_left else ""

    return Going(f"{kind.lower()}/{name}", left)


def pod(client: Client, namespace: str, name: str, node: str) -> Going:
    """Return a pod that one node is ending."""

    async def left() -> str:
        try:
            view = await fleet.view(client, node)
        except fleet.NoNode:
            return ""
        found = [each for each in view.placed if (each.namespace, each.name) == (namespace, name)]
        return why_pod_is_left(found[0], view.presence) if found and found[0].state == "ending" else ""

    return Going(f"pod/{name} on {node}", left)


def one_after_another(first: Going, then: Going) -> Going:
    """Return both as one: what the end of the first waits for, and once it is gone, what that of the second does."""

    async def left() -> str:
        return await first.left() or await then.left()

    return Going(first.what, left)


async def until_gone(going: Sequence[Going], patience: timedelta | None) -> None:
    """Wait until all of these are gone; say after a while what that waits for. Raises Failure on a timeout."""
    loop, said = asyncio.get_running_loop(), ""
    began = loop.time()
    left = list(going)
    while left:
        whys = await asyncio.gather(*(each.left() for each in left))
        left, waits = [each for each, why in zip(left, whys, strict=True) if why], [why for why in whys if why]
        lines = "\n".join(f"{each.what}: {why}" for each, why in zip(left, waits, strict=True))
        if left and patience is not None and loop.time() >= began + patience.total_seconds():
            names = ", ".join(each.what for each in left)
            more = f"\n{lines}" if lines != said else ""
            raise Failure(f"timed out waiting for {names} to end; the deletion continues{more}")
        if left and lines != said and loop.time() >= began + SAID_AFTER:
            remark(lines)
            said = lines
        if left:
            await asyncio.sleep(_LOOK_SECONDS * (1 + len(left) // _FEW))  # each look is a query for each of them


def why_workload_is_left(view: WorkloadView) -> str:
    """Return what the end of a workload waits for."""
    if not view.pods and view.missed:
        names = ", ".join(view.missed)
        return f"no answer yet from {names}, which may have pods of it (a node that is gone: `fleet remove --force`)"
    if not view.pods:
        return "its workflow is ending"
    named = ", ".join(map(_pod, view.pods[:_NAMED]))
    more = f" and {len(view.pods) - _NAMED} more" if len(view.pods) > _NAMED else ""
    count = "1 pod is" if len(view.pods) == 1 else f"{len(view.pods)} pods are"
    return f"{count} left: {named}{more}"


def why_pod_is_left(placed: PlacedPod, presence: str) -> str:
    """Return what the end of a pod on a node waits for; `presence` is the node's."""
    if presence == "Unknown":
        return "the node cannot be reached, and ends it when it is back"
    status = placed.report.status if placed.report is not None else ""
    return f"the node is ending it; it is {status}" if status else "the node is ending it"


def _pod(one: WorkloadPod) -> str:
    if not one.node:
        return one.name
    away = ", which cannot be reached" if one.status == "Unknown" else ""
    return f"{one.name} on {one.node}{away}"
