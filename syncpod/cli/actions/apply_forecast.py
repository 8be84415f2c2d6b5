"""The effect of applying a pod, computed without its workflow: a new pod's steps, or the changes to an existing one."""

from __future__ import annotations

from dataclasses import dataclass

from syncpod.lifecycle.compute import compute_pod_actions
from syncpod.lifecycle.kubelet_version import FOLLOWED
from syncpod.lifecycle.observed import ObservedPod
from syncpod.lifecycle.plan import plan_steps
from syncpod.lifecycle.pod_resources import PodResources, resources_of, same_resources
from syncpod.pod import Pod, merge_update


@dataclass(frozen=True)
class Line:
    """One step of a plan."""

    step: str
    container: str
    why: str


@dataclass(frozen=True)
class ImageChange:
    """A container whose image a manifest changes."""

    container: str
    old: str
    new: str


def changed_images(existing: Pod, wanted: Pod) -> list[ImageChange]:
    """Return the containers of both pods whose images differ, in the pod's order."""
    before = {one.name: one.image for one in (*existing.spec.init_containers, *existing.spec.containers)}
    return [
        ImageChange(one.name, before[one.name], one.image)
        for one in (*wanted.spec.init_containers, *wanted.spec.containers)
        if before.get(one.name, one.image) != one.image
    ]


def metadata_differs(existing: Pod, wanted: Pod) -> bool:
    """Return whether labels or annotations differ."""
    old, new = existing.metadata, wanted.metadata
    return (old.labels, old.annotations) != (new.labels, new.annotations)


def resources_differ(existing: Pod, wanted: Pod) -> bool:
    """Return whether CPU or memory of a container, or of the pod as a whole, differ."""
    return not same_resources(resources_of(existing), resources_of(wanted))


def spec_differs(existing: Pod, wanted: Pod) -> bool:
    """Return whether applying `wanted` would change the spec of `existing`."""
    return merge_update(existing, wanted).spec != existing.spec


def plan_of_new(pod: Pod) -> list[Line]:
    """Return the steps that bring a new pod up: those decided now, then those that later syncs will decide.

    The later steps assume that every init container succeeds; missing images are pulled when they are needed.
    """
    nothing = PodResources(containers={}, pod=pod.spec.resources)
    actions = compute_pod_actions(pod, ObservedPod(), liveness={}, startup={}, actuated=nothing, kubelet=FOLLOWED)
    decided = [Line(step.verb, step.container, step.why) for step in plan_steps(pod, ObservedPod(), actions)]
    started = {line.container for line in decided}
    later: list[Line] = []
    condition = "once the sandbox is ready"
    for container in pod.spec.init_containers:
        if container.name not in started:
            later.append(Line("start_init_container", container.name, condition))
        done = "has started" if container.restart_policy == "Always" else "has completed"
        condition = f"once {container.name} {done}"
    later += [
        Line("start_container", container.name, condition)
        for container in pod.spec.containers
        if container.name not in started
    ]
    return decided + later
