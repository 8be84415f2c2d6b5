"""The port through which the API's handlers get pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from syncpod.api.listed import Recorded
from syncpod.api.statuses import ApiError
from syncpod.messages.reads import PodReads
from syncpod.messages.running_steps import PendingStep

PARTS: Final[Mapping[str, Callable[[PodReads], Any]]] = {
    "pod": lambda of: of.pod(),
    "plan": lambda of: of.plan(),
    "history": lambda of: of.history(),
    "events": lambda of: of.events(),
    "under_way": lambda of: of.steps(),
}
"""The parts that a report of a pod may include, by the name that a request gives them."""


@dataclass(frozen=True)
class SourcePod:
    """One pod as a source knows it."""

    namespace: str
    name: str
    run: str
    """The run of its workflow that has told it; "" = none has."""
    reads: PodReads
    """Reads one state of it. That may take a while. Raises CannotSay for a part that is not known."""
    recorded: Recorded | None = None
    """Its columns, if its workflow has not answered: then `reads` may have no more than what Temporal recorded last."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


class CannotSay(ApiError):
    """The source cannot say which pods there are now."""

    def __init__(self) -> None:
        super().__init__(503, "this node cannot say now which pods there are: its Temporal server does not say")


class PodSource(Protocol):
    """Knows the pods of a node."""

    @property
    def state_dir(self) -> Path:
        """The node's state directory."""

    @property
    def node(self) -> str:
        """The node's name."""

    async def open_pods(
        self,
        namespace: str | None,
        names: Collection[str],
        *,
        parts: Collection[str] = ("pod",),
        nodes: Collection[str] = (),
        recorded: bool = False,
    ) -> Sequence[SourcePod]:
        """Return all pods of a namespace (None = all) that there are now; with `names` or `nodes`, those of these.

        `parts` (of :data:`PARTS`) will be read of each. With `recorded`, some may be as the server recorded them last.
        A source that has nobody else to ask returns such pods in any case. Raises CannotSay.
        """

    async def orphan_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        """Return those pods of a namespace (None = all), with `names` of these, that run here without a workflow.

        Raises CannotSay.
        """

    async def last_pods(self, namespace: str, names: Collection[str], parts: Collection[str]) -> Sequence[SourcePod]:
        """Return the newest run of each pod, open or ended, without those that never were. Raises CannotSay."""

    def known_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        """Return the pods that are known at once, without asking anybody: some may have ended, some may be missing."""

    def why_recorded(self, pods: Sequence[SourcePod]) -> Sequence[str]:
        """Return a sentence for each reason why some of the pods are shown as the server recorded them last."""

    async def pending_steps(self, one: SourcePod) -> Sequence[PendingStep]:
        """Return the steps of a pod that Temporal is trying, with how often and how they failed. Raises CannotSay."""

    def steps_under_way(self) -> Sequence[dict[str, Any]]:
        """Return the progress of steps under way: `namespace`, `name`, `uid`, `step`, `container`, `doing`."""

    async def settle_journal(self) -> None:
        """Return once the node's journal is up to date."""

    async def refresh_report(self) -> None:
        """Return once a new search for orphans is over, and the node's report is written."""
