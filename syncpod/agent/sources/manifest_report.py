"""Sends the node's workflow a report on the pods of the directory of manifests, for readers of the node's state.

No pod waits for the report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from temporalio.service import RPCError

from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.messages.node import FILE_SOURCE, LISTED_LIMIT, DesiredPod, NodeView, PodKey, SourceView, StaticPods

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 0.25
"""Seconds between a change and its report: the pods go first, and changes within this time are reported together."""
_RETRY_SECONDS: Final = 1.0


class Pods(Protocol):
    """The contents of the report. Implemented by `syncpod.agent.sources.desired_pods.DesiredPods`."""

    news: asyncio.Event
    """Set when the report may have changed."""
    is_read: bool
    """Whether the directory has been read in this life of the worker."""

    def report(self) -> tuple[DesiredPod, ...]:
        """Return the pods of the directory."""

    def take_ended_by_others(self) -> tuple[PodKey, ...]:
        """Return the pods that other clients have ended since the last call."""

    def take_begun_anew(self) -> tuple[str, ...]:
        """Return a sentence for each pod that was ended since the last call because it could not be changed."""


class ManifestReport:
    """Reports the pods of one directory. All methods belong to one event loop."""

    def __init__(
        self,
        pods: Pods,
        tell: Callable[[StaticPods], Awaitable[None]],
        *,
        boot: int,
        settle: Callable[[], str] = lambda: "",
    ) -> None:
        """Send with `tell`, which raises RPCError. `boot` is the number of the worker's life.

        `settle` syncs the notes of the last read to the disk, and returns why that failed, or "". It blocks.
        """
        self._pods = pods
        self._tell = tell
        self._settle = settle
        self._boot = boot
        self._reported: StaticPods | None = None
        self._gone: tuple[PodKey, ...] = ()
        self._begun_anew: tuple[str, ...] = ()
        self._problems: tuple[str, ...] = ()
        self.reported = False
        """Whether the node's workflow has received a report from this worker."""

    def problems(self, problems: tuple[str, ...]) -> None:
        """Take the directory's current problems, and log those that are new."""
        for problem in problems:
            if problem not in self._problems:
                log.warning("manifest %s", problem)
        if problems != self._problems:
            self._problems = problems
            self._pods.news.set()

    def is_known(self, view: NodeView) -> bool:
        """Say whether the workflow has the last report, by the number of pods in its `view`."""
        if self._reported is None:
            return True
        source = view.sources.get(FILE_SOURCE, SourceView())
        return (source.boot, source.pods) == (self._boot, sum(each.state != "ending" for each in self._reported.pods))

    def forget(self) -> None:
        """Send the whole report again soon, since a new workflow has not received it."""
        self._reported = None
        self._pods.news.set()

    async def run(self) -> None:
        """Report whenever something has changed, until cancelled."""
        while True:
            await self._pods.news.wait()
            await asyncio.sleep(QUIET_SECONDS)
            try:
                await self.round()
            except RPCError as error:
                log.warning("the manifests' pods cannot be reported to the node's workflow: %s", error.message)
                self._pods.news.set()
                await asyncio.sleep(_RETRY_SECONDS)

    async def round(self) -> bool:
        """Send the report if it has changed; say whether it was sent. Raises RPCError: then call it again."""
        self._pods.news.clear()
        if not self._pods.is_read:
            return False
        if problem := await in_daemon_thread(self._settle, name="manifests"):
            log.warning("manifests: %s", problem)
        now = StaticPods(boot=self._boot, pods=_bounded(self._pods.report()), problems=self._problems)
        self._gone = (*self._gone, *self._pods.take_ended_by_others())
        self._begun_anew = (*self._begun_anew, *self._pods.take_begun_anew())
        if now == self._reported and not self._gone and not self._begun_anew:
            return False
        known = self._reported.problems if self._reported is not None else ()
        new = tuple(each for each in now.problems if each not in known)
        changes = {"gone": self._gone, "begun_anew": self._begun_anew, "problems": new}
        await self._tell(now.model_copy(update=changes))
        self._reported, self._gone, self._begun_anew, self.reported = now, (), (), True
        log.info("reported %d pods of manifests to the node's workflow", len(now.pods))
        return True


def _bounded(pods: tuple[DesiredPod, ...]) -> tuple[DesiredPod, ...]:
    """Return at most `LISTED_LIMIT` pods. Pods that differ from the manifests come first."""
    if len(pods) <= LISTED_LIMIT:
        return pods
    return tuple(sorted(pods, key=lambda each: each.state == "applied")[:LISTED_LIMIT])
