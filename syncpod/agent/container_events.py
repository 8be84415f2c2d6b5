"""Listens to the runtime's events (GetContainerEvents), so that a large node need not be relisted often.

    runtime ──► ContainerEvents ──► the pod is read ──► PLEG
                      └──────────── while nothing is missed, the relist rests

An event decides nothing: it only causes a read of its pod, as the relist would a moment later. If an event is missed,
or comes twice or late, only the time of that read changes. A step that waits for the end of one container is notified
too, and then queries the runtime (`syncpod.node.announcements`). The relist rests only while no end can be missed:

- the stream has been open for some seconds, and every pod could be read;
- each running process is also watched by its pidfd, or the runtime is the embedded one, whose stream ends rather than
  skip an event (`syncpod.runtime.events`). Other runtimes may drop events for a slow reader.

containerd 2.3 and 2.4 wait for a slow reader. Each of their calls that emits an event waits too, so that no sandbox or
container is created or removed. So this module never waits between two events.

Otherwise the runtime is relisted each second, as without events. It is also relisted each second for half a minute
after the stream has ended, after an event that does not name its pod, and after a change that only a relist has found.
If the runtime sends too many events, the stream is closed for a minute, and the runtime is relisted meanwhile.

Mirrors pleg/evented.go, v1.36; in v1.37 that file only relists the pod whose container ended. Differences: the kubelet
1.36 builds the pod's status from the event, and relists each 300 s, whatever the number of pods; after its stream has
failed five times, it never listens again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final

from syncpod.agent.background import cancel_all
from syncpod.agent.pleg import Pleg
from syncpod.cri.errors import CriError, Unimplemented
from syncpod.cri.port import ContainerEvent
from syncpod.kernel.callers import Budget
from syncpod.lifecycle.observed import Seq
from syncpod.node.announcements import Announcements
from syncpod.translation import names

log = logging.getLogger(__name__)

SETTLED_SECONDS: Final = 5.0
"""Seconds until an open stream counts as working: gRPC does not report when the runtime begins to send events."""
AGAIN_SECONDS: Final = 1.0
"""Seconds between the end of a stream and the next try."""
UNIMPLEMENTED_SECONDS: Final = 60.0
"""Seconds until the next try if the runtime does not implement events: it may be upgraded meanwhile."""
EVENTS_PER_SECOND: Final = 500
"""The most events a second on average. A container has four in its life."""
EVENTS_BURST: Final = 20_000
"""The most events in one burst: more than all pods of a large node cause when they start or end at once."""
FLOOD_SECONDS: Final = 60.0
"""Seconds for which the stream stays closed after it has exceeded these limits."""
WAITING_PODS: Final = 4_096
"""The most pods that wait to be read; a relist reads the others. Bounded because a faulty runtime may invent UIDs."""
_READS_AT_ONCE: Final = 8
"""The most pods that are read at a time, since each read is two list calls and many pods may end together."""


class ContainerEvents:
    """The stream of one node's runtime. All methods belong to one event loop."""

    def __init__(
        self,
        listen: Callable[[], AsyncGenerator[ContainerEvent, None]],
        pleg: Pleg,
        *,
        owner: str,
        newest_begun: Callable[[], Seq],
        announcements: Announcements,
    ) -> None:
        """Read the pods of `owner` through `pleg`, which signals their workflows.

        `newest_begun` returns the number of the newest listing that has begun. A listing that begins after an event has
        arrived shows the announced change. `announcements` notifies steps of single containers.
        """
        self._listen = listen
        self._pleg = pleg
        self._owner = owner
        self._newest_begun = newest_begun
        self._announcements = announcements
        self._opened_at: float | None = None
        self._due: dict[str, Seq] = {}
        """By UID of a pod to be read: the number of the newest listing that had begun when the pod's last event
        came."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)
        self._budget = Budget(EVENTS_PER_SECOND, EVENTS_BURST)

    @property
    def is_open(self) -> bool:
        """Whether the stream has been open for `SETTLED_SECONDS`, so that events can be relied on."""
        return self._opened_at is not None and time.monotonic() - self._opened_at >= SETTLED_SECONDS

    async def run(self) -> None:
        """Listen until cancelled."""
        try:
            while True:
                pause = await self._until_it_ends()
                await asyncio.sleep(pause)
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop reading."""
        await cancel_all(self._tasks.values())

    async def _until_it_ends(self) -> float:
        """Listen until the stream ends; return the seconds until the next try."""
        self._opened_at = time.monotonic()
        try:
            async with contextlib.aclosing(self._listen()) as events:
                async for event in events:
                    if not self._budget.spend("", time.monotonic()):
                        log.warning(
                            "the runtime announces more than %d events a second: for %d s it is only listed",
                            *(EVENTS_PER_SECOND, FLOOD_SECONDS),
                        )
                        return FLOOD_SECONDS
                    self._take(event)
        except Unimplemented:
            return UNIMPLEMENTED_SECONDS
        except CriError as error:
            log.debug("the stream of events has ended: %s", error)
        finally:
            self._opened_at = None
            self._pleg.relist_often()
        return AGAIN_SECONDS

    def _take(self, event: ContainerEvent) -> None:
        self._announcements.take(event)
        uid = event.labels.get(names.POD_UID_LABEL, "")
        if not uid:
            self._pleg.relist_often()
        elif event.labels.get(names.NODE_LABEL) == self._owner:
            if uid not in self._tasks and len(self._tasks) >= WAITING_PODS:
                self._pleg.relist_often()
                return
            self._due[uid] = self._newest_begun()
            if uid not in self._tasks:
                task = asyncio.create_task(self._read(uid), name=f"event in {uid}")
                self._tasks[uid] = task
                task.add_done_callback(lambda _: self._tasks.pop(uid, None))

    async def _read(self, uid: str) -> None:
        """Read the pod, unless another reader has already brought a listing that began after the pod's last event."""
        while (due := self._due.get(uid)) is not None:
            if self._pleg.busy(uid):  # the step under way returns the pod's listing itself
                await self._pleg.until_not_busy(uid)
                continue
            if not self._pleg.has_seen(uid, due):
                async with self._reads:
                    try:
                        await self._pleg.look(uid)
                    except CriError as error:
                        log.debug("pod %s cannot be read: %s", uid, error)
                        self._pleg.relist_often()
            if self._due[uid] == due:
                del self._due[uid]
