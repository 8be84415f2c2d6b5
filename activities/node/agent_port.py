"""The interface through which a node's steps notify its agent, and query it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from syncpod.journal.records import Instance
from syncpod.messages import ObservedPod
from syncpod.messages.identity import NodeFacts, PodRef
from syncpod.messages.step_table import StepName
from syncpod.messages.steps import StepEvent
from syncpod.pod import Pod


class AgentPort(Protocol):
    """The agent, as steps use it. Only `keep_ends` is awaited; the other methods return at once."""

    def facts(self) -> NodeFacts:
        """Return the facts of the node that each result carries to the workflow."""

    def step_began(self, ref: PodRef, *, kills: bool = False) -> None:
        """Note that an attempt of a step, or a removal of remains, begins; `kills` if it ends the whole pod.

        Signals about the pod are delayed from now on, since its listing will be returned.
        """

    def step_ended(self, ref: PodRef, *, fault: str = "") -> None:
        """Note that what has begun has ended. `fault` is "" after a success, else the type of the fault."""

    def listing_returned(self, listing: ObservedPod) -> None:
        """Take the status that a step's result or fault carries to the workflow, so that no signal repeats it."""

    def step_acts(self, uid: str) -> None:
        """Delay signals about this pod from now on: its step acts after a wait, and will return the pod's listing."""

    def room_freed(self, waiting: Sequence[tuple[PodRef, StepName]]) -> None:
        """Notify the pods that wait for room, in this order, that resources of the node are free again."""

    def admission_refusal(self, pod: Pod) -> str:
        """Return why a node under pressure does not admit a pod, in the kubelet's words; "" if it admits it."""

    def shutdown_refusal(self) -> tuple[str, str] | None:
        """Return reason and message with which a node that shuts down rejects every pod; None if it does not."""

    def event_happens(self, ref: PodRef, event: StepEvent) -> None:
        """Send an event to the node's Kubernetes cluster, if it has one, long before the step's result carries it."""

    def pod_adopted(self, ref: PodRef) -> None:
        """Note that a new workflow has adopted a pod's running containers."""

    def pod_was_deleted(self, ref: PodRef) -> None:
        """Note that a workflow has tried to start a pod's life that is over on this node, by its tombstone."""

    async def keep_ends(self, ref: PodRef, instances: Sequence[Instance]) -> None:
        """Record the ends of instances in the node's journal, before their logs are removed."""
