"""Writes the statuses of the cluster's pods to the API server.

Mirrors pkg/kubelet/status/status_manager.go, v1.36: only the newest status of a pod is written. If another client has
changed a status, it is written again. A status that cannot be written is retried, and the pod does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from secrets import SystemRandom
from typing import Any, Final, NamedTuple, Protocol

from syncpod.agent.background import cancel_all
from syncpod.kubernetes.bound_pod import PodRefusal
from syncpod.kubernetes.client import MERGE_PATCH, ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.json_documents import mapping
from syncpod.kubernetes.mirror_pod import mirrored_uid
from syncpod.kubernetes.pod_status import (
    FINISHED,
    pod_status,
    rejected,
    same,
    status_for,
    status_patch,
    without_replaced_ends,
)
from syncpod.kubernetes.reflector import Backoff, Lists, ObjectKey, version_of

log = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""The most concurrent writes."""


class NewestPod(Protocol):
    """A pod's newest published state: a `syncpod.temporal.workflow_watch.Published`."""

    @property
    def uid(self) -> str:
        """The pod's UID."""

    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status."""


class PublishedStatus(NewestPod, Protocol):
    """A pod's newest state, with the containers that are about to be replaced."""

    @property
    def replacing(self) -> Collection[str]:
        """The runtime ids of containers that are being killed to be replaced."""


class _Answer(NamedTuple):
    """The API server's answer with a pod, and the number of the last list that had begun at that time."""

    pod: Mapping[str, Any]
    lists: int


