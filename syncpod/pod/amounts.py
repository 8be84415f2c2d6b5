"""A pod's total requests and limits: those of its containers, pod-level ones, and its overhead.

Mirrors component-helpers `resource/helpers.go`, v1.36, PodRequests and PodLimits.
"""

from collections.abc import Mapping
from typing import Literal

from syncpod.pod.kinds import Pod
from syncpod.pod.quantity import Quantity, parse_quantity, quantity_text
from syncpod.pod.spec import PodSpec

Amounts = Mapping[str, Quantity]
"""Quantities by resource name."""

Kind = Literal["requests", "limits"]

HUGE_PAGES = "hugepages-"
"""Prefix of huge pages' names, before the size of a page, as in `hugepages-2Mi`."""

_OF_PODS = ("cpu", "memory")
_ZERO = parse_quantity("0")


def is_pod_level(name: str) -> bool:
    """Say whether a resource may be set at pod level (IsSupportedPodLevelResource)."""
    return name in _OF_PODS or name.startswith(HUGE_PAGES)


def read_amounts(written: Mapping[str, str]) -> Amounts:
    """Return quantities as numbers. Raises ValueError for an invalid one, which validation has refused before."""
    return {name: parse_quantity(text) for name, text in written.items()}


def pod_amounts(pod: Pod, kind: Kind, *, overhead: bool = True) -> Amounts:
    """Return the pod's requests or limits: pod-level ones, else the most that its containers need at one time.

    The overhead is added to each request and to each existing limit. Raises ValueError as `read_amounts`.
    """
    total = dict(containers_amounts(pod.spec, kind))
    if pod.spec.resources is not None:
        whole = read_amounts(getattr(pod.spec.resources, kind))
        total |= {name: amount for name, amount in whole.items() if is_pod_level(name)}
    if overhead:
        for name, amount in read_amounts(pod.spec.overhead).items():
            if kind == "requests" or total.get(name, _ZERO) > _ZERO:
                total[name] = _sum(total.get(name, _ZERO), amount)
    return total


def requested_amounts(pod: Pod) -> dict[str, int]:
    """Return a pod's requests with overhead, as whole numbers: cpu in millicores, and all others in their own units.

    A fraction of a unit is rounded up. Raises ValueError as `read_amounts`.
    """
    requests = pod_amounts(pod, "requests")
    return {name: amount.milli_value() if name == "cpu" else amount.value() for name, amount in requests.items()}


def containers_amounts(spec: PodSpec, kind: Kind) -> Amounts:
    """Return the sum of the containers' requests or limits: the most that they need at any one time.

    Main containers and sidecars add up. An init container runs with the sidecars started before it. Their sum counts
    only where it exceeds the later sum of main containers and sidecars (AggregateContainerRequests,
    AggregateContainerLimits).
    """
    total: Amounts = {}
    for container in spec.containers:
        total = _added(total, read_amounts(getattr(container.resources, kind)))
    sidecars: Amounts = {}
    init_peak: Amounts = {}
    for container in spec.init_containers:
        amounts = read_amounts(getattr(container.resources, kind))
        if container.restart_policy == "Always":
            total = _added(total, amounts)
            sidecars = _added(sidecars, amounts)
            init_peak = _larger(init_peak, sidecars)
        else:
            init_peak = _larger(init_peak, _added(sidecars, amounts))
    return _larger(total, init_peak)


def containers_text(spec: PodSpec, kind: Kind) -> dict[str, str]:
    """Return `containers_amounts` as a manifest writes them, each in the notation of its first occurrence."""
    return _as_text(containers_amounts(spec, kind), _of_containers(spec, kind))


def pod_text(pod: Pod, kind: Kind) -> dict[str, str]:
    """Return `pod_amounts` as a manifest writes them, each in the notation of its first occurrence in the spec."""
    spec = pod.spec
    whole = [getattr(spec.resources, kind)] if spec.resources is not None else []
    return _as_text(pod_amounts(pod, kind), [*whole, *_of_containers(spec, kind), spec.overhead])


def _of_containers(spec: PodSpec, kind: Kind) -> list[Mapping[str, str]]:
    return [getattr(container.resources, kind) for container in (*spec.containers, *spec.init_containers)]


def _as_text(amounts: Amounts, written: list[Mapping[str, str]]) -> dict[str, str]:
    like: dict[str, str] = {}
    for texts in written:
        for name, text in texts.items():
            if parse_quantity(like.get(name, "0")) == _ZERO:
                like[name] = text
    return {name: quantity_text(amount, like=like.get(name, "")) for name, amount in amounts.items()}


def _sum(one: Quantity, other: Quantity) -> Quantity:
    return Quantity(one.number + other.number)


def _added(one: Amounts, other: Amounts) -> Amounts:
    return {name: _sum(one.get(name, _ZERO), other.get(name, _ZERO)) for name in (*one, *other)}


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, _ZERO), other.get(name, _ZERO)) for name in (*one, *other)}
