"""Log rotation: keeps the logs of running containers from growing without bound.

A log that has reached its size limit is renamed, and the runtime is told to open a new one. Renamed logs are
compressed, and the oldest ones are removed.

Mirrors logs/container_log_manager.go, v1.36, with its sizes, names and numbers, so that tools that read a kubelet's
logs can read these. Differences:

- It checks each second, not every ten: a container that writes 50 MB/s leaves files of about 50 MB, not 500 MB. Names
  contain a time in seconds, so a log is rotated at most once a second.
- Files are renamed first and compressed later. The kubelet's log grows while it compresses, and without bound once
  compressing takes longer than writing. Files beyond the limit are removed uncompressed.
- A file that somebody still writes to is not compressed, however long ago it was renamed.
- A runtime that does not answer delays only its own logs.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from syncpod.agent.background import cancel_all
from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.node.log_files import COMPRESSED, UNFINISHED, is_being_written, rotated_files
from syncpod.settings.node import LogSettings

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 1.0
"""Between two checks of the logs' sizes; the kubelet's containerLogMonitorInterval is 10 s."""
_AGAIN_SECONDS: Final = 10.0
"""How soon a log that could not be rotated or reopened is tried again."""
_STAMP: Final = "%Y%m%d-%H%M%S"


class LogRotation:
    """Rotates one node's logs; compresses one file at a time."""

    def __init__(
        self,
        log_dir: Path,
        cri: CriRuntime,
        listings: Callable[[], Iterable[ObservedPod]],
        limits: LogSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Rotate the logs below `log_dir` of the running containers in `listings`."""
        self._log_dir = log_dir
        self._cri = cri
        self._listings = listings
        self._limits = limits
        self._now = now
        self._uncompressed: dict[Path, str] = {}
        """Logs with files to compress, and a description of their container."""
        self._compressing: asyncio.Task[None] | None = None
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """By container id."""
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
        """Compress the waiting files one after the other, until none is left."""
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
        """Start a new log; False if that must wait for the next second. Raises OSError, CriError."""
        rotated = path.with_name(f"{path.name}.{self._now().strftime(_STAMP)}")
        # If there is no log at its path, somebody has moved it, perhaps a worker that died before it reached its next
        # line. The container still writes to that file, which nobody rotates, until the runtime reopens the path.
        renaming = asyncio.create_task(asyncio.to_thread(_renamed, path, rotated))
        try:
            if not await asyncio.shield(renaming):
                return False
            await self._cri.reopen_container_log(container_id)
        except (CriError, asyncio.CancelledError):
            # The runtime still writes to the file that it has open, which must be found under its name.
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
    """Compress a log's rotated files except the newest, which others may still be reading. Blocks. Raises OSError.

    Safe to repeat, by one caller at a time: a file that was being compressed when its worker died is compressed again.
    """
    for file in path.parent.glob(f"{path.name}.*"):
        if file.name.endswith(UNFINISHED) or file.with_name(f"{file.name}{COMPRESSED}").exists():
            file.unlink(missing_ok=True)  # its worker died while compressing, or before removing the original
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
        return  # it was removed meanwhile, being one too many
    if not file.exists():
        draft.unlink()  # removed a little later, for the same reason
        return
    draft.rename(file.with_name(f"{file.name}{COMPRESSED}"))
    file.unlink(missing_ok=True)


def _is_ours(path: Path, log_dir: Path) -> bool:
    """Say whether this is a log of one of our pods; the runtime reports the path, so it is not trusted."""
    parts = path.relative_to(log_dir).parts if path.is_relative_to(log_dir) else ()
    return len(parts) == 3 and ".." not in parts


def _due(paths: dict[str, str], max_bytes: int) -> list[str]:
    """Return the containers whose log has reached its size limit, or is not at its path."""
    due = []
    for container_id, path in paths.items():
        try:
            large = os.stat(path, follow_symlinks=False).st_size >= max_bytes  # noqa: PTH116  # a thousand a second
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
    """Rename a log unless the new name is taken; return False if it is. Raises OSError."""
    if not _is_there(path):
        return True
    if _is_there(to) or _is_there(to.with_name(f"{to.name}{COMPRESSED}")):
        return False
    path.rename(to)
    return True


def _rename_back(rotated: Path, path: Path) -> None:
    """Restore a log's name, unless the runtime has created a new file there after all. Raises OSError."""
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        path.hardlink_to(rotated)  # a rename would replace the new file, and lose what was written to it
        rotated.unlink()
