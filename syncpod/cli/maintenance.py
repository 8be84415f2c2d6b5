"""Cordons and drains nodes, alone or of a fleet: refuses pods that must not be ended, and prints the progress.

Mirrors kubectl's pkg/cmd/drain/drain.go and pkg/drain/filters.go, v1.36. If one of the nodes does not exist, nothing is
done. If one pod of a node must not be ended, no pod of that node is ended. A node that cannot be drained does not stop
the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Literal, Protocol, TypeVar

from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import Failure

Change = Literal["cordon", "uncordon"]
_Own = TypeVar("_Own")


@dataclass(frozen=True)
class Draining:
    """How nodes are drained."""

    force: bool = False
    """Whether pods that nothing creates again are ended too."""
    ignore_daemon_sets: bool = False
    """Whether pods of DaemonSets stay, instead of keeping the node from being drained."""
    delete_data: bool = False
    """Whether pods with an emptyDir are ended too."""
    patience: timedelta | None = None
    """How long to wait for a node's pods; None = as long as it takes."""
    mark: str = ""
    """Printed after each line of a dry run; "" if this is not a dry run."""


@dataclass(frozen=True)
class PodToDrain(Generic[_Own]):
    """A pod on a node that is to be drained."""

    namespace: str
    name: str
    own: _Own
    """The node's or the fleet's own record of the pod."""
    stays: Literal["", "static", "daemon"] = ""
    """Why it is not ended: it is a static pod, or one of a DaemonSet; "" = it is ended."""
    is_unmanaged: bool = False
    """Whether it has not ended, and nothing would create it again."""
    has_data: bool = False
    """Whether it has not ended, and has an emptyDir."""


class Nodes(Protocol[_Own]):
    """The nodes to maintain. Implemented for nodes alone and for the nodes of a fleet."""

    async def cordoned(self, names: Sequence[str]) -> set[str]:
        """Return those of these nodes that are cordoned. Raises Failure if one of them does not exist."""
        ...

    async def change(self, name: str, change: Change) -> None:
        """Cordon or uncordon a node. Raises Failure."""
        ...

    async def pods(self, name: str) -> tuple[list[PodToDrain[_Own]], list[str]]:
        """Return the pods of a node, and further reasons why it cannot be drained, a sentence each. Raises Failure."""
        ...

    def evicted(self, name: str, pods: Sequence[PodToDrain[_Own]], how: Draining) -> AsyncIterator[PodToDrain[_Own]]:
        """End these pods of a node, and yield each once it is gone. Raises Failure, also on a timeout."""
        ...


async def set_schedulable(nodes: Nodes[_Own], names: Sequence[str], change: Change, mark: str = "") -> None:
    """Cordon or uncordon nodes; with the `mark` of a dry run, only print their names. Raises Failure."""
    cordoned = await nodes.cordoned(names)
    for name in names:
        if not mark:
            await nodes.change(name, change)
        say(f"node/{name} {'already ' if (name in cordoned) is (change == 'cordon') else ''}{change}ed{mark}")


async def drain(nodes: Nodes[_Own], names: Sequence[str], how: Draining) -> None:
    """Cordon all of these nodes, then drain them one after the other.

    A node that cannot be drained is reported at once, and the others are drained; Failure is raised at the end.
    """
    await set_schedulable(nodes, names, "cordon", how.mark)
    failed = []
    for name in names:
        try:
            await _drain(nodes, name, how)
        except Failure as failure:
            if len(names) == 1:
                raise
            failed.append(name)
            remark(str(failure))
    if failed:
        raise Failure(f"not drained: {', '.join(failed)}")


async def _drain(nodes: Nodes[_Own], name: str, how: Draining) -> None:
    """End the pods of one node, and wait until they are gone; in a dry run, only print them. Raises Failure."""
    pods, reasons = await nodes.pods(name)
    _refuse(name, pods, reasons, how)
    if static := [each for each in pods if each.stays == "static"]:
        remark(f"Static pods stay: {named(static)} (they end when their manifests are removed)")
    if daemons := [each for each in pods if each.stays == "daemon"]:
        warn(f"ignoring DaemonSet-managed Pods: {named(daemons)}")
    if unmanaged := [each for each in pods if each.is_unmanaged and not each.stays]:
        warn(f"deleting Pods that declare no controller: {named(unmanaged)}")
    leaving = [each for each in pods if not each.stays]
    for each in leaving:
        say(f"evicting pod {each.namespace}/{each.name}{how.mark}")
    if not how.mark:
        async for each in nodes.evicted(name, leaving, how):
            say(f"pod/{each.name} evicted")
    say(f"node/{name} drained{how.mark}")


def _refuse(name: str, pods: Sequence[PodToDrain[_Own]], others: Sequence[str], how: Draining) -> None:
    """Raise Failure if a pod must not be ended, before any pod is ended.

    `others` are the further reasons of `Nodes.pods`.
    """
    daemons = [each for each in pods if each.stays == "daemon" and not how.ignore_daemon_sets]
    unmanaged = [each for each in pods if each.is_unmanaged and not each.stays and not how.force]
    with_data = [each for each in pods if each.has_data and not each.stays and not how.delete_data]
    reasons = {
        "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)": daemons,
        "cannot delete Pods that declare no controller (use --force to override)": unmanaged,
        "cannot delete Pods with local storage (use --delete-emptydir-data to override)": with_data,
    }
    if lines := [*(f"{why}: {named(kept)}" for why, kept in reasons.items() if kept), *others]:
        stays = "" if how.mark else ", which stays cordoned"
        raise Failure("\n".join([f'unable to drain node "{name}"{stays}:', *lines]))


def named(pods: Iterable[PodToDrain[_Own]]) -> str:
    """Return the names of pods for a sentence, with their namespaces."""
    return ", ".join(sorted(f"{each.namespace}/{each.name}" for each in pods))
