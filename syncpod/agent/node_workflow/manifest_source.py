"""A directory of manifests as a source of pods: watches it, rereads it regularly, and tells the node's workflow.

Mirrors pkg/kubelet/config/file.go, file_linux.go, v1.36: inotify, and the whole directory again every 20 s, since a
file system may not notify. A file system that hangs blocks this source alone. Differences:

- A notification only wakes the reader, which reads the whole directory, so no notification can be lost or misread.
- A list is sent when it has changed, not each time.
- If somebody has ended one of its pods, that is noticed and sent too. The kubelet makes the pod again from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from temporalio.service import RPCError

from syncpod.agent.node_workflow.manifest_files import Listing, ManifestFiles
from syncpod.agent.pod_workflows import OpenWorkflows
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.inotify import Change, DirectoryWatch
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.node import (
    FILE_SOURCE,
    KEPT_BYTES,
    KNOWN_LIMIT,
    LIST_LIMIT,
    BegunPod,
    NodeView,
    PodKey,
    SourceView,
    SyncPods,
)

log = logging.getLogger(__name__)

REREAD_SECONDS: Final = 20.0
"""The kubelet's fileCheckFrequency."""
SETTLED_SECONDS: Final = 0.1
"""How long nothing may have happened before a change that is not complete is read: a file that is being written."""
GONE_SECONDS: Final = 0.02
"""The same after a removal. A program that replaces a file by another creates the new one at once; the kubelet does not
wait at all."""
UNSETTLED_SECONDS: Final = 1.0
"""How long such a change is waited for while more and more follows."""
_RETRY_SECONDS: Final = 1.0
_EARLY: Final = 4
"""How many pods are begun or ended before the node's workflow has them told: of more, its one step for all costs less.
"""
_ANSWER_SECONDS: Final = 0.5
"""How long the workflows of pods that end may take to answer before the node's workflow is told all the same."""
_RETURN_SECONDS: Final = 60.0
"""How long it is remembered that a pod was ended early: longer than the node's workflow may take for one list, and for
another with the same pod. If it takes longer, the pod is found to have ended when the directory is read again."""


Begin = Callable[[SyncPods, Sequence[dict[str, Any]]], Awaitable[tuple[BegunPod, ...]]]
"""Begins those pods of a list, if the node's workflow is certain to begin them; returns what it has begun."""


async def none_begun(_pods: SyncPods, _new: Sequence[dict[str, Any]]) -> tuple[BegunPod, ...]:
    """Begin no pod: the node's workflow begins each of them."""
    return ()


