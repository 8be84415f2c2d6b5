"""Tells the node's workflow which pods were made for lists without its knowledge.

A node's workflow that was terminated, or lost with its database, knows of no pod when it starts again. The pods' own
workflows continue, or are adopted. And a worker that dies may have begun the pod of a new manifest, and not have told
the node's workflow (:mod:`syncpod.agent.early_starts`). Without help, a pod that its list no longer has would run
for ever. The node's records have what is needed: the pod, and the annotation that names the list.

The kubelet does less: after a restart it ends whatever its runtime has and no source names (kubelet_pods.go, v1.36,
HandlePodCleanups). Difference: no pod ends before its source has reported, however long that takes, since sources other
than the directory are outside the node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from syncpod.agent.pod_workflows import OpenWorkflows
from syncpod.agent.record_cache import RecordCache
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.node import (
    FILE_SOURCE,
    MADE_LIMIT,
    SEEN_ANNOTATION,
    MadePod,
    NodeView,
    RecallPods,
    SourceView,
)
from syncpod.messages.sources import list_of
from syncpod.node.pod_records import PodRecord
from syncpod.translation.context import NodeContext


class _Made(NamedTuple):
    pod: MadePod
    at: datetime | None
    seen: datetime | None
    """When the node first heard of it. A worker that dies may have begun it, and its workflow begins with the next."""


class Life(NamedTuple):
    """A life of the agent by the present clock, which may have been set since it began."""

    began: datetime
    now: datetime


def life_since(started: float) -> Life:
    """Return the life that began at this monotonic time."""
    now = datetime.now(UTC)
    return Life(now - timedelta(seconds=time.monotonic() - started), now)


class RecalledPods:
    """Watches one node's records. All methods belong to one event loop."""

    def __init__(
        self,
        node: NodeContext,
        workflows: OpenWorkflows,
        tell: Callable[[RecallPods], Awaitable[None]],
        *,
        boot: int,
        life: Callable[[], Life],
    ) -> None:
        """Send with `tell`, which raises RPCError; `boot` is the number of this life of the agent."""
        self._workflows = workflows
        self._tell = tell
        self._boot = boot
        self._life = life
        self._records: RecordCache[_Made] = RecordCache(node, _made)
        self._since: datetime | None = None
        self._known: set[str] = set()

    async def round(self, view: NodeView | None) -> int:
        """Send the pods of lists that the node's workflow cannot know of; return how many.

        `view` is what the workflow knows; None if it does not run. Only pods whose own workflow is open are sent, each
        once; a pod that is adopted later is sent after that. Pods that were made after the node's workflow started are
        not sent: they are in its history, or belong to no list. But an earlier life of the agent may have begun pods of
        its directory without telling; those are sent once the workflow knows the present list, which may have them.

        Raises RPCError, OSError.
        """
        made = await asyncio.to_thread(self._records.read)
        since = view.since if view is not None else None
        has_list = view is not None and view.sources.get(FILE_SOURCE, SourceView()).boot == self._boot
        if since != self._since:  # a different workflow, even if nobody noticed the restart
            self._known.clear()
            self._since = since
        if view is not None:
            self._known |= {pod.uid for pod in view.desired}
        self._known &= made.keys()
        life = self._life()
        missing = [
            each.pod
            for uid, each in sorted(made.items())
            if uid not in self._known
            and (
                since is None
                or each.at is None
                or each.at < since
                or (has_list and each.pod.source == FILE_SOURCE and _is_earlier(each.seen, life))
            )
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


def _is_earlier(seen: datetime | None, life: Life) -> bool:
    """Say whether a pod was first seen in an earlier life; one from the future was seen before the clock was set back.

    It may be wrong about a pod of this life if the clock was set: the workflow knows that pod by a list already.
    """
    return seen is not None and not life.began <= seen <= life.now


def _made(record: PodRecord) -> _Made | None:
    """Return the pod of a record if it was made for a list."""
    meta = record.pod.metadata
    source = list_of(meta)
    if not source:
        return None
    pod = MadePod(namespace=meta.namespace or "default", name=meta.name, uid=meta.uid, source=source)
    return _Made(pod, meta.creation_timestamp, _seen(meta.annotations.get(SEEN_ANNOTATION, "")))


def _seen(text: str) -> datetime | None:
    """Return the time in the annotation; None if there is none that could be compared."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
