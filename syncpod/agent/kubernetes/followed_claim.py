"""The claims of pods: each is asked for until it is bound, and the place behind it kept in the node's store.

A bound claim never changes its volume, and a volume never its place. So the place is asked for once in a pod's life,
and serves while the API server is away. The Node authorizer permits a node to get claims and volumes of its pods, and
not to watch them (plugin/pkg/auth/authorizer/node, v1.36): a volume of a storage driver is looked at about once a
minute, since it may have grown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from secrets import SystemRandom
from typing import Any, Final

from syncpod.agent.kubernetes.claim_upkeep import BoundVolume, ClaimUpkeep
from syncpod.agent.kubernetes.csi_volumes import CsiVolumes
from syncpod.agent.kubernetes.followed_gift import FollowedGift
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.claimed_volume import NotUsable, bound_volume, claim_path, place_of, volume_path
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.csi import csi_volume, inline_volume
from syncpod.kubernetes.events import Event
from syncpod.kubernetes.reflector import Backoff
from syncpod.objects import (
    ClaimedPlace,
    ClaimNeed,
    ObjectRef,
    ObjectStore,
    ObjectUnreadable,
    claimed_place,
    kept_place,
    values,
)

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 2.0
"""Between two looks at a claim that is not bound yet; the kubelet asks at each round of its populator, more often."""
UPKEEP_SECONDS: Final = 60.0
"""Between two looks at a driver's volume, and up to half as much more: as often as the kubelet syncs a pod."""
_CHANCE: Final = SystemRandom().random


class _NotFetched(Exception):
    """The API server did not answer, or refused."""


class FollowedClaim(FollowedGift):
    """One claim, or one volume that a driver makes for a pod alone. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        store: ObjectStore,
        need: ClaimNeed,
        node: Callable[[], Mapping[str, Any] | None],
        csi: CsiVolumes,
        upkeep: ClaimUpkeep,
        tell: Callable[[], None],
    ) -> None:
        """Keep the place in `store`; `node` returns the newest v1 Node.

        `tell` is called when the place is known, or when there is another reason why it is not.
        """
        ref, within = need.ref, f"{need.ref.namespace}/{need.claim}: "
        lacks = f"pod {ref.namespace}/{need.pod} has no volume of its claim"
        if need.inline is not None:
            lacks, within = f"pod {ref.namespace}/{need.pod} has no volume {need.inline.name}", ""
        super().__init__(store, ref, tell, lacks, within=within)
        self._client, self._need, self._node, self._csi, self._upkeep = client, need, node, csi, upkeep

    async def run(self) -> None:
        """Learn the place, keep it, and have the driver do what is due there, until cancelled."""
        backoff = Backoff(time.monotonic, _CHANCE)
        while True:
            try:
                place = await asyncio.to_thread(self._held)
                if place is None:
                    place = await self._ask()
                    await asyncio.to_thread(self._store.keep, kept_place(self._need.ref, place), self._need.ref.origin)
                elif self.is_known and place.plugin == "csi":
                    await self._look(place)
                self._succeed()
                wait = UPKEEP_SECONDS * (1 + _CHANCE() / 2) if place.plugin == "csi" else None
            except NotUsable as error:
                self._fail(str(error))
                wait = RETRY_SECONDS
            except (_NotFetched, OSError, ValueError) as error:
                self._fail(where_and_why(error))
                wait = backoff.next(error.__cause__ if isinstance(error.__cause__, ClusterError) else error)
            await self._rest(wait)

    def _held(self) -> ClaimedPlace | None:
        """Return the place if it is here. Blocks."""
        try:
            held = self._store.get(self._need.ref)
            place = None if held is None else claimed_place(values(held))
        except (ObjectUnreadable, ValueError):
            return None
        return place if place is not None and (place.plugin != "csi" or self._csi.is_here(place)) else None

    async def _ask(self) -> ClaimedPlace:
        """Return the place behind the claim. Raises NotUsable, _NotFetched, OSError."""
        found = await self._found()
        if isinstance(found, ClaimedPlace):
            return found
        try:
            place = await self._csi.bring(found.volume, self._need)
            await self._upkeep.begin(found, self._need, place)
        except (ClusterError, Unreachable) as error:
            raise _NotFetched(f"failed to ask the API server about {found.volume.title}: {error}") from error
        return place

    async def _look(self, place: ClaimedPlace) -> None:
        """Have the driver do what is due. The place stays as it is if that fails, or if it cannot be learned now."""
        try:
            found = await self._found()
            if isinstance(found, BoundVolume):
                await self._upkeep.look(found, self._need, place)
        except (NotUsable, _NotFetched, ClusterError, Unreachable, OSError) as error:
            log.debug("volume %s of pod %s: %s", place.volume, self._need.pod, error)

    async def _found(self) -> ClaimedPlace | BoundVolume:
        """Return where the volume is; a driver brings a BoundVolume there. Raises NotUsable, _NotFetched."""
        if self._need.inline is not None:
            return BoundVolume(inline_volume(self._need.inline, self._need), {}, {})
        claim = await self._fetch("PVC", claim_path(self._need))
        name = bound_volume(claim, self._need)
        document = await self._fetch(f"PV {name}", volume_path(name))
        metadata = (self._node() or {}).get("metadata", {})
        place = place_of(claim, document, str(metadata.get("name") or ""), metadata.get("labels") or {}, self._need)
        return BoundVolume(csi_volume(document), claim, document) if place is None else place

    async def _fetch(self, what: str, path: str) -> Mapping[str, Any]:
        try:
            return await self._client.ask("GET", path)
        except (ClusterError, Unreachable) as error:
            missing = isinstance(error, ClusterError) and error.reason == "NotFound"
            kind = NotUsable if missing else _NotFetched
            raise kind(f"failed to fetch {what} from API server: {error}") from error


class Claims:
    """The claims of one node's pods. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        store: ObjectStore,
        node: Callable[[], Mapping[str, Any] | None],
        csi: CsiVolumes,
        take: Callable[[Event], object],
    ) -> None:
        """Keep places in `store`; `csi` brings volumes of storage drivers. `node` returns the newest v1 Node.

        `take` is given events of pods and claims.
        """
        self._client, self._store, self.node, self._csi = client, store, node, csi
        self._upkeep = ClaimUpkeep(client, csi, take)
        self._complaints: dict[ObjectRef, str] = {}

    def follow(self, need: ClaimNeed, tell: Callable[[], None]) -> FollowedClaim:
        """Return what follows a claim; `tell` is called as `FollowedClaim` does."""
        return FollowedClaim(self._client, self._store, need, self.node, self._csi, self._upkeep, tell)

    async def forget(self, ref: ObjectRef) -> None:
        """Let go of a place, if that is possible now, and keep it no longer. Raises OSError."""
        try:
            await self._csi.let_go(ref)
        except NotUsable as error:
            if self._complaints.get(ref) != str(error):
                self._complaints[ref] = str(error)
                log.warning("%s; this is tried again", error)
            return
        self._complaints.pop(ref, None)
        self._upkeep.forget(ref)
        await asyncio.to_thread(self._store.forget, ref)
