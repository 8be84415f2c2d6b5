"""The server's sandboxes and containers in memory, and the state that all calls share.

These records are small, since there may be twenty thousand: the rest of a status is read from disk on request.
"""

from __future__ import annotations

import asyncio
import errno
import sys
import traceback
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from protos.cri.v1 import api_pb2
from syncpod.kernel.os_errors import where_and_why
from syncpod.kernel.tree_removal import remove_tree
from syncpod.runtime import listing
from syncpod.runtime.cgroups.limits import Cgroups
from syncpod.runtime.events import Events
from syncpod.runtime.host import Host
from syncpod.runtime.images import roots as image_roots
from syncpod.runtime.images.config import OwnImage
from syncpod.runtime.images.inventory import Image, ImageStore
from syncpod.runtime.port import Exited, Process, Processes
from syncpod.runtime.refusals import Refusal
from syncpod.runtime.registry import Registry

T = TypeVar("T")

_ASKED_AT_ONCE: Final = 64
_NO_THREAD: Final = "can't start new thread"
_LACKING: Final[Mapping[int, str]] = {
    errno.EMFILE: "file descriptors for the runtime",
    errno.ENFILE: "file descriptors",
    errno.ENOSPC: "room on the disk, or inodes",
    errno.EDQUOT: "room on the disk within the quota",
    errno.ENOMEM: "memory",
}


class Caller:
    """The caller of a piece of work, which continues even if the caller is cancelled."""

    gone = False
    """Whether the caller was cancelled."""


@dataclass(slots=True, eq=False)
class Sandbox:
    """A listed sandbox; one that is still being made is not listed."""

    id: str
    name: str
    """name_namespace_uid_attempt, which no other sandbox may have."""
    labels: Mapping[str, str]
    entry: bytes
    """Its entry in lists (`listing`)."""
    address: str
    """Its address in 127.0.0.0/8; empty on the node's network."""
    privileged: bool
    pause: Process | None
    """The sandbox's pause process; None once it has ended."""
    containers: dict[str, Container] = field(default_factory=dict)
    stopping: bool = False
    """True if it was stopped or is being stopped: nothing is started in it any more."""
    removing: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while it is stopped or removed."""
    watch: asyncio.Task[None] | None = None
    """Done once the pause's end is recorded."""
    asking: asyncio.Task[None] | None = None
    """Set while the state of an earlier server's pause is being found out."""
    unanswered: bool = False
    """True if the state of its pause could not be found out: the pause may run, but counts as ended."""

    @property
    def ready(self) -> bool:
        """True if the sandbox's pause runs."""
        return self.pause is not None

    @property
    def metadata(self) -> api_pb2.PodSandboxMetadata:
        """The metadata that its name is made of."""
        return listing.read_sandbox(self.entry).metadata


@dataclass(slots=True, eq=False)
class Container:
    """A listed container."""

    id: str
    name: str
    """name_pod_namespace_uid_attempt, which no other container may have."""
    sandbox: Sandbox
    short_name: str
    """The name in its metadata."""
    labels: Mapping[str, str]
    entry: bytes
    """Its entry in lists (`listing`)."""
    created_at: int
    stop_signal: int
    cgroup: str
    root: str = ""
    """The image root that it uses; empty if its image has no files."""
    process: Process | None = None
    """The container's process; set until its end is recorded."""
    ended: Exited | None = None
    """How it ended, or why it could not be started; None until this is recorded."""
    starting: bool = False
    removing: bool = False
    stop_signalled: bool = False
    """True if the stop signal was sent; a second StopContainer does not send it again."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while it is started, changed or removed."""
    watch: asyncio.Task[None] | None = None
    """Done once its end is recorded."""
    closing: asyncio.Task[bool] | None = None
    """Done once its cgroup is removed (True) or cannot be removed (False)."""
    asking: asyncio.Task[None] | None = None
    """Set while the state of an earlier server's container is being found out."""

    @property
    def state(self) -> api_pb2.ContainerState:
        """CREATED, RUNNING or EXITED; UNKNOWN while it may be either RUNNING or EXITED, as in containerd."""
        if self.ended is not None:
            return api_pb2.CONTAINER_EXITED
        if self.asking is not None:
            return api_pb2.CONTAINER_UNKNOWN
        return api_pb2.CONTAINER_CREATED if self.process is None else api_pb2.CONTAINER_RUNNING

    @property
    def state_name(self) -> str:
        """The state's name, such as CONTAINER_RUNNING."""
        return api_pb2.ContainerState.Name(self.state)

    def listed_anew(self) -> None:
        """Update the container's list entry to its present state."""
        self.entry = listing.with_state(self.entry, self.state)


