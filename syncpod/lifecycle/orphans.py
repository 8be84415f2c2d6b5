"""Whether what runs on a node and no workflow asks for may be killed: the evidence against it, judged.

An empty or foreign database is no evidence. Something is killed only where the server's own records say that it should
not be there: its workflow has ended, or the node's history covers the moment in which it was made, and knows nothing of
it. Everything else is named, and left to an operator (``syncpod adopt``, ``syncpod prune``).

Mirrors kubelet_pods.go, v1.36, HandlePodCleanups, which kills the runtime's pods that are in no source once all sources
have been seen. Difference: the kubelet takes its sources' word for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod

ORPHAN_GRACE_SECONDS: Final = 1
"""Grace of an orphan (pod_workers.go, v1.36: HandlePodCleanups asks for 1 s; the runtime is given 2 s at the least)."""

CLOCK_MARGIN: Final = timedelta(hours=24)
"""By how much later than the node's history something must have been made to be covered by it.

When it was made is said by the node's clock, since when the history goes by the server's, and neither knows the other.
Clocks that are kept in step differ by less than a second; one that has not been set yet since the machine was started
may run on in a local time, which is ahead of UTC by 14 hours at the most, and is told once it has been set. A day is
more than that. What it costs: of what was made on the node's first day, and of which the server has forgotten the
workflow, nothing is killed unasked.
"""

Standing = Literal["open", "closed", "another", "unknown"]
"""Of the workflow of a pod's name: it is this pod's, or may be; this pod's has ended; it is open, and another pod's of
that name; the server knows of none that is or was this pod's."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a node's history knows, as its workflow has it now."""

    sources_ready: bool = False
    """Every source of pods that is configured has reported in this life of the agent."""
    since: datetime | None = None
    """Since when it has known what the node is to have, by the server's clock; None = it does not say."""
    desired: frozenset[str] = field(default_factory=frozenset)
    """UIDs of the pods that the node is to have, whether or not their workflows are there."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of one thing on the node: a pod, or something that names no pod."""

    uid: str
    """Empty where it names no pod."""
    cluster: str
    """Identity of the Temporal cluster that has its workflow, as its record or its sandbox says; "" = not said."""
    made_at: datetime | None
    """When the oldest of what there is of it was made, by the node's clock; None = the runtime does not say."""
    standing: Standing = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of it."""

    orphan: bool
    """Nobody asks for it."""
    kill: bool = False
    why: str = ""
    """Why it is an orphan, as the end of a sentence that begins with it."""
    but: str = ""
    """Why it is left nevertheless; "" where it is killed."""


_ASKED_FOR: Final = Verdict(orphan=False)


def judge(found: Found, coverage: Coverage, *, cluster: str) -> Verdict:
    """Return what is to become of something that runs on the node of this Temporal `cluster`.

    Killed is only what is this cluster's, once every source has reported, and of which the workflow has ended, or which
    the node's history covers.
    """
    if found.cluster != cluster:
        return Verdict(
            orphan=True,
            why=f"it belongs to the Temporal cluster {found.cluster or '(none)'}",
            but="this one knows nothing of it",
        )
    if found.uid and (found.standing == "open" or found.uid in coverage.desired):
        return _ASKED_FOR
    why, proven = _WHY[found.standing] if found.uid else ("it names no pod", False)
    if not coverage.sources_ready:
        return Verdict(orphan=True, why=why, but="not every source of pods has reported yet")
    if proven:
        return Verdict(orphan=True, kill=True, why=why)
    if is_covered(found.made_at, coverage.since):
        return Verdict(orphan=True, kill=True, why=f"{why}, though the node's history covers its creation")
    return Verdict(orphan=True, why=why, but="the node's history does not cover its creation")


_WHY: Final[dict[Standing, tuple[str, bool]]] = {
    "open": ("its workflow is open", False),
    "closed": ("its workflow has ended", True),
    # A name has one workflow at a time, so its own has ended.
    "another": ("its name is another pod's now", True),
    "unknown": ("the Temporal server knows of no such workflow", False),
}
"""Why it is an orphan, and whether that proves that its own workflow has ended."""


def is_covered(made_at: datetime | None, since: datetime | None) -> bool:
    """Say whether a history that goes back to `since` must know of what was made at `made_at`, whoever's clock errs."""
    return made_at is not None and since is not None and made_at - since > CLOCK_MARGIN


def made_at(times: Iterable[datetime | None]) -> datetime | None:
    """Return the earliest of the times, None where one of them is not known: that one might be the earliest."""
    known = list(times)
    if not known or None in known:
        return None
    return min(time for time in known if time is not None)


# --- duplicates -------------------------------------------------------------------------------------------------------


def duplicates(listing: ObservedPod) -> tuple[ObservedContainer, ...]:
    """Return the live containers beside which another instance of the same name lives that is to stay.

    Of each name that one stays which is in the newest ready sandbox, and of those the newest. Who has only been created
    is not alive: a start may be about to follow, or has failed. Two ready sandboxes are the pod's own decision
    (`pod_sandbox_changed`), which ends all that is in them; then nothing is chosen here.

    The kubelet has nothing like it: it looks at the newest instance of each name alone (container/runtime.go, v1.36,
    FindContainerStatusByName), so that an elder that lives beside it lives on.
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
