"""Refusing limits that a resize adds and the runtime cannot enforce.

Difference from the kubelet, whose runtimes enforce all limits: the embedded runtime without access to cgroups never
creates a container with a limit, so none may be added to a running one either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from syncpod.pod import Pod, ResourceRequirements
from syncpod.pod.amounts import read_amounts


def added_limits(before: Pod, after: Pod) -> tuple[tuple[str, str], ...]:
    """Return the limits that a resize sets for the first time: the path of each, and its resource.

    Pod-level limits come first. Raises ValueError for an invalid quantity, which validation has refused before.
    """
    had = {(path, name) for path, resources in _resources(before) for name in _limited(resources)}
    return tuple(
        (f"{path}.limits[{name}]", name)
        for path, resources in _resources(after)
        for name in _limited(resources)
        if (path, name) not in had
    )


def refusal_of_limits(added: tuple[tuple[str, str], ...], unenforced: Mapping[str, str]) -> str:
    """Return the sentence for the first limit that the runtime cannot enforce; "" if it can enforce all.

    `unenforced` has the runtime's reasons by resource (:func:`syncpod.cri.records.unenforced_limits`).
    """
    for path, name in added:
        if name in unenforced:
            return f"{path}: cannot be enforced, since {unenforced[name]}"
    return ""


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