class ManifestSource:
    """Follows one directory. All methods belong to one event loop."""

    def __init__(
        self,
        files: ManifestFiles,
        workflows: OpenWorkflows,
        tell: Callable[[SyncPods], Awaitable[None]],
        *,
        boot: int,
        end: Callable[[PodRef], asyncio.Future[Any] | None] = lambda _: None,
        expect: Callable[[], None] = lambda: None,
        begin: Begin = none_begun,
        reread: float = REREAD_SECONDS,
    ) -> None:
        """Follow the directory of `files`; `tell` sends its list to the node's workflow, and raises RPCError.

        `end` may begin to end a pod whose file is gone, so that this need not wait for the node's workflow, and returns
        what is done once it has begun, or None; `expect` is called as soon as anything has changed. `begin` may begin
        pods with new files, for the same reason.
        """
        self._files = files
        self._workflows = workflows
        self._tell = tell
        self._boot = boot
        self._end = end
        self._expect = expect
        self._begin = begin
        self._begun: dict[PodRef, BegunPod] = {}
        """The pods that were begun early, of which the node's workflow has not been told."""
        self._ended: dict[PodRef, float] = {}
        """The pods that were ended early, and when: the node's workflow may not have taken a list without them."""
        self._reread = reread
        self._told: SyncPods | None = None
        self._trouble = ""
        self.reported = False
        """Whether the node's workflow has received a list in this life of the agent."""

    def is_known(self, view: NodeView) -> bool:
        """Say whether the workflow's list is from this life of the agent; somebody else may have sent another."""
        return self._told is None or view.sources.get(FILE_SOURCE, SourceView()).boot == self._boot

    async def run(self) -> None:
        """Follow it until cancelled."""
        while True:
            changing = _changes(self._files.directory, self._reread, self._warn, self._expect)
            async with contextlib.aclosing(changing) as changes:
                async for noticed in changes:
                    await self._round_until_told(slow=not noticed)

    def forget(self) -> None:
        """Send everything again with the next round, to a workflow that has received nothing yet."""
        self._told = None

    def _warn(self, trouble: str) -> None:
        """Log why the directory cannot be watched, once per reason."""
        if trouble != self._trouble:
            log.warning("the manifests in %s cannot be watched: %s", self._files.directory, trouble)
        self._trouble = trouble

    async def _round_until_told(self, *, slow: bool) -> None:
        while True:
            try:
                await self.round(slow=slow)
            except RPCError as error:
                log.warning("the node's workflow cannot be told its manifests: %s", error.message)
                await asyncio.sleep(_RETRY_SECONDS)
            except OSError as error:
                log.error("the manifests in %s cannot be listed: %s", self._files.directory, error.strerror)
                return
            else:
                return

    async def round(self, *, slow: bool = False) -> bool:
        """Read once, and send what is new; return whether anything was sent.

        The first time, and when `slow`, also look for pods that somebody has ended. At any other time a missing
        directory changes nothing, so that a directory that is replaced quickly costs no pod.

        Raises RPCError, and OSError if the directory cannot be listed: then nothing is sent, and nothing ends.
        """
        may_be_gone = self._told is None or slow
        listing = await in_daemon_thread(partial(self._look, may_be_gone=may_be_gone), name="manifests")
        if listing is None:
            return False
        message = self._message(listing)
        if message is None:
            return False
        gone = await self._gone(listing) if slow or self._told is None else ()
        back = self._back(message)
        gone += tuple(key for key in map(_key, back) if key not in gone)
        if message == self._told and not gone and not self._begun:
            return False
        for problem in message.problems:
            if self._told is None or problem not in self._told.problems:
                log.warning("manifest %s", problem)
        await self._end_early(self._removed(message))
        added = [pod for pod in self._added(message) if _ref(pod) not in back]
        for begun in await self._begin(message, added) if 0 < len(added) <= _EARLY else ():
            self._begun[PodRef(namespace=begun.namespace, name=begun.name, uid=begun.uid)] = begun
        sending = message.model_copy(update={"gone": gone, "begun": tuple(self._begun.values())})
        # If this is not heard of, and sent again later, a pod may have ended meanwhile.
        self._begun = {ref: begun.model_copy(update={"digest": ""}) for ref, begun in self._begun.items()}
        await self._tell(sending)
        self._told, self.reported = message, True
        self._begun.clear()
        for ref in back:
            del self._ended[ref]
        if problem := await in_daemon_thread(self._files.settle, name="manifests"):
            log.warning("manifests: %s", problem)
        log.info("told the node's workflow of %d pods in %s", len(message.pods), self._files.directory)
        return True

    async def _end_early(self, removed: Sequence[PodRef]) -> None:
        """Begin to end the pods that are gone, if they are few, and wait a moment until their workflows have answered.

        The node's workflow is told after that: the server then does one thing at a time, and the more urgent one first.
        """
        ending = []
        for ref in removed if len(removed) <= _EARLY else ():
            if (answer := self._end(ref)) is not None:
                self._ended[ref] = time.monotonic()
                ending.append(answer)
        if ending:
            await asyncio.wait(ending, timeout=_ANSWER_SECONDS)

    def _look(self, *, may_be_gone: bool) -> Listing | None:
        """Read the directory; None if there is none, unless it `may_be_gone`. Blocks. Raises OSError."""
        self._files.settle()  # what could not be synced after an earlier list, which was said then
        if not may_be_gone:
            try:
                self._files.directory.stat()
            except OSError:
                return None
        return self._files.look()

    def _message(self, listing: Listing) -> SyncPods | None:
        """Return what to send. A list that is too large is not sent, and the one before still counts."""
        whole = SyncPods(
            source=FILE_SOURCE, boot=self._boot, pods=listing.pods, kept=listing.kept, problems=listing.problems
        )
        size = len(whole.model_dump_json(by_alias=True).encode())
        known = len(whole.pods) + len(whole.kept)
        room = min(LIST_LIMIT, KNOWN_LIMIT - KEPT_BYTES * known)
        if size <= room:
            return whole
        problem = (
            f"{self._files.directory}: its {known} pods take {size} bytes, and at most {room} bytes can be sent for so "
            f"many; no change takes effect until there are fewer or smaller pods"
        )
        if self._told is not None:
            return self._told.model_copy(update={"problems": (problem,)})
        log.error("manifests %s", problem)
        return None

    def _removed(self, message: SyncPods) -> list[PodRef]:
        """Return the pods of the last list that the message says nothing of; none if it also has other pods.

        A list that has only become shorter is not refused for its size, and replaces no pod by another.
        """
        before = {_key(ref): ref for ref in map(_ref, self._told.pods)} if self._told is not None else {}
        now = {_key(ref): ref for ref in map(_ref, message.pods)}
        if not now.items() <= before.items():
            return []
        return [ref for key, ref in before.items() if key not in now and key not in message.kept]

    def _added(self, message: SyncPods) -> list[dict[str, Any]]:
        """Return the pods of the message that the last list does not have; none if it lacks or changes others."""
        if self._told is None:
            return []
        before, now = set(map(_ref, self._told.pods)), {_ref(pod): pod for pod in message.pods}
        return [pod for ref, pod in now.items() if ref not in before] if before <= now.keys() else []

    def _back(self, message: SyncPods) -> list[PodRef]:
        """Return the pods of the message that were ended early a moment ago.

        The node's workflow is told that they are gone. It may take the list without them together with this one, and
        then has no reason to apply them again.
        """
        since = time.monotonic() - _RETURN_SECONDS
        self._ended = {ref: at for ref, at in self._ended.items() if at > since}
        return [ref for ref in map(_ref, message.pods) if ref in self._ended] if self._ended else []

    async def _gone(self, listing: Listing) -> tuple[PodKey, ...]:
        """Return those pods of the list that have no open workflow: new ones, and ones that somebody has ended."""
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


