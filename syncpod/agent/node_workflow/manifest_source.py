"""A directory of manifests as a source of pods: watches it, and rereads it regularly.

Mirrors pkg/kubelet/config/file.go, file_linux.go, v1.36: inotify, and the whole directory again every 20 s, since a
file system may not notify. A file system that hangs blocks this source alone. Differences:

- A notification only wakes the reader, which reads the whole directory, so no notification can be lost or misread.
- If somebody has ended one of its pods, that is noticed too. The kubelet makes the pod again from memory.
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

from syncpod.agent.node_workflow.desired_pods import DesiredPods, Listing
from syncpod.agent.node_workflow.manifest_files import ManifestFiles
from syncpod.agent.node_workflow.manifest_report import ManifestReport
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.inotify import DirectoryChange, DirectoryWatch

log = logging.getLogger(__name__)

REREAD_SECONDS: Final = 20.0
"""The kubelet's fileCheckFrequency."""
SETTLED_SECONDS: Final = 0.1
"""How long nothing may have happened before a change that is not complete is read: a file that is being written."""
GONE_SECONDS: Final = 0.02
"""The same after a removal. A program that replaces a file by another creates the new one at once; the kubelet does not
wait at all."""
UNSETTLED_SECONDS: Final = 1.0
"""The longest time between such a change and its report, while more and more follows."""
_RETRY_SECONDS: Final = 1.0


class ManifestSource:
    """Follows one directory. All methods belong to one event loop."""

    def __init__(
        self,
        files: ManifestFiles,
        pods: DesiredPods,
        report: ManifestReport,
        *,
        expect: Callable[[], None] = lambda: None,
        reread: float = REREAD_SECONDS,
    ) -> None:
        """Follow the directory of `files` with `pods`; `expect` is called as soon as anything has changed."""
        self._files = files
        self._pods = pods
        self._report = report
        self._expect = expect
        self._reread = reread
        self._trouble = ""

    async def run(self) -> None:
        """Follow it until cancelled."""
        try:
            while True:
                changing = _changes(self._files.directory, self._reread, self._warn, self._expect)
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
        """Read once, and begin to make the pods what the directory says.

        When `slow`, also look for pods whose workflows somebody has ended. At any other time but the first a missing
        directory is not reported, since it may just be replaced. `gone` has the names of files that have gone since
        the last round, and may be back.

        Raises RPCError if it is to be repeated.
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
        """Read the directory; None if there is none, unless it `may_be_gone`. Blocks."""
        if not may_be_gone:
            try:
                self._files.directory.stat()
            except OSError:
                return None
        return self._files.look(gone)


class _Due(NamedTuple):
    """A moment at which the directory is to be read."""

    is_slow: bool = False
    """Whether `reread` seconds have passed; else something may have changed."""
    gone: tuple[str, ...] = ()
    """The names of files that have gone since the last such moment."""


async def _changes(
    directory: Path, reread: float, warn: Callable[[str], None], expect: Callable[[], None]
) -> AsyncGenerator[_Due, None]:
    """Yield at once, then whenever something in the directory may have changed, and every `reread` seconds.

    The regular read comes even if something changes more often. A file that was closed after writing, or moved
    into place, is reported at once. Any other change is reported once nothing more has happened for `SETTLED_SECONDS`,
    or `GONE_SECONDS` after a removal, and at the latest `UNSETTLED_SECONDS` after it; `expect` is called as soon as
    anything has changed. Ends when the directory has been replaced; if it cannot be watched, after one `reread`,
    calling `warn` with the reason.
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
        # leads to the watched directory is asked after each read, which need not wait for that.
        change, due = DirectoryChange.NONE, time.monotonic()
        while change is not DirectoryChange.OVER:
            is_due = change is DirectoryChange.NONE or time.monotonic() >= due
            if is_due:
                due = time.monotonic() + reread
            yield _Due(is_slow=is_due, gone=watch.take_gone())
            if await _identity(directory) != watched:
                return
            change = await _next_change(watch, max(0.0, due - time.monotonic()), expect)


async def _next_change(watch: DirectoryWatch, seconds: float, expect: Callable[[], None]) -> DirectoryChange:
    """Wait until there is something to read; return `DirectoryChange.NONE` if nothing changed for so many seconds."""
    change = await watch.noticed(seconds)
    if change is not DirectoryChange.NONE:
        expect()
    deadline = time.monotonic() + UNSETTLED_SECONDS
    while change in (DirectoryChange.GONE, DirectoryChange.BEGUN) and (left := deadline - time.monotonic()) > 0:
        settled = GONE_SECONDS if change is DirectoryChange.GONE else SETTLED_SECONDS
        more = await watch.noticed(min(settled, left))
        if more is DirectoryChange.NONE:
            break
        change = more
    return change


async def _identity(directory: Path) -> tuple[int, int] | None:
    """Return a mark that differs for another directory at the same path; None if there is none."""
    try:
        found = await in_daemon_thread(directory.stat, name="manifests")
    except OSError:
        return None
    return found.st_dev, found.st_ino
