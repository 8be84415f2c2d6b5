"""The interface between the server's state machine and its containers, which are real processes or timers.

Times are nanoseconds since the Unix epoch, as on CRI's wire.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, Protocol

PAUSE: Final = ("/pause",)
"""The command line of the image `pause`, whose program is built into the supervisor."""


@dataclass(frozen=True)
class User:
    """The user of a process. Only root can run a process as another user."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Mount:
    """One of a container's mounts; `host_path` exists when the container starts."""

    container_path: str
    host_path: str
    read_only: bool = False
    recursive_read_only: bool = False


@dataclass(frozen=True)
class ProcessSpec:
    """Everything needed to run a container's process, or a sandbox's pause. Written to disk as JSON, 0600."""

    id: str
    arguments: tuple[str, ...]
    """Program and arguments; empty only for a sandbox's pause, which lives until it is killed."""
    environment: tuple[tuple[str, str], ...] = ()
    working_directory: str = ""
    """The working directory; empty = `/`."""
    user: User | None = None
    """The user of the process; None = the server's user."""
    terminal: bool = False
    stdin: bool = False
    stdin_once: bool = False
    """Input ends when the first attached client has disconnected."""
    log_path: str = ""
    """The absolute path of the log; empty = output is discarded."""
    hostname: str = ""
    mounts: tuple[Mount, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    """Names such as CAP_CHOWN, or ALL."""
    oom_score_adj: int | None = None
    cgroup_procs: tuple[str, ...] = ()
    """The cgroup.procs files into which the process writes itself before it runs; empty without access to cgroups."""
    root: str = ""
    """The directory of an image's files, which the container sees under a writable layer; empty = the machine's
    files."""
    script: Mapping[str, str] = field(default_factory=dict)
    """The sandbox's annotations, with the script of a simulated process; a real process ignores them."""
    name: str = ""
    """The container's name in its metadata; empty for a sandbox's pause."""
    attempt: int = 0
    """The attempt in the container's metadata."""
    pod_uid: str = ""
    """The sandbox's uid in its metadata."""


@dataclass(frozen=True)
class Exited:
    """How a process ended."""

    exit_code: int
    """128 + n after signal n; 255 if the end was not observed."""
    reason: str
    """Completed, Error, OOMKilled or Unknown, as in containerd. If a start fails after its server has died, `find`
    returns StartError, with code 128, the sentence as message, and started_at 0."""
    message: str
    started_at: int
    finished_at: int


class StartFailed(Exception):
    """A process could not be started. The text is one sentence in runc's words (`exec: "x": not found`)."""

    def __init__(self, sentence: str, ended: Exited | None = None) -> None:
        """Fail for the reason in the sentence; `ended` is the end of the process, if it may have run nevertheless."""
        super().__init__(sentence)
        self.ended = ended


@dataclass(frozen=True)
class Usage:
    """The present usage of a process and its descendants."""

    cpu_nanoseconds: int
    memory_bytes: int
    """Resident memory."""
    processes: int


class Stream(Enum):
    """An output stream."""

    STDOUT = "stdout"
    STDERR = "stderr"


class Streams(Protocol):
    """The streams of a command in a container, or of an attachment to the container's main process."""

    async def write(self, data: bytes) -> None:
        """Send input; waits while the process does not read. Does nothing after the process's end."""

    def end_input(self) -> None:
        """End the process's input.

        This ends a container's own input only with `stdin_once` and without a terminal. Otherwise it only detaches from
        the container, and `output` ends.
        """

    def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Yield the process's output until it ends; on a terminal everything is STDOUT."""

    def resize(self, columns: int, rows: int) -> None:
        """Resize the process's terminal."""

    async def wait(self) -> int:
        """Return the exit code, 128 + n after signal n."""

    async def close(self) -> None:
        """Close the streams.

        This detaches from a container, and kills a running command with everything that it started. Processes that an
        ended command left behind run on until the container ends.
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
        """Wait for the end and return it. Any number of callers may wait, even after the end."""

    def signal(self, number: int) -> None:
        """Send a signal to the process only. Does nothing if it is gone."""

    def kill(self) -> None:
        """Kill the process and everything that it started. Does nothing if it is gone."""

    async def reopen_log(self) -> None:
        """Reopen the log at its path. Raises OSError."""

    async def execute(
        self, arguments: tuple[str, ...], *, terminal: bool = False, stdin: bool = False, merge_stderr: bool = False
    ) -> Streams:
        """Run a command with the container's directory, environment, user and mounts. Raises StartFailed.

        With a terminal or `merge_stderr`, all output is STDOUT.
        """

    async def attach(self) -> Streams:
        """Attach to the process's own streams. Raises StartFailed if it has ended."""

    def usage(self) -> Usage | None:
        """Return its usage; None if it has ended."""


class Processes(Protocol):
    """Starts processes and finds them again."""

    def refusal(self, mount: Mount) -> str | None:
        """Return a sentence with the reason why this mount is impossible; None if it is possible now."""

    async def start(self, spec: ProcessSpec, directory: Path) -> Process:
        """Start a process, with its files in `directory`, which must exist and be empty; `find` reads them.

        Returns once it runs. Raises StartFailed, and then nothing is left running. After a cancellation or the caller's
        death, `find` returns whether it ran.
        """

    async def find(self, directory: Path) -> Process | Exited | None:
        """Return the process that an earlier server started in `directory`, or its end; None if none was started."""

    async def close(self) -> None:
        """Detach from all processes, which run on."""
