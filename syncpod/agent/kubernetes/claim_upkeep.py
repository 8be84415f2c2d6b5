"""Calls storage drivers for volumes that pods already have: to publish them again, and to expand them.

Mirrors volumemanager/reconciler (remount, volumeNeedsExpansion) and node_expander.go (expandOnPlugin), v1.36.
Differences: a failed call is repeated only at the next check. A volume that is due before its pod starts is expanded
after it was published, while the kubelet does it between staging and publishing. For a read-only volume, the event that
it cannot be expanded is written only once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from syncpod.agent.kubernetes.csi_volumes import CsiVolumes
from syncpod.csi.driver import CsiError
from syncpod.kubernetes.claim_growth import Growth, begun, claim_size, due_growth, failed, finished
from syncpod.kubernetes.claimed_volume import NotUsable, claim_path
from syncpod.kubernetes.client import MERGE_PATCH, ApiClient
from syncpod.kubernetes.csi import CsiVolume
from syncpod.kubernetes.events import Event, Subject
from syncpod.kubernetes.json_documents import mapping
from syncpod.objects import ClaimedPlace, ClaimNeed, ObjectRef
from syncpod.redaction import of_process

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BoundVolume:
    """A driver's volume with its PersistentVolumeClaim and PersistentVolume, which are empty for an inline volume."""

    volume: CsiVolume
    claim: Mapping[str, Any]
    document: Mapping[str, Any]
    """The PersistentVolume."""


class ClaimUpkeep:
    """The upkeep of one node's volumes. All methods belong to one event loop."""

    def __init__(self, client: ApiClient, csi: CsiVolumes, take: Callable[[Event], object]) -> None:
        """Call drivers with `csi`, and pass events to `take`."""
        self._client, self._csi, self._take = client, csi, take
        self._sizes: dict[ObjectRef, int] = {}
        """The current size of each volume on this node, in bytes."""
        self._failed: set[ObjectRef] = set()
        """The volumes whose last expansion a driver has refused."""
        self._left: dict[ObjectRef, str] = {}
        """By volume: the size to which it cannot be expanded now, since it is in use or read-only."""
        self._complaints: dict[ObjectRef, str] = {}

    async def begin(self, found: BoundVolume, need: ClaimNeed, place: ClaimedPlace) -> None:
        """Expand a volume that was just published, if that is due. Its pod starts after that.

        Raises NotUsable, ClusterError, Unreachable.
        """
        await self._grow(found, need, place)

    async def look(self, found: BoundVolume, need: ClaimNeed, place: ClaimedPlace) -> None:
        """Publish a pod's volume again, and expand it, if that is due. Each failure is logged, and becomes an event.

        Raises ClusterError, Unreachable, OSError.
        """
        try:
            await self._csi.again(found.volume, need, place)
        except NotUsable as error:
            self._complain(need, "FailedMount", f'MountVolume.SetUp failed for volume "{place.volume}" : {error}')
        else:
            self._complaints.pop(need.ref, None)
        try:
            await self._grow(found, need, place)
        except NotUsable as error:
            message = f'NodeExpandVolume.NodeExpandVolume failed for volume "{place.volume}" : {error}'
            self._complain(need, "VolumeResizeFailed", message)

    def forget(self, ref: ObjectRef) -> None:
        """Drop the state of a volume that no pod has any more."""
        for known in (self._sizes, self._left, self._complaints):
            known.pop(ref, None)
        self._failed.discard(ref)

    def _complain(self, need: ClaimNeed, reason: str, message: str) -> None:
        if self._complaints.get(need.ref) != message:
            self._complaints[need.ref] = message
            log.warning("pod %s/%s: %s", need.ref.namespace, need.pod, message)
        self._emit_for_pod(need, "Warning", reason, message)

    async def _grow(self, found: BoundVolume, need: ClaimNeed, place: ClaimedPlace) -> None:
        if found.volume.is_inline:
            return
        ref = need.ref
        size = self._sizes[ref] = self._sizes.get(ref) or claim_size(found.claim)
        growth = due_growth(found.claim, found.document, size, has_failed=ref in self._failed)
        if growth is None or growth.step == "wait" or self._left.get(ref) == growth.size:
            return
        if growth.step == "grow":
            if found.volume.is_read_only or need.is_read_only:
                self._left[ref] = growth.size
                self._tell(
                    found, need, "Warning", "FileSystemResizeFailed", "failed", "requested read-only file system"
                )
                return
            if not await self._grown(found, need, place, growth):
                return
        self._sizes[ref] = growth.bytes
        self._failed.discard(ref)

    async def _grown(self, found: BoundVolume, need: ClaimNeed, place: ClaimedPlace, growth: Growth) -> bool:
        """Expand a volume by its driver, and write that into the claim; False if the volume must be unused first.

        Raises NotUsable, ClusterError, Unreachable.
        """
        claim = found.claim
        if growth.has_states and not growth.is_in_claim:
            claim = await self._patch(need, begun(claim)) or claim
        try:
            grows = await self._csi.grow(found.volume, place, growth.bytes)
        except CsiError as error:
            why = of_process.redact(str(error))
            await self._note_failure(claim, need, growth, why, error)
            if error.is_of_use:
                self._left[need.ref] = growth.size
                log.warning("volume %s is not grown while pod %s uses it: %s", place.volume, need.pod, why)
                return False
            raise NotUsable(why) from error
        if not grows:
            if growth.has_states and not growth.is_in_claim:
                why = f"NodeExpand is not supported by the CSI driver {place.driver}"
                await self._note_failure(claim, need, growth, why, None)
                raise NotUsable(why)
            return True
        self._tell(found, need, "Normal", "FileSystemResizeSuccessful", "succeeded", self._csi.node_name)
        if not growth.is_in_claim:
            await self._patch(need, finished(claim, growth.size))
        return True

    async def _note_failure(
        self, claim: Mapping[str, Any], need: ClaimNeed, growth: Growth, why: str, error: CsiError | None
    ) -> None:
        """Write into the claim why a volume is not expanded. `error` is the driver's; None = no call was made."""
        if not growth.has_states or (error is not None and error.is_unsure):
            return
        self._failed.add(need.ref)
        is_infeasible = growth.is_too_late or (error is not None and error.is_infeasible)
        await self._patch(need, failed(claim, why, datetime.now(UTC), is_infeasible=is_infeasible))

    async def _patch(self, need: ClaimNeed, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        path = f"{claim_path(need)}/status"
        return await self._client.ask("PATCH", path, body=dict(patch), content_type=MERGE_PATCH)

    def _tell(self, found: BoundVolume, need: ClaimNeed, kind: str, reason: str, how: str, more: str) -> None:
        """Write an event about an expansion's outcome, for the pod and for the claim."""
        message = f'MountVolume.NodeExpandVolume {how} for volume "{found.volume.name}" {more}'
        self._emit_for_pod(need, kind, reason, message)
        uid, at = str(mapping(found.claim.get("metadata")).get("uid") or ""), datetime.now(UTC)
        subject = Subject("PersistentVolumeClaim", need.ref.namespace, need.claim, uid)
        self._take(Event(subject, kind, reason, message, at, at))

    def _emit_for_pod(self, need: ClaimNeed, kind: str, reason: str, message: str) -> None:
        at = datetime.now(UTC)
        self._take(Event(Subject("Pod", need.ref.namespace, need.pod, need.uid), kind, reason, message, at, at))
