"""The one timer of a workflow, which rings at the earliest of its deadlines."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow


class Alarm:
    """A timer in the history, which is replaced only when its deadline moves.

    A wait with a timeout would write a timer and its cancellation for each signal that arrives meanwhile.
    """

    def __init__(self) -> None:
        self.rang = False
        """The deadline has passed, and nobody has called `acknowledge` since."""
        self._deadline: datetime | None = None
        self._timer: asyncio.Task[None] | None = None

    def set(self, deadline: datetime | None, summary: str) -> None:
        """Set the deadline at which the alarm rings; None means never. `summary` is the timer's text in the UI.

        If the deadline changes, a ring for the old one is dropped: the alarm may have rung during a step, when nothing
        waited.
        """
        if deadline == self._deadline:
            return
        self._clear()
        self._deadline = deadline
        if deadline is not None:
            self._timer = asyncio.create_task(self._ring(deadline, summary))

    def acknowledge(self) -> None:
        """Clear a ring, so that the same deadline can be set again. A running timer keeps running."""
        if self.rang:
            self._clear()

    def _clear(self) -> None:
        # Replay: the timer is cancelled before the next one starts. Otherwise a history would have two at once.
        if self._timer is not None and not self._timer.done():
            self._timer.cancel()
        self.rang, self._deadline, self._timer = False, None, None

    async def _ring(self, deadline: datetime, summary: str) -> None:
        await workflow.sleep(max(timedelta(0), deadline - workflow.now()), summary=summary)
        self.rang = True
