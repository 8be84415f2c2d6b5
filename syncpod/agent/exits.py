"""After a process has exited, reads its pod until the runtime reports the exit too."""

from __future__ import annotations

import asyncio
import logging

from syncpod.agent.background import cancel_all
from syncpod.agent.pleg import Pleg
from syncpod.cri.errors import CriError

log = logging.getLogger(__name__)

SECOND_READ_SECONDS = 0.02
"""Seconds between the first read and the second. The first is immediate, since the exit may be old; a runtime hardly
ever reports an exit in less than 30 ms."""
READ_SECONDS = 0.005
"""Seconds between later reads."""
LONGEST_PAUSE_SECONDS = 0.05
"""A pause is at least as long as the read before it, up to this many seconds: reads without pauses would slow down a
busy runtime further."""
GIVE_UP_SECONDS = 1.0
"""Seconds that the runtime may take to report the exit. After that the relist must find the exit, so it does not rest.
"""


class ExitFollower:
    """Follows the exits on one node. All methods belong to one event loop."""

    def __init__(self, pleg: Pleg) -> None:
        """Read pods through `pleg`, which signals their workflows."""
        self._pleg = pleg
        self._deadlines: dict[str, dict[str, float]] = {}
        """By pod UID, then by container or sandbox id: loop time at which following this exit ends."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def exited(self, uid: str, id_: str) -> None:
        """Follow the exit of the first process of a container or sandbox of the pod `uid`."""
        self._deadlines.setdefault(uid, {})[id_] = asyncio.get_running_loop().time() + GIVE_UP_SECONDS
        if uid not in self._tasks:
            task = asyncio.create_task(self._follow(uid), name=f"exit in {uid}")
            self._tasks[uid] = task
            task.add_done_callback(lambda _: self._tasks.pop(uid, None))

    async def close(self) -> None:
        """Stop following."""
        await cancel_all(self._tasks.values())

    async def _follow(self, uid: str) -> None:
        loop, pause = asyncio.get_running_loop(), SECOND_READ_SECONDS
        while self._is_unreported(uid):
            if self._pleg.busy(uid):  # the step under way returns the pod's listing itself
                await self._pleg.until_not_busy(uid)
                continue
            began = loop.time()
            try:
                await self._pleg.look(uid)
            except CriError as error:
                log.debug("pod %s cannot be read: %s", uid, error)
            if self._is_unreported(uid):
                await asyncio.sleep(max(pause, min(loop.time() - began, LONGEST_PAUSE_SECONDS)))
                pause = READ_SECONDS
        if self._is_unreported(uid, late_too=True):
            self._pleg.relist_often()
        self._deadlines.pop(uid, None)

    def _is_unreported(self, uid: str, *, late_too: bool = False) -> bool:
        """Say whether the pod's newest listing still shows an exited container or sandbox as running.

        An exit past its deadline is no longer followed, and counts only if `late_too`.
        """
        now = asyncio.get_running_loop().time()
        exited = {id_ for id_, until in self._deadlines.get(uid, {}).items() if late_too or now < until}
        newest = self._pleg.newest(uid)
        if newest is None:
            return False
        return any(c.id in exited and c.state == "running" for c in newest.containers) or any(
            s.id in exited and s.ready for s in newest.sandboxes
        )
