"""Follows the cluster's objects to which the node's pods refer, and keeps them in the node's store.

Each object has its own list and watch, by its name: the Node authorizer permits a node nothing else, and only as long
as a pod that is bound to the node refers to the object (plugin/pkg/auth/authorizer/node, v1.36). The stored version is
used while the API server is away. Objects' values are nowhere but in the store.

Mirrors util/manager/watch_based_manager.go, v1.36: an immutable object is not watched, and a pod waits up to a second
for its objects. Differences: the wait comes before the pod starts, and steps that lack an object are retried as soon as
the object arrives; and until the API server has answered, the version that an earlier worker stored is used.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from syncpod.agent.background import cancel_all
from syncpod.agent.kubernetes.followed_claim import Claims
from syncpod.agent.kubernetes.followed_issued import FollowedBundle, FollowedCertificate
from syncpod.agent.kubernetes.followed_object import FollowedObject
from syncpod.agent.kubernetes.followed_services import FollowedServices, Services
from syncpod.agent.kubernetes.followed_token import FollowedToken, forget_token
from syncpod.agent.record_cache import RecordCache
from syncpod.kubernetes.client import ApiClient
from syncpod.node.pod_records import PodRecord
from syncpod.objects import BundleNeed, CertificateNeed, ClaimNeed, Need, ObjectRef, ObjectStore, TokenNeed, references
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 1.0
"""Seconds that a pod waits for the first answers about its objects."""
LOOK_SECONDS: Final = 5.0
"""Seconds between two searches for objects to which no pod refers any more."""

_BY_NEED: Final = ("token", "claim", "inline", "bundle", "certificate")
"""The origins of the objects that the cluster makes for one pod."""

Uses = Callable[[], Awaitable[Iterable[ObjectRef]]]
"""Returns the cluster's objects to which unfinished pods of this node refer. Raises OSError."""


class _Follower(Protocol):
    """Follows one object: a `FollowedObject`, a `FollowedGift` or a `FollowedServices`."""

    is_known: bool

    @property
    def trouble(self) -> str: ...

    @property
    def has_logged_trouble(self) -> bool: ...

    def keep_again(self) -> None: ...

    async def run(self) -> None: ...


@dataclass(eq=False)
class _Followed:
    follower: _Follower
    since: float
    """Monotonic time since which the object is followed."""
    task: asyncio.Task[None]


