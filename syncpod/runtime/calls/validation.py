"""Validation of requests, independent of the runtime's state.

Each limit is that of Kubernetes, or the kernel's if Kubernetes has none. Each error is one sentence that begins with
the field's path in the request.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Final

from protos.cri.v1 import api_pb2
from syncpod.runtime.refusals import invalid

_MAX_NAME: Final = 253
_MAX_LABEL_KEY: Final = 253 + 1 + 63
_MAX_LABEL_VALUE: Final = 253
"""Kubernetes allows 63 characters, but the kubelet's own labels hold names of pods, which may be longer."""
_MAX_ANNOTATIONS: Final = 256 * 1024
_MAX_HOSTNAME: Final = 64
_MAX_PATH: Final = 4096
_MAX_FILE_NAME: Final = 255
_MAX_ARGUMENT: Final = 128 * 1024
"""The kernel's limit in bytes for one argument or environment variable (MAX_ARG_STRLEN)."""
_MAX_ARGUMENTS: Final = 1536 * 1024
"""The limit in bytes for all arguments and variables together: three quarters of execve's limit with the usual limit of
the stack."""
_MAX_MOUNTS: Final = 1000
_MAX_TIMEOUT: Final = 2**31 - 1
_HOSTNAME: Final = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?")


def sandbox_config(config: api_pb2.PodSandboxConfig, path: str) -> None:
    """Check the configuration of a sandbox. Raises Refusal."""
    if not config.HasField("metadata"):
        raise invalid(f"{path}.metadata", "required")
    metadata = config.metadata
    for field, value in (("name", metadata.name), ("namespace", metadata.namespace), ("uid", metadata.uid)):
        _name(value, f"{path}.metadata.{field}")
    if config.hostname and (len(config.hostname) > _MAX_HOSTNAME or not _HOSTNAME.fullmatch(config.hostname)):
        raise invalid(f"{path}.hostname", f"must be a host name of at most {_MAX_HOSTNAME} characters")
    if config.log_directory:
        absolute_path(config.log_directory, f"{path}.log_directory")
    labels_and_annotations(config.labels, config.annotations, path)
    if config.HasField("windows"):
        raise invalid(f"{path}.windows", "this is Linux")
    parent = config.linux.cgroup_parent
    if parent and (_unsafe(parent) or len(parent) > _MAX_PATH):
        raise invalid(f"{path}.linux.cgroup_parent", "must be a path without `..`")
    for index, mapping in enumerate(config.port_mappings):
        for field, port in (("container_port", mapping.container_port), ("host_port", mapping.host_port)):
            if not 0 <= port <= 65535:
                raise invalid(f"{path}.port_mappings[{index}].{field}", "must be a port, at most 65535")
    for field, lines in (
        ("servers", config.dns_config.servers),
        ("searches", config.dns_config.searches),
        ("options", config.dns_config.options),
    ):
        for index, line in enumerate(lines):
            if not line or len(line) > _MAX_NAME or re.search(r"[\s\0]", line):
                raise invalid(f"{path}.dns_config.{field}[{index}]", "must be one word for resolv.conf")


def container_config(config: api_pb2.ContainerConfig, path: str) -> None:
    """Check the configuration of a container. Raises Refusal."""
    if not config.HasField("metadata"):
        raise invalid(f"{path}.metadata", "required")
    _name(config.metadata.name, f"{path}.metadata.name")
    if not config.image.image:
        raise invalid(f"{path}.image.image", "required")
    if config.HasField("windows"):
        raise invalid(f"{path}.windows", "this is Linux")
    if config.working_dir:
        absolute_path(config.working_dir, f"{path}.working_dir", parents=True)
    if config.log_path:
        _relative_path(config.log_path, f"{path}.log_path")
    labels_and_annotations(config.labels, config.annotations, path)
    total = command(config.command, f"{path}.command") + command(config.args, f"{path}.args")
    total += _environment(config.envs, f"{path}.envs")
    if total > _MAX_ARGUMENTS:
        raise invalid(
            path, f"command, args and envs are {total} bytes together: at most {_MAX_ARGUMENTS} can be passed"
        )
    if len(config.mounts) > _MAX_MOUNTS:
        raise invalid(f"{path}.mounts", f"at most {_MAX_MOUNTS}")
    for index, mount in enumerate(config.mounts):
        _mount(mount, f"{path}.mounts[{index}]")
    security = config.linux.security_context
    if security.HasField("run_as_user") and security.run_as_username:
        raise invalid(f"{path}.linux.security_context.run_as_username", "not together with run_as_user")
    if security.HasField("run_as_group") and not (security.HasField("run_as_user") or security.run_as_username):
        raise invalid(f"{path}.linux.security_context.run_as_group", "needs run_as_user or run_as_username")
    for field, id in (("run_as_user", security.run_as_user), ("run_as_group", security.run_as_group)):
        if not 0 <= id.value < 2**31:
            raise invalid(f"{path}.linux.security_context.{field}", "must be an id from 0 to 2147483647")
    for index, group in enumerate(security.supplemental_groups):
        if not 0 <= group < 2**31:
            raise invalid(
                f"{path}.linux.security_context.supplemental_groups[{index}]", "must be an id from 0 to 2147483647"
            )
    resources(config.linux.resources, f"{path}.linux.resources")


