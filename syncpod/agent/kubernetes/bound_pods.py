"""Runs the pods that the cluster has bound to this node, and ends those that the cluster deletes.

Mirrors pkg/kubelet/kubelet.go, v1.36, syncLoopIteration with its handlers, and status_manager.go, canBeDeleted. Before
the first complete list, no pod of the cluster is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Final

from temporalio.service import RPCError

from syncpod.agent.kubernetes.deletions import Deletions
from syncpod.agent.kubernetes.given_objects import GivenObjects
from syncpod.agent.kubernetes.mirror_pods import MirrorPods
from syncpod.agent.kubernetes.node_labels import ClusterLabels
from syncpod.agent.kubernetes.readiness_gates import ReadinessGates
from syncpod.agent.kubernetes.runtime_classes import RuntimeClasses
from syncpod.agent.kubernetes.statuses import StatusWriter
from syncpod.agent.sources.desired_pods import DesiredPods, Listing
from syncpod.kubernetes.bound_pod import BoundPod, bound_pod, concern
from syncpod.kubernetes.mirror_pod import mirrored_uid
from syncpod.kubernetes.reflector import ObjectKey, Reflector
from syncpod.messages.node import PodKey

log = logging.getLogger(__name__)

FIND_ENDED_SECONDS: Final = 20.0
"""Seconds between two searches for pods whose workflows other clients have ended."""
_RETRY_SECONDS: Final = 1.0


class BoundPods:
    """The pods of the cluster on this node. All methods belong to one event loop."""

    def __init__(
        self,
        reflector: Reflector,
        desired: DesiredPods,
        deletions: Deletions,
        statuses: StatusWriter,
        mirrors: MirrorPods,
        objects: GivenObjects,
        classes: RuntimeClasses,
        gates: ReadinessGates,
        labels: ClusterLabels,
    ) -> None:
        """Take pods from `reflector`: `desired` runs them, `deletions` ends them, and `statuses` writes their statuses.

        Mirror pods are passed to `mirrors`, and are not run. `objects` follows the objects to which pods refer, and
        `classes` has the handlers of their RuntimeClasses. `gates` sends pods the conditions of their readiness gates.
        `labels` reads the Node's labels before the start of a pod whose admission depends on them.
        """
        self._labels = labels
        self._gates = gates
        self._mirrors = mirrors
        self._reflector, self._desired, self._deletions, self._statuses = reflector, desired, deletions, statuses
        self._given, self._classes = objects, classes
        self._raw: dict[ObjectKey, Mapping[str, Any]] = {}
        self._pods: dict[ObjectKey, BoundPod] = {}

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        news, loop = self._reflector.news, asyncio.get_running_loop()
        due = loop.time() + FIND_ENDED_SECONDS
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(due):
                        await news.wait()
                if loop.time() >= due:  # even if changes arrive more often
                    await self._find_ended()
                    due = loop.time() + FIND_ENDED_SECONDS
                if news.is_set():
                    news.clear()
                    await self._round_until_taken()
        finally:
            await self._deletions.close()
            await self._desired.close()

    async def _find_ended(self) -> None:
        try:
            await self._desired.find_ended()
        except RPCError as error:
            log.debug("cannot ask which of the cluster's pods have workflows: %s", error.message)

    async def _round_until_taken(self) -> None:
        while True:
            try:
                await self.round()
            except RPCError as error:
                log.warning("cannot ask which of the cluster's pods have workflows: %s", error.message)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def round(self) -> None:
        """Take the cluster's current list, once it is complete. Raises RPCError: then call it again."""
        if not self._reflector.is_complete:
            return
        objects = self._reflector.objects
        changed = [key for key, each in objects.items() if self._raw.get(key) is not each]
        await self._labels.learn_for(objects[key] for key in changed if key not in self._raw)
        read = await asyncio.to_thread(self._read, {key: objects[key] for key in changed})
        gone = {key: pod for key, pod in self._pods.items() if key not in objects or _uid(objects[key]) != pod.uid}
        kept = {key: pod for key, pod in self._pods.items() if key not in gone}
        self._pods = {key: read.get(key) or kept[key] for key in objects if key in read or key in kept}
        self._raw = dict(objects)
        self._mirrors.take(objects)
        self._update_statuses(changed, gone)  # before the calls that may fail: the next round's `changed` is empty
        using = [pod for pod in self._pods.values() if pod.is_to_run or pod.grace is not None]
        self._given.want((ref for pod in using for ref in pod.refs), (need for pod in using for need in pod.needs))
        # Deletions come first: the node may have missed them while it was away, and new pods may need the resources.
        self._deletions.take([pod for pod in self._pods.values() if pod.grace is not None])
        await self._deletions.all_sent()
        await self._desired.take(self._listing())

    def _read(self, objects: Mapping[ObjectKey, Mapping[str, Any]]) -> dict[ObjectKey, BoundPod]:
        """Read new versions of pods. A pod keeps its document if no field that concerns the node has changed."""
        found = {}
        for key, new in objects.items():
            old, known = self._raw.get(key), self._pods.get(key)
            is_same = old is not None and concern(old) == concern(new)
            pod = None if mirrored_uid(new) else bound_pod(new, known if is_same else None)
            if pod is None:
                continue
            found[key] = pod
            for warning in () if is_same else pod.warnings:
                log.warning("pod %s/%s: %s", pod.namespace, pod.name, warning)
        return found

    def _listing(self) -> Listing:
        """Return the pods to run, without those that have ended, and without deleted ones, which `Deletions` ends.

        A pod with references starts once it is known whether the objects exist, or after a second. A pod with a
        RuntimeClass starts once the class is there.
        """
        pods, kept = [], []
        for pod in self._pods.values():
            key = PodKey(namespace=pod.namespace, name=pod.name)
            document = pod.document_with(self._classes.handler(pod.runtime_class)) if pod.is_to_run else None
            if document is not None and self._given.is_settled(pod.refs):
                pods.append((key, document))
            else:
                kept.append(key)
        return Listing(tuple(each for _, each in pods), tuple(kept), (), frozenset(key for key, _ in pods))

    def _update_statuses(self, changed: list[ObjectKey], gone: Mapping[ObjectKey, BoundPod]) -> None:
        for key, pod in gone.items():
            self._statuses.forget(key, pod.uid)
            self._gates.forget(pod.uid)
        for key in changed:
            known = self._pods.get(key)
            if known is not None and known.refusal is not None:
                self._statuses.refuse(key, known.uid, known.refusal)
            else:
                self._statuses.changed(key)
                self._gates.changed(key)


def _uid(given: Mapping[str, Any]) -> str:
    return str(given["metadata"].get("uid") or "")
