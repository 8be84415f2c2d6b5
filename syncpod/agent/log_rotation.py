"""Keeps the logs of running containers from growing without bound.

Every ten seconds each log of a running container that has grown past its size is renamed, and the runtime told to begin
a new one; what was renamed before is compressed, and the oldest go.

Mirrors logs/container_log_manager.go, v1.36: sizes, names, order and numbers are its own, so that whoever reads a
kubelet's logs reads these.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 10.0
"""containerLogMonitorInterval."""
_STAMP: Final = "%Y%m%d-%H%M%S"
_COMPRESSED: Final = ".gz"
_UNFINISHED: Final = ".tmp"


@dataclass(frozen=True)
class LogLimits:
    """How much of a container's log is kept."""

    max_bytes: int = 10 * 1024 * 1024
    """Size from which a log is rotated (containerLogMaxSize)."""
    max_files: int = 5
    """Files of one instance, the growing one included (containerLogMaxFiles); at least 2."""


class LogRotation:
    """The rotation of one node's logs, one at a time: a disk that hangs holds up the other logs, and no pod."""

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

    async def run(self) -> None:
        """Rotate every ten seconds, for ever."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            await self.rotate_all()

    async def rotate_all(self) -> None:
        """Rotate each log that is due; one that cannot be is left for the next time, with a warning."""
        for listing in tuple(self._listings()):
            for container in listing.containers:
                if container.state != "running" or not container.log_path:
                    continue
                try:
                    await self._rotate(container)
                except (OSError, CriError) as error:
                    log.warning("the log of container %s in pod %s: %s", container.name, listing.name, error)

    async def _rotate(self, container: ObservedContainer) -> None:
        path = Path(container.log_path)
        if not _is_ours(path, self._log_dir) or not await asyncio.to_thread(_is_due, path, self._limits.max_bytes):
            return
        await asyncio.to_thread(clear_rotated, path, self._limits.max_files)
        rotated = path.with_name(f"{path.name}.{self._now().strftime(_STAMP)}")
        if not await asyncio.to_thread(_renamed, path, rotated):
            return  # within one second of the last: its turn comes again
        try:
            await self._cri.reopen_container_log(container.id)
        except CriError:
            # The runtime goes on writing to the file that it has open: it must be found under its name.
            await asyncio.to_thread(_renamed, rotated, path)
            raise


def clear_rotated(path: Path, max_files: int) -> None:
    """Remove the oldest of a log's rotated files and compress the others, with room for one more. Blocks.

    Safe to repeat: what was being compressed when its worker died is compressed again. Raises OSError.
    """
    rotated = []
    for file in sorted(path.parent.glob(f"{path.name}.*")):
        if file.name.endswith(_UNFINISHED):
            file.unlink(missing_ok=True)
        elif file.with_name(f"{file.name}{_COMPRESSED}").exists():
            file.unlink(missing_ok=True)  # its worker died between the two
        else:
            rotated.append(file)
    kept = max(max_files - 2, 0)
    for file in rotated[: max(len(rotated) - kept, 0)]:
        file.unlink(missing_ok=True)
    for file in rotated[max(len(rotated) - kept, 0) :]:
        if not file.name.endswith(_COMPRESSED):
            _compress(file)


def _compress(file: Path) -> None:
    draft = file.with_name(f"{file.name}{_UNFINISHED}")
    with file.open("rb") as whole, gzip.open(draft, "wb", compresslevel=6) as compressed:
        shutil.copyfileobj(whole, compressed)
    draft.chmod(file.stat().st_mode & 0o777)
    draft.rename(file.with_name(f"{file.name}{_COMPRESSED}"))
    file.unlink(missing_ok=True)


def _is_ours(path: Path, log_dir: Path) -> bool:
    """Say whether this is a log of a pod of ours: the path has been to the runtime and back."""
    parts = path.relative_to(log_dir).parts if path.is_relative_to(log_dir) else ()
    return len(parts) == 3 and ".." not in parts


def _renamed(path: Path, to: Path) -> bool:
    """Give a file another name, unless something has that; say whether it has it now."""
    if to.exists():
        return False
    path.rename(to)
    return True


def _is_due(path: Path, max_bytes: int) -> bool:
    try:
        return os.stat(path, follow_symlinks=False).st_size > max_bytes  # noqa: PTH116  # one call, no second look
    except FileNotFoundError:
        return False
