"""Log rotation: keeps the logs of running containers from growing without bound.

A log that has reached its size limit is renamed, and the runtime is asked to open a new one. Renamed logs are
compressed, and the oldest ones are removed.

Mirrors logs/container_log_manager.go, v1.36, with its sizes, names and numbers, so that tools that read a kubelet's
logs can read these. Differences:

- It checks each second, not every ten: a container that writes 50 MB/s leaves files of about 50 MB, not 500 MB. Names
  contain a time in seconds, so a log is rotated at most once a second. With more than a thousand pods
  it checks a thousand of them a second, so each of ten thousand every ten seconds. Logs that were rotated in the
  last minute are checked every second.
- Files are renamed first and compressed later. The kubelet's log grows while it compresses, and without bound once
  compressing takes longer than writing. Files beyond the limit are removed uncompressed.
- A file that somebody still writes to is not compressed, however long ago it was renamed.
- A runtime that does not answer delays only its own logs.
- Links are not followed, and only regular files are renamed, compressed and removed: a pod may write to the directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import logging
import os
import shutil
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Protocol

from syncpod.agent.background import cancel_all
from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.node.log_files import COMPRESSED, UNFINISHED, LogDirectory, is_being_written, log_directory
from syncpod.node.pod_threads import DiskWork, PodThreads
from syncpod.settings.node import LogSettings

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 1.0
"""Between two checks of the logs' sizes; the kubelet's containerLogMonitorInterval is 10 s."""
PODS_PER_TURN: Final = 1000
"""How many pods' logs are checked each second: that takes a hundredth of a core."""
_BUSY_SECONDS: Final = 60.0
"""How long after a rotation a pod's logs are checked each second, however many pods there are."""
_AGAIN_SECONDS: Final = 10.0
"""How soon a log that could not be rotated or reopened is tried again."""
ANSWER_SECONDS: Final = 2.0
"""How long a worker that ends waits for a runtime's answer to the request to reopen a log."""
_COMPRESS_SECONDS: Final = 120.0
"""How long compressing one log may hold up the others: its disk may hang."""
_PATH_LIMIT: Final = 4096
"""PATH_MAX: anything longer is no path."""
_STAMP: Final = "%Y%m%d-%H%M%S"


class Pods(Protocol):
    """Where the pods of the node are listed: :class:`syncpod.agent.pleg.Pleg`."""

    def listings(self) -> tuple[ObservedPod, ...]:
        """Return the newest listing of every pod."""

    def newest(self, uid: str) -> ObservedPod | None:
        """Return the newest listing of the pod, if any."""


