"""The container runtime as the rest of the project sees it: the CRI calls that are used, in our own types.

`CriRuntime` is the port. Its methods are named after CRI's calls, take keyword arguments and return the records below,
so that nobody else knows gRPC or protobuf. The configurations of sandboxes and containers are the exception: large,
made in one place (the translation from pods) and only passed on, they stay CRI messages, opaque to everybody between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from protos.cri.v1 import api_pb2
from syncpod.cri.keyring import Credential
from syncpod.lifecycle.observed import ContainerRuntimeState, NetworkMode, SandboxState

SandboxConfig: TypeAlias = api_pb2.PodSandboxConfig
ContainerConfig: TypeAlias = api_pb2.ContainerConfig
LinuxResources: TypeAlias = api_pb2.LinuxContainerResources

CgroupDriver = Literal["cgroupfs", "systemd"]


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """Which runtime this is."""

    name: str
    """`containerd`, `cri-o`, ..."""
    version: str


@dataclass(frozen=True, slots=True)
class RuntimeHandler:
    """One runtime handler (what a RuntimeClass selects), and what it can do."""

    name: str
    """ "" is the default handler."""
    recursive_read_only_mounts: bool
    user_namespaces: bool


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """Whether pods can be started, and what the runtime can do beyond the basics.

    What is not announced must not be asked for: the runtime would drop the wish in silence.
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
    """Empty from runtimes older than the announcement of handlers (containerd 1.6)."""
    info: Mapping[str, str]
    """The runtime's own words, usually JSON; empty unless verbose."""


