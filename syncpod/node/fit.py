"""Decides whether a node has room for one more pod, from the requests and host ports of all its pods.

Mirrors pkg/scheduler/framework/plugins/noderesources/fit.go and nodeports/node_ports.go, v1.36, as the kubelet calls
them (lifecycle/predicate.go). Differences: ``pods`` counts only if the node has a limit for it; taints are ignored,
since nobody sets any.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from syncpod.lifecycle import node_affinity
from syncpod.lifecycle.qos import pod_qos
from syncpod.pod import Pod
from syncpod.pod.amounts import HUGE_PAGES, requested_amounts
from syncpod.pod.host_ports import HostPort, host_ports, is_taken

PODS = "pods"
_FIRST = ("cpu", "memory", "ephemeral-storage")
_PORTS = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"

Capacity = Mapping[str, int]
"""The resources of a node for pods: cpu in millicores, everything else in its own unit. A missing resource is
unlimited; a missing size of huge pages does not exist on the machine."""


class Refusal(NamedTuple):
    """The refusal of a pod by its node: the kubelet's reason and message."""

    reason: str
    message: str


@dataclass(frozen=True)
class Demand:
    """The resources and host ports that one pod takes from its node, from its admission to its end."""

    amounts: Mapping[str, int]
    """Requests with overhead, as in :data:`Capacity`."""
    ports: tuple[HostPort, ...] = ()
    burstable: bool = False
    """True if the pod's CPU request counts towards the weight of the burstable tier."""

    @property
    def burstable_milli_cpu(self) -> int:
        """The millicores that the pod adds to the weight of the burstable tier; 0 for a pod of another class."""
        return self.amounts.get("cpu", 0) if self.burstable else 0


class Taken:
    """The resources and host ports that all pods together take from a node."""

    def __init__(self, demands: Iterable[Demand] = ()) -> None:
        self.pods = 0
        self.burstable_milli_cpu = 0
        self._amounts: Counter[str] = Counter()
        self._ports: Counter[HostPort] = Counter()
        for demand in demands:
            self.add(demand)

    def add(self, demand: Demand) -> None:
        """Count one more pod."""
        self._count(demand, 1)

    def remove(self, demand: Demand) -> None:
        """Count one pod less. The pod must have been added with the same demand."""
        self._count(demand, -1)

    def refusal(self, demand: Demand, capacity: Capacity, *, matches: bool = True) -> Refusal | None:
        """Return the first reason, in the kubelet's order, why one more pod does not fit; None if it fits.

        `matches` is True if the node has the labels and the name that the pod requires. A resource that the pod does
        not request is ignored, even if other pods take more of it than the node has.
        """
        if PODS in capacity and self.pods + 1 > capacity[PODS]:
            return _out_of(PODS, 1, self.pods, capacity[PODS])
        for name in sorted(demand.amounts, key=_in_order):
            wanted, used = demand.amounts[name], self._amounts[name]
            limit = capacity.get(name, 0 if name.startswith(HUGE_PAGES) else None)
            if limit is not None and wanted > 0 and wanted > limit - used:
                return _out_of(name, wanted, used, limit)
        if not matches:
            return Refusal(node_affinity.REASON, node_affinity.MESSAGE)
        if is_taken(demand.ports, self._ports):
            return Refusal("NodePorts", _PORTS)
        return None

    def _count(self, demand: Demand, times: int) -> None:
        self.pods += times
        self.burstable_milli_cpu += times * demand.burstable_milli_cpu
        for name, amount in demand.amounts.items():
            self._amounts[name] += times * amount
        for port in demand.ports:
            self._ports[port] += times
            if not self._ports[port]:
                del self._ports[port]


def refusal_of_resize(demand: Demand, others: Taken, capacity: Capacity) -> tuple[Refusal, bool] | None:
    """Return why a pod's new requests do not fit beside the other pods, and True if they never can; None if they fit.

    Mirrors allocation_manager.go, v1.36, canAdmitPod. Difference: a request for more than the whole node has can never
    fit, as in kubelets up to 1.35. In 1.36 an API server refuses such a resize (plugin/pkg/admission/podresize);
    without an API server the kubelet would retry it for ever.
    """
    for name in sorted(demand.amounts, key=_in_order):
        limit = capacity.get(name, 0 if name.startswith(HUGE_PAGES) else None)
        if limit is not None and demand.amounts[name] > limit:
            message = f"Node didn't have enough capacity: {name}, requested: {demand.amounts[name]}, capacity: {limit}"
            return Refusal(f"OutOf{name}", message), True
    refusal = others.refusal(demand, capacity)
    return (refusal, False) if refusal is not None else None


def rank_of_resize(pod: Pod) -> tuple[int, bool]:
    """Return the sort key of a pod that waits for room: higher priorities first, and then guaranteed pods.

    Mirrors allocation_manager.go, v1.36, sortPendingResizes.
    """
    return -(pod.spec.priority or 0), pod_qos(pod) != "Guaranteed"


def demand_of(pod: Pod) -> Demand:
    """Return the resources and host ports that a pod takes from its node (calculateResource, GetHostPorts).

    Raises ValueError for an invalid quantity, which validation has refused before.
    """
    return Demand(
        amounts=requested_amounts(pod),
        ports=host_ports(pod),
        burstable=pod_qos(pod) == "Burstable",
    )


def _in_order(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST)), name


def _out_of(name: str, requested: int, used: int, capacity: int) -> Refusal:
    return Refusal(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}",
    )
