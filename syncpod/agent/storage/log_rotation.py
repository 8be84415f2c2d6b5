"""Keeps the logs of running containers from growing without bound.

Each log of a running container that has grown to its size is renamed, and the runtime told to begin a new one; what
was renamed before is compressed, and the oldest go.

Mirrors logs/container_log_manager.go, v1.36: sizes, names and numbers are its own, so that whoever reads a kubelet's
logs reads these. Differences:

- It looks each second, not every ten: a container that writes 50 MB/s leaves files of about 50 MB, not of 500 MB. A
  name holds a time in seconds, so that no log is rotated more often.
- Files are renamed first, and compressed beside that: the kubelet's log grows while it compresses, and without bound
  once that takes longer than what it compresses took to be written. Those that are too many go uncompressed.
- One that somebody still writes to is not compressed, however long ago it was renamed.
- A runtime that does not answer holds up its own logs alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.node.log_files import COMPRESSED, UNFINISHED, is_being_written, rotated_files

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 1.0
"""Between two looks at the logs' sizes: containerLogMonitorInterval, 10 s there."""
_AGAIN_SECONDS: Final = 10.0
"""How soon a log that could not be rotated, or begun anew, is tried again."""
_STAMP: Final = "%Y%m%d-%H%M%S"


@dataclass(frozen=True)
class LogLimits:
    """How much of a container's log is kept."""

    max_bytes: int = 10 * 1024 * 1024
    """Size from which a log is rotated (containerLogMaxSize)."""
    max_files: int = 5
    """Files of one instance, the growing one included (containerLogMaxFiles); at least 2."""


