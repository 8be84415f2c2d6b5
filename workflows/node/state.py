"""The memory of a node's workflow: the snapshot that is carried from run to run.

The kubelet keeps the pods of its sources in memory (config/config.go, v1.36, podStorage) and reads them again after a
restart. Here they are one pydantic model that dumps to JSON. Functions in the neighbouring modules change it. None of
them reads a clock: they are given the workflow's time as ``now``.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from syncpod.lifecycle.backoff import BackoffStore
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.node import API_SOURCE, FILE_SOURCE, DeleteFromNode, DesiredPod, NodeStatus
from syncpod.messages.queries import WireEvent
from syncpod.messages.signed import Accepted
from workflows.event_log import EventLog


class Wanted(BaseModel):
    """One pod as one source wants it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    uid: str = ""
    """The UID in the document; "" means that the pod's workflow gives it one."""
    digest: str = ""
    """Digest of the document, which itself is kept only while it is needed."""
    document: dict[str, Any] | None = None
    """The v1 Pod; None once the pod's workflow has it."""
    size: int = 0
    """Size of the document in bytes of JSON; 0 once the document is dropped."""
    seen: datetime | None = None
    """When this node first received the pod with this UID."""


class Source(BaseModel):
    """The last report of one source."""

    model_config = ConfigDict(extra="ignore")

    reported_at: datetime | None = None
    boot: int = 0
    """The boot number of the agent that has reported it; 0 for a list from another sender."""
    pods: dict[str, Wanted] = {}
    """By key, in the order of its list."""


