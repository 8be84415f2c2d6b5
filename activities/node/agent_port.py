"""The messages of a node's steps to its agent, and their questions."""

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
    """The agent, as steps know it. Only `keep_ends` is awaited; the others return at once."""

    def facts(self) -> NodeFacts:
        """Return the facts of the node that each result carries to the workflow."""

    def listing_returned(self, listing: ObservedPod) -> None:
        """Take the status that a step's result or fault carries to the workflow: no signal repeats it."""

    def step_acts(self, uid: str) -> None:
        """Note that a step of this pod has waited and now acts: until its end it returns what is seen of the pod."""

    def room_freed(self, waiting: Sequence[tuple[PodRef, StepName]]) -> None:
        """Tell the pods that wait for room, in this order, that resources of the node are free again."""

    def admission_refusal(self, pod: Pod) -> str:
        """Return why a node under pressure does not admit a pod, in the kubelet's words; "" if it admits it."""

    def shutdown_refusal(self) -> tuple[str, str] | None:
        """Return why a node whose machine shuts down admits no pod, the reason and the message; None if it does not."""

    def event_happens(self, ref: PodRef, event: StepEvent) -> None:
        """Take an event that happens now, so that a cluster learns it long before the step's result has it."""

    def pod_adopted(self, ref: PodRef) -> None:
        """Note that a new workflow has adopted a pod's running containers."""

    def pod_was_deleted(self, ref: PodRef) -> None:
        """Note that a workflow wants to start a pod's life that has ended for good on this node."""

    async def keep_ends(self, ref: PodRef, instances: Sequence[Instance]) -> None:
        """Have the node's journal keep the ends of instances, before their logs are removed."""
