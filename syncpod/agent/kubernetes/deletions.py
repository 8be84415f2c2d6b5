"""Ends the pods that the cluster deletes, and then deletes their Pods at the API server.

The protocol of a deletion: a client deletes the Pod, which sets `deletionTimestamp` and a grace period. The node ends
the pod within that period. Once no container of the pod runs, the node deletes the Pod with a grace period of 0
(pkg/kubelet/status/status_manager.go, v1.36, syncPod). A second deletion may shorten the grace period. Another pod of
the same name has another UID, and is not touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from secrets import SystemRandom
from typing import Final

from temporalio.exceptions import ApplicationError

from syncpod.agent.background import cancel_all
from syncpod.agent.kubernetes.statuses import StatusWriter, path_of
from syncpod.agent.sources.desired_pods import AT_ONCE, Orders
from syncpod.kubernetes.bound_pod import BoundPod
from syncpod.kubernetes.client import ApiClient, ClusterError
from syncpod.kubernetes.reflector import Backoff, ObjectKey
from syncpod.messages.identity import PodRef
from syncpod.messages.node import DeletePodWorkflow

log = logging.getLogger(__name__)

FIRST_SECONDS: Final = 5.0
"""The most seconds that new pods wait until the workflows of deleted pods have received their orders."""
LOOK_SECONDS: Final = 20.0
"""Seconds between two checks whether an ending pod's workflow still runs: another client may have terminated it."""

Standing = Callable[[PodRef], Awaitable[str]]
"""Returns the state of a pod's workflow; ``closed`` and ``unknown`` mean that it has ended. Raises RPCError."""


@dataclass(eq=False)
class _Deletion:
    pod: BoundPod
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the pod is gone on this node or at the API server, or its grace period has changed."""
    is_gone_here: bool = False
    """Whether no container of the pod runs on this node any more."""
    is_gone_there: bool = False
    """Whether the API server has removed the Pod: its list of deleted Pods no longer has the Pod."""
    task: asyncio.Task[None] | None = None
    has_tried: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after the first try to send the order to the pod's workflow, successful or not."""


class Deletions:
    """The deletions under way. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        orders: Orders,
        require: Callable[[], Awaitable[None]],
        standing: Standing,
        statuses: StatusWriter,
    ) -> None:
        """End pods with `orders`. `require` is awaited first; it raises RPCError if nothing may be sent.

        `statuses` writes a pod's last status before the Pod is deleted.
        """
        self._client, self._orders, self._require, self._standing = client, orders, require, standing
        self._statuses = statuses
        self._deletions: dict[str, _Deletion] = {}
        self._room = asyncio.Semaphore(AT_ONCE)
        """Limits concurrent orders: a thousand orders at once would all time out, and be repeated."""

    def take(self, deleted: Sequence[BoundPod]) -> None:
        """Take the pods that the cluster deletes now; begin to end those that are new."""
        uids = {pod.uid for pod in deleted}
        for uid, deletion in list(self._deletions.items()):
            if uid not in uids:
                deletion.is_gone_there = True
                deletion.news.set()
        for pod in deleted:
            known = self._deletions.get(pod.uid)
            if known is None:
                known = self._deletions[pod.uid] = _Deletion(pod)
                known.task = asyncio.create_task(self._end(known), name=f"deletion of {pod.namespace}/{pod.name}")
            elif known.pod.grace != pod.grace:
                known.news.set()
            known.pod = pod

    async def all_sent(self) -> None:
        """Wait until an order was sent, or failed, for each pod; at most `FIRST_SECONDS`. New pods start after that."""
        waiting = [each.has_tried.wait() for each in self._deletions.values() if not each.has_tried.is_set()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_SECONDS):
                await asyncio.gather(*waiting)

    def gone(self, uid: str) -> None:
        """Note that no container of a pod runs any more."""
        if (deletion := self._deletions.get(uid)) is not None:
            deletion.is_gone_here = True
            deletion.news.set()

    async def close(self) -> None:
        """Cancel the deletions; the next worker continues them."""
        tasks = [each.task for each in self._deletions.values() if each.task is not None]
        await cancel_all(tasks)
        self._deletions.clear()

    async def _end(self, deletion: _Deletion) -> None:
        """End a pod on this node, then delete its Pod at the API server. Failures are retried."""
        backoff = Backoff(time.monotonic, SystemRandom().random)
        sent_grace: int | None = None
        while not deletion.is_gone_there:
            deletion.news.clear()
            try:
                if not deletion.is_gone_here and deletion.pod.grace != sent_grace:
                    sent_grace = await self._tell(deletion)
                deletion.has_tried.set()
                if deletion.is_gone_here:
                    await self._remove(deletion.pod)
                await self._wait(deletion)
            except Exception as error:  # noqa: BLE001  # any error: the deletion is retried, and no other pod waits for it
                log.warning("pod %s/%s cannot be deleted: %s", deletion.pod.namespace, deletion.pod.name, error)
                sent_grace = None
                deletion.has_tried.set()
                await asyncio.sleep(backoff.next(error))
        self._deletions.pop(deletion.pod.uid, None)

    async def _tell(self, deletion: _Deletion) -> int | None:
        """Send the pod's workflow the order to end the pod; return the grace period in the order."""
        async with self._room:
            pod = deletion.pod
            await self._require()
            uids, grace = (pod.uid,), pod.grace
            result = await self._orders.end(
                DeletePodWorkflow(namespace=pod.namespace, name=pod.name, uids=uids, grace_period_seconds=grace)
            )
        if result.absent:
            deletion.is_gone_here = True
        elif result.refused:
            raise ApplicationError(result.refused)
        return pod.grace

    async def _wait(self, deletion: _Deletion) -> None:
        """Wait for news; after `LOOK_SECONDS` without any, check whether the workflow still runs. Raises RPCError."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await deletion.news.wait()
        except TimeoutError:
            pod = deletion.pod
            ref = PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
            if not deletion.is_gone_here and await self._standing(ref) in ("closed", "unknown"):
                deletion.is_gone_here = True

    async def _remove(self, pod: BoundPod) -> None:
        """Write the pod's last status, and delete its Pod at the API server. Raises ClusterError, Unreachable."""
        key = ObjectKey(pod.namespace, pod.name)
        await self._statuses.write(key)
        try:
            await self._client.ask(
                "DELETE", path_of(key), body={"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
            )
        except ClusterError as error:
            if error.code not in (404, 409):  # 409: the name is now another pod's
                raise
