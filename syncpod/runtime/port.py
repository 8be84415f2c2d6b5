"""What the server's state machine asks of whatever runs its containers: real processes, or timers.

Times are nanoseconds since the Unix epoch, as on CRI's wire.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol


class StartFailed(Exception):
    """A process could not be started; the text is one sentence, as runc would say it (`exec: "x": not found`)."""


@dataclass(frozen=True)
class User:
    """Who a process runs as. Only root may run one as anybody else."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Mount:
    """One of a container's mounts; `host_path` exists when it is started."""

    container_path: str
    host_path: str
    read_only: bool = False
    recursive_read_only: bool = False


@dataclass(frozen=True)
class ProcessSpec:
    """All that is needed to run one container's process, or a sandbox's pause. Written to disk as JSON, 0600."""

    id: str
    arguments: tuple[str, ...]
    """Program and arguments, never empty, but for a sandbox's pause: that has none and lives until it is killed."""
    environment: tuple[tuple[str, str], ...] = ()
    working_directory: str = ""
    """Empty: `/`."""
    user: User | None = None
    """None: whoever the server is."""
    terminal: bool = False
    stdin: bool = False
    stdin_once: bool = False
    """Input ends when the first to attach is gone."""
    log_path: str = ""
    """Absolute; empty: output is kept nowhere."""
    hostname: str = ""
    mounts: tuple[Mount, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    """Names as CAP_CHOWN, or ALL."""
    oom_score_adj: int | None = None
    cgroup_procs: tuple[str, ...] = ()
    """The cgroup.procs files that the process enters before it runs; empty where cgroups are closed to us."""
    root: str = ""
    """The files that are to be its root directory, of which it writes a layer of its own; empty: the machine's."""
    script: Mapping[str, str] = field(default_factory=dict)
    """The sandbox's annotations: what a simulated process obeys. A real one knows nothing of it."""
    name: str = ""
    """The container's name in its metadata; empty for a sandbox's pause."""
    attempt: int = 0
    """The attempt in its metadata."""
    pod_uid: str = ""
    """The sandbox's uid in its metadata."""


@dataclass(frozen=True)
class Exited:
    """How a process ended."""

    exit_code: int
    """128 + n after signal n. 255 where nobody saw the end."""
    reason: str
    """Completed, Error, OOMKilled or Unknown, as containerd words them. `find` tells a start that failed without its
    server as StartError: code 128, the sentence as message, started_at 0."""
    message: str
    started_at: int
    finished_at: int


@dataclass(frozen=True)
class Usage:
    """What a process and all that it started use now."""

    cpu_nanoseconds: int
    memory_bytes: int
    """Resident."""
    processes: int


class Stream(Enum):
    """Where output comes from."""

    STDOUT = "stdout"
    STDERR = "stderr"


class Streams(Protocol):
    """The streams of a command run in a container, or of the container's own process while attached to it."""

    async def write(self, data: bytes) -> None:
        """Pass input on; waits while the process does not read. After the process's end, nothing happens."""

    def end_input(self) -> None:
        """Tell the process that its input has ended.

        A container that was not to end its input with the first attached one, or has a terminal, goes on unaware; this
        detaches from it, and its output ends here.
        """

    def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Yield what the process writes until its output has ended; on a terminal all of it is STDOUT."""

    def resize(self, columns: int, rows: int) -> None:
        """Tell the process's terminal its size."""

    async def wait(self) -> int:
        """Return the exit code, 128 + n after signal n."""

    async def close(self) -> None:
        """Let go: a container is only detached from, an executed command that still runs is killed with all it started.

        What a command that has ended left running lives on as the container's own, until that ends.
        """


class Process(Protocol):
    """One process that was started and may have ended since."""

    @property
    def pid(self) -> int:
        """Its id on this machine; 0 for a simulated one."""

    @property
    def started_at(self) -> int:
        """When it was started."""

    async def wait(self) -> Exited:
        """Return how it ended, once it has; any number of callers, also after the end."""

    def signal(self, number: int) -> None:
        """Send a signal to the process alone. Nothing happens if it is gone."""

    def kill(self) -> None:
        """Kill the process and everything that it started. Nothing happens if it is gone."""

    async def reopen_log(self) -> None:
        """Go on in a new file at the log's path. Raises OSError."""

    async def execute(
        self, arguments: tuple[str, ...], *, terminal: bool = False, stdin: bool = False, merge_stderr: bool = False
    ) -> Streams:
        """Run a command as the container's process was: directory, environment, user, mounts. Raises StartFailed.

        With a terminal, or `merge_stderr`, everything comes on STDOUT.
        """

    async def attach(self) -> Streams:
        """Return the process's own streams, from now on. Raises StartFailed where it has ended."""

    def usage(self) -> Usage | None:
        """Return what it uses; None when it has ended."""


class Processes(Protocol):
    """Starts processes and finds them again."""

    def refusal(self, mount: Mount) -> str | None:
        """Return, in a sentence, why no container could have this mount; None if one could, as things are."""

    async def start(self, spec: ProcessSpec, directory: Path) -> Process:
        """Start what the spec says, keeping all it needs to be found again in `directory`, which exists and is empty.

        Returns once it runs. Raises StartFailed; then nothing is left running. If the caller is cancelled or killed,
        what was begun either ran or not: `find` tells.
        """

    async def find(self, directory: Path) -> Process | Exited | None:
        """Return what became of a process that an earlier server started there; None if it was never started."""

    async def close(self) -> None:
        """Let go of all processes; they run on."""
