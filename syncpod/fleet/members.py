"""A workload's pods as the fleet sees them: where they are, how they are, and which of them goes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from syncpod.fleet.offers import Presence
from syncpod.lifecycle.restart_pacing import LIMIT_REACHED

Health = Literal["fine", "in trouble", "failing"]
"""In trouble: something went wrong once, as a first exit. Failing: it goes wrong each time, as in a crash loop."""

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
    {"AppArmor", "Evicted", "NodeAffinity", "NodePorts", "NodeShutdown", "Preempting", "UnexpectedAdmissionError"}
)
"""Reasons of ends that are the node's fault and not the template's, beside those that begin with `OutOf`."""


@dataclass(frozen=True)
class Member:
    """One pod of a workload."""

    name: str
    revision: str
    """Of its template."""
    created: datetime
    node: str = ""
    """"" = it is not placed yet."""
    presence: Presence = "Ready"
    """Its node's."""
    unknown_since: datetime | None = None
    """When its node became Unknown; None while it is not."""
    ready_since: datetime | None = None
    """None = not ready, as its node has last reported it."""
    status: str = ""
    """As ``get pods`` prints it."""
    message: str = ""
    """What is behind the status, such as the reason why no node has room for it."""
    ended: bool = False
    """Its phase is Succeeded or Failed: it never runs again."""
    leaving: bool = False
    """It is withdrawn, and its node has not said yet that it is gone."""
    replaces: str = ""
    """The pod on a lost node whose place it took."""
    restarts: int = 0
    deletion_cost: int = 0
    moving: bool = False
    """Its node is being drained: another is to take its place elsewhere."""
    pod: str = ""
    """What the pod is called, if that is not its name here."""

    @property
    def called(self) -> str:
        """Name it in a sentence: ``web-1 on n2``."""
        name = self.pod or self.name
        return f"{name} on {self.node}" if self.node else name

    def is_ready(self) -> bool:
        """Say whether it is known to be ready: on an Unknown node nothing is."""
        return self.presence == "Ready" and self.ready_since is not None and not self.ended

    def is_available(self, now: datetime, min_ready: timedelta) -> bool:
        """Say whether it has been ready for long enough (podutils.IsPodAvailable)."""
        return self.is_ready() and self.ready_since is not None and now - self.ready_since >= min_ready


def health(member: Member) -> Health:
    """Say how a pod is, by the status that ``get pods`` prints; a node that is not Ready is not the pod's fault."""
    word = member.status.removeprefix("Init:")
    if member.presence != "Ready":
        return "fine"
    if member.ended:
        return "in trouble" if word in _OF_NODE or word.startswith("OutOf") else "failing"
    if word in _FAILING:
        return "failing"
    return "fine" if word in _FINE or member.is_ready() or "/" in word else "in trouble"


def leaving_order(members: Iterable[Member]) -> list[Member]:
    """Sort pods so that the one that is missed least comes first.

    Mirrors pkg/controller/controller_utils.go, v1.36, ActivePodsWithRanks: those without a node, not running, not
    ready, of lower deletion cost, beside another on their node, ready for less time, with more restarts, newer.
    Difference: a pod on a lost node goes right after those without one.
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
            member.deletion_cost,
            -on_node[member.node],
            -ready_since,
            -member.restarts,
            -member.created.timestamp(),
            member.name,
        )

    return sorted(found, key=key)