def used_objects(node: NodeContext) -> Uses:
    """Return a function that returns the cluster's objects to which unfinished pods of this node refer."""
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
        claims: Claims,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep `store` current.

        `uses` returns the objects of all pods of this node, also of pods that the cluster no longer lists.

        `tell` is called when `is_settled` may have become true. `claims` makes the followers of claims. `clock` is
        monotonic, in seconds.
        """
        self._client, self._store, self._uses, self._tell, self._clock = client, store, uses, tell, clock
        self._claims = claims
        self._followed: dict[ObjectRef, _Followed] = {}
        self._needs: dict[ObjectRef, Need] = {}
        self._services: Services | None = None
        self._following_services: asyncio.Task[None] | None = None
        self._bound: frozenset[ObjectRef] | None = None
        """The objects of the pods that the cluster lists; None = it has listed nothing yet."""
        self._complaint = ""

    def want(self, refs: Iterable[ObjectRef], needs: Iterable[Need]) -> None:
        """Follow the objects of the pods that the cluster lists. `needs` describes those made for a single pod."""
        self._needs = {need.ref: need for need in needs}
        self._bound = frozenset(refs)
        for ref in self._bound - self._followed.keys():
            self._follow(ref)

    def is_settled(self, refs: Iterable[ObjectRef]) -> bool:
        """Say whether a pod with these objects may start: each is known, or `PATIENCE_SECONDS` have passed.

        A pod waits longer for a volume or certificate: until it is there, or until there is a reason why not.
        """
        return all(self._is_settled(ref) for ref in refs)

    def _is_settled(self, ref: ObjectRef) -> bool:
        followed = self._followed.get(ref)
        if followed is None or followed.follower.is_known:
            return followed is not None
        is_late = self._clock() - followed.since >= PATIENCE_SECONDS
        return is_late and (ref.origin not in ("claim", "inline", "certificate") or bool(followed.follower.trouble))

    async def run(self) -> None:
        """Remove objects to which no pod refers any more, until cancelled; then end all watches."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    await self.tidy()
                except OSError as error:
                    log.warning("ConfigMaps and Secrets that no pod uses are left over: %s", error)
                self._complain()
        finally:
            await cancel_all(each.task for each in self._followed.values())
            await cancel_all([self._following_services] if self._following_services is not None else [])

    async def tidy(self) -> None:
        """Follow objects of pods that the cluster no longer lists; remove objects without a pod. Raises OSError."""
        if self._bound is None:
            return
        used = self._bound | frozenset(await self._uses())
        for ref in used - self._followed.keys():
            self._follow(ref)
        for ref in self._followed.keys() - used:
            await cancel_all([self._followed.pop(ref).task])
        kept = {ref for ref in await asyncio.to_thread(self._store.versions) if ref.is_clusters}
        for ref in kept - self._followed.keys() - used:
            if ref.origin in ("claim", "inline"):
                await self._claims.forget(ref)
            else:
                forget = partial(forget_token, self._store) if ref.origin == "token" else self._store.forget
                await asyncio.to_thread(forget, ref)
            if (followed := self._followed.get(ref)) is not None:  # a pod refers to it again: store it again
                followed.follower.keep_again()

    def _follow(self, ref: ObjectRef) -> None:
        follower: _Follower
        if ref.origin in _BY_NEED:
            match self._needs.get(ref):
                case None:  # the cluster no longer lists its pod, and would refuse a request
                    return
                case TokenNeed() as token:
                    follower = FollowedToken(self._client, self._store, token, self._tell)
                case ClaimNeed() as claim:
                    follower = self._claims.follow(claim, self._tell)
                case BundleNeed() as bundle:
                    follower = FollowedBundle(self._client, self._store, bundle, self._tell)
                case CertificateNeed() as certificate:
                    node = self._claims.node
                    follower = FollowedCertificate(self._client, self._store, certificate, node, self._tell)
        elif ref.origin == "services":
            follower = FollowedServices(self._all_services(), self._store, ref, self._tell)
        else:
            follower = FollowedObject(self._client, self._store, ref, self._tell, self._clock)
        running = asyncio.create_task(follower.run(), name=f"{ref} in namespace {ref.namespace}")
        self._followed[ref] = _Followed(follower, self._clock(), running)
        asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._tell)

    def _all_services(self) -> Services:
        """Return the cluster's Services, which are followed from the first call on."""
        if self._services is None:
            self._services = Services(self._client, self._clock)
            self._following_services = asyncio.create_task(self._services.run(), name="Services of the cluster")
        return self._services

    def _complain(self) -> None:
        """Log why objects cannot be followed, in one line for all of them, if that has changed."""
        said = {ref for ref, each in self._followed.items() if each.follower.has_logged_trouble}
        troubles = {ref: why for ref, why in self.troubles().items() if ref not in said}
        ref = min(troubles, default=None)
        complaint = "" if ref is None else f"{ref} in namespace {ref.namespace}: {troubles[ref]}"
        if complaint and complaint != self._complaint:
            more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
            log.warning("ConfigMaps and Secrets of the cluster cannot be followed%s: %s", more, complaint)
        self._complaint = complaint

    def troubles(self) -> Mapping[ObjectRef, str]:
        """Return why the store may lack an object's newest version, by object."""
        found = {ref: each.follower.trouble for ref, each in self._followed.items()}
        return {ref: why for ref, why in found.items() if why}
