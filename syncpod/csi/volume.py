"""The parameters of calls to a storage driver, and its answers, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class DriverNode:
    """A driver's answer about the machine."""

    node_id: str
    most_volumes: int = 0
    """Maximum number of the driver's volumes on the machine; 0 = no limit."""
    topology: Mapping[str, str] = field(default_factory=dict)
    """The machine's topology, as labels."""


@dataclass(frozen=True)
class VolumeStats:
    """The usage of a volume, as its driver reports it; 0 = not reported."""

    capacity_bytes: int = 0
    available_bytes: int = 0
    used_bytes: int = 0
    inodes: int = 0
    inodes_free: int = 0
    inodes_used: int = 0


@dataclass(frozen=True)
class Use:
    """The way in which a pod uses a volume."""

    access_mode: str
    """Kubernetes' access mode: `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany`, `ReadWriteOncePod`."""
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()
    group: int | None = None
    """The pod's fsGroup, for a driver that gives its volumes to a group by itself."""
    is_block: bool = False
    """The pod gets the volume as a block device; it has no file system, and no group."""


@dataclass(frozen=True)
class Staging:
    """A volume to stage, that is, to mount on the machine for all of its pods."""

    handle: str
    """The driver's id of the volume."""
    path: Path
    use: Use
    publish_context: Mapping[str, str] = field(default_factory=dict)
    """The metadata that the driver's controller returned when it attached the volume."""
    context: Mapping[str, str] = field(default_factory=dict)
    """The volume's attributes."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Publishing:
    """A volume to publish, that is, to mount for one pod."""

    handle: str
    staging: Path | None
    """The path at which the volume is staged; None if its driver does not stage."""
    path: Path
    use: Use
    is_read_only: bool = False
    publish_context: Mapping[str, str] = field(default_factory=dict)
    context: Mapping[str, str] = field(default_factory=dict)
    """The volume's attributes, and the pod's identity if the driver requires it."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Growing:
    """A volume to grow on the machine."""

    handle: str
    path: Path
    """The path at which the volume is published."""
    staging: Path | None
    use: Use
    size: int
    """The minimum size of the volume afterwards, in bytes."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