@dataclass(eq=False)
class Runtime:
    """The state that all calls share."""

    directory: Path
    processes: Processes
    host: Host
    cgroups: Cgroups
    images: ImageStore
    events: Events = field(default_factory=Events)
    sandboxes: Registry[Sandbox] = field(default_factory=lambda: Registry("sandbox"))
    containers: Registry[Container] = field(default_factory=lambda: Registry("container"))
    background: set[asyncio.Task[Any]] = field(default_factory=set)
    asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_ASKED_AT_ONCE))
    """Limits the number of an earlier server's processes that are looked for at the same time."""

    def sandbox_directory(self, id: str) -> Path:
        """Return the directory of a sandbox's files."""
        return self.directory / "sandboxes" / id

    def resolv_conf(self, sandbox_id: str) -> Path:
        """Return the path of a sandbox's resolv.conf.

        The file exists only if the sandbox's containers do not use the machine's.
        """
        return self.sandbox_directory(sandbox_id) / "resolv.conf"

    def container_directory(self, id: str) -> Path:
        """Return the directory of a container's files."""
        return self.directory / "containers" / id

    def own_image(self, image: Image) -> OwnImage | None:
        """Return a loaded image's defaults and files for containers; None for an image without files."""
        if image.content is None or self.host.isolation == "simulated":
            return None
        return OwnImage(self.images.root_directory(image.content.root), image.content.config)

    def collect_roots(self) -> None:
        """Remove image roots that neither an image nor a container uses; a failure is retried later."""
        roots = self.images.root_directory("")

        def in_use() -> frozenset[str]:
            return self.images.roots() | {container.root for container in self.containers}

        try:
            if image_roots.retire(roots, in_use):
                self.begin(in_thread(image_roots.remove_retired, roots))
        except OSError as error:
            log(f"{roots}: what no image has any more cannot be removed: {where_and_why(error)}")

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` to its end even if its caller is cancelled; await it through `asyncio.shield`.

        A waiting caller gets its exception; if nobody waits, an unexpected exception is logged.
        """
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.background.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None or isinstance(error, Refusal):
            return
        lacking = exhausted(error)
        if lacking is None:
            log_error(error)
        else:
            log(lacking)


def log(sentence: str) -> None:
    """Log to standard error."""
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - the server's log


def log_error(error: BaseException) -> None:
    """Log an unexpected exception."""
    traceback.print_exception(error, file=sys.stderr)


async def remove_directory(runtime: Runtime, directory: Path) -> None:
    """Remove the directory of a sandbox or container whose record is removed.

    If the machine lacks resources this is retried until it succeeds; after any other error the next server tries again.
    """
    if not await _removed(directory):
        runtime.begin(_remove_later(directory))


async def _remove_later(directory: Path) -> None:
    pause = 1.0
    while True:
        await asyncio.sleep(pause)
        if await _removed(directory):
            return
        pause = min(2 * pause, 60.0)


async def _removed(directory: Path) -> bool:
    """Remove a directory; False if it should be retried."""
    try:
        await in_thread(remove_tree, directory)
    except (OSError, RecursionError) as error:
        log(f"{directory} cannot be removed: {where_and_why(error)}")
        return exhausted(error) is None
    return True


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Run blocking, repeatable work in a thread, or in the event loop's thread if no other one can be started."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except RuntimeError as error:
        if str(error) != _NO_THREAD:
            raise
        return work(*arguments)


def exhausted(error: BaseException) -> str | None:
    """Return a sentence about the resource that the machine has run out of; None for other errors."""
    if isinstance(error, OSError) and error.errno is not None and error.errno in _LACKING:
        return f"the machine has no more {_LACKING[error.errno]}: {error}"
    if isinstance(error, MemoryError):
        return f"the machine has no more {_LACKING[errno.ENOMEM]}"
    return f"the machine has no more threads: {error}" if str(error) == _NO_THREAD else None


def interned(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels as a dict that shares its strings with those of other sandboxes and containers."""
    return {sys.intern(key): sys.intern(value) for key, value in labels.items()}
