"""Log rotation: limits the size of running containers' logs.

A log that has reached its size limit is renamed, and the runtime is called to open a new one. Renamed logs are
compressed, and the oldest ones are removed.

Mirrors logs/container_log_manager.go, v1.36, with its sizes, names and numbers, so that tools that read a kubelet's
logs can read these. Differences:

- It checks each second, not every ten: a container that writes 50 MB/s leaves files of about 50 MB, not 500 MB. Names
  contain a time in seconds, so a log is rotated at most once a second. On a node with more than a thousand pods, a
  thousand of them are checked each second. With ten thousand pods, each is checked every ten seconds. Logs that were
  rotated in the last minute are checked every second.
- Files are renamed first and compressed later. A kubelet's log grows while the kubelet compresses, and without bound if
  compressing is slower than writing. Files beyond the limit are removed uncompressed.
- A file that a process still writes to is not compressed, however long ago it was renamed.
- If the runtime does not answer for a container, only that container's log waits.
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
"""Seconds between two checks of the logs' sizes; the kubelet's containerLogMonitorInterval is 10 s."""
PODS_PER_TURN: Final = 1000
"""The most pods whose logs are checked each second: this many take a hundredth of a core."""
_BUSY_SECONDS: Final = 60.0
"""Seconds after a rotation for which the pod's logs are checked each second, whatever the number of pods."""
_AGAIN_SECONDS: Final = 10.0
"""Seconds until the next try with a log that could not be rotated or reopened."""
ANSWER_SECONDS: Final = 2.0
"""Seconds to wait, after an error or at the worker's end, for the runtime's answer to a call to reopen a log."""
_COMPRESS_SECONDS: Final = 120.0
"""Seconds that the compression of one log may delay that of the others: its disk may hang."""
_PATH_LIMIT: Final = 4096
"""PATH_MAX: longer text from a runtime is not a path."""
_STAMP: Final = "%Y%m%d-%H%M%S"


class Pods(Protocol):
    """Lists the node's pods. Implemented by :class:`syncpod.agent.pleg.Pleg`."""

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
        """Logs with rotated files to compress, by path: the pod's UID, and a description of the container."""
        self._compressing: asyncio.Task[None] | None = None
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """By container id: the rotation under way."""
        self._waiting: deque[str] = deque()
        """UIDs of pods whose logs are not checked yet in this round; empty on a node with few pods."""
        self._busy_until: dict[str, float] = {}
        """By pod UID: monotonic time until which its logs are checked each second."""
        self._not_before: dict[str, float] = {}
        """By container id: monotonic time until which a log that could not be rotated is not tried again."""

    async def run(self) -> None:
        """Check each second until cancelled."""
        try:
            while True:
                await asyncio.sleep(PERIOD_SECONDS)
                await self._look()
        finally:
            await cancel_all([*self._under_way.values(), *filter(None, [self._compressing])])

    async def _look(self) -> None:
        """Start rotating the logs that are due and not already being rotated."""
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
            # The newest pods come first, so that a pod that starts during a round waits no longer than others.
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
        """Compress the rotated files of one log after another, until none is left."""
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
        # A log that is not at its path was moved, perhaps by a worker that died before its call to the runtime. The
        # container writes to the moved file, which is never rotated, until the runtime reopens the path.
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
                # The runtime still writes to the renamed file, which must have the log's name.
                await self._threads.run(uid, DiskWork.LOGS, partial(_rename_back, rotated, path))
            raise
        if not await self._threads.run(uid, DiskWork.LOGS, partial(_is_there, path)):
            self._not_before[container_id] = time.monotonic() + _AGAIN_SECONDS
        return True


async def _succeeds(reopening: asyncio.Task[None]) -> bool:
    """Say whether the runtime answers within `ANSWER_SECONDS` that it has opened a new log.

    Hazard: conmon, which writes CRI-O's logs, replaces any file that has the log's name by its new one. So a file that
    is renamed back while the call is under way would be lost with its content.
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
    Only regular files are touched: this node puts no others there.
    """
    with log_directory(path) as directory:
        for name in directory.names(path.name):
            if name.endswith(UNFINISHED) or directory.is_there(f"{name}{COMPRESSED}"):
                directory.remove(name)  # a worker died while it compressed this file, or before it removed the original
        for name in directory.rotated(path.name)[:-1]:
            if not name.endswith(COMPRESSED):
                _compress(directory, name)


def _compress(directory: LogDirectory, name: str) -> None:
    draft = f"{name}{UNFINISHED}"
    try:
        opened = directory.open(name)
    except FileNotFoundError:
        return  # it was removed meanwhile, as one of too many files
    with os.fdopen(opened, "rb") as whole:
        if is_being_written(opened):
            return
        with os.fdopen(directory.create(draft), "wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) as compressed:
                shutil.copyfileobj(whole, compressed, 1024 * 1024)
            os.fchmod(file.fileno(), os.fstat(opened).st_mode & 0o777)
    if not directory.is_there(name):
        directory.remove(draft)  # the original was removed during the compression, as one of too many files
        return
    directory.rename(draft, f"{name}{COMPRESSED}")
    directory.remove(name)


@lru_cache(maxsize=2_000)  # called for each running container every second; an entry takes 0.4 KB
def _is_ours(log_path: str, log_dir: Path) -> bool:
    """Say whether this is a log of one of our pods; the runtime reports the path, so it is not trusted."""
    own = f"{log_dir}/"
    parts = log_path.removeprefix(own).split("/") if log_path.startswith(own) else ()
    return len(parts) == 3 and not {"", ".", ".."}.intersection(parts)


def _due(paths: dict[str, str], max_bytes: int) -> list[str]:
    """Return the ids of containers whose log has reached its size limit, or is not at its path.

    A log whose directory is a link is left out: it is not the node's, and the link's target must not be touched.
    """
    due = []
    for container_id, path in paths.items():
        directory = path[: path.rindex("/")]  # without os.path, since this runs a thousand times a second
        pod = directory[: directory.rindex("/")]
        try:
            if not (stat.S_ISDIR(os.lstat(pod).st_mode) and stat.S_ISDIR(os.lstat(directory).st_mode)):
                continue
            large = os.lstat(path).st_size >= max_bytes
        except FileNotFoundError:
            large = True
        except OSError:
            large = False  # the directory cannot be read, so its logs cannot be rotated
        if large:
            due.append(container_id)
    return due


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _renamed(path: Path, to: Path) -> bool:
    """Rename a log, if it exists; return False if the new name is taken.

    Raises OSError, also if the log is not a regular file.
    """
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
    """Restore a log's name, except if the runtime has created a new file of that name. Raises OSError."""
    with contextlib.suppress(FileExistsError, FileNotFoundError), log_directory(path) as directory:
        # A rename would replace the new file, and lose its content.
        directory.link(rotated.name, path.name)
        directory.remove(rotated.name)
