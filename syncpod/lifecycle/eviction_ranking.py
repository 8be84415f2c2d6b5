"""The order in which a node under pressure evicts pods, and the message with the reason.

The order is the kubelet's: pods that use more than they request before those that do not; then by priority, the lowest
first; then by how much more they use than they request. When processes are short, only priority and the number of
processes count. A pod without any measurement comes before all that have one.

Mirrors eviction/helpers.go, v1.36, rankMemoryPressure, rankDiskPressureFunc, rankPIDPressure and evictionMessage.
Differences: among equal pods the smaller UID comes first, where the kubelet's order is random. And a pod's memory is
the sum of its containers' memory, without its pause process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from syncpod.lifecycle.eviction import (
    RESOURCES,
    Observations,
    Resource,
    Signal,
    Threshold,
    bytes_text,
)
from syncpod.lifecycle.phase import is_critical
from syncpod.pod import Pod, Quantity, parse_quantity, quantity_text
from syncpod.pod.amounts import containers_amounts, is_pod_level, read_amounts

_ZERO: Final = parse_quantity("0")


@dataclass(frozen=True)
class Written:
    """A pod's or container's use of a disk."""

    bytes: int = 0
    inodes: int = 0

    def plus(self, other: Written | None) -> Written:
        """Return the sum of both; a part that was not measured counts as nothing."""
        return self if other is None else Written(self.bytes + other.bytes, self.inodes + other.inodes)


@dataclass(frozen=True)
class ContainerUsage:
    """The usage of one running container; None = not measured."""

    name: str
    memory: int | None = None
    """Working set, in bytes."""
    layer: Written | None = None
    logs: Written | None = None


@dataclass(frozen=True)
class PodUsage:
    """The usage of one pod."""

    containers: tuple[ContainerUsage, ...] = ()
    volumes: Written = Written()
    """The use of the node's disk by the pod's volumes."""
    processes: int = 0

    @property
    def memory(self) -> int:
        """The working sets of its containers, in bytes."""
        return sum(container.memory or 0 for container in self.containers)


@dataclass(frozen=True)
class Candidate:
    """A pod that may be evicted."""

    pod: Pod
    usage: PodUsage | None
    """The measured usage of the pod; None if nothing could be measured."""


def ranked(signal: Signal, candidates: Iterable[Candidate], *, dedicated_images: bool = False) -> tuple[Candidate, ...]:
    """Return the pods that may be evicted for `signal`, in the order of their eviction. Critical pods are left out.

    With `dedicated_images`, images and writable layers are on a disk of their own. Then only logs and volumes count
    when the node's disk is short, and only writable layers when the images' disk is short. Otherwise everything counts,
    for both disks.
    """
    may_go = [candidate for candidate in candidates if not is_critical(candidate.pod)]

    resource = RESOURCES[signal]

    def order(candidate: Candidate) -> tuple[int, int, int, str]:
        """Return the sort key: not measured, above its request or within it; then priority; then use above request."""
        pod, usage = candidate.pod, candidate.usage
        priority, uid = pod.spec.priority or 0, pod.metadata.uid
        if usage is None:
            return (-1, priority, 0, uid)
        used = _used(signal, usage, dedicated_images)
        # A pod cannot request inodes, so the kubelet compares its inodes with its request of storage.
        request = _requested(pod, "ephemeral-storage" if resource == "inodes" else resource)
        return (int(used <= _requested(pod, resource)), priority, request - used, uid)

    def order_by_processes(candidate: Candidate) -> tuple[int, int, int, str]:
        pod, usage = candidate.pod, candidate.usage
        number = 0 if usage is None else usage.processes
        return (pod.spec.priority or 0, int(usage is not None), -number, pod.metadata.uid)

    return tuple(sorted(may_go, key=order_by_processes if resource == "pids" else order))


def eviction_message(
    candidate: Candidate, resource: Resource, thresholds: Iterable[Threshold], seen: Observations
) -> str:
    """Return why a pod is evicted, in the kubelet's words, trailing space included.

    `thresholds` are all thresholds that are due. The message shows the first of them that is about `resource`.
    """
    message = f"The node was low on resource: {resource}. "
    for threshold in thresholds:
        observed = seen.get(threshold.signal)
        if RESOURCES[threshold.signal] == resource and observed is not None:
            available = _number_text(observed.available, resource)
            message += f"Threshold quantity: {threshold.value.shown(observed.capacity)}, available: {available}. "
            break
    if candidate.usage is None:
        return message
    return message + "".join(_blame(candidate.pod, candidate.usage, resource))


def _blame(pod: Pod, usage: PodUsage, resource: Resource) -> Iterable[str]:
    """Yield a sentence for a pod with a pod-level memory request, and one for each container above its request.

    Mirrors eviction/helpers.go, v1.36, evictionMessage: the sentence about the pod is there even if the pod uses
    little.
    """
    whole = pod.spec.resources.requests.get(resource) if resource == "memory" and pod.spec.resources else None
    if whole is not None:
        yield _larger("Pod", pod.metadata.name, usage.memory, whole, resource)
    specs = {each.name: each for each in (*pod.spec.init_containers, *pod.spec.containers)}
    for container in usage.containers:
        if container.name not in specs:
            continue
        request = specs[container.name].resources.requests.get(resource, "0")
        used = _of_container(container, resource)
        if used is not None and used > parse_quantity(request).value():
            yield _larger("Container", container.name, used, request, resource)


def _larger(what: str, name: str, used: int, request: str, resource: Resource) -> str:
    asked = quantity_text(parse_quantity(request), like=request)
    return f"{what} {name} was using {bytes_text(used)}, request is {asked}, has larger consumption of {resource}. "


def _of_container(container: ContainerUsage, resource: Resource) -> int | None:
    if resource == "memory":
        return container.memory
    if resource == "ephemeral-storage" and container.layer is not None and container.logs is not None:
        return container.layer.bytes + container.logs.bytes
    return None


def _used(signal: Signal, usage: PodUsage, dedicated_images: bool) -> int:
    """Return the part of a pod's usage that counts for that signal (buildSignalToRankFunc)."""
    resource = RESOURCES[signal]
    if resource == "memory":
        return usage.memory
    of_images = signal.startswith("imagefs")
    total = Written() if dedicated_images and of_images else usage.volumes
    for container in usage.containers:
        if not dedicated_images or of_images:
            total = total.plus(container.layer)
        if not dedicated_images or not of_images:
            total = total.plus(container.logs)
    return total.inodes if resource == "inodes" else total.bytes


def _requested(pod: Pod, resource: Resource) -> int:
    """Return a pod's request of a resource (pkg/api/v1/resource/helpers.go, v1.36, GetResourceRequestQuantity).

    If any pod-level resource is set, the containers' requests do not count, not even for resources that cannot be set
    on pod level. An overhead does not count for a pod that requests nothing.
    """
    whole = pod.spec.resources
    if whole is not None and any(is_pod_level(name) for name in (*whole.requests, *whole.limits)):
        amounts = read_amounts({name: text for name, text in whole.requests.items() if is_pod_level(name)})
    else:
        amounts = containers_amounts(pod.spec, "requests")
    requested = amounts.get(resource, _ZERO)
    if requested == _ZERO:
        return 0
    return Quantity(requested.number + read_amounts(pod.spec.overhead).get(resource, _ZERO).number).value()


def _number_text(number: int, resource: Resource) -> str:
    """Format an available amount: bytes in powers of two, all else in powers of ten."""
    if resource in ("memory", "ephemeral-storage"):
        return bytes_text(number)
    return quantity_text(parse_quantity(str(number)), like="1")
