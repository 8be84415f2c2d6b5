"""Pods as a command has fetched them: the values behind tables, descriptions and waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncpod.api.listed import NOTHING_RECORDED, RECORDED_ANNOTATION, ListedPod, Recorded
from syncpod.pod import Pod, pod_to_wire

_RECORDED: Final = "this is Temporal's last record of it"
_LAST_PUBLISHED: Final = "this is its last published state"
_CANNOT_GO_ON: Final = (
    "its workflow's last task failed or was not answered; if this continues, its node starts the workflow anew"
)


@dataclass(frozen=True)
class FetchedPod:
    """A pod as a command has fetched it."""

    pod: Pod
    wire: dict[str, Any]
    """The v1 Pod of the workflow's answer. Without an answer, the last one that this machine recorded, {} if none."""
    current: bool
    """Whether the workflow answered. If not, `pod` has only what Temporal recorded last: names, phase, readiness."""
    stuck: bool = False
    """Whether the pod did not answer because its workflow tasks fail; its node may be well."""
    lives: bool = False
    """If it did not answer: whether the worker of the pod's node is alive all the same."""
    recorded: Recorded = NOTHING_RECORDED
    """If it did not answer: its columns as they were recorded last."""
    run: str = ""
    """The run id of its workflow; "" = not known."""

    @property
    def why_silent(self) -> str:
        """Why it did not answer, in a sentence, and what helps."""
        return _CANNOT_GO_ON if self.stuck else silence((self,))

    @property
    def document(self) -> dict[str, Any]:
        """The Pod as ``get -o json`` prints it. An annotation marks a pod that did not answer."""
        if self.wire:
            whole = {"apiVersion": "v1", "kind": "Pod"} | self.wire
            if self.current:
                return whole
            metadata = whole["metadata"]
            marked = {**metadata.get("annotations", {}), RECORDED_ANNOTATION: self._mark(_LAST_PUBLISHED)}
            return {**whole, "metadata": {**metadata, "annotations": marked}}
        annotations = {**self.pod.metadata.annotations, RECORDED_ANNOTATION: self._mark(_RECORDED)}
        known = self.pod.metadata.model_copy(update={"annotations": annotations})
        return {"apiVersion": "v1", "kind": "Pod"} | pod_to_wire(self.pod.model_copy(update={"metadata": known}))

    @property
    def listed(self) -> ListedPod:
        """The pod as lists show it."""
        return ListedPod(self.document, current=self.current, recorded=self.recorded)

    def _mark(self, source: str) -> str:
        return f"does not answer: {self.why_silent}; {source}"

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.pod.metadata.namespace, self.pod.metadata.name

    @property
    def silence(self) -> str:
        """Why the pod did not answer, in a few words: ``node n1 is away``."""
        return f"node {self.pod.spec.node_name or '?'} is {'busy' if self.lives else 'away'}"


def notes_of_silent(fetched_pods: Iterable[FetchedPod]) -> list[str]:
    """Return why pods did not answer, in sentences: which nodes are away or busy, and what to do."""
    found = [fetched for fetched in fetched_pods if not fetched.current]
    stuck, silent = ([one for one in found if one.stuck is is_stuck] for is_stuck in (True, False))
    notes = [f"{_count(stuck)}: {_CANNOT_GO_ON}"] if stuck else []
    if silent:
        notes.append(silence(silent))
    return notes


def _count(fetched_pods: Sequence[FetchedPod]) -> str:
    return f"pod {fetched_pods[0].pod.metadata.name}" if len(fetched_pods) == 1 else f"{len(fetched_pods)} pods"


def away(node: str) -> str:
    """Return the sentence that a node is away, and what helps. `node` may be several names, with commas."""
    return f"node {node or '?'} is away (is its worker running there? `syncpod up` or `syncpod worker` starts it)"


def busy(node: str) -> str:
    """Return the sentence that a node's worker lives, but does not answer. `node` may be several names, with commas."""
    return f"node {node or '?'} is busy (its worker lives, but has not answered in time)"


def silence(fetched_pods: Iterable[FetchedPod]) -> str:
    """Return why pods did not answer: which of their nodes are away, and which are busy; "" = all have answered."""
    silent = [fetched for fetched in fetched_pods if not fetched.current]
    dead, live = ({one.pod.spec.node_name for one in silent if one.lives is lives} for lives in (False, True))
    said = [sentence(", ".join(sorted(names))) for sentence, names in ((away, dead), (busy, live)) if names]
    return ", ".join(said)
