"""Ends back-offs on time: signals a pod's workflow at the moment when a container may start again.

The workflow owns the back-off, its delay and its deadline; this is only the alarm clock. The workflow keeps a durable
timer that fires a second later, so a lost alarm costs a second. A repeated alarm does nothing, since it names one
restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from temporalio.service import RPCError

log = logging.getLogger(__name__)

Ring = Callable[[str, str, int], Awaitable[bool]]
"""Takes workflow id, subject and restart; signals the workflow, and returns whether it is open. Raises RPCError if the
server does not answer."""

GIVE_UP_SECONDS = 30.0
"""Seconds for which a signal is retried while the server is away. After that the workflow's own timer has fired."""
_RETRY_SECONDS = (0.1, 2.0)
"""The first pause between two tries, and the longest."""


@dataclass
class _Alarm:
    restart: int
    timer: asyncio.TimerHandle | None = None
    ringing: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Cancel the timer, and the signal if it is being sent."""
        if self.timer is not None:
            self.timer.cancel()
        if self.ringing is not None:
            self.ringing.cancel()


class BackoffQueue:
    """The alarms of one node, at most one per subject of a pod. Times are the loop's: monotonic, in seconds.

    A subject is a container, or a step of the whole pod (`create_sandbox`).
    """

    def __init__(self, ring: Ring) -> None:
        """Send signals with `ring`."""
        self._ring = ring
        self._alarms: dict[tuple[str, str], _Alarm] = {}

    def arm(self, workflow_id: str, subject: str, restart: int, delay_seconds: float) -> None:
        """Signal this restart of the subject in `delay_seconds`. This replaces the subject's earlier alarm.

        Arming the same restart again sets the new time. Arming an older restart than the one that is set does nothing:
        a replayed decision can arrive late.
        """
        key = workflow_id, subject
        earlier = self._alarms.get(key)
        if earlier is not None:
            if restart < earlier.restart:
                return
            earlier.stop()
        alarm = self._alarms[key] = _Alarm(restart)
        loop = asyncio.get_running_loop()
        alarm.timer = loop.call_later(max(0.0, delay_seconds), self._expired, key, alarm)

    def disarm(self, workflow_id: str, subject: str, restart: int) -> None:
        """Cancel the alarm for this restart of the subject, or an older one: its back-off ended early."""
        key = workflow_id, subject
        alarm = self._alarms.get(key)
        if alarm is not None and alarm.restart <= restart:
            alarm.stop()
            del self._alarms[key]

    def __len__(self) -> int:
        """Return how many alarms are set or being signalled."""
        return len(self._alarms)

    async def close(self) -> None:
        """Cancel all alarms; the workflows' own timers remain."""
        alarms = tuple(self._alarms.values())
        self._alarms.clear()
        for alarm in alarms:
            alarm.stop()
        await asyncio.gather(*(alarm.ringing for alarm in alarms if alarm.ringing), return_exceptions=True)

    def _expired(self, key: tuple[str, str], alarm: _Alarm) -> None:
        alarm.timer = None
        alarm.ringing = asyncio.create_task(self._ring_until_answered(key, alarm), name=f"back-off {'/'.join(key)}")

    async def _ring_until_answered(self, key: tuple[str, str], alarm: _Alarm) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GIVE_UP_SECONDS
        pause, longest = _RETRY_SECONDS
        try:
            while True:
                try:
                    if not await self._ring(*key, alarm.restart):
                        log.debug("back-off of %s in %s is over, but the workflow is gone", key[1], key[0])
                    return
                except RPCError as error:
                    if loop.time() > deadline:
                        log.warning(
                            "back-off of %s in %s is over, but its workflow cannot be signalled: %s",
                            key[1],
                            key[0],
                            error,
                        )
                        return
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
        finally:
            if self._alarms.get(key) is alarm:
                del self._alarms[key]
