"""Image garbage collection: removes unused images when their disk fills up.

Every five minutes it notes which images are in use: by any container that the runtime lists, ours or not; by the specs
of this node's pods, including image volumes; and by sandboxes. If the images' disk is too full, images are removed, the
longest unused first, until the disk is below the low threshold (:mod:`syncpod.lifecycle.image_gc`).

Mirrors images/image_gc_manager.go, v1.36, and kubelet.go, StartGarbageCollection. Differences:

- Only images that this node has pulled are removed, never those that were imported by hand or pulled by others.
- An image that a pod names is in use even while none of its containers exists.
- An image that was never seen in use counts as last used when it was pulled. That time is on disk, so the order
  survives a restart of the worker.
- The kubelet's events about the Node are warnings in the log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from syncpod.agent import metrics
from syncpod.agent.record_cache import RecordCache
from syncpod.cri.errors import CriError
from syncpod.cri.port import ContainerSummary, CriRuntime, ImageStatus
from syncpod.cri.records import sandbox_image
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle.image_gc import (
    DiskSpace,
    ImageGcPolicy,
    UnusedImage,
    bytes_to_free,
    outlived,
    removable,
    still_too_full,
)
from syncpod.node.pod_records import PodRecord
from syncpod.node.pull_records import PulledRecord, pulled_images
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

PERIOD_SECONDS = 300.0
"""Seconds between two rounds: ImageGCPeriod."""


IMAGE_GC_FAILED: Final = "ImageGCFailed"


class ImageGcFailed(Exception):
    """Images could not be removed, or not enough of them; the text says why."""

    def __init__(self, event: str, message: str) -> None:
        """`event` is the reason of the kubelet's event."""
        super().__init__(message)
        self.event = event


class Prune(Protocol):
    """Deletes the pull records of images that are not in `present` and were pulled before `before`. Blocks."""

    def __call__(self, present: Collection[str], *, before: datetime) -> None:
        """See :meth:`syncpod.node.pull_records.PullRecords.prune`."""


@dataclass(frozen=True)
class _Seen:
    """The node's images at one moment."""

    began: datetime
    """When the reads from the runtime began."""
    at: datetime
    """When the reads from the runtime ended."""
    present: frozenset[str]
    """All ids, tags and digests of the runtime's images."""
    unused: tuple[UnusedImage, ...]
    """The images that may be removed."""
    not_ours: int
    """How many unused, unpinned images stay because this node has not pulled them."""


