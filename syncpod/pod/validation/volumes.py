"""Checks of volumes and their mounts."""

from collections.abc import Iterator, Mapping

from syncpod.pod.containers import Container, VolumeDevice
from syncpod.pod.defaults import volume_sources
from syncpod.pod.problems import Problem
from syncpod.pod.validation import syntax
from syncpod.pod.validation.cluster_sources import check_claim_template
from syncpod.pod.validation.volume_sources import (
    check_config_map,
    check_csi,
    check_downward_api,
    check_empty_dir,
    check_host_path,
    check_image,
    check_projected,
    check_secret,
)
from syncpod.pod.volumes import Volume


def check_volumes(volumes: tuple[Volume, ...], pod_name: str, path: str) -> Iterator[Problem]:
    """Check names and sources, and that each volume has one source. Ephemeral claims are named after the pod."""
    seen: set[str] = set()
    made = {f"{pod_name}-{volume.name}" for volume in volumes if volume.ephemeral is not None}
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
        yield from _check_source(volume, pod_name, here)
        if (claim := volume.persistent_volume_claim) is not None:
            if not claim.claim_name:
                yield Problem(f"{here}.persistentVolumeClaim.claimName", "required")
            elif claim.claim_name in made:
                yield Problem(f"{here}.persistentVolumeClaim.claimName", "must not be the claim of an ephemeral volume")


def _check_source(volume: Volume, pod_name: str, path: str) -> Iterator[Problem]:
    if volume.host_path is not None:
        yield from check_host_path(volume.host_path, f"{path}.hostPath")
    if volume.empty_dir is not None:
        yield from check_empty_dir(volume.empty_dir, f"{path}.emptyDir")
    if volume.config_map is not None:
        yield from check_config_map(volume.config_map, f"{path}.configMap")
    if volume.secret is not None:
        yield from check_secret(volume.secret, f"{path}.secret")
    if volume.downward_api is not None:
        yield from check_downward_api(volume.downward_api, f"{path}.downwardAPI")
    if volume.projected is not None:
        yield from check_projected(volume.projected, f"{path}.projected")
    if volume.image is not None:
        yield from check_image(volume.image, f"{path}.image")
    if volume.csi is not None:
        yield from check_csi(volume.csi, f"{path}.csi")
    if volume.ephemeral is not None:
        yield from check_claim_template(volume.ephemeral, f"{path}.ephemeral")
        if pod_name and volume.name and (wrong := syntax.dns_subdomain(f"{pod_name}-{volume.name}")):
            yield Problem(f"{path}.name", f"its claim's name, with the pod's before it, {wrong}")


def check_mounts(container: Container, volumes: Mapping[str, Volume], path: str) -> Iterator[Problem]:
    """Check that every mount and device names a volume of the pod, and that their paths differ."""
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
    mounted = {mount.name for mount in container.volume_mounts}
    yield from _check_devices(container.volume_devices, volumes, mounted, places, f"{path}.volumeDevices")


def _check_devices(
    devices: tuple[VolumeDevice, ...], volumes: Mapping[str, Volume], mounted: set[str], places: set[str], path: str
) -> Iterator[Problem]:
    """Check block devices, which must be claims that the container does not mount too."""
    seen: set[str] = set()
    for index, device in enumerate(devices):
        here = f"{path}[{index}]"
        yield from _check_volume_name(device.name, volumes, f"{here}.name")
        volume = volumes.get(device.name)
        if volume is not None and volume.persistent_volume_claim is None and volume.ephemeral is None:
            yield Problem(f"{here}.name", "must be a volume of persistentVolumeClaim or ephemeral")
        if device.name and device.name in seen | mounted:
            other = "volumeMounts" if device.name in mounted else "volumeDevices"
            yield Problem(f"{here}.name", f"{device.name} is in {other} already")
        seen.add(device.name)
        yield from _check_place(device.device_path, places, f"{here}.devicePath")
        if wrong := syntax.no_backsteps(device.device_path):
            yield Problem(f"{here}.devicePath", wrong)


def _check_volume_name(name: str, volumes: Mapping[str, Volume], path: str) -> Iterator[Problem]:
    if not name:
        yield Problem(path, "required")
    elif name not in volumes:
        yield Problem(path, f"{name!r} is not in spec.volumes")


def _check_place(place: str, places: set[str], path: str) -> Iterator[Problem]:
    """Check a path inside the container; as in the kubelet, a relative one starts at the root.

    Unlike the API server, refuse a colon: the API's own documentation forbids it.
    """
    completed = place if place.startswith("/") else f"/{place}"
    if not place:
        yield Problem(path, "required")
    elif ":" in place:
        yield Problem(path, "must not contain ':'")
    elif completed in places:
        yield Problem(path, f"{place} is there twice")
    places.add(completed)
