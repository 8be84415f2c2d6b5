"""Container to ContainerConfig (kuberuntime_container.go, v1.36, generateContainerConfig)."""

from collections.abc import Mapping

from protos.cri.v1.api_pb2 import (
    ContainerConfig,
    ContainerMetadata,
    ImageSpec,
    KeyValue,
    LinuxContainerConfig,
    Mount,
)
from syncpod.cri.port import ImageStatus
from syncpod.cri.records import stop_signal_number
from syncpod.pod import Container, ContainerKind, EphemeralContainer, Pod
from syncpod.pod.expansion import ProgramSize, TooLong, expand, size_of
from syncpod.translation import ContainerConfigError
from syncpod.translation.context import NodeContext
from syncpod.translation.env import NO_SOURCES, Sources, environment
from syncpod.translation.labels import container_annotations, container_labels
from syncpod.translation.mounts import NOTHING, container_devices, container_mounts, container_place
from syncpod.translation.paths import UnsafeName, container_log_file, message_file
from syncpod.translation.resources import container_resources
from syncpod.translation.security import container_security_context, verify_run_as_non_root


def container_config(
    pod: Pod,
    container: Container,
    *,
    kind: ContainerKind,
    restart_count: int,
    observed_image: ImageStatus | None,
    pod_ips: tuple[str, ...],
    node: NodeContext,
    incarnation: str,
    variables: Mapping[str, str],
    sub_paths: Mapping[int, str] = NOTHING,
    images: Mapping[str, str] = NOTHING,
    target_id: str = "",
) -> ContainerConfig:
    """Return the container's config; equal arguments give equal configs.

    ``observed_image`` is the runtime's status of the container's image: its reference for the creation, and its user.
    ``pod_ips`` are the pod's addresses, primary first, which are the node's for a pod on its network. ``variables`` are
    :func:`container_variables`; ``sub_paths`` and ``images`` are arguments of :func:`~.mounts.container_mounts`.
    ``target_id`` is the id of an ephemeral container's target. Raises :class:`ContainerConfigError`.
    """
    path = container_path(pod, container.name, kind)
    if isinstance(container, EphemeralContainer) and container.target_container_name and not target_id:
        raise ContainerConfigError(f"unable to find target container {container.target_container_name}")
    verify_run_as_non_root(pod, container, observed_image)
    try:
        log_path = container_log_file(container.name, restart_count)
        mounts = container_mounts(pod, container, node, pod_ips, path, sub_paths, images)
        message = message_file(node, pod.metadata.uid, container, restart_count)
    except UnsafeName as unsafe:
        raise ContainerConfigError(str(unsafe)) from unsafe
    if message is not None:
        place = container_place(container.termination_message_path)
        mounts.append(Mount(container_path=place, host_path=str(message), selinux_relabel=node.host.selinux))
    program = _counted(variables)
    return ContainerConfig(
        metadata=ContainerMetadata(name=container.name, attempt=restart_count),
        image=ImageSpec(
            image=observed_image.id if observed_image is not None else container.image,
            user_specified_image=container.image,
        ),
        command=_expanded(container.command, variables, program, f"{path}.command"),
        args=_expanded(container.args, variables, program, f"{path}.args"),
        working_dir=container.working_dir,
        envs=[KeyValue(key=name, value=value.encode(errors="surrogateescape")) for name, value in variables.items()],
        mounts=mounts,
        devices=container_devices(pod, container, node, path),
        labels=container_labels(pod, container, node),
        annotations=container_annotations(pod, container, restart_count, incarnation),
        log_path=log_path,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        stop_signal=stop_signal_number(container.lifecycle.stop_signal if container.lifecycle is not None else None),
        linux=LinuxContainerConfig(
            resources=container_resources(pod, container, node.host),
            security_context=container_security_context(pod, container, node, observed_image, target_id, path),
        ),
    )


def container_variables(
    pod: Pod,
    container: Container,
    *,
    kind: ContainerKind,
    pod_ips: tuple[str, ...],
    node: NodeContext,
    sources: Sources = NO_SOURCES,
) -> dict[str, str]:
    """Return the container's environment; a pod on the node's network shows the node's addresses.

    Raises :class:`ContainerConfigError`, :class:`~syncpod.translation.env.ObjectMissing`.
    """
    if pod.spec.host_network and not pod_ips:
        pod_ips = node.host.addresses
    return environment(pod, container, node, pod_ips, container_path(pod, container.name, kind), sources)


def container_path(pod: Pod, name: str, kind: ContainerKind) -> str:
    """Return a container's path in its pod, for messages: ``spec.initContainers[1]``."""
    field, containers = {
        "container": ("containers", pod.spec.containers),
        "init_container": ("initContainers", pod.spec.init_containers),
        "ephemeral_container": ("ephemeralContainers", pod.spec.ephemeral_containers),
    }[kind]
    index = next((str(index) for index, each in enumerate(containers) if each.name == name), name)
    return f"spec.{field}[{index}]"


def _counted(variables: Mapping[str, str]) -> ProgramSize:
    """Return a program's size with these variables alone. They fit, since each was checked when it was added."""
    program = ProgramSize()
    for name, value in variables.items():
        program.add(size_of(name) + 1 + size_of(value))
    return program


def _expanded(words: tuple[str, ...], variables: Mapping[str, str], program: ProgramSize, path: str) -> list[str]:
    """Return a command's words with expanded references, as text that CRI can carry; add their sizes to `program`."""
    expanded = []
    for index, written in enumerate(words):
        try:
            word = expand(written, variables)
            program.add(size_of(word))
            word.encode()
        except TooLong as wrong:
            raise ContainerConfigError(f"{path}[{index}]: {wrong}") from None
        except UnicodeEncodeError:
            raise ContainerConfigError(f"{path}[{index}]: refers to a value that is not UTF-8 text") from None
        expanded.append(word)
    return expanded
