"""The pod lifecycle event generator's comparison: two listings of a pod go in, the events between them come out.

An event only starts a new decision, or informs people. Each decision is made from a whole listing, never from events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncpod.lifecycle.observed import ContainerRuntimeState, ObservedPod, Seq

PodLifecycleEventType = Literal["ContainerStarted", "ContainerDied", "ContainerRemoved", "ContainerChanged", "PodSync"]


@dataclass(frozen=True, slots=True)
class PodLifecycleEvent:
    """One thing that happened to a pod. Mirrors pleg/pleg.go, v1.36, PodLifecycleEvent."""

    type: PodLifecycleEventType
    id: str
    """Id of the container or sandbox; for `PodSync`, the pod's UID."""


def pod_lifecycle_events(old: ObservedPod | None, new: ObservedPod | None) -> tuple[PodLifecycleEvent, ...]:
    """Compare two listings of one pod (None: the runtime has nothing of it). Empty means that nothing happened.

    - running: `ContainerStarted`; exited: `ContainerDied`; created or unknown: `ContainerChanged`.
    - gone: `ContainerRemoved`; before it a `ContainerDied` if the old listing does not have the container as exited.
    - any other difference (an address, a reason that came late), if there is none of the above: one `PodSync`.

    Sandboxes count as containers: ready is running, not ready is exited. A container that came and went between the two
    listings has no event. Events are in the order of the listing, oldest first; removals come first.

    Mirrors pleg/generic.go, v1.36, generateEvents and computeEvents. Differences:
    - For a pod that it has failed to inspect, the kubelet sends `PodSync`. Here the caller keeps such a pod's old
      listing, so the next comparison finds the difference.
    - To the kubelet, `created` and `unknown` are one state. Here a change between them is a `ContainerChanged`.
    - The kubelet never sends `ContainerChanged`. Here the caller decides whether to send it.
    """
    before, after = _states(old), _states(new)
    events: list[PodLifecycleEvent] = []
    for id_, state in before.items():
        if id_ not in after:
            if state != "exited":
                events.append(PodLifecycleEvent("ContainerDied", id_))
            events.append(PodLifecycleEvent("ContainerRemoved", id_))
    for id_, state in after.items():
        if before.get(id_) != state:
            events.append(PodLifecycleEvent(_ARRIVAL[state], id_))
    if not events and old is not None and new is not None and _content(old) != _content(new):
        events.append(PodLifecycleEvent("PodSync", new.uid))
    return tuple(events)


_ARRIVAL: dict[ContainerRuntimeState, PodLifecycleEventType] = {
    "running": "ContainerStarted",
    "exited": "ContainerDied",
    # To the kubelet a created container is unknown too, since it creates and starts a container in one step.
    "created": "ContainerChanged",
    "unknown": "ContainerChanged",
}


def _states(pod: ObservedPod | None) -> dict[str, ContainerRuntimeState]:
    """Return the state of each sandbox and container by id, oldest first, sandboxes before containers."""
    if pod is None:
        return {}
    states: dict[str, ContainerRuntimeState] = {}
    for sandbox in reversed(pod.sandboxes):
        states[sandbox.id] = "running" if sandbox.ready else "exited"
    for container in reversed(pod.containers):
        states[container.id] = container.state
    return states


def _content(pod: ObservedPod) -> ObservedPod:
    """Return the listing in its fixed order, without the time at which it was taken."""
    return pod.ordered().model_copy(update={"seq": Seq(), "observed_at": None})
