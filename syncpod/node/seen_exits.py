"""How containers were seen to end by the node itself, past the runtime: kept for what the runtime does not know.

A runtime that was down when a container ended may only know that it has: containerd 2 lists it as EXITED 255 `Unknown`,
with the time at which it came up again. The agent has heard the end all the same, and from the kernel how it was.
It is kept on disk, by container, for as long as the runtime lists the container: whoever asks the runtime later, in
another life of the worker, would be told again that nothing is known.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from syncpod.kernel.atomic_file import replace_file
from syncpod.lifecycle.exit import Exit, reason_of

log = logging.getLogger(__name__)

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
"""Ids that may be file names: those of every runtime are."""


class SeenExits:
    """The ends that were seen on one node, by container id, in files of mode 0600. All of it belongs to one event loop.

    What is noted counts at once; files are written and removed in a thread of their own, one after the other: those
    that all share may hang with the volumes of pods. One that cannot be written or read is logged, and costs what it
    would have told: nothing depends on it otherwise.
    """

    def __init__(self, directory: Path) -> None:
        """Keep them in `directory`, made (0700) when the first is; what an earlier life has left there counts.

        Blocks.
        """
        self._directory = directory
        self._seen: dict[str, Exit] = {}
        self._changed: set[str] = set()
        """Containers whose files do not say yet what is known of them."""
        self._writing: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1, "seen exits")
        for path in sorted(directory.glob("*")):
            if path.name.startswith("."):
                path.unlink(missing_ok=True)  # a draft of a life that was cut off
            elif (read := _read(path)) is not None:
                self._seen[path.name] = read

    def note(self, container_id: str, exit_code: int, at: datetime) -> None:
        """Keep how a container was seen to end, and when by the node's clock."""
        if not _ID.fullmatch(container_id):
            return
        reason = reason_of(exit_code)
        self._seen[container_id] = Exit(id=container_id, exit_code=exit_code, reason=reason, finished_at=at)
        self._write_soon(container_id)

    def of(self, container_id: str) -> Exit | None:
        """Return how a container was seen to end; None where it was not, or is gone from the runtime's list."""
        return self._seen.get(container_id)

    def complete(self, exit_: Exit) -> Exit:
        """Return a container's exit as it was seen, where the runtime does not know how the container ended."""
        seen = self._seen.get(exit_.id)
        if seen is None or not exit_.is_unknown_to_runtime:
            return exit_
        how = {"exit_code": seen.exit_code, "reason": seen.reason, "finished_at": seen.finished_at}
        return exit_.model_copy(update=how)

    def ids(self) -> frozenset[str]:
        """Return of whom an end is kept."""
        return frozenset(self._seen)

    def forget(self, container_ids: Collection[str]) -> None:
        """Drop the ends of containers that are gone."""
        for container_id in container_ids:
            if self._seen.pop(container_id, None) is not None:
                self._write_soon(container_id)

    async def settled(self) -> None:
        """Wait until the files say what is known."""
        while self._writing is not None:
            await asyncio.wait({self._writing})

    def _write_soon(self, container_id: str) -> None:
        self._changed.add(container_id)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="seen exits")

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._changed:
                changed = {container_id: self._seen.get(container_id) for container_id in self._changed}
                self._changed.clear()
                await loop.run_in_executor(self._writer, _write, self._directory, changed)
        finally:
            self._writing = None


def _write(directory: Path, changed: Mapping[str, Exit | None]) -> None:
    """Have the files of these containers say how they were seen to end; None removes one. Blocks."""
    for container_id, seen in changed.items():
        path = directory / container_id
        try:
            if seen is None:
                path.unlink(missing_ok=True)
            else:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                replace_file(path, seen.model_dump_json(exclude_defaults=True) + "\n", durable=False)
        except OSError as error:
            log.warning("%s cannot be %s: %s", path, "removed" if seen is None else "written", error)


def _read(path: Path) -> Exit | None:
    try:
        return Exit.model_validate_json(path.read_text())
    except (OSError, ValueError) as error:
        log.warning("%s does not say how a container has ended: %s", path, error)
        return None