class LogRotation:
    """Rotates one node's logs; compresses one file at a time."""

    def __init__(
        self,
        log_dir: Path,
        cri: CriRuntime,
        pods: Pods,
        limits: LogSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        threads: PodThreads | None = None,
    ) -> None:
        """Rotate the logs below `log_dir` of the running containers of `pods`, in `threads` (None: its own)."""
        self._threads = threads or PodThreads()
        self._log_dir = log_dir
        self._cri = cri
        self._pods = pods
        self._limits = limits
        self._now = now
        self._uncompressed: dict[Path, tuple[str, str]] = {}
        """Logs with files to compress: the pod's UID, and a description of their container."""
        self._compressing: asyncio.Task[None] | None = None
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """By container id."""
        self._waiting: deque[str] = deque()
        """The UIDs of those of very many pods that have not had their turn in this round."""
        self._busy_until: dict[str, float] = {}
        """By pod UID: monotonic time until which its logs are checked each second."""
        self._not_before: dict[str, float] = {}
        """By container id: monotonic time until which its log is left alone, since it could not be rotated."""

    async def run(self) -> None:
        """Check each second until cancelled."""
        try:
            while True:
                await asyncio.sleep(PERIOD_SECONDS)
                await self._look()
        finally:
            await cancel_all([*self._under_way.values(), *filter(None, [self._compressing])])

    async def _look(self) -> None:
        """Start rotating what is due, unless that is under way."""
        running = {
            container.id: (container, listing)
            for listing in self._listings_in_turn()
            for container in listing.containers
            if container.state == "running" and _is_ours(container.log_path[:_PATH_LIMIT], self._log_dir)
        }
        now = time.monotonic()
        self._not_before = {id_: until for id_, until in self._not_before.items() if until > now}
        paths = {
            id_: container.log_path
            for id_, (container, _) in running.items()
            if id_ not in self._not_before and id_ not in self._under_way
        }
        for id_ in await in_daemon_thread(partial(_due, paths, self._limits.max_bytes), name="sizes of logs"):
            container, pod = running[id_]
            self._busy_until[pod.uid] = now + _BUSY_SECONDS
            name = f"log of {container.name} in {pod.name}"
            task = asyncio.create_task(self._attend(container, pod.uid, pod.name), name=name)
            self._under_way[id_] = task
            task.add_done_callback(lambda _, id_=id_: self._under_way.pop(id_))  # type: ignore[misc]

    def _listings_in_turn(self) -> Iterable[ObservedPod]:
        """Return the pods whose logs are checked this time."""
        now = time.monotonic()
        self._busy_until = {uid: until for uid, until in self._busy_until.items() if until > now}
        if not self._waiting:
            # The newest pods come first: one that begins during a round is not checked later than the others for that.
            listings = self._pods.listings()[::-1]
            if len(listings) <= PODS_PER_TURN:
                return listings
            self._waiting.extend(listing.uid for listing in listings)
        turn = {self._waiting.popleft() for _ in range(min(PODS_PER_TURN, len(self._waiting)))}
        return [listing for uid in turn | self._busy_until.keys() if (listing := self._pods.newest(uid)) is not None]

    async def _attend(self, container: ObservedContainer, uid: str, pod: str) -> None:
        path = Path(container.log_path)
        try:
            if await self._rotate(container.id, uid, path):
                await self._threads.run(uid, DiskWork.LOGS, partial(remove_excess, path, self._limits.max_files))
                self._uncompressed[path] = uid, f"container {container.name} in pod {pod}"
        except (OSError, CriError) as error:
            self._not_before[container.id] = time.monotonic() + _AGAIN_SECONDS
            log.warning("the log of container %s in pod %s: %s", container.name, pod, error)
        if self._uncompressed and self._compressing is None:
            self._compressing = asyncio.create_task(self._compress(), name="compress logs")

    async def _compress(self) -> None:
        """Compress the waiting files one after the other, until none is left."""
        try:
            while self._uncompressed:
                path, (uid, whose) = self._uncompressed.popitem()
                try:
                    async with asyncio.timeout(_COMPRESS_SECONDS):
                        await self._threads.run(uid, DiskWork.COMPRESS, partial(compress_rotated, path))
                except TimeoutError:
                    log.warning("a log of %s is still being compressed; the next one is begun", whose)
                except OSError as error:
                    log.warning("a log of %s cannot be compressed: %s", whose, error)
        finally:
            self._compressing = None

    async def _rotate(self, container_id: str, uid: str, path: Path) -> bool:
        """Start a new log; False if that must wait for the next second. Raises OSError, CriError."""
        rotated = path.with_name(f"{path.name}.{self._now().strftime(_STAMP)}")
        # If there is no log at its path, somebody has moved it, perhaps a worker that died before it reached its next
        # line. The container still writes to that file, which nobody rotates, until the runtime reopens the path.
        renaming = asyncio.create_task(self._threads.run(uid, DiskWork.LOGS, partial(_renamed, path, rotated)))
        reopening: asyncio.Task[None] | None = None
        try:
            if not await asyncio.shield(renaming):
                return False
            reopening = asyncio.create_task(self._cri.reopen_container_log(container_id))
            await asyncio.shield(reopening)
        except (CriError, asyncio.CancelledError):
            await renaming
            if reopening is None or not await _succeeds(reopening):
                # The runtime still writes to the file that it has open, which must be found under its name.
                await self._threads.run(uid, DiskWork.LOGS, partial(_rename_back, rotated, path))
            raise
        if not await self._threads.run(uid, DiskWork.LOGS, partial(_is_there, path)):
            self._not_before[container_id] = time.monotonic() + _AGAIN_SECONDS
        return True


