"""Converts CRI messages to the port's records, and the names of stop signals to CRI's numbers and back.

Values are copied unchanged, except times (nanoseconds since the epoch become UTC datetimes, 0 becomes None), enums (a
value of a later CRI becomes the most cautious known one), and values that fail the checks in `answers`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from google.protobuf.message import Message

from protos.cri.v1 import api_pb2
from syncpod.cri import answers
from syncpod.cri.port import (
    CgroupDriver,
    ContainerAnswer,
    ContainerMount,
    ContainerStats,
    ContainerSummary,
    CpuUsage,
    FilesystemUsage,
    ImageStatus,
    InterfaceUsage,
    MemoryUsage,
    RuntimeHandler,
    RuntimeStatus,
    SandboxStats,
    SandboxStatus,
    SandboxSummary,
)
from syncpod.lifecycle.observed import ContainerRuntimeState, ObservedContainer, SandboxState
from syncpod.pod.status import ContainerUser, LinuxContainerUser

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_STOP_SIGNAL: Final = "org.opencontainers.image.stopSignal"
_FILES: Final = "syncpod.dev/files"
"""An annotation of images in the embedded runtime: their containers have the image's files, or the machine's."""

_CONTAINER_STATES: Final[Mapping[int, ContainerRuntimeState]] = {
    api_pb2.CONTAINER_CREATED: "created",
    api_pb2.CONTAINER_RUNNING: "running",
    api_pb2.CONTAINER_EXITED: "exited",
}


def moment(nanoseconds: int) -> datetime | None:
    """Return the time `nanoseconds` after the epoch, cut to microseconds; None for 0, CRI's "not yet".

    None for negative times too: CRI-O's "not yet" is Go's zero time, whose nanoseconds overflow to the year 1754.
    """
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds > 0 else None


def container_state(state: int) -> ContainerRuntimeState:
    """Return a container's state; a value of a later CRI counts as `unknown`."""
    return _CONTAINER_STATES.get(state, "unknown")


def sandbox_state(state: int) -> SandboxState:
    """Return a sandbox's state; a value of a later CRI counts as not ready."""
    return "SANDBOX_READY" if state == api_pb2.SANDBOX_READY else "SANDBOX_NOTREADY"


def pid(info: Mapping[str, str]) -> int:
    """Return the process id in a verbose answer (containerd, CRI-O: JSON under `info`, key `pid`); 0 if it has none."""
    return answers.process_id(_details(info).get("pid"))


def stop_signal_number(name: str | None) -> api_pb2.Signal:
    """Return CRI's number of a signal, such as ``SIGRTMIN+3``; without a name, the number for the runtime's default.

    Mirrors kuberuntime_container.go, v1.36, getStopSignal. Raises ValueError for a name that core/v1 does not have.
    """
    if name is None:
        return api_pb2.Signal.SIGNAL_RUNTIME_DEFAULT
    return cast(api_pb2.Signal, api_pb2.Signal.Value(f"SIGNAL_{name.replace('+', 'PLUS').replace('-', 'MINUS')}"))


def stop_signal_name(number: int) -> str:
    """Return core/v1's name of a signal; "" for the default and for an unknown number."""
    if number == api_pb2.Signal.SIGNAL_RUNTIME_DEFAULT or number not in api_pb2.Signal.values():
        return ""
    name = api_pb2.Signal.Name(api_pb2.Signal.ValueType(number)).removeprefix("SIGNAL_")
    return name.replace("PLUS", "+").replace("MINUS", "-")


_STOP_SIGNALS: Final = frozenset(stop_signal_name(number) for number in api_pb2.Signal.values())
"""core/v1's names of all signals, and "" for the runtime's default."""


def spec_stop_signal(info: Mapping[str, str]) -> str:
    """Return core/v1's name of the stop signal in a verbose answer; CRI-O has it only in the OCI configuration.

    "" if there is none, or if the name is unknown: CRI-O itself uses SIGTERM for a name that it cannot parse.
    """
    try:
        found = _details(info)["runtimeSpec"]["annotations"][_STOP_SIGNAL]
    except (KeyError, TypeError):
        return ""
    return found if isinstance(found, str) and found in _STOP_SIGNALS else ""


def _details(info: Mapping[str, str]) -> dict[str, Any]:
    return _json_object(info, "info")


def _config(info: Mapping[str, str]) -> dict[str, Any]:
    return _json_object(info, "config")


