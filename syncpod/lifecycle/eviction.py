"""Eviction thresholds: when a node is short of memory, disk or processes, and which conditions it then has.

A threshold is met while less of its resource is available than its value. A hard threshold that is met is due at once:
pods are evicted. A soft one is due when it has been met for its grace period. A threshold that was due stays met until
its minimum reclaim is available too. A condition of the node (`MemoryPressure`, `DiskPressure`, `PIDPressure`) holds
while one of its thresholds is met, even if not yet due, and for five minutes after, so that it does not flap.

Mirrors eviction/eviction_manager.go, v1.36, synchronize and Admit, and eviction/helpers.go, without the signals of the
pods' own cgroup (allocatableMemory) and of a container file system apart from that of the images (containerfs). Times
are seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import pack, unpack
from typing import Final, Literal, NamedTuple

from syncpod.lifecycle.phase import is_critical
from syncpod.lifecycle.qos import pod_qos
from syncpod.pod import Pod, parse_quantity, quantity_text

Signal = Literal[
    "memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
    "pid.available",
]  # fmt: skip
Resource = Literal["memory", "ephemeral-storage", "inodes", "pids"]
NodeCondition = Literal["MemoryPressure", "DiskPressure", "PIDPressure"]

EVICTED: Final = "Evicted"
DISRUPTION_TARGET: Final = "DisruptionTarget"
TERMINATION_BY_KUBELET: Final = "TerminationByKubelet"
"""The condition of a pod that its node evicts because a resource is short, and its reason."""

RESOURCES: Final[Mapping[Signal, Resource]] = {
    "memory.available": "memory",
    "nodefs.available": "ephemeral-storage",
    "nodefs.inodesFree": "inodes",
    "imagefs.available": "ephemeral-storage",
    "imagefs.inodesFree": "inodes",
    "pid.available": "pids",
}
CONDITIONS: Final[Mapping[Signal, NodeCondition]] = {
    "memory.available": "MemoryPressure",
    "nodefs.available": "DiskPressure",
    "nodefs.inodesFree": "DiskPressure",
    "imagefs.available": "DiskPressure",
    "imagefs.inodesFree": "DiskPressure",
    "pid.available": "PIDPressure",
}
_MEMORY_TAINT: Final = "node.kubernetes.io/memory-pressure"


@dataclass(frozen=True)
class Amount:
    """An amount of a resource: a number, or a fraction of the capacity."""

    number: int = 0
    text: str = ""
    """The number as messages show it; "" for a fraction, which messages show as the resulting number."""
    part: float = 0.0
    """The fraction of the capacity: 0.1 is a tenth of it; 0 = the amount is `number`."""

    def of(self, capacity: int) -> int:
        """Return the amount as a number, given the capacity (api/types.go, GetThresholdQuantity)."""
        return int(capacity * self.part) if self.part else self.number

    def shown(self, capacity: int) -> str:
        """Return the amount as the kubelet's messages show it."""
        return self.text if not self.part else bytes_text(self.of(capacity))


@dataclass(frozen=True)
class Threshold:
    """The least amount of a resource that must be available."""

    signal: Signal
    value: Amount
    grace_seconds: float = 0.0
    """How long the threshold must have been met before pods are evicted; 0 means a hard threshold."""
    min_reclaim: Amount = Amount()
    """A threshold that was due counts as met until this much more than `value` is available."""

    @property
    def hard(self) -> bool:
        """Whether pods are evicted at once, with a grace of 1 s."""
        return not self.grace_seconds


@dataclass(frozen=True)
class EvictionPolicy:
    """The kubelet's configuration of eviction, and its defaults."""

    thresholds: tuple[Threshold, ...] = ()
    max_pod_grace_seconds: int = 0
    """evictionMaxPodGracePeriod: the longest grace of a pod that is evicted for a soft threshold."""
    transition_seconds: float = 300.0
    """evictionPressureTransitionPeriod: how long a condition outlasts the pressure."""


class Observation(NamedTuple):
    """How much of a resource is available, and how much the node has in all: bytes, inodes or processes."""

    available: int
    capacity: int


Observations = Mapping[Signal, Observation]
"""Measurements by signal. A signal that could not be measured is missing, and its thresholds are not met."""


