"""Updates pods' volumes when ConfigMaps and Secrets change, and wakes pods that wait for a missing object.

Once a second it reads the version of each object in the store: one stat per object. If an object has changed, the files
of volumes with it are replaced in place, and the pods keep running. Containers and steps that wait for an object are
signalled to retry. A container that mounts a subPath keeps the old files, as in Kubernetes.

For pods this mirrors volumemanager/reconciler and configmap/watch_based_manager.go, v1.36. Differences: a change is
visible after a second, while the kubelet takes up to a minute; a container that waits for an object starts at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from temporalio.service import RPCError

from syncpod.agent.background import cancel_all
from syncpod.agent.record_cache import RecordCache
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import pod_workflow_id
from syncpod.node.pod_records import PodRecord
from syncpod.node.pod_threads import DiskWork, PodThreads
from syncpod.node.pod_volumes import MountFailure, refresh_volumes
from syncpod.node.secret_values import secret_values
from syncpod.objects import ABSENT, ObjectRef, ObjectStore, Reference, references
from syncpod.pod import Pod
from syncpod.redaction import of_process
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
PATIENCE_SECONDS: Final = 1.0
"""Seconds that a check waits for the refresh of one pod's volumes."""

WaitingFor = MutableMapping[ObjectRef, set[tuple[str, str]]]
"""By missing object: workflow id and container or step of each waiter. A step adds its entry, and then looks for the
object once more. So either the step finds the object, or this module finds the entry after the object was written."""

Tell = Callable[[str, str, str], Awaitable[bool]]
"""Signals a workflow that a container or step may retry, and which object is available; returns whether the workflow is
open. Raises RPCError."""


@dataclass(frozen=True)
class _Use:
    """A pod that refers to objects, whether they exist or not."""

    pod: Pod
    shown: frozenset[ObjectRef]
    """The objects in its volumes."""
    needed: tuple[tuple[ObjectRef, str], ...]
    """The objects that are not optional, each with the container or step that fails without it."""
    to_know: tuple[tuple[ObjectRef, str], ...]
    """The Kubernetes cluster's objects, each with the container or step that fails until the node has received the
    object, or the answer that it does not exist."""


