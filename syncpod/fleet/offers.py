"""The input of placement about a node: its offer, and the pods that it already has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from syncpod.pod import PodAffinityTerm
from syncpod.pod.enums import TaintEffect
from syncpod.pod.host_ports import HostPort

Presence = Literal["Ready", "NotReady", "Unknown"]
"""Ready and NotReady: as the node itself reports. Unknown: the fleet has no contact with the node."""


@dataclass(frozen=True)
class Taint:
    """A taint: it keeps pods away from a node unless they tolerate it."""

    key: str
    value: str = ""
    effect: TaintEffect = "NoSchedule"

    def __str__(self) -> str:
        """Write it as kubectl does: ``key=value:effect``."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True)
class PodThere:
    """A pod that a node has or will have, with the parts that matter for the placement of other pods."""

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    """The workflow id of its workload; "" = it has none."""
    leaving: bool = False
    """It is being deleted: it still takes room, but no longer counts for the spread."""
    apart_from: tuple[PodAffinityTerm, ...] = ()
    """The required terms of its own anti-affinity (`own_anti_affinity`)."""


@dataclass(frozen=True)
class NodeOffer:
    """A node: its labels and taints, its resources, and how much of them is taken."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """It is cordoned."""
    doubled: bool = False
    """Two machines answer as this node."""
    presence: Presence = "Ready"
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """Its resources for pods: cpu in millicores, everything else in its own unit, and ``pods``. A resource that is
    absent is unlimited, except huge pages: a page size that is absent does not exist on the machine."""
    unenforced_limits: frozenset[str] = frozenset()
    """The resources whose limits its runtime cannot enforce; ``hugepages`` stands for all sizes."""
    taken: Mapping[str, int] = field(default_factory=dict)
    """The sum of its pods' requests, in the same units; without ``pods``."""
    ports: tuple[HostPort, ...] = ()
    """Host ports that its pods use."""
    pods: tuple[PodThere, ...] = ()
    namesakes: tuple[str, ...] = ()
    """Names of pods on the node that belong to other owners, and that a new pod of the workload could also get."""
    others: int = 0
    """How many pods it has besides `pods`: they do not affect the placement in question."""

    @property
    def crowd(self) -> int:
        """How many pods it has in all."""
        return len(self.pods) + self.others
