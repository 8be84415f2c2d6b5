"""A workload's pods by the fleet's records: where each one is, its health, and which one is removed first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from syncpod.fleet.offers import Presence
from syncpod.lifecycle.restart_pacing import LIMIT_REACHED

Health = Literal["fine", "in trouble", "failing"]
"""In trouble: something went wrong once, such as a first exit. Failing: it goes wrong each time, as in a crash loop."""

_FINE: Final = frozenset(
    {
        "", "ContainerCreating", "NotReady", "Pending", "PodInitializing", "Running", "SchedulingGated", "Terminating",
        "Unknown",
    }
)  # fmt: skip
_FAILING: Final = frozenset(
    {
        "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull",
        "ImageInspectError", "ImagePullBackOff", "InvalidImageName", "RunContainerError", "SignatureValidationFailed",
        LIMIT_REACHED,
    }
)  # fmt: skip
_OF_NODE: Final = frozenset(
    {
        "AppArmor",
        "Evicted",
        "LimitsUnenforced",
        "NodeAffinity",
        "NodePorts",
        "NodeShutdown",
        "Preempting",
        "UnexpectedAdmissionError",
    }
)
"""Statuses of ended pods that are the node's fault, not the template's. A status that begins with `OutOf` is, too."""


@dataclass(frozen=True)
class Member:
    """One pod of a workload."""

    name: str
    revision: str
    """The revision of its template."""
    created: datetime
    node: str = ""
    """The name of its node; "" = no node has been chosen yet."""
    presence: Presence = "Ready"
    """The presence of its node."""
    unknown_since: datetime | None = None
    """When its node became Unknown; None while it is not."""
    ready_since: datetime | None = None
    """Since when it has been ready, as its node last reported; None = not ready."""
    status: str = ""
    """Its status as ``get pods`` prints it."""
    message: str = ""
    """Details of the status, such as why no node has room for it."""
    ended: bool = False
    """Its phase is Succeeded or Failed: it never runs again."""
    leaving: bool = False
    """It has been withdrawn, and its node has not yet reported it gone."""
    replaces: str = ""
    """The name of the pod on a lost node that this one replaces; "" = none."""
    restarts: int = 0
    deletion_cost: int = 0
    moving: bool = False
    """Its node is being drained, so another pod is to replace it elsewhere."""
    recalled: bool = False
    """The only evidence that the fleet placed it there is its node's claim."""
    pod: str = ""
    """The pod's name if it differs from `name`; "" = it is `name`."""
    number: int = 0
    """Its number among the pods of its workload."""

    @property
    def called(self) -> str:
        """The pod's name and node for use in a sentence: ``web-1 on n2``."""
        name = self.pod or self.name
        return f"{name} on {self.node}" if self.node else name

    @property
    def how_ended(self) -> str:
        """How an ended pod ended, for use in a sentence: ``it ended with Evicted``."""
        return f"it ended with {self.status or 'an unknown status'}"

    def is_ready(self) -> bool:
        """Say whether it is known to be ready. A pod on an Unknown node never is."""
        return self.presence == "Ready" and self.ready_since is not None and not self.ended

    def is_available(self, now: datetime, min_ready: timedelta) -> bool:
        """Say whether it has been ready for long enough (podutils.IsPodAvailable)."""
        return self.is_ready() and self.ready_since is not None and now - self.ready_since >= min_ready


def why_unavailable(member: Member) -> str:
    """Say why a pod is not available: ``web-1 on n2 is not ready: ErrImagePull``."""
    if member.presence == "Unknown":
        return f"{member.called} is unknown, since its node is unreachable"
    if not member.node:
        return f"{member.called} has no node yet"
    if member.presence != "Ready":
        return f"{member.called} is not ready, as its node is not"
    if member.is_ready():
        return f"{member.called} has been ready for less than minReadySeconds"
    return f"{member.called} is not ready: {member.status or 'Pending'}"


def health(member: Member) -> Health:
    """Judge a pod by the status that ``get pods`` prints. A node that is not Ready is not the pod's fault."""
    word = member.status.removeprefix("Init:")
    if member.presence != "Ready":
        return "fine"
    if member.ended:
        return "in trouble" if word in _OF_NODE or word.startswith("OutOf") else "failing"
    if word in _FAILING:
        return "failing"
    return "fine" if word in _FINE or member.is_ready() or "/" in word else "in trouble"


def leaving_order(members: Iterable[Member]) -> list[Member]:
    """Return pods in the order of their removal, the least valuable one first.

    Mirrors pkg/controller/controller_utils.go, v1.36, ActivePodsWithRanks. First come pods without a node, then pods
    that do not run, are not ready, have a lower deletion cost, or share their node with more pods. Then come pods that
    have been ready for less time, have more restarts, or are newer. Differences: a pod on a lost node comes right after
    the pods without a node. If two pods are equally ready, one that only its node claims comes first, since a stolen
    node can claim any.
    """
    found = list(members)
    on_node: dict[str, int] = {}
    for member in found:
        on_node[member.node] = on_node.get(member.node, 0) + 1

    def key(member: Member) -> tuple[bool | int | float | str, ...]:
        ready_since = member.ready_since.timestamp() if member.ready_since is not None else 0.0
        return (
            bool(member.node),
            member.presence == "Ready",
            health(member) == "fine",
            member.is_ready(),
            not member.recalled,
            member.deletion_cost,
            -on_node[member.node],
            -ready_since,
            -member.restarts,
            -member.created.timestamp(),
            member.name,
        )

    return sorted(found, key=key)
