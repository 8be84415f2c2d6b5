"""In-place resize: a running container's desired and last applied resources, and the steps between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from syncpod.lifecycle.actions import ContainerResources, ContainersToUpdate, ContainerToUpdate
from syncpod.lifecycle.pod_resources import PodResources
from syncpod.pod import Container, PodSpec, ResourceRequirements, parse_quantity

ResourceName = Literal["memory", "cpu"]
_NOTHING: Final = ResourceRequirements()

RESTART_MESSAGE: Final = "resize requires restart"
"""The end of a kill's message, after the container's name, if the resize policy requires a restart."""


@dataclass(frozen=True, slots=True)
class Resize:
    """The changes that give one running container the resources in its spec."""

    restart: bool = False
    """Its resize policy demands a restart for this change."""
    memory: ContainerToUpdate | None = None
    cpu: ContainerToUpdate | None = None


def container_resize(container: Container, spec: PodSpec, actuated: PodResources, running_id: str) -> Resize:
    """Decide the resize of one running container, main or init.

    `actuated` has the resources that were last applied, as recorded then: the runtime reports them rounded. Mirrors
    kuberuntime_manager.go, v1.36, computePodResizeAction.
    """
    desired = _container_resources(container.resources, spec.resources)
    current = _container_resources(actuated.containers.get(container.name), actuated.pod)
    if desired == current:
        return Resize()
    memory_changes = (desired.memory_limit, desired.memory_request) != (current.memory_limit, current.memory_request)
    cpu_changes = (desired.cpu_limit, desired.cpu_request) != (current.cpu_limit, current.cpu_request)
    if (memory_changes and _restarts_for(container, "memory")) or (cpu_changes and _restarts_for(container, "cpu")):
        return Resize(restart=True)
    update = ContainerToUpdate(name=container.name, id=running_id, desired=desired, current=current)
    return Resize(memory=update if memory_changes else None, cpu=update if cpu_changes else None)


def any_starts_resized(starting: Iterable[Container], spec: PodSpec, actuated: PodResources) -> bool:
    """Say whether one of the containers that are about to start has other resources than those last applied.

    Mirrors kuberuntime_manager.go, v1.37, startingResizedContainer.
    """
    return any(
        _container_resources(each.resources, spec.resources)
        != _container_resources(actuated.containers.get(each.name), actuated.pod)
        for each in starting
    )


def order_updates(resizes: Iterable[Resize]) -> ContainersToUpdate:
    """Sort in-place updates from the order of decision into the order of application, for each resource.

    Decreases come before increases, so that room is made before it is used. The decrease decided last is the first, as
    in the kubelet.
    """
    decided = tuple(resizes)
    memory = tuple(resize.memory for resize in decided if resize.memory)
    cpu = tuple(resize.cpu for resize in decided if resize.cpu)
    return ContainersToUpdate(
        memory=_decreases_first(memory, tuple(map(_memory_shrinks, memory))),
        cpu=_decreases_first(cpu, tuple(map(_cpu_shrinks, cpu))),
    )


def pod_level_resources_changed(spec: PodSpec, actuated: PodResources) -> bool:
    """Say whether the pod-level resources must be applied again."""
    return _resources(spec.resources) != _resources(actuated.pod)


def _restarts_for(container: Container, resource: ResourceName) -> bool:
    """Say whether a change of this resource needs a restart, by its first policy; False without a policy."""
    for policy in container.resize_policy:
        if policy.resource_name == resource:
            return policy.restart_policy == "RestartContainer"
    return False


def _decreases_first(
    updates: tuple[ContainerToUpdate, ...], shrinks: tuple[bool, ...]
) -> tuple[ContainerToUpdate, ...]:
    decreases = [update for update, shrink in zip(updates, shrinks, strict=True) if shrink]
    increases = [update for update, shrink in zip(updates, shrinks, strict=True) if not shrink]
    return (*reversed(decreases), *increases)


def _memory_shrinks(update: ContainerToUpdate) -> bool:
    desired, current = update.desired, update.current
    return (desired.memory_limit, desired.memory_request) < (current.memory_limit, current.memory_request)


def _cpu_shrinks(update: ContainerToUpdate) -> bool:
    desired, current = update.desired, update.current
    return (desired.cpu_limit, desired.cpu_request) < (current.cpu_limit, current.cpu_request)


def _container_resources(own: ResourceRequirements | None, pod: ResourceRequirements | None) -> ContainerResources:
    """Return a container's resources. The pod's limit replaces a missing limit; a missing request is 0."""
    of_container, of_pod = _resources(own), _resources(pod)
    return ContainerResources(
        memory_limit=of_container.memory_limit or of_pod.memory_limit,
        memory_request=of_container.memory_request,
        cpu_limit=of_container.cpu_limit or of_pod.cpu_limit,
        cpu_request=of_container.cpu_request,
    )


def _resources(requirements: ResourceRequirements | None) -> ContainerResources:
    limits, requests = (requirements or _NOTHING).limits, (requirements or _NOTHING).requests
    return ContainerResources(
        memory_limit=_bytes(limits.get("memory")),
        memory_request=_bytes(requests.get("memory")),
        cpu_limit=_millicores(limits.get("cpu")),
        cpu_request=_millicores(requests.get("cpu")),
    )


def _bytes(quantity: str | None) -> int:
    return parse_quantity(quantity).value() if quantity else 0


def _millicores(quantity: str | None) -> int:
    return parse_quantity(quantity).milli_value() if quantity else 0
