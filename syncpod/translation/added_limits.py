"""Limits that a resize adds, against what the runtime can enforce.

Difference from the kubelet, whose runtimes can enforce each: where cgroups are closed to the embedded runtime, a
container with a limit is never created, so none may be added to one that does without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from syncpod.pod import Pod, ResourceRequirements
from syncpod.pod.amounts import read_amounts


def added_limits(before: Pod, after: Pod) -> tuple[tuple[str, str], ...]:
    """Return the limits that are set after a resize and were not before: the path of each, and its resource.

    Those of the pod as a whole come first. Raises ValueError for a quantity that is none; validation has refused it.
    """
    had = {(path, name) for path, resources in _resources(before) for name in _limited(resources)}
    return tuple(
        (f"{path}.limits[{name}]", name)
        for path, resources in _resources(after)
        for name in _limited(resources)
        if (path, name) not in had
    )


def refusal_of_limits(added: tuple[tuple[str, str], ...], unenforced: Mapping[str, str]) -> str:
    """Return the sentence for the first limit that the runtime cannot enforce; "": it can.

    `unenforced` says why not, by resource, as the runtime does (:func:`syncpod.cri.records.unenforced_limits`).
    """
    for path, name in added:
        if name in unenforced:
            return f"{path}: cannot be enforced, since {unenforced[name]}"
    return ""


def _resources(pod: Pod) -> Iterator[tuple[str, ResourceRequirements]]:
    """Yield what is asked for, by path; a resize leaves containers where they are."""
    spec = pod.spec
    if spec.resources is not None:
        yield "spec.resources", spec.resources
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield f"spec.{kind}[{index}].resources", container.resources


def _limited(resources: ResourceRequirements) -> list[str]:
    return sorted(name for name, amount in read_amounts(resources.limits).items() if amount.number > 0)