class LogRotation:
    """The rotation of one node's logs. One file is compressed at a time."""

    def __init__(
        self,
        log_dir: Path,
        cri: CriRuntime,
        listings: Callable[[], Iterable[ObservedPod]],
        limits: LogLimits,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Rotate below `log_dir` what `listings` says is running."""
        self._log_dir = log_dir
        self._cri = cri
        self._listings = listings
        self._limits = limits
        self._now = now
        self._uncompressed: dict[Path, str] = {}
        """Logs that have files to compress, and whose they are."""
        self._compressing: asyncio.Task[None] | None = None
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """By container id."""
        self._not_before: dict[str, float] = {}
        """By container id: monotonic time before which its log is left alone, since it could not be rotated."""

    async def run(self) -> None:
        """Look each second, for ever."""
        try:
            while True:
                await asyncio.sleep(PERIOD_SECONDS)
                await self._look()
        finally:
            tasks = (*self._under_way.values(), *filter(None, [self._compressing]))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self) -> None:
        """Begin to rotate what is due, unless that is under way."""
        running = {
            container.id: (container, listing.name)
            for listing in self._listings()
            for container in listing.containers
            if container.state == "running" and _is_ours(Path(container.log_path), self._log_dir)
        }
        now = time.monotonic()
        self._not_before = {id_: until for id_, until in self._not_before.items() if id_ in running and until > now}
        paths = {
            id_: container.log_path
            for id_, (container, _) in running.items()
            if id_ not in self._not_before and id_ not in self._under_way
        }
        for id_ in await asyncio.to_thread(_due, paths, self._limits.max_bytes):
            container, pod = running[id_]
            task = asyncio.create_task(self._attend(container, pod), name=f"log of {container.name} in {pod}")
            self._under_way[id_] = task
            task.add_done_callback(lambda _, id_=id_: self._under_way.pop(id_))  # type: ignore[misc]

    async def _attend(self, container: ObservedContainer, pod: str) -> None:
        path = Path(container.log_path)
        try:
            if await self._rotate(container.id, path):
                await asyncio.to_thread(remove_excess, path, self._limits.max_files)
                self._uncompressed[path] = f"container {container.name} in pod {pod}"
        except (OSError, CriError) as error:
            self._not_before[container.id] = time.monotonic() + _AGAIN_SECONDS
            log.warning("the log of container %s in pod %s: %s", container.name, pod, error)
        if self._uncompressed and self._compressing is None:
            self._compressing = asyncio.create_task(self._compress(), name="compress logs")

    async def _compress(self) -> None:
        """Compress what is to be, one file after the other, until nothing is left to be."""
        try:
            while self._uncompressed:
                path, whose = self._uncompressed.popitem()
                try:
                    await asyncio.to_thread(compress_rotated, path)
                except OSError as error:
                    log.warning("a log of %s cannot be compressed: %s", whose, error)
        finally:
            self._compressing = None

    async def _rotate(self, container_id: str, path: Path) -> bool:
        """Have a new log begun; False where that has to wait for the next second. Raises OSError, CriError."""
        rotated = path.with_name(f"{path.name}.{self._now().strftime(_STAMP)}")
        # Without a log at its path somebody has taken it away, perhaps a worker that died before its next line: what
        # the container writes goes on into that file, which nobody rotates, until the runtime opens the path again.
        renaming = asyncio.create_task(asyncio.to_thread(_renamed, path, rotated))
        try:
            if not await asyncio.shield(renaming):
                return False
            await self._cri.reopen_container_log(container_id)
        except (CriError, asyncio.CancelledError):
            # The runtime goes on writing to the file that it has open: it must be found under its name.
            await renaming
            await asyncio.to_thread(_rename_back, rotated, path)
            raise
        if not await asyncio.to_thread(_is_there, path):
            self._not_before[container_id] = time.monotonic() + _AGAIN_SECONDS
        return True


def remove_excess(path: Path, max_files: int) -> None:
    """Remove the oldest of a log's rotated files. Blocks. Raises OSError."""
    rotated = rotated_files(path)
    for file in rotated[: max(len(rotated) - (max_files - 1), 0)]:
        file.unlink(missing_ok=True)


def compress_rotated(path: Path) -> None:
    """Compress a log's rotated files but for the newest, which others may still be reading. Blocks. Raises OSError.

    Safe to repeat, by one caller at a time: what was being compressed when its worker died is compressed again.
    """
    for file in path.parent.glob(f"{path.name}.*"):
        if file.name.endswith(UNFINISHED) or file.with_name(f"{file.name}{COMPRESSED}").exists():
            file.unlink(missing_ok=True)  # its worker died while it compressed, or between that and the removal
    for file in rotated_files(path)[:-1]:
        if not file.name.endswith(COMPRESSED):
            _compress(file)


def _compress(file: Path) -> None:
    draft = file.with_name(f"{file.name}{UNFINISHED}")
    try:
        with file.open("rb") as whole:
            if is_being_written(whole.fileno()):
                return
            with gzip.open(draft, "wb", compresslevel=6) as compressed:
                shutil.copyfileobj(whole, compressed, 1024 * 1024)
            draft.chmod(os.fstat(whole.fileno()).st_mode & 0o777)
    except FileNotFoundError:
        return  # it was one too many meanwhile
    if not file.exists():
        draft.unlink()  # the same, a little later
        return
    draft.rename(file.with_name(f"{file.name}{COMPRESSED}"))
    file.unlink(missing_ok=True)


def _is_ours(path: Path, log_dir: Path) -> bool:
    """Say whether this is a log of a pod of ours: the path has been to the runtime and back."""
    parts = path.relative_to(log_dir).parts if path.is_relative_to(log_dir) else ()
    return len(parts) == 3 and ".." not in parts


def _due(paths: dict[str, str], max_bytes: int) -> list[str]:
    """Return the containers whose log has its size, or is not at its path."""
    due = []
    for container_id, path in paths.items():
        try:
            large = os.stat(path, follow_symlinks=False).st_size >= max_bytes  # noqa: PTH116  # a thousand a second
        except FileNotFoundError:
            large = True
        except OSError:
            large = False  # a directory that cannot be looked into: what is written there is not ours to rotate
        if large:
            due.append(container_id)
    return due


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _renamed(path: Path, to: Path) -> bool:
    """Give a log another name, unless something has that; False where that is in its way. Raises OSError."""
    if not _is_there(path):
        return True
    if _is_there(to) or _is_there(to.with_name(f"{to.name}{COMPRESSED}")):
        return False
    path.rename(to)
    return True


def _rename_back(rotated: Path, path: Path) -> None:
    """Give a log its name back, unless the runtime has begun another there after all. Raises OSError."""
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        path.hardlink_to(rotated)  # a rename would put it in the other's place, and what is written there were lost
        rotated.unlink()