async def _succeeds(reopening: asyncio.Task[None]) -> bool:
    """Say whether the runtime answers within a moment that it has opened a new log.

    Hazard: conmon, which writes CRI-O's logs, replaces any file that has the log's name by its new one. So a file that
    is renamed back while the call is under way would be lost, with all that was written to it.
    """
    await asyncio.wait({reopening}, timeout=ANSWER_SECONDS)
    if not reopening.done():
        reopening.cancel()
        return False
    return not reopening.cancelled() and reopening.exception() is None


def remove_excess(path: Path, max_files: int) -> None:
    """Remove the oldest of a log's rotated files. Blocks. Raises OSError."""
    with log_directory(path) as directory:
        rotated = directory.rotated(path.name)
        for name in rotated[: max(len(rotated) - (max_files - 1), 0)]:
            directory.remove(name)


def compress_rotated(path: Path) -> None:
    """Compress a log's rotated files except the newest, which others may still be reading. Blocks. Raises OSError.

    Safe to repeat, by one caller at a time: a file that was being compressed when its worker died is compressed again.
    Anything but a regular file is left alone: somebody else has put it there.
    """
    with log_directory(path) as directory:
        for name in directory.names(path.name):
            if name.endswith(UNFINISHED) or directory.is_there(f"{name}{COMPRESSED}"):
                directory.remove(name)  # its worker died while compressing, or before removing the original
        for name in directory.rotated(path.name)[:-1]:
            if not name.endswith(COMPRESSED):
                _compress(directory, name)


def _compress(directory: LogDirectory, name: str) -> None:
    draft = f"{name}{UNFINISHED}"
    try:
        opened = directory.open(name)
    except FileNotFoundError:
        return  # it was removed meanwhile, being one too many
    with os.fdopen(opened, "rb") as whole:
        if is_being_written(opened):
            return
        with os.fdopen(directory.create(draft), "wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) as compressed:
                shutil.copyfileobj(whole, compressed, 1024 * 1024)
            os.fchmod(file.fileno(), os.fstat(opened).st_mode & 0o777)
    if not directory.is_there(name):
        directory.remove(draft)  # removed a little later, for the same reason
        return
    directory.rename(draft, f"{name}{COMPRESSED}")
    directory.remove(name)


@lru_cache(maxsize=2_000)  # asked of each running container, every second; paths of gone ones stay, 0.4 KB each
def _is_ours(log_path: str, log_dir: Path) -> bool:
    """Say whether this is a log of one of our pods; the runtime reports the path, so it is not trusted."""
    own = f"{log_dir}/"
    parts = log_path.removeprefix(own).split("/") if log_path.startswith(own) else ()
    return len(parts) == 3 and not {"", ".", ".."}.intersection(parts)


def _due(paths: dict[str, str], max_bytes: int) -> list[str]:
    """Return the ids of containers whose log has reached its size limit, or is not at its path.

    If a directory of a log is a link, the log is not ours to rotate, and the link's target is not touched.
    """
    due = []
    for container_id, path in paths.items():
        directory = path[: path.rindex("/")]  # not by os.path, nor in a loop: this is done a thousand times a second
        pod = directory[: directory.rindex("/")]
        try:
            if not (stat.S_ISDIR(os.lstat(pod).st_mode) and stat.S_ISDIR(os.lstat(directory).st_mode)):
                continue
            large = os.lstat(path).st_size >= max_bytes
        except FileNotFoundError:
            large = True
        except OSError:
            large = False  # the directory cannot be read, so its logs are not ours to rotate
        if large:
            due.append(container_id)
    return due


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _renamed(path: Path, to: Path) -> bool:
    """Rename a log; return False if the new name is taken. Raises OSError, also if the log is not a regular file."""
    with log_directory(path) as directory:
        if not directory.is_there(path.name):
            return True
        if directory.is_there(to.name) or directory.is_there(f"{to.name}{COMPRESSED}"):
            return False
        if not directory.is_file(path.name):
            raise OSError(errno.EINVAL, "is not a regular file, so it is not rotated", str(path))
        directory.rename(path.name, to.name)
        return True


def _rename_back(rotated: Path, path: Path) -> None:
    """Restore a log's name, unless the runtime has created a new file there after all. Raises OSError."""
    with contextlib.suppress(FileExistsError, FileNotFoundError), log_directory(path) as directory:
        # A rename would replace the new file, and lose what was written to it.
        directory.link(rotated.name, path.name)
        directory.remove(rotated.name)
