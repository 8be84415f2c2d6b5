"""Containers of a pod: init, normal and ephemeral, their ports, mounts and restart rules."""

from typing import Annotated, Literal

from pydantic import Field

from syncpod.pod.enums import (
    ContainerRestartRuleAction,
    ExitCodesOperator,
    MountPropagationMode,
    Protocol,
    PullPolicy,
    RecursiveReadOnlyMode,
    RestartPolicy,
    TerminationMessagePolicy,
)
from syncpod.pod.env import EnvFromSource, EnvVar
from syncpod.pod.go_text import go_json
from syncpod.pod.probes import Lifecycle, Probe
from syncpod.pod.resources import ContainerResizePolicy, ResourceRequirements
from syncpod.pod.security import SecurityContext
from syncpod.pod.wire import EMPTY_IS_UNSET, Flag, Int32, Model

ContainerKind = Literal["container", "init_container", "ephemeral_container"]
"""The list of a pod that a container is in: the kubelet's `container_type`. A sidecar is an init container."""

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193


class ContainerPort(Model):
    """A port that a container listens on, and possibly a port of the node that leads to it."""

    name: str = ""
    host_port: Int32 | None = None
    container_port: Int32 = 0
    protocol: Annotated[Protocol | None, EMPTY_IS_UNSET] = None
    host_ip: str = ""


class VolumeMount(Model):
    """A volume mounted into a container."""

    name: str = ""
    read_only: Flag = False
    recursive_read_only: RecursiveReadOnlyMode | None = None
    mount_path: str = ""
    sub_path: str = ""
    mount_propagation: MountPropagationMode | None = None
    sub_path_expr: str = ""


class VolumeDevice(Model):
    """A block volume's device in a container."""

    name: str = ""
    device_path: str = ""


class ContainerRestartRuleOnExitCodes(Model):
    """A set of exit codes, or all codes except those."""

    operator: ExitCodesOperator | None = None
    values: tuple[Int32, ...] = ()


class ContainerRestartRule(Model):
    """The action when the container exits in a certain way; the first matching rule counts."""

    action: ContainerRestartRuleAction | None = None
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class Container(Model):
    """A container: a process tree, its image and its limits."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    restart_policy: RestartPolicy | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: Annotated[TerminationMessagePolicy | None, EMPTY_IS_UNSET] = None
    image_pull_policy: Annotated[PullPolicy | None, EMPTY_IS_UNSET] = None
    security_context: SecurityContext | None = None
    stdin: Flag = False
    stdin_once: Flag = False
    tty: Flag = False


class EphemeralContainer(Container):
    """A container added to a running pod for debugging; it is never restarted."""

    target_container_name: str = ""


def container_hash(name: str, image: str) -> str:
    """Return the hash that decides whether a container must be recreated, as lower-case hex without `0x`.

    It is FNV-1a, 32 bits, of the bytes of the container's JSON as Go's spew prints them; only name and image are
    included. Mirrors `pkg/kubelet/container/helpers.go`, v1.36, HashContainer.
    """
    encoded = go_json({"image": image, "name": name}).encode("utf-8")
    text = f"([]uint8)[{' '.join(map(str, encoded))}]"
    total = _FNV_OFFSET
    for byte in text.encode("ascii"):
        total = (total ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return format(total, "x")
