"""Checks of volumes and of the places they are mounted at."""

from collections.abc import Iterator, Mapping

from syncpod.pod.containers import Container
from syncpod.pod.defaults import volume_sources
from syncpod.pod.problems import Problem
from syncpod.pod.quantity import parse_quantity
from syncpod.pod.validation import syntax
from syncpod.pod.volumes import Volume

_MEDIA = ("", "Memory", "HugePages")


def check_volumes(volumes: tuple[Volume, ...], path: str) -> Iterator[Problem]:
    """Check names and that each volume has one source; the sources that this version runs are checked inside."""
    seen = set()
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        if not volume.name:
            yield Problem(f"{here}.name", "required")
        elif wrong := syntax.dns_label(volume.name):
            yield Problem(f"{here}.name", wrong)
        elif volume.name in seen:
            yield Problem(f"{here}.name", f"{volume.name} is there twice")
        seen.add(volume.name)
        sources = volume_sources(volume)
        if len(sources) > 1:
            yield Problem(here, f"must have one source, not {' and '.join(sources)}")
        yield from _check_host_path(volume, f"{here}.hostPath")
        yield from _check_empty_dir(volume, f"{here}.emptyDir")


def _check_host_path(volume: Volume, path: str) -> Iterator[Problem]:
    """Check a path of the node; unlike the API server, take no relative one, which would depend on who mounts it."""
    if volume.host_path is None:
        return
    if not volume.host_path.path:
        yield Problem(f"{path}.path", "required")
    elif wrong := syntax.no_backsteps(volume.host_path.path):
        yield Problem(f"{path}.path", wrong)
    elif not volume.host_path.path.startswith("/"):
        yield Problem(f"{path}.path", "must be an absolute path")


def _check_empty_dir(volume: Volume, path: str) -> Iterator[Problem]:
    if volume.empty_dir is None:
        return
    if volume.empty_dir.medium not in _MEDIA and not volume.empty_dir.medium.startswith("HugePages-"):
        yield Problem(f"{path}.medium", "must be empty, Memory, HugePages or HugePages-<size>")
    if volume.empty_dir.size_limit is not None and parse_quantity(volume.empty_dir.size_limit).number < 0:
        yield Problem(f"{path}.sizeLimit", "must not be negative")


def check_mounts(container: Container, volumes: Mapping[str, Volume], path: str) -> Iterator[Problem]:
    """Check that every mount and device names a volume of the pod, and has a place of its own."""
    places: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        here = f"{path}.volumeMounts[{index}]"
        yield from _check_volume_name(mount.name, volumes, f"{here}.name")
        yield from _check_place(mount.mount_path, places, f"{here}.mountPath")
        if mount.sub_path and mount.sub_path_expr:
            yield Problem(f"{here}.subPathExpr", "must not be set beside subPath")
        for name, value in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
            if value and (wrong := syntax.descending(value)):
                yield Problem(f"{here}.{name}", wrong)
        privileged = container.security_context is not None and container.security_context.privileged
        if mount.mount_propagation == "Bidirectional" and not privileged:
            yield Problem(f"{here}.mountPropagation", "may be Bidirectional only in a privileged container")
        if mount.recursive_read_only in ("Enabled", "IfPossible"):
            if not mount.read_only:
                yield Problem(f"{here}.recursiveReadOnly", "may be set only with readOnly: true")
            if mount.mount_propagation not in (None, "None"):
                yield Problem(f"{here}.recursiveReadOnly", "may be set only with mountPropagation None")
    for index, device in enumerate(container.volume_devices):
        here = f"{path}.volumeDevices[{index}]"
        yield from _check_volume_name(device.name, volumes, f"{here}.name")
        yield from _check_place(device.device_path, places, f"{here}.devicePath")


def _check_volume_name(name: str, volumes: Mapping[str, Volume], path: str) -> Iterator[Problem]:
    if not name:
        yield Problem(path, "required")
    elif name not in volumes:
        yield Problem(path, f"{name!r} is not in spec.volumes")


def _check_place(place: str, places: set[str], path: str) -> Iterator[Problem]:
    """Check a path inside the container; unlike the API server, take no relative one, which the kubelet completes."""
    if not place:
        yield Problem(path, "required")
    elif not place.startswith("/"):
        yield Problem(path, "must be an absolute path")
    elif ":" in place:
        yield Problem(path, "must not contain ':'")
    elif place in places:
        yield Problem(path, f"{place} is there twice")
    places.add(place)
