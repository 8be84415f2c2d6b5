"""A pod's volumes: plans the place and the making of each, then makes and updates them."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from syncpod.objects import ObjectRef, ObjectStore, claim_ref
from syncpod.pod import Container, Pod, Volume
from syncpod.pod.volumes import is_read_only
from syncpod.translation import ContainerConfigError
from syncpod.translation.context import NodeContext
from syncpod.translation.downward import volume_field
from syncpod.translation.paths import (
    claim_link,
    empty_dir_ready_file,
    pod_directory,
    volume_directory,
)
from syncpod.volumes import files
from syncpod.volumes.claim import Claim, make_claim
from syncpod.volumes.empty_dir import EmptyDir, EmptyDirRefused, Tmpfs, empty_dir, make_empty_dir, memory_limit
from syncpod.volumes.files import Files, make_files, objects_of
from syncpod.volumes.host_path import HostPath, HostPathUnfit, check_host_path
from syncpod.volumes.nested import make_nested_mount_points, nested_mount_points
from syncpod.volumes.payload import PayloadError, default_mode, sources
from syncpod.volumes.visibility import share_volume


@dataclass(frozen=True)
class VolumeFailure:
    """One volume that cannot be made, in the kubelet's words."""

    message: str
    wants: tuple[ObjectRef, ...] = ()
    """The ConfigMaps and Secrets that must appear or change before it can be made."""


class MountFailure(Exception):
    """Volumes that cannot be made: reason FailedMount. Each failure's message becomes an event."""

    def __init__(self, *failures: VolumeFailure) -> None:
        super().__init__("; ".join(failure.message for failure in failures))
        self.failures = failures


@dataclass(frozen=True)
class PodVolume:
    """One volume of a pod, and the work for it before the sandbox."""

    name: str
    source: EmptyDir | Files | HostPath | Claim | None
    """The volume to make; None if the runtime makes it from an image."""

    @property
    def path(self) -> Path | None:
        """The path of a volume that is made for the pod; None for a hostPath, a claim or an image."""
        return self.source.path if isinstance(self.source, EmptyDir | Files) else None


def pod_volumes(pod: Pod, node: NodeContext) -> tuple[PodVolume, ...]:
    """Return the pod's volumes in their order.

    Raises MountFailure with all volumes that this node cannot provide, and UnsafeName.
    """
    planned, failures = [], []
    for index, volume in enumerate(pod.spec.volumes):
        try:
            planned.append(PodVolume(volume.name, _source(pod, volume, node, f"spec.volumes[{index}]")))
        except (EmptyDirRefused, ContainerConfigError) as error:
            failures.append(_failure(volume.name, str(error)))
        except PayloadError as error:
            failures.append(_failure(volume.name, str(error), error.wants))
    if failures:
        raise MountFailure(*failures)
    return tuple(planned)


def make_volumes(own: Path, volumes: tuple[PodVolume, ...], store: ObjectStore) -> None:
    """Check the pod's hostPaths and claims, and make or update its other volumes.

    `own` is the pod's directory. After a failure, the other volumes are still made. Blocks; safe to repeat. Raises
    MountFailure with all failures, and FileNotFoundError if the pod has been removed meanwhile.
    """
    # This is outside the lock, because a hostPath, or the place behind a claim, may be on a file system that hangs.
    places = [volume for volume in volumes if isinstance(volume.source, HostPath | Claim)]
    failures = [failure for volume in places if (failure := _failure_of(volume, _make, store))]
    with alone(own):
        rest = [volume for volume in volumes if volume not in places]
        failures += [failure for volume in rest if (failure := _failure_of(volume, _make, store))]
    if failures:
        raise MountFailure(*failures)


def refresh_volumes(
    pod: Pod, node: NodeContext, store: ObjectStore, changed: Collection[ObjectRef] | None = None
) -> tuple[str, ...]:
    """Update the content of volumes of files, and return the names of those that changed.

    Only volumes that a step has already made, and that show one of the `changed` objects (None = all), are updated.
    Blocks. Raises MountFailure with all failures; the volumes that failed stay as they are.
    """
    written = []

    def bring_up_to_date(volume: PodVolume, store: ObjectStore) -> None:
        if volume.path is not None and volume.path.is_dir() and _make(volume, store):
            written.append(volume.name)

    of_files = [volume for volume in pod_volumes(pod, node) if _shows(volume, changed)]
    if not of_files:
        return ()
    try:
        with alone(pod_directory(node, pod.metadata.uid)):
            found = [_failure_of(volume, bring_up_to_date, store) for volume in of_files]
    except FileNotFoundError:
        return ()
    if failures := [failure for failure in found if failure]:
        raise MountFailure(*failures)
    return tuple(written)


def make_mount_points(pod: Pod, container: Container, node: NodeContext) -> None:
    """Make the directories in volumes of files at which a container mounts other volumes. Blocks; safe to repeat.

    This is for a container that joins a pod after its volumes were made. Raises MountFailure, UnsafeName, OSError.
    """
    mounted = {mount.name for mount in container.volume_mounts}
    for volume in pod_volumes(pod, node):
        if volume.name in mounted and isinstance(volume.source, Files):
            make_nested_mount_points(volume.source.path, volume.source.mount_points)


