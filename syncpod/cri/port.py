"""The container runtime as the rest of the project sees it: the CRI calls that are used, in our own types.

`CriRuntime` is the port. Its methods are named after CRI's calls and return the records below, so that no other module
needs gRPC or protobuf. The configurations of sandboxes and containers are the exception: they are large, made in one
place (the translation from pods) and only passed on, so they stay CRI messages.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from protos.cri.v1 import api_pb2
from syncpod.cri.keyring import Credential
from syncpod.lifecycle.observed import ContainerRuntimeState, NetworkMode, ObservedContainer, SandboxState

SandboxConfig: TypeAlias = api_pb2.PodSandboxConfig
ContainerConfig: TypeAlias = api_pb2.ContainerConfig
LinuxResources: TypeAlias = api_pb2.LinuxContainerResources

CgroupDriver = Literal["cgroupfs", "systemd"]


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """The name and the version of the runtime."""

    name: str
    """`containerd`, `cri-o`, ..."""
    version: str


@dataclass(frozen=True, slots=True)
class RuntimeHandler:
    """One runtime handler, as a RuntimeClass selects it, and its features."""

    name: str
    """ The handler's name; "" is the default handler."""
    recursive_read_only_mounts: bool
    user_namespaces: bool


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """The readiness of the runtime and its network, and the runtime's optional features.

    A feature that the runtime does not announce must not be used: the runtime would silently ignore it.
    """

    runtime_ready: bool
    network_ready: bool
    runtime_message: str
    """Why the runtime is not ready: `reason: message` in its own words; "" when it gives none."""
    network_message: str
    supplemental_groups_policy: bool
    user_namespaces_host_network: bool
    mount_options: bool
    runtime_handlers: tuple[RuntimeHandler, ...]
    """The announced handlers; empty from runtimes that announce none (containerd 1.6)."""
    info: Mapping[str, str]
    """The runtime's additional information, usually JSON; empty unless verbose."""