def _json_object(info: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return an object of a verbose answer; an empty one if it is not there or is no JSON object."""
    try:
        found = json.loads(info.get(name, "null"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def cgroup_driver(info: Mapping[str, str]) -> CgroupDriver | None:
    """Return the cgroup driver from containerd's configuration in a verbose Status; None if it is not there.

    `SystemdCgroup` in the default handler's options decides, else the older `systemdCgroup` next to the handlers.
    """
    try:
        config = _config(info)
        containerd = config["containerd"]
        options = containerd["runtimes"][containerd["defaultRuntimeName"]]["options"] or {}
        systemd = bool(options.get("SystemdCgroup") or config.get("systemdCgroup"))
    except (KeyError, TypeError, AttributeError):
        return None
    return "systemd" if systemd else "cgroupfs"


def sandbox_image(info: Mapping[str, str]) -> str:
    """Return the sandbox image from containerd 1.6's configuration in a verbose Status; "" if it is not there.

    Later versions of containerd pin the image instead.
    """
    image = _config(info).get("sandboxImage")
    return image if isinstance(image, str) else ""


def unenforced_limits(info: Mapping[str, str]) -> Mapping[str, str]:
    """Return by resource why limits cannot be enforced, from the embedded runtime's verbose Status.

    Empty for a runtime that enforces all limits, or does not report this.
    """
    found = _config(info).get("limitsUnenforced")
    return {name: why for name, why in found.items() if isinstance(why, str)} if isinstance(found, dict) else {}


def weaknesses(info: Mapping[str, str]) -> tuple[str, ...]:
    """Return the weaknesses of the embedded runtime on this machine, a sentence for each, from its verbose Status."""
    return _texts(info, "weaknesses")


def unapplied_fields(info: Mapping[str, str]) -> tuple[str, ...]:
    """Return the fields of a security context that the embedded runtime accepts and does not apply.

    They are from its verbose Status, named as in a pod. Empty from any other runtime.
    """
    return _texts(info, "unappliedFields")


def _texts(info: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return a list of texts in the configuration of a verbose Status; () if it is not there."""
    found = _config(info).get(name)
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def runtime_status(answer: api_pb2.StatusResponse) -> RuntimeStatus:
    """Read the runtime's readiness and features; a missing condition counts as false."""
    conditions = {condition.type: condition for condition in answer.status.conditions}
    runtime, network = (
        conditions.get(name, api_pb2.RuntimeCondition(message=f"the runtime reports no condition {name}"))
        for name in ("RuntimeReady", "NetworkReady")
    )
    return RuntimeStatus(
        runtime_ready=runtime.status,
        network_ready=network.status,
        runtime_message=_words(runtime),
        network_message=_words(network),
        supplemental_groups_policy=answer.features.supplemental_groups_policy,
        user_namespaces_host_network=answer.features.user_namespaces_host_network,
        mount_options=answer.features.mount_options,
        runtime_handlers=tuple(
            RuntimeHandler(
                name=answers.word(handler.name),
                recursive_read_only_mounts=handler.features.recursive_read_only_mounts,
                user_namespaces=handler.features.user_namespaces,
            )
            for handler in answer.runtime_handlers
        ),
        info=dict(answer.info),
    )


def _words(condition: api_pb2.RuntimeCondition) -> str:
    return ": ".join(part for part in map(answers.word, (condition.reason, condition.message)) if part)


def sandbox_summary(sandbox: api_pb2.PodSandbox) -> SandboxSummary:
    """Read a sandbox out of a list."""
    return SandboxSummary(
        id=sandbox.id,
        attempt=sandbox.metadata.attempt,
        uid=sandbox.metadata.uid,
        name=sandbox.metadata.name,
        namespace=sandbox.metadata.namespace,
        state=sandbox_state(sandbox.state),
        created_at=moment(sandbox.created_at),
        labels=dict(sandbox.labels),
        annotations=dict(sandbox.annotations),
        runtime_handler=sandbox.runtime_handler,
    )


def sandbox_status(answer: api_pb2.PodSandboxStatusResponse) -> SandboxStatus:
    """Read a sandbox in full."""
    status = answer.status
    has_network = status.HasField("network")
    on_node = status.linux.namespaces.options.network == api_pb2.NODE
    return SandboxStatus(
        id=status.id,
        attempt=status.metadata.attempt,
        uid=status.metadata.uid,
        name=status.metadata.name,
        namespace=status.metadata.namespace,
        state=sandbox_state(status.state),
        created_at=moment(status.created_at),
        network_mode="NODE" if on_node else "POD",
        ip=answers.address(status.network.ip) if has_network else None,
        additional_ips=answers.addresses(each.ip for each in status.network.additional_ips),
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        pid=pid(answer.info),
    )


def container_summary(container: api_pb2.Container) -> ContainerSummary:
    """Read a container out of a list."""
    return ContainerSummary(
        id=container.id,
        sandbox_id=container.pod_sandbox_id,
        name=container.metadata.name,
        attempt=container.metadata.attempt,
        state=container_state(container.state),
        created_at=moment(container.created_at),
        image=answers.word(container.image.image),
        image_ref=answers.word(container.image_ref),
        labels=dict(container.labels),
        annotations=dict(container.annotations),
    )


def container_status(answer: api_pb2.ContainerStatusResponse) -> ContainerAnswer:
    """Read a container in full. Raises ValidationError for one that no pod can have."""
    status = answer.status
    state = container_state(status.state)
    return ContainerAnswer(
        ObservedContainer(
            id=status.id,
            name=status.metadata.name,
            restart_count=status.metadata.attempt,
            state=state,
            created_at=moment(status.created_at),
            started_at=moment(status.started_at),
            finished_at=moment(status.finished_at),
            exit_code=status.exit_code if state == "exited" else 0,
            reason=answers.word(status.reason),
            message=answers.message(status.message),
            image=answers.word(status.image.image),
            image_ref=answers.word(status.image_ref),
            log_path=answers.path(status.log_path),
            pid=pid(answer.info),
            stop_signal=stop_signal_name(status.stop_signal) or spec_stop_signal(answer.info),
            user=_user(status),
        ),
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        mounts=tuple(
            ContainerMount(
                container_path=mount.container_path,
                host_path=answers.path(mount.host_path),
                readonly=mount.readonly,
                recursive_read_only=mount.recursive_read_only,
            )
            for mount in status.mounts
        ),
    )


def _user(status: api_pb2.ContainerStatus) -> ContainerUser | None:
    """Return the user of a container's first process; None if the runtime does not report it (toKubeContainerUser)."""
    if not status.HasField("user"):
        return None
    if not status.user.HasField("linux"):
        return ContainerUser()
    said = status.user.linux
    groups = tuple(said.supplemental_groups)
    return ContainerUser(linux=LinuxContainerUser(uid=said.uid, gid=said.gid, supplemental_groups=groups))


def container_stats(stats: api_pb2.ContainerStats) -> ContainerStats:
    """Read a container's usage of resources."""
    return ContainerStats(
        id=stats.attributes.id,
        name=stats.attributes.metadata.name,
        writable_layer=filesystem_usage(stats.writable_layer) if stats.HasField("writable_layer") else None,
        cpu=_cpu_usage(stats.cpu) if stats.cpu.HasField("usage_core_nano_seconds") else None,
        memory=_memory_usage(stats.memory) if stats.HasField("memory") else None,
    )


def sandbox_stats(stats: api_pb2.PodSandboxStats) -> SandboxStats:
    """Read a pod's usage of resources."""
    pod, linux = stats.attributes.metadata, stats.linux
    network = linux.network
    listed = ([network.default_interface] if network.HasField("default_interface") else []) + list(network.interfaces)
    return SandboxStats(
        id=stats.attributes.id,
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        containers=tuple(map(container_stats, linux.containers)),
        cpu=_cpu_usage(linux.cpu) if linux.cpu.HasField("usage_core_nano_seconds") else None,
        memory=_memory_usage(linux.memory) if linux.HasField("memory") else None,
        interfaces=tuple(map(_interface_usage, listed)),
        network_measured_at_ns=network.timestamp,
        processes=_given(linux.process, "process_count"),
    )


def _memory_usage(usage: api_pb2.MemoryUsage) -> MemoryUsage:
    return MemoryUsage(
        measured_at_ns=usage.timestamp,
        usage_bytes=_given(usage, "usage_bytes"),
        working_set_bytes=_given(usage, "working_set_bytes"),
        available_bytes=_given(usage, "available_bytes"),
        rss_bytes=_given(usage, "rss_bytes"),
        page_faults=_given(usage, "page_faults"),
        major_page_faults=_given(usage, "major_page_faults"),
    )


def _interface_usage(usage: api_pb2.NetworkInterfaceUsage) -> InterfaceUsage:
    return InterfaceUsage(
        name=usage.name,
        rx_bytes=_given(usage, "rx_bytes"),
        rx_errors=_given(usage, "rx_errors"),
        tx_bytes=_given(usage, "tx_bytes"),
        tx_errors=_given(usage, "tx_errors"),
    )


def _given(message: Message, field: str) -> int | None:
    """Return the value of an optional number; None if it is absent."""
    return int(getattr(message, field).value) if message.HasField(field) else None


def _cpu_usage(usage: api_pb2.CpuUsage) -> CpuUsage:
    return CpuUsage(
        measured_at_ns=usage.timestamp,
        used_ns=usage.usage_core_nano_seconds.value,
        nano_cores=usage.usage_nano_cores.value if usage.HasField("usage_nano_cores") else None,
    )


def image_status(image: api_pb2.Image) -> ImageStatus:
    """Read an image on the node."""
    return ImageStatus(
        id=answers.word(image.id),
        repo_tags=tuple(map(answers.word, image.repo_tags)),
        repo_digests=tuple(map(answers.word, image.repo_digests)),
        size=image.size,
        uid=image.uid.value if image.HasField("uid") else None,
        username=image.username,
        pinned=image.pinned,
        stands_for_machine=image.spec.annotations.get(_FILES) == "machine",
    )


def filesystem_usage(usage: api_pb2.FilesystemUsage) -> FilesystemUsage:
    """Read the use of one filesystem."""
    return FilesystemUsage(
        mountpoint=answers.path(usage.fs_id.mountpoint),
        measured_at=moment(usage.timestamp),
        used_bytes=usage.used_bytes.value,
        inodes_used=usage.inodes_used.value,
    )
