"""A directory of manifests as a source of pods: watched, read again every so often, and told to the node's workflow.

Mirrors pkg/kubelet/config/file.go, file_linux.go, v1.36: inotify, and the whole directory again every 20 s, since a
file system may not notify. Differences: a notification only wakes the reader, which looks at the whole directory, so
that none can be lost or misread; a list is told when it says something else, not each time; and a pod of it that
somebody has ended is noticed and told too, where the kubelet would make it again from what it keeps in memory. A file
system that hangs holds up this source alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from temporalio.service import RPCError
from watchfiles import awatch

from syncpod.agent.node_workflow.manifest_files import Listing, ManifestFiles
from syncpod.agent.own_thread import in_own_thread
from syncpod.messages import PodRef, pod_workflow_id
from syncpod.messages.node import (
    FILE_SOURCE,
    KEPT_BYTES,
    KNOWN_LIMIT,
    LIST_LIMIT,
    NodeView,
    PodKey,
    SourceView,
    SyncPods,
)

log = logging.getLogger(__name__)

REREAD_SECONDS: Final = 20.0
"""The kubelet's fileCheckFrequency."""
_STEP_MILLISECONDS: Final = 100
_DEBOUNCE_MILLISECONDS: Final = 1000
"""Changes that follow one another within a step are one, for no longer than this."""
_RETRY_SECONDS: Final = 1.0


class OpenWorkflows(Protocol):
    """Who knows which pods' workflows there are. Both raise RPCError."""

    async def open(self) -> dict[str, str]:
        """Return the open workflows of the node, by id; by visibility, which may lag."""

    async def standing(self, ref: PodRef) -> str:
        """Say how it stands with one: ``open``, ``closed``, ``another``, ``unknown``."""


