"""Tells the node's workflow which pods were made for lists without its knowledge.

A node's workflow that was terminated, or lost with its database, knows of no pod when it starts again. The pods' own
workflows continue, or are adopted. Without help, a pod that its list no longer has would run for ever, since a list
comes from outside of the node. The pods' own workflows have what is needed: the annotation that names the list. (The
pods of the directory of manifests need none of this: :mod:`syncpod.agent.node_workflow.desired_pods` ends them.)

The kubelet does less: after a restart it ends whatever its runtime has and no source names (kubelet_pods.go, v1.36,
HandlePodCleanups). Difference: no pod ends before its source has reported, however long that takes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from syncpod.messages.node import MADE_LIMIT, SOURCE_NAMES, MadePod, NodeView, RecallPods
from syncpod.pod import ObjectMeta
from syncpod.pod.origin import list_of


class RecalledPods:
    """Follows what the pods' workflows of one node publish. All methods belong to one event loop."""

    def __init__(self, known: Callable[[], list[ObjectMeta]], tell: Callable[[RecallPods], Awaitable[None]]) -> None:
        """Send with `tell`, which raises RPCError.

        `known` returns the metadata of each pod whose workflow this worker has seen, as it published it last. A worker
        sees all of them when it takes over the node.
        """
        self._known_pods = known
        self._tell = tell
        self._since: datetime | None = None
        self._known: set[str] = set()

    async def round(self, view: NodeView | None) -> int:
        """Send the pods of lists that the node's workflow cannot know of; return how many.

        `view` is what the workflow knows; None if it does not run. Each pod is sent once; one that is adopted later is
        sent after that. Pods that were made after the node's workflow started are not sent: they are in its history, or
        belong to no list. A pod whose workflow has ended without publishing it does no harm: there is nothing to end.
        Raises RPCError.
        """
        made = {meta.uid: meta for meta in self._known_pods() if list_of(meta) not in ("", *SOURCE_NAMES)}
        since = view.since if view is not None else None
        if since != self._since:  # a different workflow, even if nobody noticed the restart
            self._known.clear()
            self._since = since
        if view is not None:
            self._known |= {pod.uid for pod in view.desired}
        self._known &= made.keys()
        missing = [
            MadePod(namespace=meta.namespace, name=meta.name, uid=uid, source=list_of(meta))
            for uid, meta in sorted(made.items())
            if uid not in self._known
            and (since is None or meta.creation_timestamp is None or meta.creation_timestamp < since)
        ][:MADE_LIMIT]
        if missing:
            await self._tell(RecallPods(pods=tuple(missing)))
            self._known |= {pod.uid for pod in missing}
        return len(missing)