def _ref(pod: Mapping[str, Any]) -> PodRef:
    """Return which pod a list's document is."""
    metadata = pod["metadata"]
    return PodRef(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])


def _key(ref: PodRef) -> PodKey:
    return PodKey(namespace=ref.namespace, name=ref.name)


async def _changes(
    directory: Path, reread: float, warn: Callable[[str], None], expect: Callable[[], None]
) -> AsyncGenerator[bool, None]:
    """Yield at once, then True whenever something in the directory may have changed, and False after each `reread`.

    A file that was closed after writing, or moved into place, is told at once. Any other change is told once nothing
    more has happened for `SETTLED_SECONDS`, or `GONE_SECONDS` after a removal, and at the latest `UNSETTLED_SECONDS`
    after it; `expect` is called as soon as anything has changed. Ends when the directory has been replaced; if it
    cannot be watched, after one `reread`, calling `warn` with the reason.
    """
    watched = await _identity(directory)
    if watched is None:
        yield True
        await asyncio.sleep(reread)
        yield False
        return
    try:
        watch = await in_daemon_thread(partial(DirectoryWatch, directory), name="manifests")
    except OSError as error:
        warn(str(error.strerror))
        yield False
        await asyncio.sleep(reread)
        return
    with contextlib.closing(watch):
        # The watch is set up before the first read, so that every later change is noticed. Whether the path still
        # leads to what is watched is asked after each read, which need not wait for that.
        change = Change.NONE
        while change is not Change.OVER:
            yield change is not Change.NONE
            if await _identity(directory) != watched:
                return
            change = await _next_change(watch, reread, expect)


async def _next_change(watch: DirectoryWatch, reread: float, expect: Callable[[], None]) -> Change:
    """Wait until there is something to read; return `Change.NONE` if nothing has changed for `reread` seconds."""
    change = await watch.noticed(reread)
    if change is not Change.NONE:
        expect()
    deadline = time.monotonic() + UNSETTLED_SECONDS
    while change in (Change.GONE, Change.BEGUN) and (left := deadline - time.monotonic()) > 0:
        settled = GONE_SECONDS if change is Change.GONE else SETTLED_SECONDS
        more = await watch.noticed(min(settled, left))
        if more is Change.NONE:
            break
        change = more
    return change


async def _identity(directory: Path) -> tuple[int, int] | None:
    """Return what tells a directory from another one at the same path; None if there is none."""
    try:
        found = await in_daemon_thread(directory.stat, name="manifests")
    except OSError:
        return None
    return found.st_dev, found.st_ino