def share_volumes(pod: Pod, container: Container, node: NodeContext) -> None:
    """Make a container's volumes shared mounts where its mountPropagation needs that. Blocks; safe to repeat.

    A runtime refuses to propagate mounts in a volume that is not on a shared mount. Difference: the kubelet makes its
    whole directory shared (setupDataDirs); here only a volume that needs it becomes a mount of its own. hostPaths are
    the machine's, and are not changed. Raises MountFailure, UnsafeName, OSError.
    """
    asking = {mount.name for mount in container.volume_mounts if (mount.mount_propagation or "None") != "None"}
    if not asking or not node.may_mount:
        return
    with alone(pod_directory(node, pod.metadata.uid)):
        for volume in pod_volumes(pod, node):
            if volume.name in asking and volume.path is not None:
                share_volume(volume.path.resolve())


def _source(pod: Pod, volume: Volume, node: NodeContext, path: str) -> EmptyDir | Files | HostPath | Claim | None:
    if volume.host_path is not None:
        return HostPath(Path(volume.host_path.path), volume.host_path.type or "")
    if volume.image is not None:
        return None
    if (ref := claim_ref(pod, volume)) is not None and (link := claim_link(node, pod.metadata.uid, volume)) is not None:
        return _claim(pod, volume, link, ref)
    place = volume_directory(node, pod.metadata.uid, volume)
    if place is None:
        raise EmptyDirRefused(f"{_kind(volume)} is not supported by this version")
    if volume.empty_dir is not None:
        return empty_dir(
            pod,
            volume.empty_dir.medium,
            volume.empty_dir.size_limit,
            path=place,
            ready=empty_dir_ready_file(node, pod.metadata.uid, volume.name),
            may_mount=node.may_mount,
            memory_bytes=node.host.memory_bytes,
            page_sizes=[_bytes(size) for size in node.host.hugepage_sizes],
        )
    memory = _memory_of_its_own(pod, volume, place, node)
    of = sources(volume, path, pod, lambda file, at: volume_field(file, pod, node, at))
    return Files(
        place,
        mode=files.IN_MEMORY if memory or place.is_relative_to(node.memory_dir) else files.ON_DISK,
        sources=of or (),
        file_mode=default_mode(volume),
        group=pod.spec.security_context.fs_group if pod.spec.security_context is not None else None,
        mount=memory,
        mount_points=nested_mount_points(pod, volume.name),
    )


def _claim(pod: Pod, volume: Volume, link: Path, ref: ObjectRef) -> Claim:
    security = pod.spec.security_context
    return Claim(
        link,
        ref,
        group=security.fs_group if security is not None else None,
        only_if_root_differs=security is not None and security.fs_group_change_policy == "OnRootMismatch",
        is_read_only=is_read_only(volume),
    )


def _memory_of_its_own(pod: Pod, volume: Volume, place: Path, node: NodeContext) -> Tmpfs | None:
    """Return the memory file system for a volume of files, with the size that the kubelet gives it.

    None for a ConfigMap's volume, which is on disk; for a volume in the node's memory directory; and if the node may
    not mount.
    """
    in_memory = volume.downward_api is not None or volume.projected is not None
    if not in_memory or not node.may_mount or place.is_relative_to(node.memory_dir):
        return None
    return Tmpfs(memory_limit(pod, None, node.host.memory_bytes))


def _make(volume: PodVolume, store: ObjectStore) -> bool:
    """Make one volume; return whether its files changed."""
    match volume.source:
        case HostPath() as place:
            check_host_path(place)
        case Claim() as claim:
            make_claim(claim, store)
        case EmptyDir() as directory:
            make_empty_dir(directory)
        case Files() as of_files:
            return make_files(of_files, objects_of((of_files,), store))
    return False


def _shows(volume: PodVolume, changed: Collection[ObjectRef] | None) -> bool:
    return isinstance(volume.source, Files) and (changed is None or not volume.source.objects.isdisjoint(changed))


def _failure_of(
    volume: PodVolume, act: Callable[[PodVolume, ObjectStore], object], store: ObjectStore
) -> VolumeFailure | None:
    """Call `act` for one volume; return its failure, or None."""
    try:
        act(volume, store)
    except PayloadError as error:
        return _failure(volume.name, str(error), error.wants)
    except HostPathUnfit as error:
        return _failure(volume.name, str(error))
    except OSError as error:
        return _failure(volume.name, f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    return None


def _failure(volume: str, why: str, wants: tuple[ObjectRef, ...] = ()) -> VolumeFailure:
    return VolumeFailure(f'MountVolume.SetUp failed for volume "{volume}" : {why}', wants)


def _bytes(page_size: str) -> int:
    """Return the bytes of a page size as cgroups name it: ``2MB`` is 2097152."""
    unit = page_size.lstrip("0123456789")
    return int(page_size.removesuffix(unit)) << 10 * ("B", "KB", "MB", "GB", "TB").index(unit)


def _kind(volume: Volume) -> str:
    return next(iter(volume.model_dump(by_alias=True, exclude_defaults=True, exclude={"name"})), "no source")


@contextlib.contextmanager
def alone(own: Path) -> Iterator[None]:
    """Keep out other writers of this pod's volumes: a step and the agent may work on them at the same time.

    Raises FileNotFoundError if the pod's directory has been removed, or is removed while this waits.
    """
    opened = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        if not os.path.samestat(os.fstat(opened), os.stat(own, follow_symlinks=False)):  # noqa: PTH116
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(own))
        yield
    finally:
        os.close(opened)
