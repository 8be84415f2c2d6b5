"""Chooses the images to remove from a disk that fills up: no more than needed, the longest unused first.

Mirrors images/image_gc_manager.go, v1.36. Difference: only images that this node itself has pulled are removed. An
image imported by hand may be the only copy, on a machine without a registry; and on a shared machine, images that
others pulled are theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

_UNITS: Final = ("TiB", "GiB", "MiB", "KiB")


@dataclass(frozen=True)
class ImageGcPolicy:
    """When images are removed; the kubelet's configuration and its defaults."""

    high_threshold_percent: int = 85
    """imageGCHighThresholdPercent: images are removed from a disk this full; 100 = never to free space."""
    low_threshold_percent: int = 80
    """imageGCLowThresholdPercent: removing stops when the disk is only this full."""
    min_age: timedelta = timedelta(minutes=2)
    """imageMinimumGCAge: a younger image is not removed to free space, since it may be about to be used."""
    max_age: timedelta = timedelta(0)
    """imageMaximumGCAge: an image unused for longer is removed however empty the disk is; 0 = no limit."""

    @property
    def ever_removes(self) -> bool:
        """Whether this policy ever removes an image."""
        return self.high_threshold_percent < 100 or self.max_age > timedelta(0)


@dataclass(frozen=True)
class DiskSpace:
    """A file system, in bytes."""

    capacity: int
    available: int

    @property
    def used_percent(self) -> int:
        """How full it is, rounded up. Raises ZeroDivisionError if the capacity is 0."""
        return 100 - min(self.available, self.capacity) * 100 // self.capacity


@dataclass(frozen=True)
class UnusedImage:
    """An unused image that may be removed."""

    id: str
    size: int
    """Bytes, as the runtime counts them: layers shared with other images are counted with each."""
    pulled: datetime
    last_used: datetime
    """When it was last seen in use; if never, when it was pulled."""


def bytes_to_free(space: DiskSpace, policy: ImageGcPolicy) -> int:
    """Return how many bytes must be freed; 0 while the disk is not too full. Mirrors GarbageCollect."""
    if space.used_percent < policy.high_threshold_percent or policy.high_threshold_percent == 100:
        return 0
    return max(0, space.capacity * (100 - policy.low_threshold_percent) // 100 - space.available)


def outlived(
    images: Iterable[UnusedImage], policy: ImageGcPolicy, now: datetime, watched_since: datetime
) -> tuple[UnusedImage, ...]:
    """Return the images unused for longer than the maximum age, the longest unused first.

    Empty until the use of images has been watched for that long (freeOldImages).
    """
    if not policy.max_age or now - watched_since <= policy.max_age:
        return ()
    return tuple(image for image in in_order(images) if now - image.last_used > policy.max_age)


def removable(images: Iterable[UnusedImage], policy: ImageGcPolicy, now: datetime) -> tuple[UnusedImage, ...]:
    """Return the images that may be removed to free space, in order; take as many as are needed (freeSpace)."""
    return tuple(image for image in in_order(images) if now - image.pulled >= policy.min_age)


def in_order(images: Iterable[UnusedImage]) -> tuple[UnusedImage, ...]:
    """Return the images sorted by last use, then by time of pull, oldest first (imagesInEvictionOrder)."""
    return tuple(sorted(images, key=lambda image: (image.last_used, image.pulled, image.id)))


def still_too_full(space: DiskSpace, freed: int, kept: int) -> str:
    """Return the kubelet's message for a disk that stays too full, with the number of images that this node must keep.

    `freed` is in bytes. `kept` counts the unused images that this node did not pull.
    """
    others = f" Images that this node did not pull are never removed: {kept}." if kept else ""
    return (
        f"Insufficient free disk space on the node's image filesystem ({space.used_percent}% of "
        f"{_size_text(space.capacity)} used). Failed to free sufficient space by deleting unused images "
        f"(freed {freed} bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or other "
        f"data.{others}"
    )


def _size_text(size: int) -> str:
    for power, unit in zip(range(len(_UNITS), 0, -1), _UNITS, strict=True):
        if size >= 1024**power:
            return f"{size / 1024**power:.1f} {unit}"
    return f"{size} B"
