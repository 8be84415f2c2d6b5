"""The state that a pod's workflow publishes at the end of a task, for its queries and for the node's agent.

The agent answers the command line from this state, without a query. If the history cannot be replayed, the agent starts
a new run from this state. Publishing costs no history.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from syncpod.journal.records import TaskRecords
from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import EndedLife
from syncpod.messages.queries import PodSummary, write_events, write_history
from syncpod.pod import ObjectMeta, pod_to_wire
from workflows.pod import desired, journaled, start, sync, temporal_ui
from workflows.pod.decision import Hold, UnderWay
from workflows.pod.state import PodState


@dataclass(frozen=True)
class PublishedPod:
    """A pod's state at one moment. Nothing changes it, so any thread may read it."""

    state: PodState
    at: datetime
    """The workflow's time at that moment."""
    history_length: int = 0
    """The id of the newest event of the run's history that the state includes."""
    holds: Sequence[Hold] = ()
    """The holds that delay the pod's next steps."""
    under_way: Sequence[UnderWay] = ()
    """The pod's steps that have begun and not ended."""
    is_gone: bool = False
    """The pod's life is over, and its workflow publishes nothing more."""

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.state.pod.metadata.uid

    @property
    def incarnation(self) -> str:
        """The id of this life of the pod."""
        return self.state.incarnation

    @property
    def metadata(self) -> ObjectMeta:
        """The pod's metadata."""
        return self.state.pod.metadata

    @property
    def is_followed(self) -> bool:
        """Whether a pod that was applied during the deletion follows this one."""
        return self.state.successor is not None

    @property
    def is_unready(self) -> bool:
        """Whether the pod is not ready and has not Succeeded."""
        return temporal_ui.is_unready(self.state)

    @property
    def replacing(self) -> Collection[str]:
        """The runtime ids of its containers that are killed to be replaced, regardless of their restart policy."""
        return self.state.replacing

    def summary(self) -> PodSummary:
        """Return the pod's part of a page about several pods."""
        return temporal_ui.summary(self.state, self.holds)

    def next_input(self) -> dict[str, Any]:
        """Return the input of a run that goes on from here, as JSON."""
        return start.next_input(self.state)

    def journal_records(self, since: datetime | None) -> TaskRecords:
        """Return the records for the node's journal from `since` on; None = all that the state still has."""
        return journaled.journal_records(
            self.state, self.holds, self.under_way, self.at, since=since, is_gone=self.is_gone
        )

    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status."""
        return pod_to_wire(desired.as_pod(self.state))

    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        """Return the steps that would be taken now, as :func:`workflows.pod.sync.plan`."""
        # The state may have been published long ago: since then, back-offs and the active deadline may have passed.
        now = max(self.at, datetime.now(UTC))
        pulling = [each.container for each in self.under_way if each.step == StepName.PULL_IMAGE]
        return sync.plan(self.state, candidate, now, update=update, pulling=pulling)

    def steps(self) -> list[str]:
        """Return the names of the steps that have been scheduled and have not ended."""
        return [each.step for each in self.under_way]

    @property
    def ended_life(self) -> EndedLife | None:
        """The pod's life, if it is over, so that the node removes its remains; None while it goes on."""
        if not self.is_gone:
            return None
        return EndedLife(self.state.ref, self.state.stopped_sandboxes, self.state.observed)

    def node(self) -> dict[str, Any]:
        """Return an empty document, since this is no node."""
        return {}

    def history(self) -> list[dict[str, Any]]:
        """Return each decision, step, signal and exit, oldest first."""
        return write_history(self.state.history)

    def events(self) -> list[dict[str, Any]]:
        """Return the pod's events, oldest first."""
        return write_events(self.state.events)