@dataclass(frozen=True, slots=True)
class SandboxSummary:
    """A sandbox as it stands in a list."""

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
    """Primary address as the runtime words it; "" when it has none, None when there is no network status at all."""
    additional_ips: tuple[str, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pid: int
    """Of the pause process; 0 unless verbose, and when it does not run."""


@dataclass(frozen=True, slots=True)
class ContainerSummary:
    """A container as it stands in a list: no exit code, no times but the first."""

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
class ContainerMount:
    """A mount as it came out."""

    container_path: str
    host_path: str
    readonly: bool
    recursive_read_only: bool


@dataclass(frozen=True, slots=True)
class RuntimeContainerStatus:
    """One container in full. Exit code, reason and finished_at are final once finished_at is set."""

    id: str
    name: str
    attempt: int
    """The restart count it was made with."""
    state: ContainerRuntimeState
    created_at: datetime | None
    started_at: datetime | None
    """None until started; for good when the start failed."""
    finished_at: datetime | None
    exit_code: int
    """Of no meaning until finished_at is set."""
    reason: str
    """`Completed`, `Error`, `OOMKilled`, `StartError`, ... May be set before the exit."""
    message: str
    image: str
    image_ref: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    log_path: str
    mounts: tuple[ContainerMount, ...]
    pid: int
    """Of the main process; 0 unless verbose, and when it does not run."""
    stop_signal: str = ""
    """What it is stopped by, as core/v1 names it (`SIGTERM`); "" where the runtime knows of no choice."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command did. The runtime cuts off each output at 16 MiB."""

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
    """Bytes."""
    uid: int | None
    """The user it runs as, where the image gives a number."""
    username: str
    """The user it runs as, where the image gives a name; "" otherwise. Neither number nor name: root."""
    pinned: bool
    """Not to be removed by garbage collection (the pause image)."""


@dataclass(frozen=True, slots=True)
class Ingest:
    """A blob that is not complete: one being downloaded, or one that an earlier pull has left unfinished."""

    ref: str
    """`layer-sha256:…`, `manifest-sha256:…`, `config-sha256:…`; the same whoever downloads it."""
    done_bytes: int
    total_bytes: int
    """0 where that is not known."""


@dataclass(frozen=True, slots=True)
class FilesystemUsage:
    """How much of one filesystem the runtime uses."""

    mountpoint: str
    measured_at: datetime | None
    used_bytes: int
    inodes_used: int


@dataclass(frozen=True, slots=True)
class ImageFsInfo:
    """Use of the disks that hold images and containers' writable layers."""

    image_filesystems: tuple[FilesystemUsage, ...]
    container_filesystems: tuple[FilesystemUsage, ...] = field(default=())
    """Empty from runtimes older than the distinction; then the same as the images'."""


@dataclass(frozen=True, slots=True)
class CpuUsage:
    """How much of the processors has been used, in all."""

    measured_at_ns: int
    """By the runtime's clock, in nanoseconds since 1970."""
    used_ns: int
    """Nanoseconds of one core since the beginning. Only grows: two measurements tell what is used at a time."""
    nano_cores: int | None
    """The runtime's own reckoning of that, in billionths of a core, over a time that it does not tell; None = none.

    containerd 1.6 reckons from whenever it was asked last, and says 0 the first time.
    """


@dataclass(frozen=True, slots=True)
class ContainerStats:
    """What one container uses."""

    id: str
    name: str
    writable_layer: FilesystemUsage | None
    """What it has written to its own layer, as of some seconds ago; None where the runtime does not say."""
    cpu: CpuUsage | None = None
    """None where the runtime does not say: of one that does not run."""
    working_set_bytes: int | None = None
    """Memory that cannot be reclaimed without harm; None as for `cpu`."""
    memory_usage_bytes: int | None = None
    """All of it, page cache included; None where the runtime does not say."""


class CriRuntime(Protocol):
    """A container runtime.

    Every method may raise `CriError` (see `syncpod.cri.errors` for the kinds). None repeats a call that failed: what a
    lost answer means is the caller's to find out. All are safe to call at once from many tasks of one event loop.
    Cancelling one cancels the call, which a runtime may answer by burning the sandbox or container: shield creates,
    starts and stops.
    """

    def withhold(self, words: Iterable[str]) -> None:
        """Keep words out of every error, every container's message and every command's output: values of Secrets."""
        ...

    def speakable(self, text: str) -> str:
        """Return a text that a container has left, without the words that are withheld."""
        ...

    async def version(self) -> RuntimeVersion:
        """Name the runtime. Raises Unimplemented when what listens there speaks no CRI v1."""
        ...

    async def status(self, *, verbose: bool = False) -> RuntimeStatus:
        """Say whether runtime and network are ready, and what the runtime can do."""
        ...

    async def runtime_config(self, *, default: CgroupDriver = "cgroupfs") -> CgroupDriver:
        """Name the cgroup driver: by RuntimeConfig, else by the configuration that Status shows, else `default`."""
        ...

    async def run_pod_sandbox(self, config: SandboxConfig, *, runtime_handler: str = "") -> str:
        """Make and start a sandbox; return its id once it is READY. Raises NameReserved for its like."""
        ...

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """End everything in the sandbox at once, without grace, and its network. Safe to repeat."""
        ...

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Remove the sandbox and its containers, ending by force what still runs. Gone already is success.

        Raises TaskLeft where containerd cannot; or says nothing, and leaves a pause process that was never started.
        """
        ...

    async def pod_sandbox_status(self, sandbox_id: str, *, verbose: bool = False) -> SandboxStatus:
        """Tell all about one sandbox. Raises NotFound. Verbose adds the pid, and can hang with its shim."""
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
        """Send the stop signal, wait up to `timeout_seconds`, kill; return when it has ended. Safe to repeat.

        Does nothing to a container not yet running, which may run thereafter. Raises NotFound from some runtimes.
        """
        ...

    async def remove_container(self, container_id: str) -> None:
        """Remove a container, killing it without grace if it runs. Gone already is success. Its log file stays.

        Raises TaskLeft where something of it is left that has first to be discarded.
        """
        ...

    async def discard_task(self, container_id: str) -> None:
        """Kill at once, and take away, what runs in a container or sandbox that the runtime itself holds for ended.

        For what `TaskLeft` tells of. No call of CRI: containerd's own, on the same socket. Returns when nothing of it
        runs. Raises NotFound where there is no such task, Unimplemented from any other runtime.
        """
        ...

    async def list_containers(
        self, *, labels: Mapping[str, str] = ..., id: str = "", sandbox_id: str = ""
    ) -> tuple[ContainerSummary, ...]:
        """List containers with all these labels, in no particular order."""
        ...

    async def container_status(self, container_id: str, *, verbose: bool = False) -> RuntimeContainerStatus:
        """Tell all about one container. Raises NotFound. Verbose adds the pid."""
        ...

    async def exec_sync(self, container_id: str, command: tuple[str, ...], *, timeout_seconds: int) -> ExecResult:
        """Run a command in a container and wait for it; `timeout_seconds` 0 waits for ever. Raises CommandTimedOut."""
        ...

    async def exec(
        self, container_id: str, command: tuple[str, ...], *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Prepare the streaming of a command; return the URL to connect to, good for one connection soon."""
        ...

    async def attach(self, container_id: str, *, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str:
        """Prepare the streaming of the main process; return the URL to connect to, good for one connection soon."""
        ...

    async def port_forward(self, sandbox_id: str) -> str:
        """Prepare connections to a sandbox's ports; return the URL to connect to, good for one connection soon.

        The ports are named on that connection.
        """
        ...

    async def list_container_stats(self, *, sandbox_id: str, timeout_seconds: float) -> tuple[ContainerStats, ...]:
        """Measure the containers of one sandbox: those that run, and where the runtime is containerd the others too.

        Has a timeout of its own, in seconds, since it waits for as long as one of their shims hangs: ask for each
        sandbox alone, or one pod hides all others.
        """
        ...

    async def reopen_container_log(self, container_id: str) -> None:
        """Have a running container's log file opened anew, after rotation."""
        ...

    async def update_pod_sandbox_resources(
        self, sandbox_id: str, *, overhead: LinuxResources, resources: LinuxResources
    ) -> None:
        """Tell of a sandbox's new resources, beside its overhead, before they are applied to its cgroup.

        What is 0 or empty stays as it is. Raises Unimplemented from most runtimes.
        """
        ...

    async def update_container_resources(self, container_id: str, resources: LinuxResources) -> None:
        """Change cgroup limits in place; what is 0 or empty stays as it is."""
        ...

    async def image_status(self, image: str) -> ImageStatus | None:
        """Tell about an image; None when it is not on the node (or is no image's name at all)."""
        ...

    async def pull_image(
        self, image: str, *, credential: Credential | None = None, sandbox_config: SandboxConfig | None = None
    ) -> str:
        """Fetch an image, however long that takes, as whom the credential says; return the reference it resolved to.

        What a registry answers is in the error's text, but never the password.
        """
        ...

    async def ingests(self) -> tuple[Ingest, ...] | None:
        """Tell how far downloads are, of whatever image; None from a runtime that does not.

        No call of CRI: containerd's own, on the same socket.
        """
        ...

    async def list_images(self) -> tuple[ImageStatus, ...]:
        """List all images on the node."""
        ...

    async def remove_image(self, image: str) -> None:
        """Remove an image. Gone already is success."""
        ...

    async def image_fs_info(self) -> ImageFsInfo:
        """Tell how much disk images and containers use."""
        ...
