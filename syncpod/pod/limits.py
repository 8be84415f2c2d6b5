"""The limits that a pod sets: their fields, and their resources."""

from collections.abc import Iterator
from typing import Final

from syncpod.pod.amounts import HUGE_PAGES, read_amounts
from syncpod.pod.kinds import Pod
from syncpod.pod.resources import ResourceRequirements

Limits = tuple[tuple[str, str], ...]
"""The path of each limit, as `spec.containers[0].resources.limits[memory]`, and its resource."""

_ALL_HUGE_PAGES: Final = "hugepages"


def limits_of(pod: Pod) -> Limits:
    """Return the limits that a pod sets, pod-level ones first.

    Raises ValueError for an invalid quantity, which validation has refused before.
    """
    return tuple((f"{path}.limits[{name}]", name) for path, given in _resources(pod) for name in _limited(given))


def is_of_pod(path: str) -> bool:
    """Return whether a path of :func:`limits_of` is a limit of the pod as a whole, and not of one container."""
    return path.startswith("spec.resources.")


def limited_resources(pod: Pod) -> frozenset[str]:
    """Return the resources that a pod limits, by the names of `limited`. Raises ValueError as `limits_of`."""
    return frozenset(limited(name) for _, name in limits_of(pod))


def limited(name: str) -> str:
    """Return a resource's name in a runtime's list of the limits that it enforces: `hugepages` stands for all sizes."""
    return _ALL_HUGE_PAGES if name.startswith(HUGE_PAGES) else name


def _resources(pod: Pod) -> Iterator[tuple[str, ResourceRequirements]]:
    """Yield the resources by path. A resize does not change the paths, since it does not reorder containers."""
    spec = pod.spec
    if spec.resources is not None:
        yield "spec.resources", spec.resources
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield f"spec.{kind}[{index}].resources", container.resources


def _limited(resources: ResourceRequirements) -> list[str]:
    return sorted(name for name, amount in read_amounts(resources.limits).items() if amount.number > 0)
