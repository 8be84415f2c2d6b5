"""Describes the changes that an update makes in a pod, for its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from syncpod.pod.kinds import Pod
from syncpod.pod.resources import ResourceRequirements


def pod_changes(before: Pod, after: Pod) -> list[str]:
    """Return each change of images, resources, deadline, labels and annotations: `image of app a:1 -> a:2`.

    Labels and annotations are only named: their values may be long, or confidential.
    """
    return [*_in_containers(before, after), *_in_pod(before, after)]


def _in_containers(before: Pod, after: Pod) -> Iterator[str]:
    old = {each.name: each for each in (*before.spec.init_containers, *before.spec.containers)}
    for new in (*after.spec.init_containers, *after.spec.containers):
        if new.name not in old:
            continue
        if new.image != old[new.name].image:
            yield f"image of {new.name} {old[new.name].image} -> {new.image}"
        yield from _in_resources(old[new.name].resources, new.resources, f" of {new.name}")


def _in_pod(before: Pod, after: Pod) -> Iterator[str]:
    yield from _in_resources(before.spec.resources, after.spec.resources, " of the pod")
    old, new = before.spec.active_deadline_seconds, after.spec.active_deadline_seconds
    if old != new:
        yield f"active deadline {'none' if old is None else f'{old} s'} -> {'none' if new is None else f'{new} s'}"
    for what in ("labels", "annotations"):
        if names := _changed(getattr(before.metadata, what), getattr(after.metadata, what)):
            yield f"{what} {', '.join(names)}"


def _in_resources(before: ResourceRequirements | None, after: ResourceRequirements | None, whose: str) -> Iterator[str]:
    old, new = before or ResourceRequirements(), after or ResourceRequirements()
    for kind in ("limit", "request"):
        amounts = getattr(old, f"{kind}s"), getattr(new, f"{kind}s")
        for name in _changed(*amounts):
            yield f"{name} {kind}{whose} {amounts[0].get(name, 'none')} -> {amounts[1].get(name, 'none')}"


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
