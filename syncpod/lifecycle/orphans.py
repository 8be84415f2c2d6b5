"""Decides whether a pod that runs on a node without a workflow may be killed.

An empty database, or another cluster's, proves nothing. A pod is killed only if it should not exist by the server's own
records: its workflow has ended, or the node's history covers the time of the pod's creation and does not have the pod.
Any other orphan is reported, and left to an operator (``syncpod adopt``, ``syncpod prune``).

Mirrors kubelet_pods.go, v1.36, HandlePodCleanups, which kills the runtime's pods that are in no source once all sources
have been seen. Difference: the kubelet trusts its sources.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod

ORPHAN_GRACE_SECONDS: Final = 1
"""Grace of an orphan (pod_workers.go, v1.36: HandlePodCleanups uses 1 s; the runtime's timeout is at least 2 s)."""

CLOCK_MARGIN: Final = timedelta(hours=24)
"""The node's history covers a pod that was made at least this long after the history's beginning.

The pod's creation is dated by the node's clock, and the beginning of the history by the server's. Synchronized clocks
differ by less than a second. A clock that has not been set since the machine started may still show a local time, which
is at most 14 hours ahead of UTC. A day is more than that. The cost: a pod of the node's first day whose workflow the
server has lost is never killed automatically.
"""

Standing = Literal["open", "closed", "another", "unknown"]
"""The server's knowledge about the workflow id of a pod. `open`: a running workflow, perhaps this pod's. `closed`: this
pod's workflow, which has ended. `another`: a running workflow of another pod with that name. `unknown`: no workflow
that is or was this pod's."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The evidence that all pods of a node share: its history, its sources, and whether its commands are signed."""

    sources_ready: bool = False
    """Every source of pods that is configured has reported in this life of the agent."""
    since: datetime | None = None
    """When the node's history of desired pods begins, by the server's clock; None if the node's workflow has none."""
    desired: frozenset[str] = field(default_factory=frozenset)
    """UIDs of the node's desired pods, whether or not their workflows exist."""
    needs_tombstone: bool = False
    """Commands to the node are signed. A workflow that has ended by the server's records then proves nothing: anybody
    who reaches the server can terminate workflows, and another program may answer in the server's place."""


@dataclass(frozen=True, slots=True)
class Found:
    """The evidence about one pod on the node, or about a container or sandbox that names no pod."""

    uid: str
    """UID of the pod; "" if the container or sandbox names no pod."""
    cluster: str
    """Identity of the Temporal cluster that has its workflow, from its record or sandbox; "" = neither names one."""
    made_at: datetime | None
    """When its oldest part was made, by the node's clock; None = the runtime does not report it."""
    standing: Standing = "unknown"
    ended_here: bool = False
    """The node's own record says that this life of the pod has ended for good."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The decision about a `Found`."""

    orphan: bool
    """Neither a workflow nor a source has this pod."""
    kill: bool = False
    why: str = ""
    """Why it is an orphan, in words that follow its name in a sentence."""
    but: str = ""
    """Why it is not killed although it is an orphan; "" if it is killed."""


NOT_AN_ORPHAN: Final = Judgement(orphan=False)
"""The judgement of a pod that has a workflow, that a source wants, or that is being removed already."""


def judge(found: Found, coverage: Coverage, *, cluster: str) -> Judgement:
    """Decide whether `found`, on a node of this Temporal `cluster`, is an orphan, and whether to kill it.

    It is killed only if it belongs to this cluster, every source has reported, and either its workflow has ended or the
    node's history covers it. If the node's commands are signed, the node must also have noted the pod's end.
    """
    if found.cluster != cluster:
        return Judgement(
            orphan=True,
            why=f"it belongs to the Temporal cluster {found.cluster or '(none)'}",
            but="this node belongs to another Temporal cluster",
        )
    if found.uid and (found.standing == "open" or found.uid in coverage.desired):
        return NOT_AN_ORPHAN
    why, proven = _WHY[found.standing] if found.uid else ("it names no pod", False)
    if not coverage.sources_ready:
        return Judgement(orphan=True, why=why, but="not every source of pods has reported yet")
    if coverage.needs_tombstone and not found.ended_here:
        return Judgement(
            orphan=True,
            why=why,
            but="no signed command has ended it: `syncpod adopt` or `syncpod prune` it",
        )
    if proven:
        return Judgement(orphan=True, kill=True, why=why)
    if is_covered(found.made_at, coverage.since):
        return Judgement(orphan=True, kill=True, why=f"{why}, though the node's history covers its creation")
    return Judgement(orphan=True, why=why, but="the node's history does not cover its creation")


_WHY: Final[dict[Standing, tuple[str, bool]]] = {
    "open": ("its workflow is open", False),
    "closed": ("its workflow has ended", True),
    # A name has one workflow at a time, so this pod's own workflow has ended.
    "another": ("its name is another pod's now", True),
    "unknown": ("the Temporal server has no such workflow", False),
}
"""By standing: why the pod is an orphan, and whether the standing proves that the pod's own workflow has ended."""


def is_covered(made_at: datetime | None, since: datetime | None) -> bool:
    """Say whether a history that begins at `since` must contain a pod made at `made_at`, even if the clocks differ."""
    return made_at is not None and since is not None and made_at - since > CLOCK_MARGIN


def made_at(times: Iterable[datetime | None]) -> datetime | None:
    """Return the earliest of the times; None if any is None, since the missing time might be the earliest."""
    known = list(times)
    if not known or None in known:
        return None
    return min(time for time in known if time is not None)


# --- duplicates -------------------------------------------------------------------------------------------------------


def duplicates(listing: ObservedPod) -> tuple[ObservedContainer, ...]:
    """Return the running containers to kill because another running instance of the same name stays.

    For each name, the newest instance in the ready sandbox stays. A container that was only created does not count as
    running. If two sandboxes are ready, nothing is returned: the pod's own decision (`pod_sandbox_changed`) then ends
    everything in both. The kubelet has nothing like this: it looks only at the newest instance of each name
    (container/runtime.go, v1.36, FindContainerStatusByName), so an older one keeps running.
    """
    ready = [sandbox.id for sandbox in listing.ordered().sandboxes if sandbox.ready]
    if len(ready) != 1:
        return ()
    chosen: list[ObservedContainer] = []
    by_name: dict[str, list[ObservedContainer]] = {}
    for container in listing.ordered().containers:
        if container.state == "running":
            by_name.setdefault(container.name, []).append(container)
    for alive in by_name.values():
        at_home = [container for container in alive if container.sandbox_id == ready[0]]
        stays = (at_home or alive)[0]
        chosen += [container for container in alive if container is not stays]
    return tuple(chosen)
