"""Resizing a pod: new CPU and memory for containers and for the pod as a whole, and nothing else."""

from typing import Any

from syncpod.pod.containers import Container
from syncpod.pod.defaults import with_defaults
from syncpod.pod.kinds import Pod
from syncpod.pod.parse import parse_resize
from syncpod.pod.problems import PodInvalid, Problem
from syncpod.pod.resources import ContainerResize, PodResize, ResourceRequirements
from syncpod.pod.validation.pod import validate_pod


def resized(pod: Pod, document: Any) -> Pod:
    """Return the pod with the resources of a resize, or of a resize's document; all others stay as they are.

    The resize has the form of a spec patch for `kubectl patch --subresource resize`: amounts are merged by name, and a
    limit without a request sets the request too. Raises PodInvalid with every problem's path, in the document if it
    cannot be parsed, else in the pod. `validate_update` decides whether the pod may be changed in this way.
    """
    wanted = document if isinstance(document, PodResize) else parse_resize(document)
    spec = pod.spec
    problems = [
        *_check_names(wanted.containers, spec.containers, "containers"),
        *_check_names(wanted.init_containers, spec.init_containers, "initContainers"),
        *_check_only_amounts(wanted),
    ]
    if problems:
        raise PodInvalid(problems)
    update = {
        "containers": _merged(spec.containers, wanted.containers),
        "init_containers": _merged(spec.init_containers, wanted.init_containers),
        "resources": _with(spec.resources, wanted.resources) if wanted.resources is not None else spec.resources,
    }
    new = with_defaults(pod.model_copy(update={"spec": spec.model_copy(update=update)}))
    if invalid := validate_pod(new):
        raise PodInvalid(invalid)
    return new


def _check_names(wanted: tuple[ContainerResize, ...], there: tuple[Container, ...], path: str) -> list[Problem]:
    names = [container.name for container in there]
    seen: set[str] = set()
    problems: list[Problem] = []
    for index, container in enumerate(wanted):
        if container.name not in names:
            known = f"must be one of {', '.join(names)}" if names else "the pod has none"
            problems.append(Problem(f"{path}[{index}].name", f"{container.name!r} is not in the pod: {known}"))
        elif container.name in seen:
            problems.append(Problem(f"{path}[{index}].name", f"{container.name} is there twice"))
        seen.add(container.name)
    return problems


def _check_only_amounts(wanted: PodResize) -> list[Problem]:
    """Check that the resize names an amount, and only amounts of CPU and memory."""
    every = [(wanted.resources, "resources")] if wanted.resources is not None else []
    for path, containers in (("containers", wanted.containers), ("initContainers", wanted.init_containers)):
        every += [(container.resources, f"{path}[{index}].resources") for index, container in enumerate(containers)]
    problems: list[Problem] = []
    for resources, path in every:
        if resources.claims:
            problems.append(Problem(f"{path}.claims", "must not be set: a resize changes cpu and memory"))
        for kind, amounts in (("limits", resources.limits), ("requests", resources.requests)):
            problems += [
                Problem(f"{path}.{kind}[{name[:80]}]", "must be cpu or memory: nothing else can be resized")
                for name in amounts
                if name not in ("cpu", "memory")
            ]
    if not any(resources.limits or resources.requests for resources, _ in every) and not problems:
        problems.append(Problem("", "names no limit and no request of cpu or memory"))
    return problems


def _merged(containers: tuple[Container, ...], wanted: tuple[ContainerResize, ...]) -> tuple[Container, ...]:
    by_name = {container.name: container.resources for container in wanted}
    return tuple(
        container.model_copy(update={"resources": _with(container.resources, by_name[container.name])})
        if container.name in by_name
        else container
        for container in containers
    )


def _with(old: ResourceRequirements | None, wanted: ResourceRequirements) -> ResourceRequirements:
    before = old or ResourceRequirements()
    return before.model_copy(
        update={"limits": {**before.limits, **wanted.limits}, "requests": {**before.requests, **wanted.requests}}
    )
