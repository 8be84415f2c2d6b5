"""The one timer of a workflow, which rings at the earliest of its deadlines."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow


class Alarm:
    """A timer in the history, which is replaced only when its deadline moves.

    A wait with a time-out would write a timer, and the end of one, for each signal that comes meanwhile.
    """

    def __init__(self) -> None:
        self.rang = False
        """The deadline that is set has passed, and nobody has heard it yet."""
        self._deadline: datetime | None = None
        self._timer: asyncio.Task[None] | None = None

    def set(self, deadline: datetime | None, summary: str) -> None:
        """Have it ring at the deadline, and not before; None means never. `summary` is what the UI shows.

        A ring for another deadline is forgotten: it may have come while a step ran, when nobody waited for it.
        """
        if deadline == self._deadline:
            return
        self._clear()
        self._deadline = deadline
        if deadline is not None:
            self._timer = asyncio.create_task(self._ring(deadline, summary))

    def hear(self) -> None:
        """Take notice of a ring, so that the same deadline may be set again; a timer that runs goes on."""
        if self.rang:
            self._clear()

    def _clear(self) -> None:
        # Replay: the timer is cancelled before another is begun, or two of them would stand in one history.
        if self._timer is not None and not self._timer.done():
            self._timer.cancel()
        self.rang, self._deadline, self._timer = False, None, None

    async def _ring(self, deadline: datetime, summary: str) -> None:
        await workflow.sleep(max(timedelta(0), deadline - workflow.now()), summary=summary)
        self.rang = True
