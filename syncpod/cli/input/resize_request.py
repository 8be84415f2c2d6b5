"""Reads a resize from the command line, and its progress from a pod's status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from syncpod.cli.failure import BadInput, Failure
from syncpod.lifecycle.pod_resources import same_amounts
from syncpod.pod import ContainerResize, Pod, PodCondition, PodResize, ResourceRequirements, parse_quantity
from syncpod.pod.amounts import pod_text

_RESOURCES = ("cpu", "memory")
_CONDITIONS = ("PodResizePending", "PodResizeInProgress")


@dataclass(frozen=True)
class ResizeRequest:
    """The amounts that a pod, or some of its containers, shall have."""

    patterns: Sequence[str]
    """Patterns of the containers' names; () = every main container."""
    limits: Mapping[str, str]
    requests: Mapping[str, str]
    whole: bool
    """Whether the amounts are for the pod as a whole."""


def parse_amounts(text: str, option: str) -> dict[str, str]:
    """Parse ``cpu=500m,memory=256Mi``, as ``kubectl set resources`` does. Raises BadInput naming the option."""
    amounts: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not equals or name.lower() not in _RESOURCES:
            raise BadInput(f"{option}: {part!r} must be cpu=AMOUNT or memory=AMOUNT, such as cpu=500m,memory=256Mi")
        if name.lower() in amounts:
            raise BadInput(f"{option}: {name} is given twice")
        try:
            quantity = parse_quantity(amount)
        except ValueError as wrong:
            raise BadInput(f"{option}: {part!r} {wrong}") from None
        if quantity.number <= 0:
            raise BadInput(f"{option}: {part!r} must be more than 0; a value that is set cannot be removed")
        amounts[name.lower()] = amount
    return amounts


def resize_of(pod: Pod, request: ResizeRequest) -> PodResize:
    """Return the resize of the pod as a whole, or of the containers that match any pattern, init containers included.

    Raises Failure for a pattern without a match.
    """
    resources = ResourceRequirements(limits=dict(request.limits), requests=dict(request.requests))
    if request.whole:
        return PodResize(resources=resources)
    patterns = request.patterns
    spec = pod.spec
    names = [container.name for container in (*spec.init_containers, *spec.containers)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise Failure(f'container "{pattern}" is not in pod "{pod.metadata.name}", which has {", ".join(names)}')
    chosen = {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}
    if not patterns:
        chosen = {container.name for container in spec.containers}

    def resizes(containers: Sequence[Any]) -> tuple[ContainerResize, ...]:
        return tuple(ContainerResize(name=each.name, resources=resources) for each in containers if each.name in chosen)

    return PodResize(containers=resizes(spec.containers), init_containers=resizes(spec.init_containers))


def as_document(asked: PodResize) -> dict[str, Any]:
    """Return a resize as the payload of the update."""
    document: dict[str, Any] = asked.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return document


def subjects(asked: PodResize) -> str:
    """Return what is resized, in words: the containers' names, or the pod."""
    if asked.resources is not None:
        return "the pod as a whole"
    return ", ".join(container.name for container in (*asked.init_containers, *asked.containers))


def is_done(pod: Pod) -> bool:
    """Return whether the pod and its containers have the resources that the spec requests."""
    status = pod.status
    given = {each.name: each.resources for each in (*status.init_container_statuses, *status.container_statuses)}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        if (resources := given.get(container.name)) is not None and not same_amounts(resources, container.resources):
            return False
    whole = ResourceRequirements(limits=pod_text(pod, "limits"), requests=pod_text(pod, "requests"))
    return same_amounts(status.resources, whole) and not any(each.type in _CONDITIONS for each in status.conditions)


def hindrance(pod: Pod) -> str:
    """Return what a resize of the pod waits for."""
    said = "; ".join(_words(each) for each in pod.status.conditions if each.type in _CONDITIONS)
    return said or "its node has not answered yet"


def is_hopeless(pod: Pod) -> bool:
    """Return whether the node can never carry out the resize.

    That is so if the pod requests more than the node has, or a limit that the runtime cannot enforce.
    """
    return any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in pod.status.conditions)


def _words(condition: PodCondition) -> str:
    if condition.type == "PodResizeInProgress" and not condition.reason:
        return "it is in progress"
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason
