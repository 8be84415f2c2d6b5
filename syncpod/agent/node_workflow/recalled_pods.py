"""Reminds the node's workflow of what this node has for lists' sake, once that workflow has been begun anew.

A node's workflow that was terminated, or lost with its database, knows of no pod when it begins anew; the pods' own
workflows go on, or are adopted. What a list no longer has by then would run for ever. The node's records have what is
needed: which pod, and the annotation that says which list has made it.

The kubelet mirrors this with less: after a restart it ends whatever its runtime has and no source names
(kubelet_pods.go, v1.36, HandlePodCleanups). Difference: a source is waited for, however long it is silent, since pods
of other sources than a directory come from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple, Protocol

from syncpod.agent.record_cache import RecordCache
from syncpod.messages import PodRef, pod_workflow_id
from syncpod.messages.node import (
    API_SOURCE,
    FILE_SOURCE,
    MADE_LIMIT,
    SOURCE_ANNOTATION,
    MadePod,
    NodeView,
    RecallPods,
)
from syncpod.node.pod_records import PodRecord
from syncpod.pod.static import HASH_ANNOTATION
from syncpod.translation.context import NodeContext


class OpenWorkflows(Protocol):
    """Who knows which pods' workflows there are. Both raise RPCError."""

    async def open(self) -> dict[str, str]:
        """Return the open workflows of the node with their pods' UIDs, by id; by visibility, which may lag."""

    async def standing(self, ref: PodRef) -> str:
        """Say how it stands with one: ``open``, ``closed``, ``another``, ``unknown``."""


class _Made(NamedTuple):
    pod: MadePod
    at: datetime | None


class RecalledPods:
    """Watches one node's records. All methods belong to one event loop."""

    def __init__(
        self, node: NodeContext, workflows: OpenWorkflows, tell: Callable[[RecallPods], Awaitable[None]]
    ) -> None:
        """Tell by `tell`, which raises RPCError."""
        self._workflows = workflows
        self._tell = tell
        self._records: RecordCache[_Made] = RecordCache(node, _made)
        self._since: datetime | None = None
        self._known: set[str] = set()

    async def round(self, view: NodeView | None) -> int:
        """Tell of the pods of lists that the node's workflow cannot know of; return how many that were.

        `view` is what it knows; None = it does not run. Only pods whose own workflow is open are told, each once: a pod
        that is adopted later is told then. What was made after the workflow began is in its history, or is no list's.

        Raises RPCError, OSError.
        """
        made = await asyncio.to_thread(self._records.read)
        since = view.since if view is not None else None
        if since != self._since:  # another workflow, whoever has begun it, and whether or not that was seen
            self._known.clear()
            self._since = since
        if view is not None:
            self._known |= {pod.uid for pod in view.desired}
        self._known &= made.keys()
        missing = [
            each.pod
            for uid, each in sorted(made.items())
            if uid not in self._known and (since is None or each.at is None or each.at < since)
        ]
        pods = await self._those_open(missing) if missing else ()
        if pods:
            await self._tell(RecallPods(pods=pods))
            self._known |= {pod.uid for pod in pods}
        return len(pods)

    async def _those_open(self, pods: list[MadePod]) -> tuple[MadePod, ...]:
        listed = await self._workflows.open()
        found: list[MadePod] = []
        for pod in pods:
            ref = PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
            is_listed = listed.get(pod_workflow_id(ref.namespace, ref.name), " ") in ("", ref.uid)
            if is_listed or await self._workflows.standing(ref) == "open":
                found.append(pod)
        return tuple(found[:MADE_LIMIT])


def _made(record: PodRecord) -> _Made | None:
    """Return the pod of a record that a list has made; one that was copied from a list's has another UID than it says.

    What an earlier version's lists have made, but for those of files, says none.
    """
    meta = record.pod.metadata
    source = meta.annotations.get(SOURCE_ANNOTATION, API_SOURCE)
    says = meta.annotations.get(HASH_ANNOTATION, "" if source == FILE_SOURCE else meta.uid)
    if source in ("", API_SOURCE) or says != meta.uid:
        return None
    pod = MadePod(namespace=meta.namespace or "default", name=meta.name, uid=meta.uid, source=source)
    return _Made(pod, meta.creation_timestamp)
