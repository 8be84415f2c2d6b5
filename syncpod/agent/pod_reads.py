"""Answers to reads of pods that have no published state, or whose published state is incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from temporalio.client import WorkflowExecution

from syncpod.agent.orphaned_pods import OrphanedPod
from syncpod.agent.probing.unreported import UnreportedFailures, with_unreported
from syncpod.api.source import CannotSay
from syncpod.messages.reads import PodReads
from syncpod.node.orphan_mark import NO_WORKFLOW, marked
from syncpod.node.recorded_pods import bare_pod, recorded_pod
from syncpod.pod import pod_to_wire
from syncpod.temporal.pod_search_attributes import recorded_as


@dataclass(frozen=True)
class PodWithUnreported(PodReads):
    """A pod's published state, and failures of its probes that were not sent to its workflow yet."""

    published: PodReads
    unreported: Sequence[UnreportedFailures]

    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status."""
        return self.published.pod()

    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        """Return the steps that would be taken now, or after an update."""
        return self.published.plan(candidate, update)

    def history(self) -> list[dict[str, Any]]:
        """Return the pod's history."""
        return self.published.history()

    def events(self) -> list[dict[str, Any]]:
        """Return the pod's events, including those of the failed probes."""
        return with_unreported(self.published.events(), self.unreported)

    def steps(self) -> list[str]:
        """Return the names of the steps that are under way."""
        return self.published.steps()


@dataclass(frozen=True)
class PodWithoutWorkflow(PodReads):
    """A pod that runs without a workflow: its last published state, if any. It has no steps."""

    state_dir: Path
    orphan: OrphanedPod
    published: PodReads | None

    def pod(self) -> dict[str, Any]:
        """Return the Pod, marked as an orphan: as published, else as recorded on disk, else with its names alone."""
        if self.published is not None:
            return marked(self.published.pod(), NO_WORKFLOW)
        listing = self.orphan.listing
        bare = bare_pod(listing.namespace, listing.name, listing.uid, (each.name for each in listing.containers))
        return marked(recorded_pod(self.state_dir, self.orphan.workflow_id, listing.uid) or bare, NO_WORKFLOW)

    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        """Return a plan without steps."""
        last = self.published.plan() if self.published is not None else {}
        return {**last, "steps": [], "holds": []}

    def history(self) -> list[dict[str, Any]]:
        """Return the history that its last workflow published."""
        return self.published.history() if self.published is not None else []

    def events(self) -> list[dict[str, Any]]:
        """Return the events that its last workflow published."""
        return self.published.events() if self.published is not None else []

    def steps(self) -> list[str]:
        """Return an empty list."""
        return []


@dataclass(frozen=True)
class RecordedPod(PodReads):
    """A pod about which only its workflow's search attributes are known. All methods except `pod` raise CannotSay."""

    execution: WorkflowExecution

    def pod(self) -> dict[str, Any]:
        """Return the Pod as far as the search attributes describe it."""
        return pod_to_wire(recorded_as(self.execution))

    def plan(self, candidate: Any = None, update: str = "apply") -> NoReturn:
        """Raise CannotSay."""
        raise CannotSay

    def history(self) -> NoReturn:
        """Raise CannotSay."""
        raise CannotSay

    def events(self) -> NoReturn:
        """Raise CannotSay."""
        raise CannotSay

    def steps(self) -> NoReturn:
        """Raise CannotSay."""
        raise CannotSay
