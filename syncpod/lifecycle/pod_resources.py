"""The CPU and memory of a pod as desired, as allocated, or as last applied, separate from the rest of the pod.

A resize changes the three in turn: a user changes the desired resources, the node allocates them if it has room, and
the runtime then applies them. The rest of a pod is the same in all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from syncpod.pod import Container, Pod, Quantity, ResourceRequirements, parse_quantity
from syncpod.pod.go_text import go_json
from syncpod.pod.wire import Model, to_wire

_RESIZABLE: Final = ("cpu", "memory")
"""The resources that a resize can change."""


class PodResources(Model):
    """The limits and requests of each container, and of the pod as a whole."""

    containers: dict[str, ResourceRequirements] = Field(default_factory=dict)
    """By container name, init containers included. A container that is missing here has no requests and no limits."""
    pod: ResourceRequirements | None = None
    """The pod-level resources."""


def resources_of(pod: Pod) -> PodResources:
    """Return the resources that a pod's spec names. Mirrors allocation_manager.go, v1.36, allocationFromPod."""
    spec = pod.spec
    containers = {container.name: container.resources for container in (*spec.init_containers, *spec.containers)}
    return PodResources(containers=containers, pod=spec.resources)


def with_resources(pod: Pod, resources: PodResources) -> Pod:
    """Return the pod with other resources. Containers that `resources` does not name keep theirs.

    Mirrors allocation_manager.go, v1.36, updatePodFromAllocation.
    """

    def resized(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            container.model_copy(update={"resources": resources.containers.get(container.name, container.resources)})
            for container in containers
        )

    update = {
        "init_containers": resized(pod.spec.init_containers),
        "containers": resized(pod.spec.containers),
        "resources": resources.pod,
    }
    return pod.model_copy(update={"spec": pod.spec.model_copy(update=update)})


def same_resources(one: PodResources, other: PodResources) -> bool:
    """Say whether both have the same CPU and memory, of the pod and of each container, in any notation."""
    if one.containers.keys() != other.containers.keys() or not same_amounts(one.pod, other.pod):
        return False
    return all(same_amounts(resources, other.containers[name]) for name, resources in one.containers.items())


def same_amounts(one: ResourceRequirements | None, other: ResourceRequirements | None) -> bool:
    """Say whether two requirements have the same CPU and memory, however written; None counts as no amount.

    Other resources do not count, because a resize can neither change nor apply them.
    """
    mine, theirs = one or ResourceRequirements(), other or ResourceRequirements()
    return all(_amounts(getattr(mine, kind)) == _amounts(getattr(theirs, kind)) for kind in ("limits", "requests"))


def _amounts(written: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in written.items() if name in _RESIZABLE}


def requested_changes(before: PodResources, after: PodResources) -> tuple[tuple[str, str, str], ...]:
    """Return the changes of each container as tuples such as `("cpu", "limits", "increase")`.

    Pod-level resources are not included. Mirrors kubelet.go, v1.36, recordContainerResizeOperations.
    """
    found = []
    for name in [name for name in before.containers if name in after.containers]:
        for resource, requirement in _COUNTED:
            old, new = (_value(each.containers[name], requirement, resource) for each in (before, after))
            if operation := _operation(old, new):
                found.append((resource, requirement, operation))
    return tuple(found)


_COUNTED: Final = (("memory", "requests"), ("memory", "limits"), ("cpu", "requests"), ("cpu", "limits"))
_ZERO: Final = parse_quantity("0")


def _value(resources: ResourceRequirements, requirement: str, resource: str) -> Quantity:
    return _amounts(getattr(resources, requirement)).get(resource, _ZERO)


def _operation(old: Quantity, new: Quantity) -> str:
    """Return `add`, `remove`, `increase` or `decrease`; "" if nothing changed (resizeOperationForResources)."""
    if old == new:
        return ""
    if not old.number or not new.number:
        return "remove" if old.number else "add"
    return "increase" if new.number > old.number else "decrease"


def resize_summary(pod: Pod, generation: int | None, error: str = "") -> str:
    """Return the summary in a resize's events: the resources of each container, as JSON.

    Mirrors events/resize.go, v1.36, makeResourceSummaryFromSpec, to the byte: it leaves pod-level resources out.
    """
    spec = pod.spec
    summary: dict[str, Any] = {}
    if spec.init_containers:
        summary["initContainers"] = [_summary(container) for container in spec.init_containers]
    if spec.containers:
        summary["containers"] = [_summary(container) for container in spec.containers]
    summary["generation"] = generation or 0
    if error:
        summary["error"] = error
    return go_json(summary)


def _summary(container: Container) -> dict[str, Any]:
    """Return the summary of one container, its amounts sorted by name, as Go prints a map."""
    wire = to_wire(container.resources)
    amounts = {kind: dict(sorted(wire[kind].items())) for kind in ("limits", "requests") if kind in wire}
    return {"name": container.name, "resources": wire | amounts}
