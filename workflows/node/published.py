"""What a node's workflow publishes at the end of a task: if it cannot go on, a new run starts from that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from syncpod.messages.identity import PodRef
from syncpod.messages.node import BegunPod, SyncPods
from workflows.node import report
from workflows.node.absorb import has_room, wanted_by
from workflows.node.decide import document_of
from workflows.node.state import NodeState, Wanted, key_of, split
from workflows.rejections import Rejected


@dataclass(frozen=True)
class PublishedNode:
    """A node's state at one moment. Nothing changes it, so any thread may read it."""

    state: NodeState
    at: datetime
    """The workflow's time then."""
    history_length: int = 0
    """Number of the newest event of the run's history that is part of it."""
    uid: Final = ""
    """Always "": a node has no UID."""
    is_gone: Final = False
    """Always False: the workflow of a node does not end by itself."""
    is_unready: Final = False
    """Always False: a node is no pod."""

    def glance(self) -> None:
        """Return None: a node is no pod."""

    def told(self, since: datetime | None) -> None:
        """Return None: the journal keeps nothing of the node's own workflow."""

    def answer(self, query: str, *args: Any) -> Any:
        """Return what the workflow's query of this name returns, and what the methods for the agent do.

        Raises KeyError for another one.
        """
        answers: dict[str, Callable[..., Any]] = {
            "node": self.node,
            "ends_without": self.ends_without,
            "begins_with": self.begins_with,
        }
        return answers[query](*args)

    def next_input(self) -> dict[str, Any]:
        """Return the input of a run that goes on from here, as JSON."""
        return next_input(self.state)

    def ends_without(self, source: str, boot: int, number: int, pod: PodRef) -> bool:
        """Say whether a pod ends with the next list of `source`, if that list does not name it.

        That is certain only if list `number` of `boot` is the last one taken, if this very pod was applied for it, and
        if no other source names the pod.
        """
        key, taken = key_of(pod.namespace, pod.name), self.state.sources.get(source)
        current = self.state.governed.get(key)
        if taken is None or current is None or (taken.boot, taken.number) != (boot, number):
            return False
        is_alone = self.state.candidates(key) == [source] and current.uids == (pod.uid,)
        return is_alone and self.state.is_told(key)

    def begins_with(
        self, pods: SyncPods, given: int, new: Sequence[dict[str, Any]], now: datetime
    ) -> tuple[tuple[BegunPod, dict[str, Any]], ...]:
        """Return each of the pods in `new`, and what its workflow is to be given, if it begins with the next list.

        `pods` is that list, with the boot and number of the one before, and `given` the size of its documents (the sum
        of their :func:`~syncpod.messages.node.document_size`). It is certain only if the one before is the
        last one taken, if nothing is known under the name of any of the new pods, and if there is room for the list.
        Else none is returned.
        """
        taken = self.state.sources.get(pods.source)
        if taken is None or (taken.boot, taken.number) != (pods.boot, pods.number):
            return ()
        if not has_room(self.state, given, known=len(pods.pods) + len(pods.kept), but=pods.source):
            return ()
        try:
            wanted = dict(wanted_by(pod, now) for pod in new)
        except Rejected:
            return ()
        if any(map(self.state.is_known, wanted)):
            return ()
        return tuple((_begun(key, each), document_of(each, pods.source)) for key, each in wanted.items())

    def node(self) -> dict[str, Any]:
        """Return the whole node (:class:`syncpod.messages.node.NodeView`)."""
        return report.view(self.state, self.at).model_dump(mode="json", by_alias=True)


def _begun(key: str, wanted: Wanted) -> BegunPod:
    pod = split(key)
    return BegunPod(namespace=pod.namespace, name=pod.name, uid=wanted.uid, seen=wanted.seen, digest=wanted.digest)


def next_input(state: NodeState) -> dict[str, Any]:
    """Return the input of the run that follows this one."""
    snapshot = state.model_dump(mode="json", exclude_defaults=True)
    return {"snapshot": snapshot, "decisions": state.decision_version}
