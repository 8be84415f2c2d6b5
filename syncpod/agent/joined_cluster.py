"""The Kubernetes cluster that the node is part of, as the agent's other parts see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from syncpod.messages.identity import PodRef
from syncpod.messages.steps import StepEvent
from syncpod.pod import ObjectMeta


@dataclass(frozen=True)
class ClusterLink:
    """The node's connection to its cluster, as far as the agent's other parts need it."""

    pod: Callable[[ObjectMeta], Mapping[str, Any] | None]
    """Returns the cluster's Pod with this metadata's name and UID; None if there is none."""
    event_happens: Callable[[PodRef, StepEvent], None]
    """Sends an event about a pod."""
    shutdown: Callable[[bool], None]
    """Reports that a shutdown of the machine begins (True), or is called off (False)."""
    server: Callable[[bool], None]
    """Reports that the Temporal server does not answer (False), or answers again (True)."""


class JoinedCluster:
    """Passes questions and reports on to the link. A node without a link has no Pods in a cluster, and reports nothing.

    The other parts of the agent are made before the link, which uses them. The link connects once the agent runs.
    """

    def __init__(self) -> None:
        self._link: ClusterLink | None = None

    def join(self, link: ClusterLink) -> None:
        """Use this link from now on."""
        self._link = link

    def pod(self, meta: ObjectMeta) -> Mapping[str, Any] | None:
        """Return the cluster's Pod with this metadata's name and UID; None if there is none."""
        return self._link.pod(meta) if self._link is not None else None

    def event_happens(self, ref: PodRef, event: StepEvent) -> None:
        """Send an event about a pod."""
        if self._link is not None:
            self._link.event_happens(ref, event)

    def shutdown(self, begins: bool) -> None:
        """Report that a shutdown of the machine begins, or is called off."""
        if self._link is not None:
            self._link.shutdown(begins)

    def server(self, answers: bool) -> None:
        """Report that the Temporal server does not answer, or answers again."""
        if self._link is not None:
            self._link.server(answers)
