"""An agent for tests of steps, which records the calls that it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from activities.node.agent_port import AgentPort, JournalPort, PlegPort
from syncpod.journal.records import Instance
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import NodeFacts, PodRef
from syncpod.messages.steps import StepEvent
from syncpod.pod import Pod


@dataclass
class RecordingPleg(PlegPort):
    """Stands for the agent's PLEG."""

    agent: RecordingAgent

    def step_began(self, uid: str) -> None:
        self.agent.told.append(f"began {uid}")

    def step_acts(self, uid: str) -> None:
        self.agent.acted.append(uid)

    def returned(self, listing: ObservedPod) -> None:
        self.agent.returned.append(listing)

    def step_ended(self, uid: str) -> None:
        self.agent.told.append(f"ended {uid}")


@dataclass
class RecordingJournal(JournalPort):
    """Stands for the node's journal."""

    ends: list[Instance]

    async def keep(self, ref: PodRef, instances: Sequence[Instance]) -> None:
        self.ends.extend(instances)


@dataclass
class RecordingAgent(AgentPort):
    """Stands for the agent of the steps' worker, and records the steps' calls."""

    began: list[tuple[PodRef, bool]] = field(default_factory=list)
    """Each attempt of a step that has begun, with whether it ends the whole pod."""
    ended: list[tuple[PodRef, str]] = field(default_factory=list)
    """Each attempt that has ended, with the type of its fault."""
    told: list[str] = field(default_factory=list)
    """The removals that have begun and ended, by the pods' UIDs."""
    returned: list[ObservedPod] = field(default_factory=list)
    acted: list[str] = field(default_factory=list)
    freed: list[list[PodRef]] = field(default_factory=list)
    adopted: list[PodRef] = field(default_factory=list)
    deleted: list[PodRef] = field(default_factory=list)
    happened: list[StepEvent] = field(default_factory=list)
    ends: list[Instance] = field(default_factory=list)
    pressure: str = ""
    """The reason why no pod is admitted; "" if pods are admitted."""
    shutdown: tuple[str, str] | None = None
    """The reason and message why no pod is admitted during a shutdown; None without a shutdown."""

    @property
    def pleg(self) -> PlegPort:
        return RecordingPleg(self)

    @property
    def journal(self) -> JournalPort:
        return RecordingJournal(self.ends)

    def facts(self) -> NodeFacts:
        return NodeFacts(name="node-a", runtime="containerd")

    def step_began(self, ref: PodRef, *, kills: bool = False) -> None:
        self.began.append((ref, kills))

    def step_ended(self, ref: PodRef, *, fault: str = "") -> None:
        self.ended.append((ref, fault))

    def room_freed(self, waiting: Sequence[tuple[PodRef, StepName]]) -> None:
        if waiting:
            self.freed.append([ref for ref, _ in waiting])

    def admission_refusal(self, pod: Pod) -> str:
        return self.pressure

    def shutdown_refusal(self) -> tuple[str, str] | None:
        return self.shutdown

    def event_happens(self, ref: PodRef, event: StepEvent) -> None:
        self.happened.append(event)

    def pod_adopted(self, ref: PodRef) -> None:
        self.adopted.append(ref)

    def pod_was_deleted(self, ref: PodRef) -> None:
        self.deleted.append(ref)
