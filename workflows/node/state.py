"""What a node's workflow remembers: the snapshot that is carried from run to run.

The kubelet keeps what its sources say in memory (config/config.go, v1.36, podStorage) and reads it afresh after a
restart; here it is one pydantic model, JSON-able as it is. Functions in the neighbouring modules change it, and none of
them knows a clock: time is always the workflow's, given as ``now``.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from syncpod.lifecycle.backoff import BackoffStore
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages import EventRecord
from syncpod.messages.node import API_SOURCE, FILE_SOURCE, DeletePod, NodeStatus, PodKey

EVENTS_KEPT: Final = 100
"""Bound of the ring in the snapshot, which is repeated with every continue-as-new."""
TEXT_LIMIT: Final = 500
"""Characters of what somebody else says that are kept in an event, or as why a pod waits."""


class Wanted(BaseModel):
    """One pod as one source wants it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    uid: str = ""
    """As the document says; "" = its own workflow is to give it one."""
    digest: str = ""
    """Of the document, which is not kept longer than it is needed."""
    document: dict[str, Any] | None = None
    """None once the pod's workflow has it."""
    size: int = 0
    """Of the document, in bytes of JSON: known with it, since it is asked for with each signal."""
    seen: datetime | None = None
    """When this node first heard of the pod with this UID."""


class Source(BaseModel):
    """What one source has reported last."""

    model_config = ConfigDict(extra="ignore")

    reported_at: datetime | None = None
    boot: int = 0
    pods: dict[str, Wanted] = {}
    """By key, in the order of its list."""
    kept: tuple[str, ...] = ()
    """Keys of pods that it says are to stay as they are, and of which nothing else is known."""


class Governed(BaseModel):
    """A pod that was handed to its workflow for a list's sake, and ends when no list has it any more."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    uids: tuple[str, ...] = ()
    """Of the pods that may have its name: one, but where it is not known what a workflow has heard."""
    source: str = ""
    digest: str = ""
    """Of the document that its workflow has; "" while that is not known."""
    ending: bool = False
    """Its workflow is being told to end it, or somebody else has: to be there it has to be applied again."""
    doubted: int = 0
    """How often its list was sent again since it was last looked after: it is applied again if it has been ended."""


class NodeState(BaseModel):
    """The snapshot. Mutable; changed only by functions of this package, between two awaits."""

    model_config = ConfigDict(extra="ignore")

    decision_version: int = DECISION_VERSION
    """Of the worker that took the run's first decision; see `syncpod.lifecycle.version`."""
    name: str = ""
    since: datetime | None = None
    """When the first run of this chain began."""
    unschedulable: bool = False
    sources: dict[str, Source] = {}
    """By name; ``api`` has the single pods that their workflows have not been told of yet."""
    governed: dict[str, Governed] = {}
    """By key."""
    deletions: dict[str, DeletePod] = {}
    """By key: single pods that are to end, until their workflows are told."""
    backoff: BackoffStore = Field(default_factory=BackoffStore)
    """By key: pods whose workflow could not be told, and for how long that is not tried again."""
    status: NodeStatus = NodeStatus()
    events: tuple[EventRecord, ...] = ()
    max_events: int = 0
    """Length of history at which a run continues as new; 0 = only when the server suggests it."""

    # --- whose word counts --------------------------------------------------------------------------------------------

    def candidates(self, key: str) -> list[str]:
        """Return the sources that name a pod, those whose word counts first."""
        return sorted((name for name, source in self.sources.items() if key in source.pods), key=rank)

    def winner(self, key: str) -> str:
        """Return the source by which a pod is desired: the one it was applied for, else the first; "" = by none."""
        candidates = self.candidates(key)
        current = self.governed.get(key)
        if current is not None and current.source in candidates:
            return current.source
        return candidates[0] if candidates else ""

    def wanted(self, key: str) -> Wanted | None:
        """Return the pod as it is desired; None where no source has it."""
        winner = self.winner(key)
        return self.sources[winner].pods[key] if winner else None

    def pod_keys(self) -> list[str]:
        """Return the keys of all pods that there is anything to say of, in order."""
        listed = {key for source in self.sources.values() for key in source.pods}
        return sorted({*listed, *self.governed, *self.deletions})

    def is_told(self, key: str) -> bool:
        """Say whether a pod's workflow has what is desired, for the sake of the source whose word counts."""
        wanted, current = self.wanted(key), self.governed.get(key)
        if wanted is None or current is None:
            return False
        is_known = (wanted.digest, self.winner(key)) == (current.digest, current.source)
        return is_known and not current.ending and not current.doubted

    def is_unjudged(self, key: str) -> bool:
        """Say whether a pod was made for a list that has not said since whether it has it; it stays as it is."""
        current = self.governed.get(key)
        if current is None or current.ending:
            return False
        source = self.sources.get(current.source)
        return source is None or key in source.kept

    def forget_documents(self) -> None:
        """Let go of the documents that nobody needs any more; what another source would have is kept for its turn."""
        for name, source in self.sources.items():
            for key, wanted in source.pods.items():
                if wanted.document is not None and self.winner(key) == name and self.is_told(key):
                    source.pods[key] = wanted.model_copy(update={"document": None, "size": 0})

    def uids(self, key: str) -> tuple[str, ...]:
        """Return the UIDs of the pods that were made for a list's sake and may be there, the newest last."""
        current = self.governed.get(key)
        return current.uids if current is not None else ()

    # --- telling ------------------------------------------------------------------------------------------------------

    def event(self, now: datetime, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an event; the same one again is counted."""
        text = clipped(message)
        seen = next(
            (each for each in self.events if (each.type, each.reason, each.message) == (kind, reason, text)), None
        )
        record = EventRecord(
            type=kind,
            reason=reason,
            message=text,
            count=seen.count + 1 if seen else 1,
            first=seen.first if seen else now,
            last=now,
        )
        self.events = (*(each for each in self.events if each is not seen), record)[-EVENTS_KEPT:]

    def reject(self, now: datetime, name: str, why: str) -> None:
        """Record that something that came in was not accepted, and why."""
        self.event(now, "Warning", "Rejected", f"{name}: {why}")


def rank(source: str) -> tuple[int, str]:
    """Return by what sources are ordered where two name one pod: the manifest directory, other lists, single pods."""
    return {FILE_SOURCE: 0, API_SOURCE: 2}.get(source, 1), source


def key_of(namespace: str, name: str) -> str:
    """Return a pod's key: ``default/web``."""
    return f"{namespace or 'default'}/{name}"


def split(key: str) -> PodKey:
    """Return the pod that a key is of."""
    namespace, _, name = key.partition("/")
    return PodKey(namespace=namespace, name=name)


def clipped(text: str) -> str:
    """Return a text at a length that may be kept."""
    return text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT - 1]}…"


def digest(text: str) -> str:
    """Return what tells a document from another one, by its :func:`canonical` text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def canonical(document: dict[str, Any]) -> str:
    """Return a document as text that is the same whatever the order of its fields."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def size(document: Any) -> int:
    """Return how many bytes of JSON a document is."""
    return len(json.dumps(document, separators=(",", ":")).encode())
