"""Sandboxes and containers as the server has them in memory, and what they share.

There may be twenty thousand, so they are small: what only a status needs is read from disk when a status is asked for.
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
    """Whoever asked for something that goes on without them."""

    gone = False
    """Whether they gave up."""


@dataclass(slots=True, eq=False)
class Sandbox:
    """A sandbox that is listed: one still being made is not."""

    id: str
    name: str
    """name_namespace_uid_attempt, which no other sandbox may have."""
    labels: Mapping[str, str]
    entry: bytes
    """As it stands in a list (`listing`)."""
    address: str
    """Its own in 127.0.0.0/8; empty on the node's network."""
    privileged: bool
    pause: Process | None
    """None once it has ended."""
    containers: dict[str, Container] = field(default_factory=dict)
    stopping: bool = False
    """It was stopped, or is being: nothing is started in it any more."""
    removing: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while it is stopped or removed."""
    watch: asyncio.Task[None] | None = None
    """Ends once the pause's end is on record."""
    asking: asyncio.Task[None] | None = None
    """Set while it is found out what became of an earlier server's pause."""
    unanswered: bool = False
    """What became of its pause could not be found out: it may run, and counts as ended."""

    @property
    def ready(self) -> bool:
        """Whether its pause runs."""
        return self.pause is not None

    @property
    def metadata(self) -> api_pb2.PodSandboxMetadata:
        """What it was named by."""
        return listing.read_sandbox(self.entry).metadata


@dataclass(slots=True, eq=False)
class Container:
    """A container."""

    id: str
    name: str
    """name_pod_namespace_uid_attempt, which no other container may have."""
    sandbox: Sandbox
    short_name: str
    """The one in its metadata."""
    labels: Mapping[str, str]
    entry: bytes
    """As it stands in a list (`listing`)."""
    created_at: int
    stop_signal: int
    cgroup: str
    root: str = ""
    """Which of the images' roots it has; empty where its image has no files."""
    process: Process | None = None
    """Set while it runs, and kept until the end is on record."""
    ended: Exited | None = None
    """How it ended, or that it could not be started."""
    starting: bool = False
    removing: bool = False
    stop_signalled: bool = False
    """The stop signal was sent; a second StopContainer does not send it again."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while it is started, changed or removed."""
    watch: asyncio.Task[None] | None = None
    """Ends once its end is on record."""
    closing: asyncio.Task[bool] | None = None
    """Ends once its cgroup is gone, or cannot be removed: False then."""
    asking: asyncio.Task[None] | None = None
    """Set while it is found out what became of an earlier server's; ends once it is known, or has to count as ended."""

    @property
    def state(self) -> api_pb2.ContainerState:
        """CREATED, RUNNING or EXITED; UNKNOWN while it is being found out which of the last two, as in containerd."""
        if self.ended is not None:
            return api_pb2.CONTAINER_EXITED
        if self.asking is not None:
            return api_pb2.CONTAINER_UNKNOWN
        return api_pb2.CONTAINER_CREATED if self.process is None else api_pb2.CONTAINER_RUNNING

    @property
    def state_name(self) -> str:
        """CONTAINER_RUNNING, say."""
        return api_pb2.ContainerState.Name(self.state)

    def listed_anew(self) -> None:
        """Have it listed in the state that it has now."""
        self.entry = listing.with_state(self.entry, self.state)


@dataclass(eq=False)
class Runtime:
    """What all calls work on."""

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
    """Held while it is asked what became of a process."""

    def sandbox_directory(self, id: str) -> Path:
        """Where a sandbox is kept."""
        return self.directory / "sandboxes" / id

    def container_directory(self, id: str) -> Path:
        """Where a container is kept."""
        return self.directory / "containers" / id

    def own_image(self, image: Image) -> OwnImage | None:
        """Return what containers have of an image that was loaded; None for one without files of its own."""
        if image.content is None or self.host.isolation == "simulated":
            return None
        return OwnImage(self.images.root_directory(image.content.root), image.content.config)

    def collect_roots(self) -> None:
        """Remove the files of images that neither an image nor a container has any more; later, if that fails now."""
        roots = self.images.root_directory("")

        def in_use() -> frozenset[str]:
            return self.images.roots() | {container.root for container in self.containers}

        try:
            if image_roots.retire(roots, in_use):
                self.begin(in_thread(image_roots.remove_retired, roots))
        except OSError as error:
            log(f"{roots}: what no image has any more cannot be removed: {error}")

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` to its end whether or not anybody still waits for it; await it through `asyncio.shield`.

        What it raises is for whoever waits; if nobody does, a fault that nobody foresaw is logged.
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
    """Tell whoever runs the server."""
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - the server's log


def log_error(error: BaseException) -> None:
    """Tell whoever runs the server of what nobody foresaw."""
    traceback.print_exception(error, file=sys.stderr)


async def remove_directory(runtime: Runtime, directory: Path) -> None:
    """Remove what is left of a thing that has no record any more.

    What the machine lacks something for is tried again until it is gone; what else cannot be removed is for the next
    server to try.
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
    """Remove a directory; False if it is to be tried again."""
    try:
        await in_thread(remove_tree, directory)
    except (OSError, RecursionError) as error:
        log(f"{directory} cannot be removed: {error}")
        return exhausted(error) is None
    return True


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Do what blocks, and may be done twice, in a thread; where the machine has no thread to give, right here."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except RuntimeError as error:
        if str(error) != _NO_THREAD:
            raise
        return work(*arguments)


def exhausted(error: BaseException) -> str | None:
    """Return in a sentence what the machine has no more of; None where that is not what the error is about."""
    if isinstance(error, OSError) and error.errno is not None and error.errno in _LACKING:
        return f"the machine has no more {_LACKING[error.errno]}: {error}"
    if isinstance(error, MemoryError):
        return f"the machine has no more {_LACKING[errno.ENOMEM]}"
    return f"the machine has no more threads: {error}" if str(error) == _NO_THREAD else None


def interned(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels as a dict that shares its strings with those of other sandboxes and containers."""
    return {sys.intern(key): sys.intern(value) for key, value in labels.items()}
