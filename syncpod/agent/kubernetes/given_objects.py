"""Keeps the ConfigMaps and Secrets of the cluster that the node's pods refer to, in the node's store.

One by one by name, each by a list and a watch of its own: the Node authorizer permits a node no more, and only as long
as a pod that is bound to it refers to the object (plugin/pkg/auth/authorizer/node, v1.36). What the store has serves
while the API server is away. The values go from the API server to the store alone.

Mirrors util/manager/watch_based_manager.go, v1.36: an immutable object is not watched, and a pod waits a second for
what it refers to. Differences: here the wait comes before the pod begins, and what is not known after it is retried as
soon as it is; and what an earlier worker kept is used until the API server has answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from syncpod.agent.record_cache import RecordCache
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.given_object import NotAnObject, given_object, path_of
from syncpod.kubernetes.reflector import ObjectKey, Reflector
from syncpod.node.pod_records import PodRecord
from syncpod.objects import ObjectRef, ObjectRefused, ObjectStore, references
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 1.0
"""How long a pod waits for the first answers."""
LOOK_SECONDS: Final = 5.0
"""Between two searches for objects that no pod refers to any more."""

Uses = Callable[[], Awaitable[Iterable[ObjectRef]]]
"""Returns the objects that pods refer to of which something may still run here. Raises OSError."""


@dataclass(eq=False)
class _Followed:
    reflector: Reflector
    since: float
    is_known: bool = False
    """The store has what the API server has answered."""
    trouble: str = ""
    """Why the store does not have what the API server has; "" = it has."""
    task: asyncio.Task[None] | None = field(default=None, repr=False)


def used_objects(node: NodeContext) -> Uses:
    """Return what returns the cluster's objects that those pods refer to of which something may still run here."""
    uses = RecordCache(node, _use)

    async def used() -> Iterable[ObjectRef]:
        return [ref for refs in (await asyncio.to_thread(uses.read)).values() for ref in refs]

    return used


def _use(record: PodRecord) -> frozenset[ObjectRef] | None:
    found = () if record.finished else references(record.pod)
    return frozenset(each.ref for each in found if each.ref.is_clusters) or None


class GivenObjects:
    """The cluster's objects on one node. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        store: ObjectStore,
        uses: Uses,
        tell: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep `store` current. `uses` returns what pods of the node use that the cluster may no longer list.

        `tell` is called when `is_settled` may have become true. `clock` is steady, in seconds.
        """
        self._client, self._store, self._uses, self._tell, self._clock = client, store, uses, tell, clock
        self._followed: dict[ObjectRef, _Followed] = {}
        self._bound: frozenset[ObjectRef] | None = None
        """What the pods refer to that the cluster lists; None = it has listed nothing yet."""
        self._complaint = ""

    def want(self, refs: Iterable[ObjectRef]) -> None:
        """Take which objects the pods refer to that the cluster lists."""
        self._bound = frozenset(refs)
        for ref in self._bound - self._followed.keys():
            self._follow(ref)

    def is_settled(self, refs: Iterable[ObjectRef]) -> bool:
        """Say whether a pod need not wait any longer for the first answers about what it refers to."""
        now = self._clock()
        followed = (self._followed.get(ref) for ref in refs)
        return all(each is not None and (each.is_known or now - each.since >= PATIENCE_SECONDS) for each in followed)

    async def run(self) -> None:
        """Forget what no pod refers to any more, until cancelled; end all watches then."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    await self.tidy()
                except OSError as error:
                    log.warning("ConfigMaps and Secrets that no pod uses are left over: %s", error)
                self._complain()
        finally:
            await _ended(self._followed.values())

    async def tidy(self) -> None:
        """Follow what pods refer to that the cluster no longer lists; forget what none refers to. Raises OSError."""
        if self._bound is None:
            return
        used = self._bound | frozenset(await self._uses())
        for ref in used - self._followed.keys():
            self._follow(ref)
        for ref in self._followed.keys() - used:
            await _ended([self._followed.pop(ref)])
        kept = {ref for ref in await asyncio.to_thread(self._store.versions) if ref.is_clusters}
        for ref in kept - self._followed.keys():
            await asyncio.to_thread(self._store.forget, ref)
            if (followed := self._followed.get(ref)) is not None:  # it was asked for meanwhile: store it again
                followed.reflector.news.set()

    def _follow(self, ref: ObjectRef) -> None:
        reflector = Reflector(
            self._client,
            path_of(ref),
            ref.kind,
            params={"fieldSelector": f"metadata.name={ref.name}"},
            level=logging.DEBUG,
            clock=self._clock,
        )
        followed = self._followed[ref] = _Followed(reflector, self._clock())
        followed.task = asyncio.create_task(self._keep(ref, followed), name=f"{ref} in namespace {ref.namespace}")
        asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._tell)

    async def _keep(self, ref: ObjectRef, followed: _Followed) -> None:
        """Follow an object, and keep in the store what it is; an immutable one only until it is known."""
        following = asyncio.create_task(followed.reflector.run(), name=f"watch of {ref} in {ref.namespace}")
        try:
            is_final = False
            while not is_final:
                await followed.reflector.news.wait()
                followed.reflector.news.clear()
                if not followed.reflector.is_complete:
                    continue
                try:
                    is_final = await self._store_it(ref, followed.reflector)
                    followed.is_known, followed.trouble = True, ""
                except (OSError, ObjectRefused, NotAnObject, ValueError) as error:
                    self._fail(ref, followed, str(error))
                self._tell()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _store_it(self, ref: ObjectRef, reflector: Reflector) -> bool:
        """Keep what an object is now; say whether it never changes. Raises OSError, ObjectRefused, NotAnObject."""
        document = reflector.objects.get(ObjectKey(ref.namespace, ref.name))
        if document is None:
            await asyncio.to_thread(self._store.note_absent, ref)
            return False
        found = given_object(ref, document)
        await asyncio.to_thread(self._store.keep, found)
        return bool(found.immutable)

    def _fail(self, ref: ObjectRef, followed: _Followed, why: str) -> None:
        """Log why an object cannot be kept, and try again with its next change, or soon."""
        if followed.trouble != why:
            followed.trouble = why
            log.warning("%s in namespace %s cannot be kept: %s", ref, ref.namespace, why)
        asyncio.get_running_loop().call_later(LOOK_SECONDS, followed.reflector.news.set)

    def _complain(self) -> None:
        """Log once why objects cannot be followed, however many they are."""
        troubles = {ref: each.reflector.trouble for ref, each in self._followed.items() if each.reflector.trouble}
        ref = min(troubles, default=None)
        complaint = "" if ref is None else f"{ref} in namespace {ref.namespace}: {troubles[ref]}"
        if complaint and complaint != self._complaint:
            more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
            log.warning("ConfigMaps and Secrets of the cluster cannot be followed%s: %s", more, complaint)
        self._complaint = complaint

    def troubles(self) -> Mapping[ObjectRef, str]:
        """Return why the store may not have what the API server has, by object."""
        found = {ref: each.trouble or each.reflector.trouble for ref, each in self._followed.items()}
        return {ref: why for ref, why in found.items() if why}


async def _ended(followed: Iterable[_Followed]) -> None:
    tasks = [each.task for each in followed if each.task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
