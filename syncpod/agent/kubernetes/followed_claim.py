"""Follows pods' claims: polls each until it is bound, mounts its volume, and keeps the volume's place in the store.

A bound claim never changes its volume, and a volume never its place. So the place is read once in a pod's life, and is
used while the API server is away. The Node authorizer lets a node get the claims and volumes of its pods, but not watch
them (plugin/pkg/auth/authorizer/node, v1.36). A storage driver's volume may need to be expanded, so it is polled about
once a minute.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from secrets import SystemRandom
from typing import Any, Final

from syncpod.agent.kubernetes.claim_upkeep import BoundVolume, ClaimUpkeep
from syncpod.agent.kubernetes.csi_volumes import CsiVolumes, stored_place
from syncpod.agent.kubernetes.followed_gift import FollowedGift
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.claimed_volume import NotUsable, bound_volume, claim_path, place_of, volume_path
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.csi import csi_volume, inline_volume
from syncpod.kubernetes.events import Event
from syncpod.kubernetes.reflector import Backoff
from syncpod.objects import ClaimedPlace, ClaimNeed, ObjectRef, ObjectStore, kept_place

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 2.0
"""Seconds between two polls of a claim that is not bound yet; the kubelet polls more often, in its populator's loop."""
UPKEEP_SECONDS: Final = 60.0
"""Seconds between two polls of a driver's volume; up to half as many are added at random, as between a kubelet's syncs
of a pod."""
_CHANCE: Final = SystemRandom().random


class _NotFetched(Exception):
    """The API server did not answer, or refused the request."""


class FollowedClaim(FollowedGift):
    """One claim, or one inline volume of a driver. All methods belong to one event loop."""

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

        `tell` is called when the place is in the store, and with each new reason why it is not.
        """
        ref, within = need.ref, f"{need.ref.namespace}/{need.claim}: "
        lacks = f"pod {ref.namespace}/{need.pod} has no volume of its claim"
        if need.inline is not None:
            lacks, within = f"pod {ref.namespace}/{need.pod} has no volume {need.inline.name}", ""
        super().__init__(store, ref, tell, lacks, within=within)
        self._client, self._need, self._node, self._csi, self._upkeep = client, need, node, csi, upkeep

    async def run(self) -> None:
        """Find the place and store it, then do the volume's upkeep, until cancelled."""
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
        """Return the place from the store; None if there is none, or if the volume is not mounted. Blocks."""
        place = stored_place(self._store, self._need.ref)
        return place if place is not None and (place.plugin != "csi" or self._csi.is_here(place)) else None

    async def _ask(self) -> ClaimedPlace:
        """Return the place of the claim's volume; a driver's volume is mounted first.

        Raises NotUsable, _NotFetched, OSError.
        """
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
        """Do the volume's upkeep. Failures are only logged, since the volume stays mounted."""
        try:
            found = await self._found()
            if isinstance(found, BoundVolume):
                await self._upkeep.look(found, self._need, place)
        except (NotUsable, _NotFetched, ClusterError, Unreachable, OSError) as error:
            log.debug("volume %s of pod %s: %s", place.volume, self._need.pod, error)

    async def _found(self) -> ClaimedPlace | BoundVolume:
        """Return the volume's place, or a BoundVolume, which a driver must mount. Raises NotUsable, _NotFetched."""
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
        """Keep places in `store`; `csi` mounts volumes of storage drivers. `node` returns the newest v1 Node.

        `take` receives events of pods and claims.
        """
        self._client, self._store, self.node, self._csi = client, store, node, csi
        self._upkeep = ClaimUpkeep(client, csi, take)
        self._complaints: dict[ObjectRef, str] = {}

    def follow(self, need: ClaimNeed, tell: Callable[[], None]) -> FollowedClaim:
        """Return a follower of a claim; it calls `tell` as `FollowedClaim` describes."""
        return FollowedClaim(self._client, self._store, need, self.node, self._csi, self._upkeep, tell)

    async def forget(self, ref: ObjectRef) -> None:
        """Unmount a driver's volume, and remove its place from the store, if that is possible now. Raises OSError."""
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
