"""Creates and deletes mirror pods of the node's static pods at the API server, so that the cluster shows static pods.

Mirrors pkg/kubelet/kubelet.go, v1.36, tryReconcileMirrorPods, and kubelet_pods.go, HandlePodCleanups: if a client
deletes a mirror, it is created again, and the static pod runs on. If a static pod has ended, or another one has its
name, its mirror is deleted. A mirror is never run as a pod of the node.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from secrets import SystemRandom
from typing import Any, Final, Protocol

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.kubernetes.deletions import Standing
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.mirror_pod import is_deleted, mirror_of, mirrored_uid
from syncpod.kubernetes.reflector import Backoff, ObjectKey
from syncpod.messages.identity import PodRef
from syncpod.messages.node import FILE_SOURCE
from syncpod.pod import ObjectMeta
from syncpod.pod.origin import list_of

log = logging.getLogger(__name__)


LOOK_SECONDS: Final = 20.0
"""Seconds between two checks whether a static pod's workflow still runs, if the pod has no published state."""


class StaticPod(Protocol):
    """A pod's newest state: `syncpod.temporal.workflow_watch.Published`."""

    @property
    def metadata(self) -> ObjectMeta:
        """The pod's metadata."""

    @property
    def is_followed(self) -> bool:
        """Whether another pod of its name starts in the same workflow when this one ends."""

    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status."""


class MirrorPods:
    """The mirrors of one node's static pods. All methods belong to one event loop."""

    def __init__(self, client: ApiClient, node: str, node_uid: Callable[[], str], standing: Standing) -> None:
        """Create mirrors for the Node `node`. `node_uid` returns its UID; "" while it is not registered."""
        self._client, self._node, self._node_uid, self._standing = client, node, node_uid, standing
        self._static: dict[ObjectKey, StaticPod] = {}
        self._mirrors: Mapping[ObjectKey, Mapping[str, Any]] | None = None
        """The mirrors in the API server's last list; None before the first list."""
        self._due: dict[ObjectKey, None] = {}
        self._news = asyncio.Event()
        self._retries: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._backoffs = defaultdict[ObjectKey, Backoff](lambda: Backoff(time.monotonic, SystemRandom().random))
        """Each failing mirror has its own back-off, so that one does not lengthen another's."""
        self._troubles: dict[ObjectKey, str] = {}

    # --- inputs -------------------------------------------------------------------------------------------------------

    def published(self, state: StaticPod) -> None:
        """Take a pod's newest state."""
        meta = state.metadata
        if list_of(meta) != FILE_SOURCE:
            return
        key = ObjectKey(meta.namespace, meta.name)
        before, self._static[key] = self._static.get(key), state
        if before is None or before.metadata.uid != meta.uid:
            self._look(key)

    def gone(self, state: StaticPod) -> None:
        """Take a pod's last state."""
        meta = state.metadata
        key = ObjectKey(meta.namespace, meta.name)
        known = self._static.get(key)
        if known is not None and known.metadata.uid == meta.uid and not state.is_followed:
            del self._static[key]
            self._look(key)

    def take(self, pods: Mapping[ObjectKey, Mapping[str, Any]]) -> None:
        """Take all pods of the node at the API server."""
        mirrors = {key: pod for key, pod in pods.items() if mirrored_uid(pod)}
        before, self._mirrors = self._mirrors, mirrors
        metrics.mirror_pods.set(len(mirrors))
        keys = (*mirrors, *(before or {}), *(self._static if before is None else ()))
        for key in dict.fromkeys(keys):
            if before is None or mirrors.get(key) is not before.get(key):
                self._look(key)

    def _look(self, key: ObjectKey) -> None:
        self._due[key] = None
        self._news.set()

    # --- reconciliation -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Create and delete mirrors until cancelled."""
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                due, self._due = list(self._due), {}
                for key in due if self._mirrors is not None else ():
                    await self._try(key)
        finally:
            for waiting in self._retries.values():
                waiting.cancel()

    async def _try(self, key: ObjectKey) -> None:
        if (waiting := self._retries.pop(key, None)) is not None:
            waiting.cancel()
        try:
            await self._reconcile(key)
        except (ClusterError, Unreachable, RPCError) as error:
            self._log_trouble(key, str(error))
            self._look_again(key, self._backoffs[key].next(error))
        except Exception as error:  # a defect concerns one mirror, and must not stop the others
            log.exception("the mirror of static pod %s/%s cannot be made", *key)
            self._log_trouble(key, str(error))
        else:
            self._troubles.pop(key, None)
            self._backoffs.pop(key, None)

    def _look_again(self, key: ObjectKey, seconds: float) -> None:
        self._retries[key] = asyncio.get_running_loop().call_later(seconds, self._look, key)

    def _log_trouble(self, key: ObjectKey, trouble: str) -> None:
        if self._troubles.get(key) != trouble:
            log.warning("the cluster does not see static pod %s/%s as it is: %s", *key, trouble)
        self._troubles[key] = trouble

    async def _reconcile(self, key: ObjectKey) -> None:
        """Create a static pod's mirror, or delete an outdated one. Raises ClusterError, Unreachable, RPCError."""
        static, mirror = self._static.get(key), (self._mirrors or {}).get(key)
        uid = static.metadata.uid if static is not None else ""
        if mirror is not None and static is None and await self._may_run(key, mirror):
            self._look_again(key, LOOK_SECONDS)
            return
        if mirror is not None and (mirrored_uid(mirror) != uid or is_deleted(mirror)):
            await self._delete(key, mirror)
            mirror = None
        if static is None or mirror is not None:
            return
        if not (node_uid := self._node_uid()):
            raise Unreachable("the node is not registered yet")
        await self._make(key, mirror_of(static.pod(), uid, self._node, node_uid))

    async def _may_run(self, key: ObjectKey, mirror: Mapping[str, Any]) -> bool:
        """Say whether a mirror's pod has a workflow that has not published to this worker yet. Raises RPCError."""
        ref = PodRef(namespace=key.namespace, name=key.name, uid=mirrored_uid(mirror))
        return await self._standing(ref) not in ("closed", "unknown")

    async def _make(self, key: ObjectKey, mirror: Mapping[str, Any]) -> None:
        """Create a mirror. If it exists already, the next list has it. Raises ClusterError, Unreachable."""
        try:
            await self._client.ask("POST", f"/api/v1/namespaces/{key.namespace}/pods", body=mirror)
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _delete(self, key: ObjectKey, mirror: Mapping[str, Any]) -> None:
        """Delete a mirror at once, and no other pod of its name. Raises ClusterError, Unreachable."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": mirror["metadata"]["uid"]}}
        try:
            await self._client.ask("DELETE", f"/api/v1/namespaces/{key.namespace}/pods/{key.name}", body=body)
        except ClusterError as error:
            if error.code not in (404, 409):
                raise
