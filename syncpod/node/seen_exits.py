"""Exits of containers that the node itself observed, for exits that the runtime cannot report.

A runtime that was down when a container ended may have lost its exit code: containerd 2 lists it as EXITED 255
`Unknown`, finished when containerd came up again. The agent watches each process, and the kernel reports its exit code.
The exit code is kept on disk as long as the runtime lists the container, since the runtime would report `Unknown` to a
later worker too. An exit that is recorded too late for one listing counts in the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from syncpod.cri.answers import is_id
from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.daemon_thread import started_pool
from syncpod.kernel.pidfd_info import reports_exits
from syncpod.kernel.tree_removal import remove_tree
from syncpod.lifecycle.exit import DOUBTFUL_EXIT_CODE, STATUS_UNKNOWN, Exit, reason_of

log = logging.getLogger(__name__)

_EXIT: Final = TypeAdapter(Exit)

DIRECTORY: Final = "exits"
"""The directory of the records, in a node's state directory."""

EXPECTED_SECONDS = 1.0
"""Seconds to wait for the kernel to report an exit that the runtime lists as 255. The kernel reports the exit of a
process once it is reaped."""


class SeenExits:
    """The exits that were observed on one node, by container id, in files of mode 0600. Belongs to one event loop.

    A recorded exit counts at once. One thread writes and removes the files, since the shared threads may hang with the
    volumes of pods. A file that cannot be written or read is logged, and its content is lost.
    """

    def __init__(self, directory: Path) -> None:
        """Keep the files in `directory`, created (0700) with the first file. Files of earlier workers are read.

        Blocks.
        """
        self._directory = directory
        self._seen: dict[str, Exit] = {}
        self._expected: dict[str, asyncio.Event] = {}
        """Containers whose exit the kernel will report. The event is set once the report has come, or once it is
        certain that none will come."""
        self._changed: set[str] = set()
        """Containers whose files are not up to date."""
        self.kernel_tells = reports_exits()
        """True if the kernel reports the exit codes of processes."""
        self._writing: asyncio.Task[None] | None = None
        self._writer = started_pool(1, "seen exits")
        for path in sorted(directory.glob("*")):
            if path.name.startswith("."):
                path.unlink(missing_ok=True)  # a draft that a crash left behind
            elif (read := _read(path)) is not None:
                self._seen[path.name] = read

    def note(self, container_id: str, exit_code: int, at: datetime) -> None:
        """Record how a container ended, and when by the node's clock."""
        if not is_id(container_id):
            return
        reason = reason_of(exit_code)
        self.give_up(container_id)
        self._seen[container_id] = Exit(id=container_id, exit_code=exit_code, reason=reason, finished_at=at)
        self._write_soon(container_id)

    def of(self, container_id: str) -> Exit | None:
        """Return a container's observed exit; None without one, or once the runtime no longer lists the container."""
        return self._seen.get(container_id)

    def expect(self, container_id: str) -> None:
        """Record that the kernel will report a container's exit. `note` or `give_up` must follow."""
        self._expected.setdefault(container_id, asyncio.Event())

    def give_up(self, container_id: str) -> None:
        """Record that the kernel will not report a container's exit. Safe to repeat."""
        expected = self._expected.pop(container_id, None)
        if expected is not None:
            expected.set()

    async def complete(self, exit_: Exit) -> Exit:
        """Return the exit that the node observed if the runtime may have missed it; else the runtime's `exit_`.

        A runtime lists 255 for an end that it missed, and for a container whose shim was killed. A runtime that gave up
        a start lists no end of the process. The kernel's report overrides both. If the kernel is expected to report,
        this waits for at most :data:`EXPECTED_SECONDS`: the process may be about to be killed, or not yet reaped.
        """
        if exit_.exit_code != DOUBTFUL_EXIT_CODE and exit_.reason != STATUS_UNKNOWN:
            return exit_
        expected = self._expected.get(exit_.id)
        if expected is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EXPECTED_SECONDS):
                    await expected.wait()
        seen = self._seen.get(exit_.id)
        if seen is None:
            return exit_
        # The message of an unknown end has no other content.
        message = "" if exit_.reason == STATUS_UNKNOWN else exit_.message
        known = replace(exit_, exit_code=seen.exit_code, reason=seen.reason, finished_at=seen.finished_at)
        return replace(known, message=message)

    def is_doubtful(self, exit_: Exit) -> bool:
        """Return whether the runtime may have listed 255 because it missed the real exit code.

        False on a kernel that does not report exits: there nothing can confirm a 255, so the runtime's code counts.
        """
        doubtful = exit_.exit_code == DOUBTFUL_EXIT_CODE and exit_.id not in self._seen
        return doubtful and not exit_.is_unknown and self.kernel_tells

    def ids(self) -> frozenset[str]:
        """Return the ids of containers with a recorded end."""
        return frozenset(self._seen)

    def forget(self, container_ids: Collection[str]) -> None:
        """Drop the ends of containers that no longer exist."""
        for container_id in container_ids:
            if self._seen.pop(container_id, None) is not None:
                self._write_soon(container_id)

    async def settled(self) -> None:
        """Wait until the files are up to date."""
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


def forget_seen_exits(state_dir: Path) -> None:
    """Remove all records of a node that has no pods any more, and so no containers. Raises OSError."""
    remove_tree(state_dir / DIRECTORY)


def _write(directory: Path, changed: Mapping[str, Exit | None]) -> None:
    """Write the files of these containers; None removes one. Blocks."""
    for container_id, seen in changed.items():
        path = directory / container_id
        try:
            if seen is None:
                path.unlink(missing_ok=True)
            else:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                replace_file(path, _EXIT.dump_json(seen, exclude_defaults=True).decode() + "\n", durable=False)
        except OSError as error:
            log.warning("%s cannot be %s: %s", path, "removed" if seen is None else "written", error)


def _read(path: Path) -> Exit | None:
    try:
        return _EXIT.validate_json(path.read_text())
    except (OSError, ValueError) as error:
        log.warning("%s does not say how a container has ended: %s", path, error)
        return None
