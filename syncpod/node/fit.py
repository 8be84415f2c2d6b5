"""Whether a node has room for one more pod: what it requests and which ports it wants, against what is taken.

Mirrors pkg/scheduler/framework/plugins/noderesources/fit.go and nodeports/node_ports.go, v1.36, as the kubelet asks
them (lifecycle/predicate.go). Differences: ``pods`` counts only where the node has a number for it, and no taint,
affinity or nodeName is looked at, since no scheduler has chosen by them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from syncpod.lifecycle.qos import pod_qos
from syncpod.pod import Pod
from syncpod.pod.amounts import HUGE_PAGES, pod_amounts
from syncpod.translation.host_ports import HostPort, host_ports, is_taken

PODS = "pods"
_FIRST = ("cpu", "memory", "ephemeral-storage")
_PORTS = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"

Capacity = Mapping[str, int]
"""What a node has for pods: cpu in millicores, all else in its own unit. What is not named is not limited, but for huge
pages: a size that is not named is one the machine has not got."""


class Refusal(NamedTuple):
    """Why a node does not let a pod in: the kubelet's reason, and its words."""

    reason: str
    message: str


@dataclass(frozen=True)
class Demand:
    """What one pod takes of its node from its admission to its end."""

    amounts: Mapping[str, int]
    """Requests with overhead, as in :data:`Capacity`."""
    ports: tuple[HostPort, ...] = ()
    burstable: bool = False
    """Its CPU request weighs in the tier of the burstable."""

    @property
    def burstable_milli_cpu(self) -> int:
        """The millicores by which the tier of the burstable weighs more."""
        return self.amounts.get("cpu", 0) if self.burstable else 0


class Taken:
    """What pods take of a node together."""

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
        """Count one pod less, which was counted with that demand."""
        self._count(demand, -1)

    def refusal(self, demand: Demand, capacity: Capacity) -> Refusal | None:
        """Return the first reason, in the kubelet's order, for which one more pod does not fit; None: it fits.

        A pod that requests nothing of a resource fits however much of it is taken.
        """
        if PODS in capacity and self.pods + 1 > capacity[PODS]:
            return _out_of(PODS, 1, self.pods, capacity[PODS])
        for name in sorted(demand.amounts, key=_in_order):
            wanted, used = demand.amounts[name], self._amounts[name]
            limit = capacity.get(name, 0 if name.startswith(HUGE_PAGES) else None)
            if limit is not None and wanted > 0 and wanted > limit - used:
                return _out_of(name, wanted, used, limit)
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
    """Return why what a pod now asks for does not fit beside the others, and whether it never will; None: it fits.

    Mirrors allocation_manager.go, v1.36, canAdmitPod. Difference: what the whole node has not got never will fit, as
    kubelets up to 1.35 said. That of 1.36 leaves it to its API server (plugin/pkg/admission/podresize), which is none
    of ours, and would ask for it for ever.
    """
    for name in sorted(demand.amounts, key=_in_order):
        limit = capacity.get(name, 0 if name.startswith(HUGE_PAGES) else None)
        if limit is not None and demand.amounts[name] > limit:
            message = f"Node didn't have enough capacity: {name}, requested: {demand.amounts[name]}, capacity: {limit}"
            return Refusal(f"OutOf{name}", message), True
    refusal = others.refusal(demand, capacity)
    return (refusal, False) if refusal is not None else None


def rank_of_resize(pod: Pod) -> tuple[int, bool]:
    """Return what the pods that wait for room are sorted by: priority first, then the guaranteed before the others.

    Mirrors allocation_manager.go, v1.36, sortPendingResizes.
    """
    return -(pod.spec.priority or 0), pod_qos(pod) != "Guaranteed"


def demand_of(pod: Pod) -> Demand:
    """Return what a pod takes of its node (calculateResource, GetHostPorts).

    Raises ValueError for a quantity that is none; validation has refused it before.
    """
    requests = pod_amounts(pod, "requests")
    return Demand(
        amounts={name: amount.milli_value() if name == "cpu" else amount.value() for name, amount in requests.items()},
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
