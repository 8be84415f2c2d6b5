"""Why a workload of a fleet has no pod on any node, for ``fleet explain deployment/web``."""

from __future__ import annotations

from dataclasses import dataclass

from syncpod.fleet.workload_traits import is_per_node
from syncpod.messages.workload import WorkloadView


@dataclass(frozen=True)
class WithoutPods:
    """Why there are no pods, and which event would change that."""

    why: tuple[str, ...]
    next: str


def without_pods(view: WorkloadView) -> WithoutPods:
    """Return why a workload has no pod on a node, from the view of its workflow."""
    named = f"{view.kind.lower()} {view.name}"
    if view.deleting:
        missed = (f"it waits for {', '.join(view.missed)} to say which pods they have",) if view.missed else ()
        return WithoutPods(("it is being deleted", *missed), "it is gone once its last pod is")
    if homeless := [pod for pod in view.pods if not pod.node and not pod.leaving]:
        whys = [f"{pod.name} is on no node: {pod.why or 'the fleet is looking for one'}" for pod in homeless]
        return WithoutPods(
            (*whys, *view.refusals), f"each node is tried again; `syncpod fleet explain --placement {named}` tries now"
        )
    if view.pods:
        return WithoutPods(
            tuple(
                f"{pod.name} {'ends' if pod.leaving else 'starts'} on {pod.node or 'no node'}"
                + (f": {pod.why}" if pod.why else "")
                for pod in view.pods
            ),
            "their nodes report them",
        )
    if not view.observed:
        return WithoutPods(("the fleet has not decided yet how many pods it shall have",), "the fleet decides")
    if view.paused and not view.good:
        return WithoutPods(
            ("its rollouts are paused, and none has begun",), f"nothing, until `syncpod fleet rollout resume {named}`"
        )
    if view.desired:
        return WithoutPods((view.says or f"its {view.desired} pods are not made yet",), "the fleet makes its pods")
    if is_per_node(view.kind):
        return WithoutPods(
            ("no node that the fleet reaches is one that it runs on",),
            f"a node gets a pod as soon as it is; `syncpod fleet explain --placement {named}` says why none is now",
        )
    return WithoutPods(("spec.replicas is 0",), "nothing, until it is applied with more")


def lines(view: WorkloadView) -> list[str]:
    """Return the explanation in the form that `explain` has for a pod."""
    found = without_pods(view)
    first, *more = found.why
    head = [f"{view.kind}:".ljust(13) + f"{view.namespace}/{view.name}", "Now:".ljust(13) + "no node has a pod of it"]
    whys = ["Why:".ljust(13) + first, *(" " * 13 + each for each in more)]
    return [*head, *whys, "Next:".ljust(13) + found.next]
