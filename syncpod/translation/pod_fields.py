"""Translates a runtime's messages about CRI's fields into messages about the Pod's fields, which the user wrote.

A runtime may refuse a configuration with a sentence that begins with the field's path in the request, as the embedded
one does: ``config.mounts[0].propagation: ...``. This module replaces that path by the field's path in the Pod.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from syncpod.pod import Container

_PATH: Final = re.compile(r"config\.([a-zA-Z_.]+)(?:\[(\d+)\])?((?:\.[a-z_]+)*)(?=: )")

_OF_CONTAINER: Final[Mapping[str, str]] = {
    "image": "image",
    "image.image": "image",
    "command": "command",
    "args": "args",
    "envs": "env",
    "working_dir": "workingDir",
    "stdin": "stdin",
    "tty": "tty",
    "linux.resources": "resources",
    "linux.security_context.privileged": "securityContext.privileged",
    "linux.security_context.readonly_rootfs": "securityContext.readOnlyRootFilesystem",
    "linux.security_context.run_as_user": "securityContext.runAsUser",
    "linux.security_context.run_as_username": "securityContext.runAsUser",
    "linux.security_context.run_as_group": "securityContext.runAsGroup",
    "linux.security_context.seccomp": "securityContext.seccompProfile",
    "linux.security_context.apparmor": "securityContext.appArmorProfile",
    "linux.security_context.selinux_options": "securityContext.seLinuxOptions",
    "linux.security_context.capabilities.add_capabilities": "securityContext.capabilities.add",
    "linux.security_context.capabilities.drop_capabilities": "securityContext.capabilities.drop",
}
"""The Pod's fields of a container, by their path in ContainerConfig."""

_OF_POD: Final[Mapping[str, str]] = {
    "hostname": "spec.hostname",
    "dns_config": "spec.dnsConfig",
    "linux.sysctls": "spec.securityContext.sysctls",
    "linux.security_context.run_as_user": "spec.securityContext.runAsUser",
    "linux.security_context.run_as_group": "spec.securityContext.runAsGroup",
    "linux.security_context.supplemental_groups": "spec.securityContext.supplementalGroups",
    "linux.security_context.seccomp": "spec.securityContext.seccompProfile",
    "linux.security_context.apparmor": "spec.securityContext.appArmorProfile",
    "linux.security_context.selinux_options": "spec.securityContext.seLinuxOptions",
    "linux.security_context.namespace_options.userns_options": "spec.hostUsers",
}
"""The Pod's own fields, by their path in PodSandboxConfig; a container's configuration repeats some of them."""

_OF_MOUNT: Final[Mapping[str, str]] = {
    "propagation": "mountPropagation",
    "readonly": "readOnly",
    "recursive_read_only": "recursiveReadOnly",
    "container_path": "mountPath",
}


def container_message(message: str, container: Container, path: str) -> str:
    """Return a runtime's sentence about a ContainerConfig, with CRI's field replaced by the Pod's.

    `path` is the container's path in the Pod. A sentence without a field of CRI, or with a field that the Pod does not
    set, is returned unchanged.
    """

    def field(found: re.Match[str]) -> str:
        name, index, below = found[1], found[2], found[3]
        if name == "mounts" and index is not None:
            return _mount(found[0], int(index), below.removeprefix("."), container, path)
        if name not in _OF_CONTAINER or (name in _OF_POD and not _sets(container, _OF_CONTAINER[name])):
            return _of_pod(found)
        # The request has more variables than `env`, so its indices are others.
        at = f"[{index}]" if index is not None and name != "envs" else ""
        return f"{path}.{_OF_CONTAINER[name]}{at}"

    return _PATH.sub(field, message, count=1)


def _sets(container: Container, field: str) -> bool:
    """Return whether a container sets a field of its security context itself, and does not inherit it from the pod."""
    security = container.security_context
    wire = security.model_dump(by_alias=True) if security is not None else {}
    return wire.get(field.rpartition(".")[2]) is not None


def sandbox_message(message: str) -> str:
    """Replace CRI's field in a sentence about a PodSandboxConfig by the Pod's, as `container_message` does."""
    return _PATH.sub(_of_pod, message, count=1)


def _of_pod(found: re.Match[str]) -> str:
    name, index = found[1], found[2]
    if name == "port_mappings":
        return "spec.containers[].ports[].hostPort" if found[3] == ".host_port" else found[0]
    if name not in _OF_POD:
        return found[0]
    return _OF_POD[name] + (f"[{index}]" if index is not None else "")


def _mount(whole: str, index: int, below: str, container: Container, path: str) -> str:
    """Return the Pod's field for a mount.

    A container's mounts are those of its volumeMounts, in order, then the node's own.
    """
    if index >= len(container.volume_mounts):
        return whole
    field = f"{path}.volumeMounts[{index}]"
    return f"{field}.{_OF_MOUNT[below]}" if below in _OF_MOUNT else field
