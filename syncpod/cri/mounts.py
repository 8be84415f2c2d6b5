"""What is mounted into a container: its volumes and the pod's /etc/hosts."""

from protos.cri.v1.api_pb2 import Mount, MountPropagation
from syncpod.cri.config_error import ContainerConfigError
from syncpod.cri.node import NodeContext
from syncpod.cri.paths import empty_dir_directory, etc_hosts_file
from syncpod.pod import Container, Pod, Volume, VolumeMount

ETC_HOSTS = "/etc/hosts"

_PROPAGATION = {
    "None": MountPropagation.PROPAGATION_PRIVATE,
    "HostToContainer": MountPropagation.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": MountPropagation.PROPAGATION_BIDIRECTIONAL,
}


def container_mounts(
    pod: Pod, container: Container, node: NodeContext, pod_ips: tuple[str, ...], path: str
) -> list[Mount]:
    """Return the container's mounts in the order of its volumeMounts, then /etc/hosts.

    The files behind them are made by :mod:`syncpod.cri.directories`. ``path`` is the container's place in the pod.
    Raises :class:`ContainerConfigError` (kubelet_pods.go, v1.36, makeMounts).
    """
    if container.volume_devices:
        raise ContainerConfigError(f"{path}.volumeDevices: block volumes are not supported by this version")
    volumes = {volume.name: volume for volume in pod.spec.volumes}
    mounts = []
    for index, mount in enumerate(container.volume_mounts):
        mount_path = f"{path}.volumeMounts[{index}]"
        volume = volumes.get(mount.name)
        if volume is None:
            raise ContainerConfigError(f"{mount_path}.name: the pod has no volume {mount.name!r}")
        mounts.append(_volume_mount(pod, volume, mount, node, mount_path))
    if manages_etc_hosts(pod, container, pod_ips):
        mounts.append(
            Mount(
                container_path=ETC_HOSTS,
                host_path=str(etc_hosts_file(node, pod.metadata.uid)),
                selinux_relabel=node.host.selinux,
            )
        )
    return mounts


def manages_etc_hosts(pod: Pod, container: Container, pod_ips: tuple[str, ...]) -> bool:
    """Return whether the container gets the pod's /etc/hosts: once there is an address, and not over its own mount."""
    return (bool(pod_ips) or pod.spec.host_network) and all(
        mount.mount_path != ETC_HOSTS for mount in container.volume_mounts
    )


def _volume_mount(pod: Pod, volume: Volume, mount: VolumeMount, node: NodeContext, path: str) -> Mount:
    for name, value in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
        if value:
            raise ContainerConfigError(f"{path}.{name}: not supported by this version")
    if volume.host_path is not None:
        # What is the node's is not relabelled: the node still needs it.
        host_path, relabel = volume.host_path.path, False
    elif volume.empty_dir is not None:
        host_path, relabel = str(empty_dir_directory(node, pod.metadata.uid, volume.name)), node.host.selinux
    else:
        raise ContainerConfigError(f"{path}.name: the kind of volume {volume.name!r} is not supported by this version")
    return Mount(
        container_path=mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}",
        host_path=host_path,
        readonly=mount.read_only,
        recursive_read_only=_recursive_read_only(pod, mount, node, path),
        selinux_relabel=relabel,
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