class StatusWriter:
    """The statuses of one node's pods. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        objects: Callable[[], Mapping[ObjectKey, Mapping[str, Any]]],
        has_refused: Callable[[ObjectKey, str, str, str], None] = lambda key, uid, reason, why: None,
        lists: Lists | None = None,
    ) -> None:
        """`objects` returns the cluster's pods of this node, as last received from the API server.

        `lists` counts the lists of these pods. `has_refused` is called with key, UID, reason and message of each pod
        whose failure was written because the node cannot run it.
        """
        self._client, self._objects, self._has_refused = client, objects, has_refused
        self._published: dict[str, PublishedStatus] = {}
        self._refused: dict[str, PodRefusal] = {}
        self._lists = lists or Lists()
        self._written: dict[ObjectKey, _Answer] = {}
        """The API server's answer to the last write; it may be newer than the watch's last event."""
        self._sent: dict[ObjectKey, Mapping[str, Any]] = {}
        """The status that the last write sent. A server may drop a part of it; the same status is not sent again."""
        self._went_on: dict[ObjectKey, str] = {}
        """UIDs of the pods that had not ended according to this process's last write."""
        self._due: dict[ObjectKey, None] = {}
        """A queue of pods, oldest change first. A pod's status is compared with the cluster's, and written if they
        differ.

        Only a pod's newest state is written. A pod whose write fails is queued again after its back-off. The queue is
        not on disk: after a restart the workflows publish again."""
        self._news = asyncio.Event()
        self._retries: dict[ObjectKey, asyncio.TimerHandle] = {}
        """Timers of the pods whose last write failed. A change of the pod leads to an earlier try."""
        self._backoffs = defaultdict[ObjectKey, Backoff](lambda: Backoff(time.monotonic, SystemRandom().random))
        """Each of these pods has its own back-off, so that one does not lengthen another's."""
        self._locks: dict[ObjectKey, asyncio.Lock] = {}
        self.trouble = ""
        """Why statuses cannot be written now; "" if they can."""

    # --- inputs -------------------------------------------------------------------------------------------------------

    def published(self, key: ObjectKey, state: PublishedStatus) -> None:
        """Take a pod's newest state."""
        self._published[state.uid] = state
        self._look(key)

    def gone(self, key: ObjectKey, state: PublishedStatus) -> None:
        """Take a pod's last state. If the API server no longer has the pod, drop everything about it."""
        given = self._objects().get(key)
        if given is None:
            self.forget(key, state.uid)
        elif given["metadata"].get("uid") == state.uid:
            self.published(key, state)
        else:  # another pod now has its name
            self._published.pop(state.uid, None)

    def refuse(self, key: ObjectKey, uid: str, why: PodRefusal) -> None:
        """Note that the node cannot run a pod: its status becomes Failed."""
        self._refused[uid] = why
        self._look(key)

    def changed(self, key: ObjectKey) -> None:
        """Note that the API server has a new version of a pod: another client may have written its status."""
        self._look(key)

    def forget(self, key: ObjectKey, uid: str) -> None:
        """Drop the state of a pod that the API server no longer has."""
        self._published.pop(uid, None)
        self._refused.pop(uid, None)
        self._written.pop(key, None)
        self._sent.pop(key, None)
        self._went_on.pop(key, None)
        self._due.pop(key, None)
        self._locks.pop(key, None)
        self._forget_failure(key)

    def _look(self, key: ObjectKey) -> None:
        self._due[key] = None
        self._news.set()

    # --- writes -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write queued pods' statuses until cancelled."""
        room = asyncio.Semaphore(AT_ONCE)
        writes: dict[ObjectKey, asyncio.Task[None]] = {}

        def ended(write: asyncio.Task[None], key: ObjectKey) -> None:
            del writes[key]
            if key in self._due:
                self._news.set()

        try:
            while True:
                await self._news.wait()
                self._news.clear()
                for key in [each for each in self._due if each not in writes]:
                    del self._due[key]
                    writes[key] = asyncio.create_task(self._try(room, key))
                    writes[key].add_done_callback(partial(ended, key=key))
        finally:
            await cancel_all(list(writes.values()))
            for waiting in self._retries.values():
                waiting.cancel()

    async def _try(self, room: asyncio.Semaphore, key: ObjectKey) -> None:
        """Write one pod's status; after a failure, queue it again later."""
        async with room:
            try:
                await self.write(key)
            except Exception as error:
                if not isinstance(error, ClusterError | Unreachable):
                    log.exception("the status of pod %s/%s cannot be made", *key)
                self._look_again(key, self._backoffs[key].next(error))
                self._log_trouble(str(error))
                return
        self._forget_failure(key)
        self._log_trouble(self.trouble if self._retries else "")

    def _log_trouble(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.warning("statuses of pods cannot be written to the cluster: %s", trouble)
        self.trouble = trouble

    def _forget_failure(self, key: ObjectKey) -> None:
        self._backoffs.pop(key, None)
        if (waiting := self._retries.pop(key, None)) is not None:
            waiting.cancel()

    def _look_again(self, key: ObjectKey, seconds: float) -> None:
        if (waiting := self._retries.pop(key, None)) is not None:
            waiting.cancel()
        self._retries[key] = asyncio.get_running_loop().call_later(seconds, self._look, key)

    async def write(self, key: ObjectKey) -> None:
        """Write a pod's status, if it differs from the API server's. Raises ClusterError, Unreachable."""
        if key not in self._objects():
            return  # before a lock is made for it
        async with self._locks.setdefault(key, asyncio.Lock()):
            self._due.pop(key, None)
            pod = self._newest(key)
            while pod is not None and (patch := self._patch(key, pod)) is not None:
                try:
                    answer = await self._client.ask(
                        "PATCH", f"{path_of(key)}/status", body=patch, content_type=MERGE_PATCH
                    )
                    self._written[key] = _Answer(answer, self._lists.begun)
                    self._sent[key] = patch["status"]
                    uid = str(pod["metadata"].get("uid") or "")
                    self._note_end(key, uid, answer)
                    if (why := self._refused.get(uid)) is not None:
                        self._has_refused(key, uid, *why)
                    return
                except ClusterError as error:
                    if error.code != 409:
                        self._give_up(key, error)
                        return
                    if (pod := await self._read(key)) is not None:
                        self._written[key] = _Answer(pod, self._lists.begun)

    def _note_end(self, key: ObjectKey, uid: str, answer: Mapping[str, Any]) -> None:
        """Note whether a pod has not ended according to the status that was just written."""
        self._went_on.pop(key, None)
        if mapping(answer.get("status")).get("phase") not in FINISHED:
            self._went_on[key] = uid

    def _give_up(self, key: ObjectKey, error: ClusterError) -> None:
        """Ignore that a pod is gone; log a final refusal of its status. Raises any other error."""
        if error.code == 404:
            return
        if error.code not in (400, 413, 422):
            raise error
        log.error("the cluster does not take the status of pod %s/%s: %s", *key, error)

    async def _read(self, key: ObjectKey) -> Mapping[str, Any] | None:
        try:
            return await self._client.ask("GET", path_of(key))
        except ClusterError as error:
            if error.code == 404:
                return None
            raise

    def _newest(self, key: ObjectKey) -> Mapping[str, Any] | None:
        """Return the newest received version of a pod."""
        watched, written = self._objects().get(key), self._written.get(key)
        if watched is None or written is None or self._lists.outdates(written.lists):
            return watched
        return watched if version_of(watched) >= version_of(written.pod) else written.pod

    def _patch(self, key: ObjectKey, pod: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the patch that this version of a pod needs; None if it needs none."""
        # A mirror has its own UID, and the status of its static pod.
        uid, before = mirrored_uid(pod) or str(pod["metadata"].get("uid") or ""), pod.get("status") or {}
        if (why := self._refused.get(uid)) is not None:
            return status_patch(pod, rejected(*why, pod)) if before.get("phase") != "Failed" else None
        state = self._published.get(uid)
        if state is None:
            return None
        ours = without_replaced_ends(pod, status_for(pod, state.pod()), state.replacing)
        went_on = self._went_on.get(key) == pod["metadata"].get("uid")
        patch = status_patch(pod, pod_status(before, ours, went_on=went_on))
        written = self._written.get(key)
        if patch is not None and written is not None and self._sent.get(key) == patch["status"]:
            return None if same(written.pod.get("status"), before) else patch
        return patch


def path_of(key: ObjectKey) -> str:
    """Return a pod's path at the API server."""
    return f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"