class ImageGc:
    """Image garbage collection on one node. All methods belong to one event loop."""

    def __init__(
        self,
        node: NodeContext,
        cri: CriRuntime,
        policy: ImageGcPolicy,
        prune: Prune,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Collect by `policy`; after each round, delete pull records of missing images with `prune`."""
        self._node = node
        self._cri = cri
        self._policy = policy
        self._prune = prune
        self._now = now
        self._named_by_pods = RecordCache(node, _images_of)
        self._began = now()
        self._last_used: dict[str, datetime] = {}
        self._said = ""

    async def run(self) -> None:
        """Collect until cancelled; return at once if the policy never removes anything."""
        while self._policy.ever_removes:
            await self.round()
            await asyncio.sleep(PERIOD_SECONDS)

    async def round(self) -> None:
        """Collect unused images; log an error only if it differs from the last round's."""
        try:
            await self.collect()
        except ImageGcFailed as failure:
            said = f"{failure.event}: {failure}"
        except (CriError, OSError) as error:
            said = f"{IMAGE_GC_FAILED}: {where_and_why(error)}"
        else:
            said = ""
        if said and said != self._said:
            log.warning("%s", said)
        self._said = said

    async def remove_unused(self) -> int:
        """Remove all unused images, regardless of free space, except recently pulled ones; return the bytes freed.

        This is for a node under disk pressure (DeleteUnusedImages). Raises ImageGcFailed, CriError, OSError.
        """
        seen = await self._look()
        removal = _Removal(self._cri)
        try:
            await removal.remove(removable(seen.unused, self._policy, seen.at), reason="space")
        finally:
            await asyncio.to_thread(self._prune, seen.present - removal.gone, before=seen.began)
        if removal.failures:
            raise ImageGcFailed(IMAGE_GC_FAILED, "; ".join(removal.failures))
        return removal.freed

    async def collect(self) -> int:
        """Collect once; return how many bytes of images were removed. Raises ImageGcFailed, CriError, OSError."""
        seen = await self._look()
        removal = _Removal(self._cri)
        await removal.remove(outlived(seen.unused, self._policy, seen.at, self._began), reason="age")
        try:
            await self._make_room(seen, removal)
        finally:
            left = seen.present - removal.gone
            await asyncio.to_thread(self._prune, left, before=seen.began)
        return removal.freed

    async def _make_room(self, seen: _Seen, removal: _Removal) -> None:
        """Remove images if the disk is too full. Raises ImageGcFailed, also if not enough could be freed."""
        space = await self._space()
        wanted = bytes_to_free(space, self._policy)
        if wanted:
            policy = self._policy
            log.info(
                "the images' disk is %d%% full, and the threshold is %d%%: freeing %d bytes, down to %d%%",
                *(space.used_percent, policy.high_threshold_percent, wanted, policy.low_threshold_percent),
            )
            left = (image for image in seen.unused if image.id not in removal.gone)
            before = removal.freed
            await removal.remove(removable(left, policy, seen.at), reason="space", enough=before + wanted)
            freed = removal.freed - before
            if freed < wanted and not removal.failures:
                raise ImageGcFailed("FreeDiskSpaceFailed", still_too_full(space, freed, seen.not_ours))
        if removal.failures:
            went_wrong = "; ".join(removal.failures)
            raise ImageGcFailed(
                IMAGE_GC_FAILED, f"freed {removal.freed} bytes of images with errors in image deletion: {went_wrong}"
            )

    async def _look(self) -> _Seen:
        """Note which images are used now; return which ones may be removed. Raises CriError, OSError."""
        began = self._now()
        pulls = {record.image_ref: record for record in await asyncio.to_thread(pulled_images, self._node.state_dir)}
        named = frozenset[str]().union(*(await asyncio.to_thread(self._named_by_pods.read)).values())
        # Containers are listed after images, so that an image that is used meanwhile counts as used.
        images = await self._cri.list_images()
        containers = await self._cri.list_containers()
        used = {name for container in containers for name in _names_in(container)} | await self._ids_of(named)
        there = frozenset(name for image in images for name in _names_of(image))
        unused, not_ours = [], 0
        now = self._now()
        for image in images:
            if used.intersection(_names_of(image)):
                self._last_used[image.id] = now
            elif image.pinned:
                continue
            elif (pull := _pull_of(image, pulls)) is None:
                not_ours += 1
            else:
                since = pull.last_updated_time
                last_used = max(self._last_used.get(image.id, since), since)
                unused.append(UnusedImage(image.id, image.size, pulled=since, last_used=last_used))
        self._last_used = {id_: at for id_, at in self._last_used.items() if id_ in there}
        return _Seen(began, now, there, tuple(unused), not_ours)

    async def _ids_of(self, named: frozenset[str]) -> set[str]:
        """Return the ids of the images that pods name, and of the sandbox image. Raises CriError."""
        status = await self._cri.status(verbose=True)
        names = named | {sandbox_image(status.info)}
        found = set()
        for name in sorted(names - {""}):
            try:
                image = await self._cri.image_status(name)
            except CriError as error:  # an invalid image name is reported to its pod
                log.debug("image %s: %s", name, error)
            else:
                found.update([image.id] if image is not None else [])
        return found

    async def _space(self) -> DiskSpace:
        """Return the usage of the images' disk. Raises ImageGcFailed, CriError, OSError."""
        filesystems = (await self._cri.image_fs_info()).image_filesystems
        if not filesystems:
            raise ImageGcFailed(IMAGE_GC_FAILED, "the runtime reports no image filesystem")
        mountpoint = filesystems[0].mountpoint
        # In a thread of its own, so that a hanging disk blocks nothing else.
        found = await in_daemon_thread(lambda: os.statvfs(Path(mountpoint)), name="statvfs")
        space = DiskSpace(capacity=found.f_blocks * found.f_frsize, available=found.f_bavail * found.f_frsize)
        if not space.capacity:
            raise ImageGcFailed("InvalidDiskCapacity", "invalid capacity 0 on image filesystem")
        return space


class _Removal:
    """The removals of one round."""

    def __init__(self, cri: CriRuntime) -> None:
        self._cri = cri
        self.freed = 0
        """Bytes of images removed."""
        self.gone: set[str] = set()
        """The ids of the removed images."""
        self.failures: list[str] = []
        """The runtime's errors."""

    async def remove(self, images: Iterable[UnusedImage], *, reason: str, enough: int | None = None) -> None:
        """Remove images one by one until `enough` bytes are freed; None = remove all of them."""
        for image in images:
            if enough is not None and self.freed >= enough:
                return
            log.info("removing image %s (%d bytes), unused since %s", image.id, image.size, image.last_used)
            try:
                await self._cri.remove_image(image.id)
            except CriError as error:
                self.failures.append(str(error))
                continue
            metrics.collected_images.add(1, {"reason": reason})
            self.freed += image.size
            self.gone.add(image.id)


def _names_of(image: ImageStatus) -> tuple[str, ...]:
    return (image.id, *image.repo_tags, *image.repo_digests)


def _names_in(container: ContainerSummary) -> tuple[str, ...]:
    return (container.image_ref, container.image)


def _images_of(record: PodRecord) -> frozenset[str]:
    """Return the names of the images of a pod's containers and volumes."""
    spec = record.pod.spec
    containers = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    volumes = (volume.image.reference for volume in spec.volumes if volume.image is not None)
    # Interned to save memory: ten thousand pods may have the same image.
    return frozenset(map(sys.intern, (*(container.image for container in containers), *volumes)))


def _pull_of(image: ImageStatus, pulls: dict[str, PulledRecord]) -> PulledRecord | None:
    return next((pulls[name] for name in _names_of(image) if name in pulls), None)
