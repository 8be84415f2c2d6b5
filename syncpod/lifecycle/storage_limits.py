"""Checks whether a pod has written more to the node's disks than its limits allow.

Mirrors eviction/eviction_manager.go, v1.36, localStorageEviction: each emptyDir is compared with its sizeLimit, then
the pod with the sum of its containers' limits of ephemeral-storage, then each container with its own limit. The first
limit that is exceeded ends the pod. Differences: limits of sidecars and other init containers count as those of main
containers do, and a writable layer counts for its container on any disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from syncpod.lifecycle.phase import is_critical
from syncpod.pod import Container, Pod, Volume, parse_quantity, quantity_text
from syncpod.pod.amounts import pod_text

EPHEMERAL_STORAGE: Final = "ephemeral-storage"

_VOLUME: Final = "emptydirfs.limit"
_POD: Final = "ephemeralpodfs.limit"
_CONTAINER: Final = "ephemeralcontainerfs.limit"
EXCESS_SIGNALS: Final = (_VOLUME, _POD, _CONTAINER)
"""The kinds of limits: the labels `eviction_signal` of the kubelet's count of evictions."""
_NOTHING: Final = parse_quantity("0")


@dataclass(frozen=True)
class Limit:
    """A limit of the bytes that may be written."""

    bytes: int
    text: str
    """The limit as messages show it."""


@dataclass(frozen=True)
class StorageLimits:
    """The limits of a pod's disk usage. A volume's or container's limit of 0 means no limit, as in the kubelet."""

    volumes: Mapping[str, Limit] = field(default_factory=dict)
    """emptyDirs with a sizeLimit, by name, in the pod's order."""
    containers: Mapping[str, Limit] = field(default_factory=dict)
    """Containers with a limit of ephemeral-storage, by name, in the pod's order, the main ones first."""
    pod: Limit | None = None
    """The limit of the pod as a whole; None if no container has a limit."""
    on_disk: tuple[str, ...] = ()
    """The volumes that count for the pod as a whole (volume/util/util.go, IsLocalEphemeralVolume)."""

    def __bool__(self) -> bool:
        """Whether the pod has any limit."""
        return bool(self.volumes or self.containers or self.pod)


@dataclass(frozen=True)
class StorageUsage:
    """A pod's written data, in bytes as allocated on disk. A part without a measurement does not count."""

    volumes: Mapping[str, int] = field(default_factory=dict)
    """Its volumes with a limit, by name; if the pod has a limit, also the volumes that count towards it."""
    layers: Mapping[str, int] = field(default_factory=dict)
    """The writable layers of its running containers, by the containers' names."""
    logs: Mapping[str, int] = field(default_factory=dict)
    """The logs of its containers, all instances and rotated ones included, by the containers' names."""
    others: int = 0
    """Other files that count for the pod: its hosts file, and files next to the containers' log directories."""


@dataclass(frozen=True)
class Excess:
    """A limit that is exceeded."""

    message: str
    """The message in the kubelet's words, trailing space included."""
    signal: str
    """The kind of limit: one of EXCESS_SIGNALS."""


def storage_limits(pod: Pod) -> StorageLimits:
    """Return the limits of the pod's disk usage; a critical pod has none, since it is never evicted."""
    if is_critical(pod):
        return StorageLimits()
    sizes = ((v.name, v.empty_dir.size_limit) for v in pod.spec.volumes if v.empty_dir is not None)
    containers = ((c.name, _limit_of(c)) for c in (*pod.spec.containers, *pod.spec.init_containers))
    return StorageLimits(
        volumes=_limits(sizes),
        containers=_limits(containers),
        pod=_pod_limit(pod),
        on_disk=tuple(volume.name for volume in pod.spec.volumes if _on_disk(volume)),
    )


def storage_excess(limits: StorageLimits, usage: StorageUsage) -> Excess | None:
    """Return the first limit that is exceeded, None if none is."""
    for name, limit in limits.volumes.items():
        if usage.volumes.get(name, 0) > limit.bytes:
            return Excess(f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit.text}". ', _VOLUME)
    total = sum(usage.layers.values()) + sum(usage.logs.values()) + usage.others
    total += sum(usage.volumes.get(name, 0) for name in limits.on_disk)
    if limits.pod is not None and total > limits.pod.bytes:
        message = f"Pod ephemeral local storage usage exceeds the total limit of containers {limits.pod.text}. "
        return Excess(message, _POD)
    for name, limit in limits.containers.items():
        if usage.layers.get(name, 0) + usage.logs.get(name, 0) > limit.bytes:
            message = f'Container {name} exceeded its local ephemeral storage limit "{limit.text}". '
            return Excess(message, _CONTAINER)
    return None


def _on_disk(volume: Volume) -> bool:
    return volume.config_map is not None or (volume.empty_dir is not None and not volume.empty_dir.medium)


def _limits(written: Iterable[tuple[str, str | None]]) -> dict[str, Limit]:
    read = ((name, text, parse_quantity(text)) for name, text in written if text is not None)
    return {
        name: Limit(quantity.value(), quantity_text(quantity, like=text))
        for name, text, quantity in read
        if quantity > _NOTHING
    }


def _limit_of(container: Container) -> str | None:
    return container.resources.limits.get(EPHEMERAL_STORAGE)


def _pod_limit(pod: Pod) -> Limit | None:
    """Return the sum of the containers' limits and of the pod's overhead; None if no container has a limit."""
    text = pod_text(pod, "limits").get(EPHEMERAL_STORAGE)
    return None if text is None else Limit(parse_quantity(text).value(), text)
