"""Refusing limits of a pod that the runtime cannot enforce, by the path of each field.

Difference from the kubelet, whose runtimes enforce all limits: the embedded runtime without access to cgroups never
creates a container with a limit. A pod that has one is not admitted, and a resize may add none to a running one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from syncpod.pod import Pod, ResourceRequirements
from syncpod.pod.amounts import HUGE_PAGES, read_amounts

LIMITS_UNENFORCED = "LimitsUnenforced"
"""The reason in the status of a pod that is not admitted for its limits: our own, since no kubelet has one."""

Limits = tuple[tuple[str, str], ...]
"""The path of each limit, as `spec.containers[0].resources.limits[memory]`, and its resource."""

_PATH = re.compile(r"spec\.(\w+\[\d+\]\.)?resources\.limits\[[^\]]+\]: ")


def limits_of(pod: Pod) -> Limits:
    """Return the limits that a pod sets, pod-level ones first.

    Raises ValueError for an invalid quantity, which validation has refused before.
    """
    return tuple((f"{path}.limits[{name}]", name) for path, given in _resources(pod) for name in _limited(given))


def added_limits(before: Pod, after: Pod) -> Limits:
    """Return the limits that a resize sets for the first time, as `limits_of`."""
    had = set(limits_of(before))
    return tuple(each for each in limits_of(after) if each not in had)


def refusals_of_limits(limits: Limits, unenforced: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence, with the field's path, for each limit that the runtime cannot enforce; () if there is none.

    `unenforced` has the runtime's reasons by resource (:func:`syncpod.cri.records.unenforced_limits`); `hugepages`
    stands there for all sizes.
    """
    return tuple(
        f"{path}: cannot be enforced by the embedded runtime, since {_with_the_way_on(why)}"
        for path, name in limits
        if (why := unenforced.get("hugepages" if name.startswith(HUGE_PAGES) else name)) is not None
    )


def names_a_limit(reason: str) -> bool:
    """Say whether a sentence refuses a limit, as those of `refusals_of_limits` do."""
    return _PATH.match(reason) is not None


def _with_the_way_on(why: str) -> str:
    """Add to the runtime's reason, which may end in a remedy after a colon, that the limit can be removed."""
    return f"{why}, or remove the limit" if ": " in why else f"{why}: remove the limit"


def _resources(pod: Pod) -> Iterator[tuple[str, ResourceRequirements]]:
    """Yield the resources by path. A resize does not change the order of containers."""
    spec = pod.spec
    if spec.resources is not None:
        yield "spec.resources", spec.resources
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield f"spec.{kind}[{index}].resources", container.resources


def _limited(resources: ResourceRequirements) -> list[str]:
    return sorted(name for name, amount in read_amounts(resources.limits).items() if amount.number > 0)
