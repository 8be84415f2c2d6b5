"""The interface through which a node's steps notify its agent, and query it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from syncpod.journal.records import Instance
from syncpod.messages import ObservedPod, StepName
from syncpod.messages.identity import NodeFacts, PodRef
from syncpod.messages.steps import StepEvent
from syncpod.pod import Pod


class PlegPort(Protocol):
    """The agent's PLEG, which signals nothing that a step's result will carry. All methods return at once."""

    def step_began(self, uid: str) -> None:
        """Delay signals about this pod: a step, or a removal of remains, has begun, and will return its listing."""

    def step_acts(self, uid: str) -> None:
        """Delay signals about this pod again, from now on: the step acts after a wait."""

    def returned(self, listing: ObservedPod) -> None:
        """Take the status that a step's result or fault carries to the workflow, so that no signal repeats it."""

    def step_ended(self, uid: str) -> None:
        """Signal the changes that the step has not returned, if there are any."""


class JournalPort(Protocol):
    """The node's journal."""

    async def keep(self, ref: PodRef, instances: Sequence[Instance]) -> None:
        """Record the ends of instances, before their logs are removed."""


class AgentPort(Protocol):
    """The agent, as steps use it. All methods return at once."""

    @property
    def pleg(self) -> PlegPort:
        """The agent's PLEG."""

    @property
    def journal(self) -> JournalPort:
        """The node's journal."""

    def facts(self) -> NodeFacts:
        """Return the facts of the node that each result carries to the workflow."""

    def step_began(self, ref: PodRef, *, kills: bool = False) -> None:
        """Note that an attempt of a step begins; `kills` if it ends the whole pod."""

    def step_ended(self, ref: PodRef, *, fault: str = "") -> None:
        """Note that the attempt has ended. `fault` is "" after a success, else the type of the fault."""

    def room_freed(self, waiting: Sequence[tuple[PodRef, StepName]]) -> None:
        """Notify the pods that wait for room, in this order, that resources of the node are free again."""

    def admission_refusal(self, pod: Pod) -> str:
        """Return why a node under pressure does not admit a pod, in the kubelet's words; "" if it does."""

    def shutdown_refusal(self) -> tuple[str, str] | None:
        """Return reason and message with which a node rejects each pod while it shuts down; None if it does not."""

    def event_happens(self, ref: PodRef, event: StepEvent) -> None:
        """Send an event to the node's Kubernetes cluster, if it has one, long before the step's result carries it."""

    def pod_adopted(self, ref: PodRef) -> None:
        """Note that a new workflow has adopted a pod's running containers."""

    def pod_was_deleted(self, ref: PodRef) -> None:
        """Note that a workflow has tried to start a life of a pod that is over on this node, by its tombstone."""
