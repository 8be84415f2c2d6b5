"""Keeps the newest published state of each workflow of this node, in memory and, about a second later, on disk.

Reads of pods are answered from these states. A stuck workflow run is replaced by one that starts from its state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.node.workflow_snapshots import WorkflowSnapshot, find_snapshot, write_snapshot
from syncpod.pod import ObjectMeta
from syncpod.temporal import resize_metrics
from syncpod.temporal.workflow_watch import Published
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 1.0
"""Seconds from a state's publication until it is written. If others follow within this time, only the last is written.
"""
_AT_ONCE: Final = 8
"""How many states one call in a thread writes: the call itself costs as much CPU as writing a state."""


class PublishedRun(NamedTuple):
    """The newest state of a workflow, and the id of the run that published it."""

    run_id: str
    published: Published


class PublishedPods:
    """The published states of one node. All methods but `pods` belong to the agent's event loop."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._runs: dict[str, PublishedRun] = {}
        self._behind: dict[str, None] = {}
        """Ids of workflows whose newest state is not on disk."""
        self._news = asyncio.Event()
        self._is_failing = False
        self._watchers: list[Callable[[Published], None]] = []
        self._gone_watchers: list[Callable[[Published], None]] = []

    def __len__(self) -> int:
        """Return the number of workflows whose state is kept."""
        return len(self._runs)

    def take(self, workflow_id: str, run_id: str, published: Published) -> None:
        """Keep the newest state of a workflow. If its pod is gone, drop the state instead."""
        if published.is_gone:
            self._runs.pop(workflow_id, None)
            self._behind.pop(workflow_id, None)
            for gone in self._gone_watchers:
                gone(published)
            return
        self._runs[workflow_id] = PublishedRun(run_id, published)
        if published.uid:
            for watcher in self._watchers:
                watcher(published)
        self._behind[workflow_id] = None
        self._news.set()

    def forget(self, ref: PodRef) -> None:
        """Drop the state of a pod that is gone, although its workflow has not published that: it was terminated.

        The state of another pod of that name, or of another life of the pod, stays.
        """
        workflow_id = pod_workflow_id(ref.namespace, ref.name)
        newest = self._runs.get(workflow_id)
        if newest is None or (newest.published.uid, newest.published.incarnation) != (ref.uid, ref.incarnation):
            return
        del self._runs[workflow_id]
        self._behind.pop(workflow_id, None)
        resize_metrics.forget(workflow_id)

    def newest(self, workflow_id: str) -> PublishedRun | None:
        """Return the newest state of a workflow that this worker has seen; None if it has seen none."""
        return self._runs.get(workflow_id)

    def pod(self, namespace: str, name: str) -> Published | None:
        """Return the newest state of the pod of this name that this worker has seen; None if it has seen none."""
        newest = self._runs.get(pod_workflow_id(namespace, name))
        return newest.published if newest is not None else None

    def pods(self) -> dict[str, Published]:
        """Return the newest state of each pod that this worker has seen, by workflow id. Any thread may call it."""
        # `copy` is atomic in the interpreter: no other thread can add an entry meanwhile.
        runs = self._runs.copy()
        return {workflow_id: run.published for workflow_id, run in runs.items() if run.published.uid}

    def watch(self, watcher: Callable[[Published], None]) -> None:
        """Call `watcher` with each state of a pod that is published from now on; it must return at once."""
        self._watchers.append(watcher)

    def watch_gone(self, watcher: Callable[[Published], None]) -> None:
        """Call `watcher` with the last state of each pod whose workflow ends; it must return at once."""
        self._gone_watchers.append(watcher)

    @contextlib.contextmanager
    def watched(self, watcher: Callable[[Published], None], gone: Callable[[Published], None]) -> Iterator[None]:
        """Watch as `watch` and `watch_gone` do, until the context ends."""
        self.watch(watcher)
        self.watch_gone(gone)
        try:
            yield
        finally:
            self._watchers.remove(watcher)
            self._gone_watchers.remove(gone)

    def metadata(self) -> list[ObjectMeta]:
        """Return the metadata of each pod that this worker has seen."""
        return [run.published.metadata for run in self._runs.values() if run.published.uid]

    async def snapshot(self, workflow_id: str) -> WorkflowSnapshot | None:
        """Return the newest state of a workflow, else its snapshot on disk, else None. Raises OSError."""
        newest = self._runs.get(workflow_id)
        if newest is not None:
            return await asyncio.to_thread(_as_snapshot, workflow_id, newest)
        return await asyncio.to_thread(find_snapshot, self._node, workflow_id)

    async def run(self) -> None:
        """Keep the disk up to date until cancelled."""
        while True:
            await self._news.wait()
            await asyncio.sleep(WRITE_SECONDS)
            self._news.clear()
            await self.flush()

    async def flush(self) -> None:
        """Write the states that are not on disk. A failed write is not retried; the workflow's next state follows."""
        while self._behind:
            few = list(islice(self._behind, _AT_ONCE))
            for workflow_id in few:
                del self._behind[workflow_id]
            runs = {workflow_id: run for workflow_id in few if (run := self._runs.get(workflow_id)) is not None}
            if runs:
                # In one thread, so that workflow tasks and other work on this machine go first.
                await asyncio.to_thread(self._write_all, runs)

    def _write_all(self, runs: Mapping[str, PublishedRun]) -> None:
        for workflow_id, run in runs.items():
            self._write(workflow_id, run)

    def _write(self, workflow_id: str, run: PublishedRun) -> None:
        try:
            write_snapshot(self._node, run.published.uid, _as_snapshot(workflow_id, run))
        except UnsafeName:
            return
        except OSError as error:
            if not self._is_failing:
                log.warning("states of workflows cannot be kept on disk: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False


def _as_snapshot(workflow_id: str, run: PublishedRun) -> WorkflowSnapshot:
    published = run.published
    return WorkflowSnapshot(
        workflow_id=workflow_id,
        run_id=run.run_id,
        history_length=published.history_length,
        at=published.at,
        next_input=published.next_input(),
    )
