"""The mounts of a container: its volumes and the pod's /etc/hosts; and the volumes that it gets as devices."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from protos.cri.v1.api_pb2 import Device, ImageSpec, Mount, MountPropagation
from syncpod.pod import Container, Pod, Volume, VolumeMount
from syncpod.pod.volumes import is_read_only
from syncpod.translation import ContainerConfigError
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, claim_link, etc_hosts_file, volume_directory

ETC_HOSTS = "/etc/hosts"

NOTHING: Final[Mapping[Any, str]] = MappingProxyType({})
_PROPAGATION = {
    "None": MountPropagation.PROPAGATION_PRIVATE,
    "HostToContainer": MountPropagation.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": MountPropagation.PROPAGATION_BIDIRECTIONAL,
}


def container_mounts(
    pod: Pod,
    container: Container,
    node: NodeContext,
    pod_ips: tuple[str, ...],
    path: str,
    sub_paths: Mapping[int, str] = NOTHING,
    images: Mapping[str, str] = NOTHING,
) -> list[Mount]:
    """Return the container's mounts in the order of its volumeMounts, then /etc/hosts.

    :mod:`syncpod.node.directories` makes the files behind them. ``path`` is the container's path in the pod.
    ``sub_paths`` has the sources of parts of volumes, by the mount's index: a prepared path on the node, or a path
    inside an image. ``images`` has the runtime's reference to each image volume's image, by the volume's name. Raises
    :class:`ContainerConfigError` (kubelet_pods.go, v1.36, makeMounts).
    """
    volumes = {volume.name: volume for volume in pod.spec.volumes}
    mounts = []
    for index, mount in enumerate(container.volume_mounts):
        mount_path = f"{path}.volumeMounts[{index}]"
        volume = volumes.get(mount.name)
        if volume is None:
            raise ContainerConfigError(f"{mount_path}.name: the pod has no volume {mount.name!r}")
        part = sub_paths.get(index, "")
        if (mount.sub_path or mount.sub_path_expr) and not part:
            raise ContainerConfigError(f"{mount_path}.subPath: this part of the volume has not been prepared")
        if volume.image is not None:
            mounts.append(_image_mount(pod, volume.image.reference, images.get(volume.name, ""), mount, part))
        else:
            mounts.append(_volume_mount(pod, volume, mount, node, mount_path, part))
    if manages_etc_hosts(pod, container, pod_ips):
        mounts.append(
            Mount(
                container_path=ETC_HOSTS,
                host_path=str(etc_hosts_file(node, pod.metadata.uid)),
                selinux_relabel=node.host.selinux,
            )
        )
    return mounts


def container_devices(pod: Pod, container: Container, node: NodeContext, path: str) -> list[Device]:
    """Return the block volumes that a container gets as devices, in their order.

    The runtime follows the symlink to the device. ``path`` is the container's path in the pod. Raises
    :class:`ContainerConfigError` (kubelet_pods.go, v1.36, makeBlockVolumes).
    """
    volumes, devices = {volume.name: volume for volume in pod.spec.volumes}, []
    for index, device in enumerate(container.volume_devices):
        volume = volumes.get(device.name)
        try:
            place = None if volume is None else claim_link(node, pod.metadata.uid, volume)
        except UnsafeName as unsafe:
            raise ContainerConfigError(str(unsafe)) from unsafe
        if volume is None or place is None:
            raise ContainerConfigError(f"{path}.volumeDevices[{index}].name: the pod has no claim {device.name!r}")
        given = Device(
            container_path=container_place(device.device_path),
            host_path=str(place),
            permissions="r" if is_read_only(volume) else "mrw",
        )
        devices.append(given)
    return devices


def volume_places(pod: Pod, node: NodeContext) -> dict[str, Path]:
    """Return the path of each of the pod's volumes on the node, by name; an image volume has none.

    Raises UnsafeName.
    """
    places = {volume.name: _place(pod, volume, node) for volume in pod.spec.volumes}
    return {name: place for name, place in places.items() if place is not None}


def manages_etc_hosts(pod: Pod, container: Container, pod_ips: tuple[str, ...]) -> bool:
    """Return whether a container gets the pod's /etc/hosts: the pod has an address, and no volume is mounted there."""
    return (bool(pod_ips) or pod.spec.host_network) and all(
        mount.mount_path != ETC_HOSTS for mount in container.volume_mounts
    )


def container_place(path: str) -> str:
    """Return the absolute form of a path in a container; a relative path starts at the root.

    The API accepts both; mirrors volume/util, v1.36, MakeAbsolutePath, and kuberuntime_container.go, makeMounts.
    """
    return path if path.startswith("/") else f"/{path}"


def _place(pod: Pod, volume: Volume, node: NodeContext) -> Path | None:
    if volume.host_path is not None:
        return Path(volume.host_path.path)
    if (claim := claim_link(node, pod.metadata.uid, volume)) is not None:
        return claim
    return volume_directory(node, pod.metadata.uid, volume)


def _image_mount(pod: Pod, reference: str, image: str, mount: VolumeMount, part: str) -> Mount:
    """Return the read-only mount, which the runtime makes, of an image or of a directory in it.

    As in the kubelet, the image's specification includes the pod's annotations.
    """
    return Mount(
        container_path=container_place(mount.mount_path),
        image=ImageSpec(image=image or reference, user_specified_image=reference, annotations=pod.metadata.annotations),
        image_sub_path=part,
        readonly=True,
    )


def _volume_mount(pod: Pod, volume: Volume, mount: VolumeMount, node: NodeContext, path: str, part: str) -> Mount:
    place = _place(pod, volume, node)
    if place is None:
        raise ContainerConfigError(f"{path}.name: the kind of volume {volume.name!r} is not supported by this version")
    # A hostPath is not relabelled, since the node itself uses it. A claim is not either, since it may lead to a
    # hostPath.
    is_ours = volume.host_path is None and claim_link(node, pod.metadata.uid, volume) is None
    return Mount(
        container_path=container_place(mount.mount_path),
        host_path=part or str(place),
        readonly=mount.read_only or (is_ours and volume.empty_dir is None) or is_read_only(volume),
        recursive_read_only=_recursive_read_only(pod, mount, node, path),
        selinux_relabel=is_ours and node.host.selinux,
        propagation=_PROPAGATION[mount.mount_propagation or "None"],
    )


def _recursive_read_only(pod: Pod, mount: VolumeMount, node: NodeContext, path: str) -> bool:
    """Return whether the mounts below this one are read-only too (resolveRecursiveReadOnly)."""
    wanted = mount.recursive_read_only or "Disabled"
    if wanted == "Disabled":
        return False
    if not mount.read_only:
        raise ContainerConfigError(f"{path}.recursiveReadOnly: {wanted} needs readOnly: true")
    if (mount.mount_propagation or "None") != "None":
        raise ContainerConfigError(f"{path}.recursiveReadOnly: {wanted} needs mountPropagation None")
    supported = (pod.spec.runtime_class_name or "") in node.recursive_read_only_handlers
    if wanted == "Enabled" and not supported:
        raise ContainerConfigError(
            f"{path}.recursiveReadOnly: the runtime does not announce recursive read-only mounts"
        )
    return supported
