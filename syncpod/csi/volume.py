"""A volume of a storage driver, as its pod's node brings it there. Values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class DriverNode:
    """What a driver says of the machine."""

    node_id: str
    most_volumes: int = 0
    """How many of its volumes the machine takes; 0 = it sets no limit."""
    topology: Mapping[str, str] = field(default_factory=dict)
    """The machine's place, by labels."""


@dataclass(frozen=True)
class VolumeStats:
    """How full a volume is, as its driver says; 0 = it does not say."""

    capacity_bytes: int = 0
    available_bytes: int = 0
    used_bytes: int = 0
    inodes: int = 0
    inodes_free: int = 0
    inodes_used: int = 0


@dataclass(frozen=True)
class Use:
    """The use that a pod makes of a volume."""

    access_mode: str
    """As Kubernetes has it: `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany`, `ReadWriteOncePod`."""
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()
    group: int | None = None
    """The pod's fsGroup, for a driver that gives its volumes to a group by itself."""
    is_block: bool = False
    """The pod gets the volume as a block device; it has no file system, and no group."""


@dataclass(frozen=True)
class Staging:
    """A volume to bring to the machine."""

    handle: str
    """The driver's name for it."""
    path: Path
    use: Use
    publish_context: Mapping[str, str] = field(default_factory=dict)
    """What the driver's controller said when it attached the volume."""
    context: Mapping[str, str] = field(default_factory=dict)
    """The volume's attributes."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Publishing:
    """A volume to make visible for one pod."""

    handle: str
    staging: Path | None
    """Where it is staged; None: its driver does not stage."""
    path: Path
    use: Use
    is_read_only: bool = False
    publish_context: Mapping[str, str] = field(default_factory=dict)
    context: Mapping[str, str] = field(default_factory=dict)
    """The volume's attributes, and what the driver wants to know of the pod."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Growing:
    """A volume to grow on the machine."""

    handle: str
    path: Path
    """Where it is published."""
    staging: Path | None
    use: Use
    size: int
    """In bytes: at least so large is it to be."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
