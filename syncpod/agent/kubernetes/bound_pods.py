"""Runs the pods that the cluster has bound to this node, and ends those that it deletes.

Mirrors pkg/kubelet/kubelet.go, v1.36, syncLoopIteration with its handlers, and status_manager.go, canBeDeleted. Before
the first whole list, nothing of the cluster ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from temporalio.service import RPCError

from syncpod.agent.kubernetes.deletions import Deletions
from syncpod.agent.kubernetes.statuses import StatusWriter
from syncpod.agent.node_workflow.desired_pods import DesiredPods, Listing
from syncpod.kubernetes.bound_pod import BoundPod, bound_pod
from syncpod.kubernetes.reflector import ObjectKey, Reflector
from syncpod.messages.node import PodKey

log = logging.getLogger(__name__)

FIND_ENDED_SECONDS: Final = 20.0
"""Between two searches for pods whose workflows somebody has ended."""
_RETRY_SECONDS: Final = 1.0


class BoundPods:
    """The pods of the cluster on this node. All methods belong to one event loop."""

    def __init__(
        self,
        reflector: Reflector,
        desired: DesiredPods,
        deletions: Deletions,
        is_open: Callable[[PodKey], Awaitable[bool]],
    ) -> None:
        """Follow `reflector`, by `desired` and `deletions`.

        `is_open` says whether a pod has a workflow; it raises RPCError.
        """
        self._reflector, self._desired, self._deletions, self._is_open = reflector, desired, deletions, is_open
        self._raw: dict[ObjectKey, Mapping[str, Any]] = {}
        self._pods: dict[ObjectKey, BoundPod] = {}
        self.statuses: StatusWriter | None = None
        """Who writes the statuses; set before `run`."""

    def generation(self, key: ObjectKey, uid: str) -> int:
        """Return the generation of a pod that its workflow has; 0 if that is not known."""
        pod = self._pods.get(key)
        if pod is None or pod.uid != uid or pod.document is None:
            return 0
        is_told = self._desired.has(PodKey(namespace=key.namespace, name=key.name), pod.document)
        return pod.generation if is_told else 0

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        try:
            while True:
                try:
                    async with asyncio.timeout(FIND_ENDED_SECONDS):
                        await self._reflector.news.wait()
                except TimeoutError:
                    await self._find_ended()
                    continue
                self._reflector.news.clear()
                if self._reflector.is_complete:
                    await self._round_until_taken()
        finally:
            await self._deletions.close()
            await self._desired.close()

    async def _find_ended(self) -> None:
        try:
            await self._desired.find_ended()
        except RPCError as error:
            log.debug("which pods of the cluster have workflows cannot be asked: %s", error.message)

    async def _round_until_taken(self) -> None:
        while True:
            try:
                await self.round()
            except RPCError as error:
                log.warning("which pods of the cluster have workflows cannot be asked: %s", error.message)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def round(self) -> None:
        """Take what the cluster lists now. Raises RPCError if it is to be repeated."""
        objects = self._reflector.objects
        changed = [key for key, each in objects.items() if self._raw.get(key) is not each]
        read = await asyncio.to_thread(self._read, {key: objects[key] for key in changed})
        gone = {key: pod for key, pod in self._pods.items() if key not in objects or _uid(objects[key]) != pod.uid}
        self._pods = {key: read.get(key) or self._pods[key] for key in objects if key in read or key in self._pods}
        self._raw = dict(objects)
        await self._desired.take(await self._listing())
        await self._deletions.take([pod for pod in self._pods.values() if pod.grace is not None])
        self._tell_statuses(changed, gone)

    def _read(self, objects: Mapping[ObjectKey, Mapping[str, Any]]) -> dict[ObjectKey, BoundPod]:
        """Read new versions of pods. One that differs only in what does not concern the node keeps its document."""
        found = {}
        for key, new in objects.items():
            old, pod = self._raw.get(key), self._pods.get(key)
            if old is not None and pod is not None and _concern(old) == _concern(new):
                metadata, status = new["metadata"], new.get("status") or {}
                grace = metadata.get("deletionGracePeriodSeconds") or 0 if metadata.get("deletionTimestamp") else None
                generation = metadata.get("generation") or 0
                found[key] = replace(pod, generation=generation, grace=grace, phase=status.get("phase") or "")
            elif (pod := bound_pod(new)) is not None:
                found[key] = pod
                for warning in pod.warnings:
                    log.warning("pod %s/%s: %s", pod.namespace, pod.name, warning)
        return found

    async def _listing(self) -> Listing:
        """Return which pods are to run; deleted ones stay as they are here, and are ended by themselves."""
        pods, kept = [], []
        for pod in self._pods.values():
            key = PodKey(namespace=pod.namespace, name=pod.name)
            if pod.grace is not None or pod.document is None or await self._has_finished(pod, key):
                kept.append(key)
            else:
                pods.append(dict(pod.document))
        named = frozenset(
            PodKey(namespace=each["metadata"]["namespace"], name=each["metadata"]["name"]) for each in pods
        )
        return Listing(tuple(pods), tuple(kept), (), named)

    async def _has_finished(self, pod: BoundPod, key: PodKey) -> bool:
        """Say whether a pod has ended and has no workflow here any more: then it never runs again."""
        return pod.is_finished and not await self._is_open(key)

    def _tell_statuses(self, changed: list[ObjectKey], gone: Mapping[ObjectKey, BoundPod]) -> None:
        if (statuses := self.statuses) is None:
            return
        for key, pod in gone.items():
            statuses.forget(key, pod.uid)
        for key in changed:
            known = self._pods.get(key)
            if known is not None and known.refusal:
                statuses.refuse(key, known.uid, known.refusal)
            else:
                statuses.changed(key)


def _concern(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the parts of a Pod that make the node's own document of it."""
    metadata = given["metadata"]
    return metadata.get("uid"), metadata.get("labels"), metadata.get("annotations"), given.get("spec")


def _uid(given: Mapping[str, Any]) -> str:
    return str(given["metadata"].get("uid") or "")
