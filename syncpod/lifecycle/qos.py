"""The quality-of-service class of a pod, which decides its cgroup and its OOM scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, Literal

from syncpod.pod import Pod, Problem, parse_quantity

QOSClass = Literal["Guaranteed", "Burstable", "BestEffort"]

_COMPUTE: Final = ("cpu", "memory")


def pod_qos(pod: Pod) -> QOSClass:
    """Return the pod's class: BestEffort requests nothing; Guaranteed has requests equal to limits in all containers.

    The pod-level resources decide if there are any, else those of all init and main containers; ephemeral containers do
    not count. Only cpu and memory count, and zero counts as not set.
    Raises ValueError for a malformed quantity (validation has refused it before).

    Mirrors pkg/apis/core/v1/helper/qos/qos.go, v1.36, ComputePodQOS. Difference: there, empty pod-level resources
    (`resources: {}`) make a pod BestEffort, even if its containers request resources. Here they count as none, as in
    the rest of the kubelet (component-helpers/resource/helpers.go, IsPodLevelResourcesSet).
    """
    whole = pod.spec.resources
    if whole is not None and (whole.requests or whole.limits):
        owners = [whole]
    else:
        owners = [container.resources for container in (*pod.spec.containers, *pod.spec.init_containers)]

    requests = _sum(owner.requests for owner in owners)
    limits = _sum(owner.limits for owner in owners)
    if not requests and not limits:
        return "BestEffort"
    all_limited = all(len(_positive(owner.limits)) == len(_COMPUTE) for owner in owners)
    return "Guaranteed" if all_limited and requests == limits else "Burstable"


def validate_same_qos(old: Pod, new: Pod) -> tuple[Problem, ...]:
    """Return a problem if a resize would change the pod's class: the place of the pod's cgroup depends on the class.

    Mirrors validation.go, v1.36, ValidatePodResize.
    """
    before, after = pod_qos(old), pod_qos(new)
    if before == after:
        return ()
    how = ": its requests must go on being equal to its limits" if before == "Guaranteed" else ""
    return (Problem("spec", f"a resize may not change the pod's QoS class from {before} to {after}{how}"),)


def _positive(amounts: Mapping[str, str]) -> dict[str, Fraction]:
    read = {name: parse_quantity(amounts[name]).number for name in _COMPUTE if name in amounts}
    return {name: number for name, number in read.items() if number > 0}


def _sum(lists: Iterable[Mapping[str, str]]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for amounts in lists:
        for name, number in _positive(amounts).items():
            total[name] = total.get(name, Fraction(0)) + number
    return total