class VolumeRefresh:
    """Serves the pods of one node. All methods belong to one event loop."""

    def __init__(
        self,
        node: NodeContext,
        store: ObjectStore,
        waiting_for: WaitingFor,
        tell: Tell,
        *,
        threads: PodThreads,
    ) -> None:
        """Watch `store`; signal the waiters in `waiting_for` with `tell`, and remove their entries."""
        self._node = node
        self._store = store
        self._waiting_for = waiting_for
        self._tell = tell
        self._threads = threads
        self._uses = RecordCache(node, _use)
        self._versions: dict[ObjectRef, str] | None = None
        self._behind: dict[str, set[ObjectRef]] = {}
        """By pod UID: changed objects that are not in the pod's volumes yet."""
        self._to_tell: set[ObjectRef] = set()
        """Objects that have appeared or changed, and whose waiters were not signalled yet."""
        self._refreshing: dict[str, tuple[frozenset[ObjectRef], asyncio.Task[bool]]] = {}
        """By pod UID: the refresh under way, and those of its objects that have not changed since it began."""
        self._complaints: dict[str, str] = {}

    async def run(self) -> None:
        """Check each second until cancelled."""
        complaint = ""
        try:
            while True:
                try:
                    await self.look()
                    complaint = ""
                except OSError as error:
                    if where_and_why(error) != complaint:
                        complaint = where_and_why(error)
                        log.warning("ConfigMaps and Secrets cannot be read, so volumes stay as they are: %s", error)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await cancel_all(refreshing for _, refreshing in self._refreshing.values())
            self._refreshing.clear()

    async def look(self) -> None:
        """Find the objects that have changed since the last call, refresh volumes with them, and signal waiters.

        The first call treats every object as changed, and every pod that lacks an object as waiting: steps of an
        earlier worker may have failed because of it. The next call retries failed refreshes and signals. Raises
        OSError.
        """
        versions = await asyncio.to_thread(self._store.versions)
        if self._versions is None:
            await self._note_waiting(versions)
        changed = _changed(self._versions, versions)
        if secrets := [ref for ref in changed if ref.kind == "Secret"]:
            # Before they are in any pod's files: from now on their values are redacted.
            of_process.add(await asyncio.to_thread(secret_values, self._store, secrets))
        if changed or self._behind:
            await self._refresh(changed)
        news = changed - _deleted(self._versions, versions)
        # Stored last, so that no change is lost if something above fails.
        self._versions = versions
        self._to_tell = {ref for ref in self._to_tell | news if ref in versions}
        await self._signal_waiting()

    async def _note_waiting(self, versions: dict[ObjectRef, str]) -> None:
        for use in (await asyncio.to_thread(self._uses.read)).values():
            workflow_id = pod_workflow_id(use.pod.metadata.namespace, use.pod.metadata.name)
            lacks = [each for each in use.needed if versions.get(each[0], ABSENT) == ABSENT]
            lacks += [each for each in use.to_know if each[0] not in versions]
            for ref, subject in lacks:
                self._waiting_for.setdefault(ref, set()).add((workflow_id, subject))

    async def _refresh(self, changed: frozenset[ObjectRef]) -> None:
        pods = await asyncio.to_thread(self._uses.read)
        for uid, use in pods.items():
            if affected := use.shown & changed:
                self._behind.setdefault(uid, set()).update(affected)
                if uid in self._refreshing:  # the refresh may have read the objects before the change
                    shown, refreshing = self._refreshing[uid]
                    self._refreshing[uid] = shown - affected, refreshing
        for uid in tuple(self._behind):
            if uid not in pods or await self._caught_up(pods[uid].pod, self._behind[uid]):
                del self._behind[uid]
        self._complaints = {uid: said for uid, said in self._complaints.items() if uid in pods}

    async def _caught_up(self, pod: Pod, objects: set[ObjectRef]) -> bool:
        """Refresh one pod's volumes; say whether all `objects` are in them now.

        Refreshed objects are removed from `objects`.

        A hanging disk delays the other pods only once; later calls only check whether the refresh has ended.
        """
        uid, patience = pod.metadata.uid, 0.0
        if uid not in self._refreshing:
            shown = frozenset(objects)
            refreshing = asyncio.create_task(self._is_behind(pod, shown), name=f"volumes of {uid}")
            self._refreshing[uid], patience = (shown, refreshing), PATIENCE_SECONDS
        shown, refreshing = self._refreshing[uid]
        await asyncio.wait({refreshing}, timeout=patience)
        if not refreshing.done():
            self._complain(pod, "a disk does not answer")
            return False
        del self._refreshing[uid]
        if not refreshing.result():
            objects -= shown
        return not objects

    async def _is_behind(self, pod: Pod, objects: frozenset[ObjectRef]) -> bool:
        """Refresh one pod's volumes; say whether the refresh must be retried."""
        meta = pod.metadata
        refreshing = partial(refresh_volumes, pod, self._node, self._store, objects)
        try:
            written = await self._threads.run(meta.uid, DiskWork.REFRESH, refreshing)
        except MountFailure as failure:
            self._complain(pod, str(failure))
            # A volume that lacks an object, or a key of one, is retried when that object changes.
            return any(not each.wants for each in failure.failures)
        except OSError as error:
            self._complain(pod, where_and_why(error))
            return True
        except UnsafeName as error:
            self._complain(pod, str(error))
            return False
        self._complaints.pop(meta.uid, None)
        if written:
            log.info("pod %s/%s: volumes %s are up to date again", meta.namespace, meta.name, ", ".join(written))
        return False

    def _complain(self, pod: Pod, why: str) -> None:
        """Log why a pod's volumes cannot be refreshed, if the reason has changed."""
        meta = pod.metadata
        if self._complaints.get(meta.uid) != why:
            self._complaints[meta.uid] = why
            log.warning("pod %s/%s: volumes stay as they are: %s", meta.namespace, meta.name, why)

    async def _signal_waiting(self) -> None:
        """Signal each waiter for objects that appeared or changed, once for all its objects."""
        waiters = {waiter for ref in self._to_tell for waiter in self._waiting_for.get(ref, ())}
        for waiter in sorted(waiters):
            wanted = (ref for ref in sorted(self._to_tell) if waiter in self._waiting_for.get(ref, ()))
            try:
                await self._tell(*waiter, ", ".join(str(ref) for ref in wanted))
            except RPCError as error:
                log.debug(
                    "pod %s in %s cannot be signalled for its object: %s",
                    waiter[1],
                    waiter[0],
                    error,
                )
                return
            for ref in self._to_tell:
                self._forget(ref, waiter)
        self._to_tell.clear()

    def _forget(self, ref: ObjectRef, waiter: tuple[str, str]) -> None:
        waiters = self._waiting_for.get(ref, set())
        waiters.discard(waiter)
        if not waiters:
            self._waiting_for.pop(ref, None)


def _changed(before: dict[ObjectRef, str] | None, now: dict[ObjectRef, str]) -> frozenset[ObjectRef]:
    """Return the objects that have appeared, changed or disappeared."""
    known = before or {}
    return frozenset(ref for ref in known.keys() | now.keys() if known.get(ref) != now.get(ref))


def _deleted(before: dict[ObjectRef, str] | None, now: dict[ObjectRef, str]) -> frozenset[ObjectRef]:
    """Return the Kubernetes cluster's objects that were known before, and do not exist now."""
    return frozenset(ref for ref in before or () if now.get(ref) == ABSENT)


def _use(record: PodRecord) -> _Use | None:
    if record.finished:
        return None
    found = references(record.pod)
    needed = {(each.ref, _subject(record.pod, each)) for each in found if not each.optional}
    # A pull does not wait for a Secret that is not received yet: it goes on without the Secret.
    to_know = {(each.ref, _subject(record.pod, each)) for each in found if each.ref.is_clusters and each.use != "pull"}
    shown = frozenset(each.ref for each in found if each.use == "volume")
    return _Use(record.pod, shown, tuple(sorted(needed)), tuple(sorted(to_know))) if found else None


def _subject(pod: Pod, reference: Reference) -> str:
    """Return the step or container that needs the object: `create_sandbox` if a volume needs it, else the container."""
    if reference.use == "volume":
        return StepName.CREATE_SANDBOX.value
    kinds = (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
        ("ephemeralContainers", pod.spec.ephemeral_containers),
    )
    return next(
        container.name
        for field, containers in kinds
        for index, container in enumerate(containers)
        if reference.path.startswith(f"spec.{field}[{index}].")
    )
