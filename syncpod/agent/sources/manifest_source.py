"""Watches the directory of manifests, and starts, changes and ends its pods accordingly.

Mirrors pkg/kubelet/config/file.go, file_linux.go, v1.36: it uses inotify, and reads the whole directory again every
20 s, since some file systems do not notify. A file system that hangs blocks only this module. Differences:

- A notification only wakes the reader, which reads the whole directory, so no notification can be lost or misread.
- If another client has ended the workflow of one of its pods, the pod is started again, and that is reported. The
  kubelet restarts such a pod from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from temporalio.service import RPCError

from syncpod.agent.sources.desired_pods import DesiredPods, Listing
from syncpod.agent.sources.manifest_files import ManifestFiles
from syncpod.agent.sources.manifest_report import ManifestReport
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.inotify import DirectoryChange, DirectoryWatch

log = logging.getLogger(__name__)

REREAD_SECONDS: Final = 20.0
"""Seconds between two regular reads: the kubelet's fileCheckFrequency."""
SETTLED_SECONDS: Final = 0.1
"""Seconds without a further change before an incomplete change is read, such as a file that is being written."""
GONE_SECONDS: Final = 0.02
"""Seconds without a further change before a removal is read: a program that replaces a file creates the new file at
once. The kubelet does not wait."""
UNSETTLED_SECONDS: Final = 1.0
"""The most seconds between an incomplete change and its read, while further changes follow."""
_RETRY_SECONDS: Final = 1.0


class ManifestSource:
    """Follows one directory. All methods belong to one event loop."""

    def __init__(
        self,
        files: ManifestFiles,
        pods: DesiredPods,
        report: ManifestReport,
        *,
        reread: float = REREAD_SECONDS,
    ) -> None:
        """Read with `files`, run the pods with `pods`, and send problems to `report`.

        `reread` is the seconds between regular reads.
        """
        self._files = files
        self._pods = pods
        self._report = report
        self._reread = reread
        self._trouble = ""

    async def run(self) -> None:
        """Follow the directory until cancelled."""
        try:
            while True:
                changing = _changes(self._files.directory, self._reread, self._warn)
                async with contextlib.aclosing(changing) as changes:
                    async for change in changes:
                        await self._round_until_taken(slow=change.is_slow, gone=change.gone)
        finally:
            await self._pods.close()

    def _warn(self, trouble: str) -> None:
        """Log why the directory cannot be watched, once per reason."""
        if trouble != self._trouble:
            log.warning("the manifests in %s cannot be watched: %s", self._files.directory, trouble)
        self._trouble = trouble

    async def _round_until_taken(self, *, slow: bool, gone: Sequence[str]) -> None:
        while True:
            try:
                await self.round(slow=slow, gone=gone)
            except RPCError as error:
                log.warning("cannot ask which manifest pods have workflows: %s", error.message)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def round(self, *, slow: bool = False, gone: Sequence[str] = ()) -> None:
        """Read the directory once, and start to make its pods match.

        A `slow` round also looks for pods whose workflows other clients have ended. Only the first round and slow
        rounds report a missing directory, since it may be in the middle of a replacement. `gone` has the names of files
        that were removed since the last round; they may have come back. Raises RPCError: then call it again.
        """
        may_be_gone = not self._pods.is_read or slow
        listing = await in_daemon_thread(partial(self._look, gone, may_be_gone=may_be_gone), name="manifests")
        if listing is None:
            return
        await self._pods.take(listing)
        self._report.problems(listing.problems)
        if slow:
            await self._pods.find_ended()

    def _look(self, gone: Sequence[str], *, may_be_gone: bool) -> Listing | None:
        """Read the directory. If it is missing, return None, or with `may_be_gone` a listing that reports it.

        Blocks.
        """
        if not may_be_gone:
            try:
                self._files.directory.stat()
            except OSError:
                return None
        return self._files.look(gone)


class _Due(NamedTuple):
    """A moment at which the directory must be read."""

    is_slow: bool = False
    """True if `reread` seconds have passed; False if something may have changed."""
    gone: tuple[str, ...] = ()
    """The names of files that were removed since the last read."""


async def _changes(directory: Path, reread: float, warn: Callable[[str], None]) -> AsyncGenerator[_Due, None]:
    """Yield at once, then whenever something in the directory may have changed, and every `reread` seconds.

    The regular read comes even if something changes more often. A file that was closed after writing, or moved into
    place, is reported at once. Any other change is reported once nothing more has happened for `SETTLED_SECONDS`, or
    for `GONE_SECONDS` after a removal, and at most `UNSETTLED_SECONDS` after the change.

    Ends when the directory has been replaced. If it cannot be watched, calls `warn` with the reason, and ends after
    `reread` seconds. The caller then starts anew.
    """
    watched = await _identity(directory)
    if watched is None:
        yield _Due()
        await asyncio.sleep(reread)
        yield _Due(is_slow=True)
        return
    try:
        watch = await in_daemon_thread(partial(DirectoryWatch, directory), name="manifests")
    except OSError as error:
        warn(str(error.strerror))
        yield _Due(is_slow=True)
        await asyncio.sleep(reread)
        return
    with contextlib.closing(watch):
        # The watch is set up before the first read, so that every later change is noticed. Whether the path still
        # leads to the watched directory is checked after each read, so that the read need not wait.
        change, due = DirectoryChange.NONE, time.monotonic()
        while change is not DirectoryChange.OVER:
            is_due = change is DirectoryChange.NONE or time.monotonic() >= due
            if is_due:
                due = time.monotonic() + reread
            yield _Due(is_slow=is_due, gone=watch.take_gone())
            if await _identity(directory) != watched:
                return
            change = await _next_change(watch, max(0.0, due - time.monotonic()))


async def _next_change(watch: DirectoryWatch, seconds: float) -> DirectoryChange:
    """Wait until a change must be read; return `DirectoryChange.NONE` if nothing changes for `seconds`."""
    change = await watch.noticed(seconds)
    deadline = time.monotonic() + UNSETTLED_SECONDS
    while change in (DirectoryChange.GONE, DirectoryChange.BEGUN) and (left := deadline - time.monotonic()) > 0:
        settled = GONE_SECONDS if change is DirectoryChange.GONE else SETTLED_SECONDS
        more = await watch.noticed(min(settled, left))
        if more is DirectoryChange.NONE:
            break
        change = more
    return change


async def _identity(directory: Path) -> tuple[int, int] | None:
    """Return device and inode of the directory at this path; None if there is none."""
    try:
        found = await in_daemon_thread(directory.stat, name="manifests")
    except OSError:
        return None
    return found.st_dev, found.st_ino