def resources(wanted: api_pb2.LinuxContainerResources, path: str) -> None:
    """Check limits. Raises Refusal."""
    if wanted.memory_limit_in_bytes < -1:
        raise invalid(f"{path}.memory_limit_in_bytes", "must be a number of bytes, or -1 for no limit")
    if wanted.cpu_period < 0:
        raise invalid(f"{path}.cpu_period", "must not be negative")
    if wanted.cpu_shares < 0:
        raise invalid(f"{path}.cpu_shares", "must not be negative")
    if not -1000 <= wanted.oom_score_adj <= 1000:
        raise invalid(f"{path}.oom_score_adj", "must be from -1000 to 1000")
    for field, value in (("cpuset_cpus", wanted.cpuset_cpus), ("cpuset_mems", wanted.cpuset_mems)):
        if not re.fullmatch(r"[0-9,\-]{0,1024}", value):
            raise invalid(f"{path}.{field}", "must be a list as the kernel writes it, such as 0-2,5")
    for key in wanted.unified:
        if not re.fullmatch(r"[a-z0-9_]+\.[A-Za-z0-9_.]+", key) or _unsafe(key):
            raise invalid(f"{path}.unified", f'"{key}" is not a file of a cgroup')


def command(words: Iterable[str], path: str) -> int:
    """Check a command line, or a part of one; return its size in bytes. Raises Refusal."""
    total = 0
    for index, word in enumerate(words):
        size = len(word.encode()) + 1
        if "\0" in word:
            raise invalid(f"{path}[{index}]", "must not hold a NUL")
        if size > _MAX_ARGUMENT:
            raise invalid(f"{path}[{index}]", f"must not be longer than {_MAX_ARGUMENT} bytes")
        total += size
    return total


def timeout(seconds: int, path: str) -> int:
    """Return a non-negative timeout, of at most 68 years. Raises Refusal."""
    if seconds < 0:
        raise invalid(path, "must not be negative")
    return min(seconds, _MAX_TIMEOUT)


def labels_and_annotations(labels: Mapping[str, str], annotations: Mapping[str, str], path: str) -> None:
    """Check labels and annotations. Raises Refusal."""
    for key, value in labels.items():
        if not key or len(key) > _MAX_LABEL_KEY:
            raise invalid(f"{path}.labels", f"a key has {len(key)} characters: from 1 to {_MAX_LABEL_KEY}")
        if len(value) > _MAX_LABEL_VALUE:
            raise invalid(f'{path}.labels["{key}"]', f"must not be longer than {_MAX_LABEL_VALUE} characters")
    total = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if total > _MAX_ANNOTATIONS:
        raise invalid(f"{path}.annotations", f"are {total} bytes together: at most {_MAX_ANNOTATIONS}")


def absolute_path(value: str, path: str, *, parents: bool = False) -> None:
    """Check that this is an absolute path, without `..` unless `parents` is True. Raises Refusal."""
    if not value.startswith("/"):
        raise invalid(path, "must be an absolute path")
    _path(value, path)
    if not parents and ".." in value.split("/"):
        raise invalid(path, "must not lead out through `..`")


def _relative_path(value: str, path: str) -> None:
    if value.startswith("/"):
        raise invalid(path, "must be a path relative to the sandbox' log_directory")
    _path(value, path)
    if ".." in value.split("/") or posixpath.normpath(value) == "." or value.endswith("/"):
        raise invalid(path, "must name a file below the sandbox' log_directory, without `..`")


def _path(value: str, path: str) -> None:
    if "\0" in value:
        raise invalid(path, "must not hold a NUL")
    if len(value.encode()) >= _MAX_PATH:
        raise invalid(path, f"must be shorter than {_MAX_PATH} bytes")
    if any(len(part.encode()) > _MAX_FILE_NAME for part in value.split("/")):
        raise invalid(path, f"no part of it may be longer than {_MAX_FILE_NAME} bytes")


def _name(value: str, path: str) -> None:
    if not value:
        raise invalid(path, "required")
    if len(value) > _MAX_NAME:
        raise invalid(path, f"must not be longer than {_MAX_NAME} characters")
    if value in (".", "..") or re.search(r"[/\0-\x1f\x7f]", value):
        raise invalid(path, "must be a plain name, without slashes and control characters")


def _unsafe(value: str) -> bool:
    return "\0" in value or "\n" in value or ".." in value.split("/")


def _environment(variables: Iterable[api_pb2.KeyValue], path: str) -> int:
    total = 0
    for index, variable in enumerate(variables):
        size = len(variable.key.encode()) + len(variable.value) + 2
        if not variable.key or re.search(r"[=\0]", variable.key):
            raise invalid(f"{path}[{index}].key", "must be a name without = and NUL")
        if b"\0" in variable.value:
            raise invalid(f"{path}[{index}].value", "must not hold a NUL")
        if size > _MAX_ARGUMENT:
            raise invalid(f"{path}[{index}]", f"must not be longer than {_MAX_ARGUMENT} bytes")
        total += size
    return total


def _mount(mount: api_pb2.Mount, path: str) -> None:
    absolute_path(mount.container_path, f"{path}.container_path")
    if posixpath.normpath(mount.container_path) in ("/", "//"):
        raise invalid(f"{path}.container_path", "must not be the root itself")
    if not mount.HasField("image"):
        absolute_path(mount.host_path, f"{path}.host_path", parents=True)
    if mount.recursive_read_only and not mount.readonly:
        raise invalid(f"{path}.recursive_read_only", "needs readonly")
    if mount.recursive_read_only and mount.propagation != api_pb2.PROPAGATION_PRIVATE:
        raise invalid(f"{path}.recursive_read_only", "needs private propagation")


def image_name(name: str, path: str) -> None:
    """Check that an image is named; `images.inventory` checks the name's form. Raises Refusal."""
    if not name:
        raise invalid(path, "required")
    if len(name) > _MAX_PATH:
        raise invalid(path, f"must not be longer than {_MAX_PATH} characters")