@dataclass(frozen=True, slots=True)
class SandboxSummary:
    """A sandbox as it appears in a list."""

    id: str
    attempt: int
    uid: str
    name: str
    namespace: str
    state: SandboxState
    created_at: datetime | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    runtime_handler: str


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """One sandbox in full."""

    id: str
    attempt: int
    uid: str
    name: str
    namespace: str
    state: SandboxState
    created_at: datetime | None
    network_mode: NetworkMode
    ip: str | None
    """Primary address in the runtime's spelling; "" = no address, None = the status has no network part."""
    additional_ips: tuple[str, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pid: int
    """Pid of the pause process; 0 unless verbose, or if it does not run."""


@dataclass(frozen=True, slots=True)
class ContainerSummary:
    """A container as it appears in a list: without an exit code, and with its time of creation only."""

    id: str
    sandbox_id: str
    name: str
    attempt: int
    """The restart count it was made with."""
    state: ContainerRuntimeState
    created_at: datetime | None
    image: str
    image_ref: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ContainerEvent:
    """The notice of a change of a container or a sandbox. Only a listing shows the change itself."""

    id: str
    """The id of the container, or of the sandbox."""
    labels: Mapping[str, str]
    """The sandbox's labels; empty if the runtime does not send them, as for a sandbox that is gone."""
    is_end: bool = False
    """True if the container, or the sandbox, has ended. Nothing else may be concluded from the event."""


@dataclass(frozen=True, slots=True)
class ContainerMount:
    """A mount of a container."""

    container_path: str
    host_path: str
    readonly: bool
    recursive_read_only: bool


@dataclass(frozen=True, slots=True)
class ContainerAnswer:
    """The runtime's complete answer about one container."""

    container: ObservedContainer
    """The container, without the values of its annotations, and without its sandbox, which the runtime omits here.

    Exit code, reason and `finished_at` are final once `finished_at` is set. The pid is 0 unless verbose."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    mounts: tuple[ContainerMount, ...]


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of a command. The runtime truncates each output at 16 MiB."""

    stdout: bytes
    stderr: bytes
    exit_code: int


@dataclass(frozen=True, slots=True)
class ImageStatus:
    """An image on the node."""

    id: str
    repo_tags: tuple[str, ...]
    repo_digests: tuple[str, ...]
    size: int
    """The image's size in bytes."""
    uid: int | None
    """The uid that the image names as its user; None = none."""
    username: str
    """The name of the user that the image names; "" = none. An image that names neither uid nor user runs as root."""
    pinned: bool
    """Garbage collection must not remove it (the pause image)."""
    stands_for_machine: bool = False
    """The image has no files: nothing was pulled, and its name stands for the machine's own programs (embedded
    runtime)."""


@dataclass(frozen=True, slots=True)
class Ingest:
    """An incomplete blob: being downloaded, or left unfinished by an earlier pull."""

    ref: str
    """`layer-sha256:…`, `manifest-sha256:…`, `config-sha256:…`; the same for every download of the blob."""
    done_bytes: int
    total_bytes: int
    """The whole size of the blob in bytes; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class FilesystemUsage:
    """The runtime's use of one filesystem."""

    mountpoint: str
    measured_at: datetime | None
    used_bytes: int
    inodes_used: int


@dataclass(frozen=True, slots=True)
class ImageFsInfo:
    """Use of the disks that hold images and containers' writable layers."""

    image_filesystems: tuple[FilesystemUsage, ...]
    container_filesystems: tuple[FilesystemUsage, ...] = field(default=())
    """The containers' file systems; empty from older runtimes, where containers use the images' file system."""


@dataclass(frozen=True, slots=True)
class CpuUsage:
    """Cumulative CPU use."""

    measured_at_ns: int
    """Time of the measurement by the runtime's clock, in nanoseconds since 1970."""
    used_ns: int
    """Cumulative nanoseconds of one core. It only grows; the rate follows from two measurements."""
    nano_cores: int | None
    """The rate that the runtime calculates, in billionths of a core over an unknown interval; None = not given.

    containerd 1.6 calculates it since the last request, and returns 0 the first time."""


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory use in bytes; None = the runtime does not report the value."""

    measured_at_ns: int
    """Time of the measurement by the runtime's clock, in nanoseconds since 1970."""
    usage_bytes: int | None = None
    """All used memory, page cache included."""
    working_set_bytes: int | None = None
    """The working set, which cannot be reclaimed without harm."""
    available_bytes: int | None = None
    """The limit minus the working set; None without a limit."""
    rss_bytes: int | None = None
    page_faults: int | None = None
    """Cumulative, like the following fields."""
    major_page_faults: int | None = None


@dataclass(frozen=True, slots=True)
class InterfaceUsage:
    """Cumulative traffic of one network interface; None = the runtime does not report it."""

    name: str
    rx_bytes: int | None
    rx_errors: int | None
    tx_bytes: int | None
    tx_errors: int | None


@dataclass(frozen=True, slots=True)
class ContainerStats:
    """One container's use of resources."""

    id: str
    name: str
    writable_layer: FilesystemUsage | None
    """The size of the container's writable layer some seconds ago; None if the runtime does not report it."""
    cpu: CpuUsage | None = None
    """The use of CPU; None if the runtime does not report it, as for a container that does not run."""
    memory: MemoryUsage | None = None
    """The use of memory; None as for `cpu`."""

    @property
    def working_set_bytes(self) -> int | None:
        """The working set of its memory; None if the runtime does not report it."""
        return self.memory.working_set_bytes if self.memory is not None else None


@dataclass(frozen=True, slots=True)
class SandboxStats:
    """The resource usage of one sandbox: that of the pod's cgroup as a whole, and that of each container."""

    id: str
    uid: str
    name: str
    namespace: str
    containers: tuple[ContainerStats, ...] = ()
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    interfaces: tuple[InterfaceUsage, ...] = ()
    """The interfaces of the pod's network namespace, beginning with the one that has its address; () if the runtime
    does not report them."""
    network_measured_at_ns: int = 0
    processes: int | None = None
    """The number of processes; None if the runtime does not report it."""


class CriRuntime(Protocol):
    """A container runtime.

    Every method may raise `CriError` (see `syncpod.cri.errors` for the kinds). No method retries: after a lost answer,
    the caller must read the state back. All may be called concurrently from many tasks of one event loop. Cancelling a
    task cancels its call, and a runtime may then leave a sandbox or container unusable: shield creates, starts and
    stops.
    """

    async def version(self) -> RuntimeVersion:
        """Return the runtime's name and version. Raises Unimplemented if the server does not implement CRI v1."""
        ...

    async def status(self, *, verbose: bool = False) -> RuntimeStatus:
        """Return whether runtime and network are ready, and the runtime's features."""
        ...

    async def runtime_config(self, *, default: CgroupDriver = "cgroupfs") -> CgroupDriver:
        """Return the cgroup driver from RuntimeConfig, else from the configuration in Status, else `default`."""
        ...

    async def update_runtime_config(self, *, pod_cidr: str) -> None:
        """Give the runtime's network the addresses of the node's pods: ranges, separated by commas."""
        ...

    async def run_pod_sandbox(self, config: SandboxConfig, *, runtime_handler: str = "") -> str:
        """Make and start a sandbox; return its id once it is READY. Raises NameReserved if its name is taken."""
        ...

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """Kill everything in the sandbox without grace, and tear down its network. Safe to repeat."""
        ...

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Remove the sandbox and its containers, even if they still run; do nothing if it is gone.

        Raises NotFound only if the sandbox is still listed, RecordLost or TaskLeft if containerd cannot remove it. The
        call may also succeed and leave a pause process that was never started.
        """
        ...

    async def pod_sandbox_status(self, sandbox_id: str, *, verbose: bool = False) -> SandboxStatus:
        """Return one sandbox in full. Raises NotFound. Verbose adds the pid, and hangs if the sandbox's shim does."""
        ...

    async def list_pod_sandboxes(self, *, labels: Mapping[str, str] = ..., id: str = "") -> tuple[SandboxSummary, ...]:
        """List sandboxes with all these labels, in no particular order."""
        ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox_config: SandboxConfig) -> str:
        """Make a container and return its id. Raises NameReserved, ImageAbsent, NotFound (no such sandbox)."""
        ...

    async def start_container(self, container_id: str) -> None:
        """Start a created container. Raises AlreadyStarted, NotFound."""
        ...

    async def stop_container(self, container_id: str, *, timeout_seconds: int) -> None:
        """Send the stop signal, and SIGKILL after `timeout_seconds`; return when the container has ended.

        A container that has not been started is left as it is, and may still run afterwards. Some runtimes raise
        NotFound.
        """
        ...

    async def remove_container(self, container_id: str) -> None:
        """Remove a container, killing it without grace if it runs; do nothing if it is gone. Its log file stays.

        Raises NotFound only if the container is still listed, TaskLeft if containerd has a task of it that must be
        discarded first, RecordLost if containerd cannot remove it.
        """
        ...

    async def discard_task(self, container_id: str) -> None:
        """Kill and delete the task of a container or sandbox that the runtime lists as ended.

        Use it after `TaskLeft`. This is not a CRI call but containerd's own API, on the same socket. Returns when the
        task's processes have ended. Raises NotFound if there is no such task, Unimplemented from any other runtime.
        """
        ...

    async def list_containers(
        self, *, labels: Mapping[str, str] = ..., id: str = "", sandbox_id: str = ""
    ) -> tuple[ContainerSummary, ...]:
        """List containers with all these labels, in no particular order."""
        ...

    async def container_status(self, container_id: str, *, verbose: bool = False) -> ContainerAnswer:
        """Return one container in full. Raises NotFound. Verbose adds the pid."""
        ...

    async def exec_sync(self, container_id: str, command: tuple[str, ...], *, timeout_seconds: int) -> ExecResult:
        """Run a command in a container and wait for it; `timeout_seconds` 0 waits for ever. Raises CommandTimedOut."""
        ...

    async def exec(
        self, container_id: str, command: tuple[str, ...], *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Prepare the streaming of a command; return the URL to connect to, valid once and for a short time."""
        ...

    async def attach(self, container_id: str, *, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str:
        """Prepare the streaming of the main process; return the URL to connect to, valid once and for a short time."""
        ...

    async def port_forward(self, sandbox_id: str, ports: Sequence[int] = ()) -> str:
        """Prepare connections to a sandbox's ports; return the URL to connect to, valid once and for a short time.

        The client names the ports on that connection. `ports` is for WebSocket's channels, the one protocol that cannot
        name them.
        """
        ...

    async def list_sandbox_stats(
        self, *, labels: Mapping[str, str], timeout_seconds: float
    ) -> tuple[SandboxStats, ...]:
        """Measure in one call all ready sandboxes that have these labels, and their running containers."""
        ...

    async def list_container_stats(self, *, sandbox_id: str, timeout_seconds: float) -> tuple[ContainerStats, ...]:
        """Measure the running containers of one sandbox; containerd also returns those that do not run.

        Has a timeout of its own, in seconds, because the call hangs while the shim of one of these containers hangs.
        Measure each sandbox by its own call: otherwise one pod blocks all others.
        """
        ...

    async def reopen_container_log(self, container_id: str) -> None:
        """Make a running container reopen its log file, after rotation."""
        ...

    def container_events(self) -> AsyncGenerator[ContainerEvent, None]:
        """Yield the events of all owners' containers and sandboxes, from now until the runtime ends the stream.

        Has no timeout. Raises Unimplemented from a runtime without events (containerd before 1.7).
        """
        ...

    async def update_pod_sandbox_resources(
        self, sandbox_id: str, *, overhead: LinuxResources, resources: LinuxResources
    ) -> None:
        """Announce the new resources and the overhead of a sandbox before they are applied to its cgroup.

        Values that are 0 or empty are left unchanged. Most runtimes raise Unimplemented.
        """
        ...

    async def update_container_resources(self, container_id: str, resources: LinuxResources) -> None:
        """Change cgroup limits in place; values that are 0 or empty are left unchanged."""
        ...

    async def image_status(self, image: str) -> ImageStatus | None:
        """Return an image; None if it is not on the node, or the name is invalid."""
        ...

    async def pull_image(
        self, image: str, *, credential: Credential | None = None, sandbox_config: SandboxConfig | None = None
    ) -> str:
        """Pull an image with this credential, without a timeout; return the reference that its name resolved to.

        The error's text has the registry's answer, but never the password.
        """
        ...

    async def ingests(self) -> tuple[Ingest, ...] | None:
        """Return the progress of all downloads; None if the runtime does not report it.

        This is not a CRI call but containerd's own API, on the same socket.
        """
        ...

    async def list_images(self) -> tuple[ImageStatus, ...]:
        """List all images on the node."""
        ...

    async def remove_image(self, image: str) -> None:
        """Remove an image; do nothing if it is gone."""
        ...

    async def image_fs_info(self) -> ImageFsInfo:
        """Return the disk use of the images and of the containers."""
        ...