class Governed(BaseModel):
    """A pod that was applied for a list. It ends when no list names it any more."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True, serialize_by_alias=True)

    uids: tuple[str, ...] = ()
    """UIDs of the pods that may run under this name: several while it is unknown which orders a workflow received."""
    source: str = ""
    digest: str = ""
    """Digest of the document that its workflow has; "" while that is unknown."""
    ending: bool = False
    """Its workflow was sent the order to end it. It runs only if it is applied again."""
    resync_requested: int = Field(default=0, alias="doubted")
    """The number of times its list was sent again since it was last applied. If it has ended meanwhile, it is applied
    again."""


class NodeState(EventLog, BaseModel):
    """The snapshot. Mutable; changed only by functions of this package, between two awaits."""

    model_config = ConfigDict(extra="ignore")

    decision_version: int = DECISION_VERSION
    """The version of the worker that took the run's first workflow task; see `syncpod.lifecycle.version`."""
    name: str = ""
    since: datetime | None = None
    """When the first run of this chain began."""
    unschedulable: bool = False
    cordoned_by: str = ""
    """Who cordoned the node, in the client's words; "" = it is not cordoned, or the sender is unknown."""
    sources: dict[str, Source] = {}
    """By name. ``api`` has the single pods that have not been passed on to their workflows yet. ``file`` has only the
    names of the pods that the agent runs for its directory of manifests: this workflow sends them no orders."""
    static: dict[str, DesiredPod] = {}
    """By key: the pods of the directory of manifests, as the agent last reported them."""
    governed: dict[str, Governed] = {}
    """By key: the pods that were applied for lists."""
    deletions: dict[str, DeleteFromNode] = {}
    """By key: deletions of single pods that have not been passed on to their workflows yet."""
    backoff: BackoffStore = Field(default_factory=BackoffStore)
    """By key: pods whose workflow could not be reached, and the time of the next try."""
    status: NodeStatus = NodeStatus()
    events: tuple[WireEvent, ...] = ()
    max_events: int = 0
    """Length of history, in events, at which a run continues as new; 0 means `entity.LONGEST_EVENTS`. Tests set it."""
    accepted: Accepted = Accepted()
    """The record of the signed commands that were carried out; it stays empty where commands are not signed."""
    _open: set[str] | None = PrivateAttr(default=None)
    """Keys of the pods whose workflows may need an order; None means all pods."""

    def as_it_is(self) -> NodeState:
        """Return a copy that later changes do not affect: values in its dictionaries are replaced, never changed."""
        sources = {name: each.model_copy(update={"pods": dict(each.pods)}) for name, each in self.sources.items()}
        changing = {"sources": sources, "governed": dict(self.governed), "deletions": dict(self.deletions)}
        return self.model_copy(update=changing)

    # --- pods that may need an order ----------------------------------------------------------------------------------

    def touch(self, key: str) -> None:
        """Mark a pod to be checked again: something that its orders depend on has changed."""
        if self._open is not None:
            self._open.add(key)

    def touch_all(self) -> None:
        """Mark all pods to be checked again."""
        self._open = None

    def settle(self, key: str) -> None:
        """Skip a pod until it is touched: its workflow needs no order."""
        if self._open is not None:
            self._open.discard(key)

    def open_keys(self) -> list[str]:
        """Return the keys of the pods whose workflows may need an order, sorted."""
        if self._open is None:
            self._open = set(self.pod_keys())
        return sorted(filter(self.is_known, self._open))

    # --- which source counts ------------------------------------------------------------------------------------------

    def candidates(self, key: str) -> list[str]:
        """Return the sources that name a pod, by precedence."""
        return sorted((name for name, source in self.sources.items() if key in source.pods), key=rank)

    def winner(self, key: str) -> str:
        """Return the source whose document counts: the one that the pod was applied for, else the first; "" = none."""
        candidates = self.candidates(key)
        current = self.governed.get(key)
        if current is not None and current.source in candidates:
            return current.source
        return candidates[0] if candidates else ""

    def wanted(self, key: str) -> Wanted | None:
        """Return the desired pod; None if no source has it."""
        winner = self.winner(key)
        return self.sources[winner].pods[key] if winner else None

    def is_known(self, key: str) -> bool:
        """Say whether a pod is in a source's list, was made for such a list, or must be deleted."""
        listed = any(key in source.pods for source in self.sources.values())
        return listed or key in self.governed or key in self.deletions or key in self.static

    def pod_keys(self) -> list[str]:
        """Return the keys of all known pods, sorted."""
        listed = {key for source in self.sources.values() for key in source.pods}
        return sorted({*listed, *self.governed, *self.deletions, *self.static})

    def is_applied(self, key: str) -> bool:
        """Say whether a pod's workflow has the document of the source that counts, and no order to end the pod."""
        wanted, current = self.wanted(key), self.governed.get(key)
        if wanted is None or current is None or key in self.deletions:
            return False
        is_known = (wanted.digest, self.winner(key)) == (current.digest, current.source)
        return is_known and not current.ending and not current.resync_requested

    def is_unjudged(self, key: str) -> bool:
        """Return whether the source that a pod was made for has not sent its list yet. Such a pod stays as it is."""
        current = self.governed.get(key)
        return current is not None and not current.ending and current.source not in self.sources

    def forget_document(self, key: str) -> None:
        """Drop the document of the source that has the pod's name, if the pod's workflow has that document."""
        name, wanted = self.winner(key), self.wanted(key)
        if wanted is not None and wanted.document is not None and self.is_applied(key):
            self.sources[name].pods[key] = wanted.model_copy(update={"document": None, "size": 0})

    def forget_documents(self) -> None:
        """Drop all documents that their pods' workflows have."""
        for key in dict.fromkeys(key for source in self.sources.values() for key in source.pods):
            self.forget_document(key)

    def uids(self, key: str) -> tuple[str, ...]:
        """Return the UIDs of the pods of this key that were made for a list and may still run, the newest last."""
        current = self.governed.get(key)
        return current.uids if current is not None else ()


def rank(source: str) -> tuple[int, str]:
    """Return the precedence of a source: the manifest directory, then other lists, then single pods."""
    return {FILE_SOURCE: 0, API_SOURCE: 2}.get(source, 1), source


def key_of(namespace: str, name: str) -> str:
    """Return a pod's key: ``default/web``."""
    return f"{namespace or 'default'}/{name}"


def digest(text: str) -> str:
    """Return the digest of a document's :func:`canonical` text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def canonical(document: dict[str, Any]) -> str:
    """Return a document as text that does not depend on the order of its fields."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
