"""The interface through which the API's handlers get pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncpod.api.listed import NOTHING_RECORDED, ListedPod, Recorded
from syncpod.api.statuses import ApiError
from syncpod.messages.reads import PodReads
from syncpod.messages.running_steps import PendingStep

if TYPE_CHECKING:
    from syncpod.api.listed_node import ListedNode

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
    """One pod of a source."""

    namespace: str
    name: str
    run: str
    """The run id of its workflow that published this state; "" = no run did."""
    reads: PodReads
    """Returns the parts of one state of the pod. Each call may take a while, so use a thread. Raises CannotSay for a
    part that is not known."""
    recorded: Recorded | None = None
    """The columns in the server's last record, if the workflow did not answer; `reads` may then have only that record.
    None = the workflow answered."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def listed(self) -> ListedPod:
        """The pod as lists show it. Takes a while, as `reads` does."""
        document = {"apiVersion": "v1", "kind": "Pod"} | self.reads.pod()
        return ListedPod(document, current=self.recorded is None, recorded=self.recorded or NOTHING_RECORDED)


class CannotSay(ApiError):
    """The source cannot list the node's pods now, or does not know a node. The answer is then 503."""

    def __init__(
        self, why: str = "this node cannot say now which pods there are: its Temporal server does not say"
    ) -> None:
        super().__init__(503, why)


class PodSource(Protocol):
    """The pods of a node, and the state of the node itself."""

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
        """Return the present pods of a namespace (None = all).

        With `names`, only pods of these names are returned; with `nodes`, only pods of these nodes. The caller will
        read `parts` (of :data:`PARTS`) of each pod. With `recorded`, a pod whose workflow does not answer may have only
        the server's last record; some sources return such pods in any case. Raises CannotSay.
        """

    async def orphan_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        """Return the pods of a namespace (None = all) that run here without a workflow; with `names`, only these.

        Raises CannotSay.
        """

    async def last_pods(self, namespace: str, names: Collection[str], parts: Collection[str]) -> Sequence[SourcePod]:
        """Return the newest run of each named pod, open or ended. Unknown names are left out. Raises CannotSay."""

    def known_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        """Return the cached pods, without any call: some may have ended since, and some may be missing."""

    def why_recorded(self, pods: Sequence[SourcePod]) -> Sequence[str]:
        """Return a sentence for each reason why some of the pods are shown as the server recorded them last."""

    async def pending_steps(self, one: SourcePod) -> Sequence[PendingStep]:
        """Return the steps of a pod that Temporal is trying, and how often and how each has failed.

        Raises CannotSay.
        """

    def steps_under_way(self) -> Sequence[dict[str, Any]]:
        """Return the progress of steps under way: `namespace`, `name`, `uid`, `step`, `container`, `doing`."""

    async def nodes(self) -> tuple[Sequence[ListedNode], Sequence[str]]:
        """Return all nodes, and a sentence for each that is missing, whose workflow has ended. Raises CannotSay."""

    async def node_named(self, name: str, *, at_once: bool) -> ListedNode:
        """Return a node. Raises CannotSay, and ApiError if there is none of this name.

        With `at_once`, the cached state may be returned, without any call.
        """

    async def settle_journal(self) -> str:
        """Wait until the node's journal is up to date. Return "", or why it cannot be written."""

    async def refresh_report(self) -> None:
        """Wait until a new search for orphans is over, and the node's report is written."""
