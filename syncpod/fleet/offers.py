"""What a node offers to a pod that has to be placed, and what is there already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from syncpod.pod import PodAffinityTerm
from syncpod.pod.enums import TaintEffect
from syncpod.pod.host_ports import HostPort

Presence = Literal["Ready", "NotReady", "Unknown"]
"""A node as the fleet sees it. NotReady: the node itself says that it is not ready. Unknown: nothing is heard of it."""


@dataclass(frozen=True)
class Taint:
    """What keeps pods away from a node, unless they tolerate it."""

    key: str
    value: str = ""
    effect: TaintEffect = "NoSchedule"

    def __str__(self) -> str:
        """Write it as kubectl does: ``key=value:effect``."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True)
class PodThere:
    """A pod that a node has, or is to have: as much of it as the placement of others looks at."""

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    """The workload that it belongs to, by its workflow's id; "" = none."""
    leaving: bool = False
    """It is being deleted: it still takes room, and no longer counts for the spread."""
    apart_from: tuple[PodAffinityTerm, ...] = ()
    """The required terms of its own anti-affinity (`own_anti_affinity`)."""


@dataclass(frozen=True)
class NodeOffer:
    """A node: what it is, what it has, and what of it is taken."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """It is cordoned."""
    presence: Presence = "Ready"
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """What it has for pods: cpu in millicores, everything else in its own unit, and ``pods``. A resource that is not
    named is unlimited, except huge pages: a size that is not named does not exist on the machine."""
    taken: Mapping[str, int] = field(default_factory=dict)
    """What its pods request together, in the same units; ``pods`` is not in it."""
    ports: tuple[HostPort, ...] = ()
    """Ports of the machine that its pods have."""
    pods: tuple[PodThere, ...] = ()
    others: int = 0
    """How many more it has: pods of which nothing matters to the pod that is to be placed."""

    @property
    def crowd(self) -> int:
        """How many pods it has."""
        return len(self.pods) + self.others