@dataclass(frozen=True)
class PressureState:
    """The state that `look` keeps for its next call. All times are seconds of a monotonic clock."""

    first_met: Mapping[Threshold, float] = field(default_factory=dict)
    """For each threshold that is met, the time at which it was first met."""
    last_seen: Mapping[NodeCondition, float] = field(default_factory=dict)
    """When each condition was last caused by a threshold."""
    acted: tuple[Threshold, ...] = ()
    """Thresholds that were due at the last call: they stay met until their minimum reclaim is available too."""


@dataclass(frozen=True)
class Pressure:
    """The node's pressure, as `look` returns it."""

    conditions: tuple[NodeCondition, ...] = ()
    """The node's conditions, in the order of their names."""
    thresholds: tuple[Threshold, ...] = ()
    """The thresholds that are due, those of memory first: without memory, a node can do nothing else."""


def look(
    policy: EvictionPolicy, state: PressureState, seen: Observations, now: float
) -> tuple[PressureState, Pressure]:
    """Compare the measurements with the thresholds; return the state for the next call, and the node's pressure.

    Mirrors eviction_manager.go, v1.36, synchronize, up to the choice of a pod. `now` is in seconds of a monotonic
    clock.
    """
    met = thresholds_met(policy.thresholds, seen)
    met += tuple(each for each in thresholds_met(state.acted, seen, with_reclaim=True) if each not in met)
    first_met = {threshold: state.first_met.get(threshold, now) for threshold in met}
    last_seen = {**state.last_seen, **{CONDITIONS[threshold.signal]: now for threshold in met}}
    lasting = {name for name, at in last_seen.items() if now - at < policy.transition_seconds}
    conditions = tuple(sorted(lasting | {CONDITIONS[threshold.signal] for threshold in met}))
    due = tuple(threshold for threshold, since in first_met.items() if now - since >= threshold.grace_seconds)
    ordered = tuple(sorted(due, key=lambda threshold: RESOURCES[threshold.signal] != "memory"))
    return PressureState(first_met, last_seen, ordered), Pressure(conditions, ordered)


def thresholds_met(
    thresholds: Iterable[Threshold], seen: Observations, *, with_reclaim: bool = False
) -> tuple[Threshold, ...]:
    """Return the thresholds that are met (thresholdsMet).

    With `with_reclaim`, a threshold is met until its minimum reclaim is available in addition.
    """
    met = []
    for threshold in thresholds:
        observed = seen.get(threshold.signal)
        if observed is None:
            continue
        wanted = threshold.value.of(observed.capacity)
        if with_reclaim:
            wanted += threshold.min_reclaim.of(observed.capacity)
        if wanted > observed.available:
            met.append(threshold)
    return tuple(met)


def admission_refusal(pod: Pod, conditions: tuple[NodeCondition, ...]) -> str:
    """Return why a node under pressure does not admit a pod, in the kubelet's words; "" if it admits the pod (Admit).

    A node whose only condition is memory pressure rejects only best-effort pods that do not tolerate its taint.
    """
    if not conditions or is_critical(pod):
        return ""
    only_memory = conditions == ("MemoryPressure",)
    if only_memory and (pod_qos(pod) != "BestEffort" or _tolerates_memory_pressure(pod)):
        return ""
    return f"The node had condition: [{' '.join(conditions)}]. "


def grace_seconds(pod: Pod, threshold: Threshold, policy: EvictionPolicy) -> int:
    """Return the grace of a pod that is evicted, at least 1 s (pod_workers.go, calculateEffectiveGracePeriod).

    It is 1 s for a hard threshold, else the pod's own grace, up to the configured maximum.
    """
    if threshold.hard:
        return 1
    own = pod.spec.termination_grace_period_seconds
    return max(1, policy.max_pod_grace_seconds if own is None else min(policy.max_pod_grace_seconds, own))


def bytes_text(number: int) -> str:
    """Write a number as Kubernetes writes bytes: 104857600 is `100Mi`, and 1000 is `1000`."""
    return quantity_text(parse_quantity(str(number)), like="1Ki")


def percent(number: float) -> float:
    """Return a percentage as a fraction, in single precision as in the kubelet."""
    return _single(_single(number) / 100)


def _single(number: float) -> float:
    rounded: float = unpack("f", pack("f", number))[0]
    return rounded


def _tolerates_memory_pressure(pod: Pod) -> bool:
    """Say whether a toleration of the pod matches the taint of memory pressure (ToleratesTaint; its value is empty)."""
    return any(
        (not each.effect or each.effect == "NoSchedule")
        and (not each.key or each.key == _MEMORY_TAINT)
        and (each.operator == "Exists" or not each.value)
        for each in pod.spec.tolerations
    )