class ManifestSource:
    """Follows one directory. All methods belong to one event loop."""

    def __init__(
        self,
        files: ManifestFiles,
        workflows: OpenWorkflows,
        tell: Callable[[SyncPods], Awaitable[None]],
        *,
        boot: int,
        reread: float = REREAD_SECONDS,
    ) -> None:
        """Follow the directory of `files`; `tell` has the node's workflow hear of it, and raises RPCError."""
        self._files = files
        self._workflows = workflows
        self._tell = tell
        self._boot = boot
        self._reread = reread
        self._told: SyncPods | None = None
        self._trouble = ""
        self.reported = False
        """Whether the node's workflow has heard a list in this life of the agent."""

    def is_known(self, view: NodeView) -> bool:
        """Say whether the list that the node's workflow has is this life's; somebody else may have told it another."""
        return self._told is None or view.sources.get(FILE_SOURCE, SourceView()).boot == self._boot

    async def run(self) -> None:
        """Follow it for ever."""
        while True:
            async with contextlib.aclosing(_changes(self._files.directory, self._reread, self._warn)) as changes:
                async for noticed in changes:
                    await self._round_until_told(slow=not noticed)

    def forget(self) -> None:
        """Tell all again with the next look, to a workflow that has heard nothing yet."""
        self._told = None

    def _warn(self, trouble: str) -> None:
        """Log what stands in the way of notices, once however often it comes again."""
        if trouble != self._trouble:
            log.warning("the manifests in %s cannot be watched: %s", self._files.directory, trouble)
        self._trouble = trouble

    async def _round_until_told(self, *, slow: bool) -> None:
        while True:
            try:
                await self.round(slow=slow)
            except RPCError as error:
                log.warning("the node cannot be told its manifests: %s", error.message)
                await asyncio.sleep(_RETRY_SECONDS)
            except OSError as error:
                log.error("the manifests in %s cannot be listed: %s", self._files.directory, error.strerror)
                return
            else:
                return

    async def round(self, *, slow: bool = False) -> bool:
        """Look once, and tell what is new; returns whether it told.

        The first time, and when `slow`, also look for pods that somebody has ended. Only then does a directory that is
        not there have no pods: one that is put back within a look's time costs none of them.

        Raises RPCError, and OSError where the directory cannot be listed: then nothing is told, and nothing ends.
        """
        if self._told is not None and not slow and await _identity(self._files.directory) is None:
            return False
        listing = await in_own_thread(self._files.look, name="manifests")
        message = self._message(listing)
        if message is None:
            return False
        gone = await self._gone(listing) if slow or self._told is None else ()
        if message == self._told and not gone:
            return False
        for problem in message.problems:
            if self._told is None or problem not in self._told.problems:
                log.warning("manifest %s", problem)
        await self._tell(message.model_copy(update={"gone": gone}))
        self._told, self.reported = message, True
        log.info("told the node %d pods of %s", len(message.pods), self._files.directory)
        return True

    def _message(self, listing: Listing) -> SyncPods | None:
        """Return what is to be told; a list that is too large is not, and the one of before still counts."""
        whole = SyncPods(
            source=FILE_SOURCE, boot=self._boot, pods=listing.pods, kept=listing.kept, problems=listing.problems
        )
        size = len(whole.model_dump_json(by_alias=True).encode())
        known = len(whole.pods) + len(whole.kept)
        room = min(LIST_LIMIT, KNOWN_LIMIT - KEPT_BYTES * known)
        if size <= room:
            return whole
        problem = (
            f"{self._files.directory}: its {known} pods are {size} bytes together, and of so many a node can be told "
            f"{room} at once; nothing of it is taken until there are fewer, or smaller ones"
        )
        if self._told is not None:
            return self._told.model_copy(update={"problems": (problem,)})
        log.error("manifests %s", problem)
        return None

    async def _gone(self, listing: Listing) -> tuple[PodKey, ...]:
        """Return the pods of the list that have no open workflow: one that has just come, or that somebody ended."""
        pods = {
            pod_workflow_id(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod["metadata"]
            for pod in listing.pods
        }
        gone: list[PodKey] = []
        for id_ in sorted(pods.keys() - (await self._workflows.open()).keys()) if pods else ():
            key = PodKey(namespace=pods[id_]["namespace"], name=pods[id_]["name"])
            ref = PodRef(namespace=key.namespace, name=key.name, uid=pods[id_]["uid"])
            if await self._workflows.standing(ref) in ("closed", "unknown"):
                gone.append(key)
        return tuple(gone)


async def _changes(directory: Path, reread: float, warn: Callable[[str], None]) -> AsyncGenerator[bool, None]:
    """Yield at once, then True whenever something in the directory may have changed, and False after each `reread`.

    Ends when the directory is no longer the one that is watched; where it cannot be watched, after one `reread`, and
    `warn` hears why. A notice that cannot be told, of a file whose name is not UTF-8, is one of a change all the same.
    """
    watched = await _identity(directory)
    if watched is None:
        yield True
        await asyncio.sleep(reread)
        yield False
        return
    notices = awatch(
        directory,
        watch_filter=None,
        recursive=False,
        step=_STEP_MILLISECONDS,
        debounce=_DEBOUNCE_MILLISECONDS,
        rust_timeout=int(reread * 1000),
        yield_on_timeout=True,
    )
    # The watch stands before the first look: what changes after that is noticed.
    following = asyncio.ensure_future(anext(notices))
    try:
        await asyncio.sleep(0)
        yield False
        while await _identity(directory) == watched:
            try:
                yield bool(await following)
            except ExceptionGroup as error:  # out of the task group that the watcher waits in: something has changed
                warn(str(error.exceptions[0]))
                await asyncio.sleep(_RETRY_SECONDS)
                return
            except (OSError, RuntimeError) as error:
                warn(str(error))
                await asyncio.sleep(reread)
                return
            following = asyncio.ensure_future(anext(notices))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await notices.aclose()


async def _identity(directory: Path) -> tuple[int, int] | None:
    """Return what tells a directory from one that is put in its place; None where there is none to be found."""
    try:
        found = await in_own_thread(directory.stat, name="manifests")
    except OSError:
        return None
    return found.st_dev, found.st_ino
