"""Sends a node's new workflow the pods that earlier workflows of the node have started for lists.

If a node's workflow was terminated, or lost with its database, its successor has no record of any pod. The pods' own
workflows continue, or are adopted. A list comes from outside of the node, so a pod that left its list meanwhile would
run for ever. But each pod's workflow publishes the annotation that names its list, and pods with that annotation are
sent. (Pods of the directory of manifests are not sent: :mod:`syncpod.agent.sources.desired_pods` ends them.)

After a restart, the kubelet ends every pod in its runtime that no source lists (kubelet_pods.go, v1.36,
HandlePodCleanups). Difference: no pod is ended before its source has reported, however long that takes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from syncpod.messages.node import MADE_LIMIT, SOURCE_NAMES, MadePod, NodeView, RecallPods
from syncpod.pod import ObjectMeta
from syncpod.pod.origin import list_of


class RecalledPods:
    """Sends the listed pods of one node that its workflow lacks. All methods belong to one event loop."""

    def __init__(self, known: Callable[[], list[ObjectMeta]], tell: Callable[[RecallPods], Awaitable[None]]) -> None:
        """Send with `tell`, which raises RPCError.

        `known` returns the last published metadata of each pod whose workflow this worker has seen. A worker that takes
        over the node sees all of them.
        """
        self._known_pods = known
        self._tell = tell
        self._since: datetime | None = None
        self._known: set[str] = set()

    async def round(self, view: NodeView | None) -> int:
        """Send the pods of lists that the node's workflow cannot have on record; return how many.

        `view` is the workflow's state; None if it does not run. Each pod is sent once; a pod that is adopted later is
        sent then. Pods that were created after the node's workflow started are not sent: its history has them, or they
        belong to no list. A pod that has ended unnoticed may be sent; an order to end it does nothing.

        Raises RPCError.
        """
        made = {meta.uid: meta for meta in self._known_pods() if list_of(meta) not in ("", *SOURCE_NAMES)}
        since = view.since if view is not None else None
        if since != self._since:  # a different workflow, even if the restart was not noticed
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
