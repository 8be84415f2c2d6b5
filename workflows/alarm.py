"""One timer of a workflow, which rings at the earliest of its deadlines."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow


class Alarm:
    """A timer in the history, which is replaced only when its deadline moves.

    Waiting with a time-out instead would write a timer, and the end of one, for each signal that comes meanwhile.
    """

    def __init__(self) -> None:
        self.rang = False
        self._deadline: datetime | None = None
        self._timer: asyncio.Task[None] | None = None

    def set(self, deadline: datetime | None, summary: str) -> None:
        """Have it ring at the deadline, and no earlier; None = not at all. `summary` is what the UI shows."""
        if deadline == self._deadline:
            return
        self.clear()
        self._deadline = deadline
        if deadline is not None:
            self._timer = asyncio.create_task(self._ring(deadline, summary))

    def clear(self) -> None:
        """Forget the deadline: a timer that runs is cancelled, one that rang has been heard."""
        if self._timer is not None and not self._timer.done():
            self._timer.cancel()
        self.rang, self._deadline, self._timer = False, None, None

    async def _ring(self, deadline: datetime, summary: str) -> None:
        await workflow.sleep(max(timedelta(0), deadline - workflow.now()), summary=summary)
        self.rang = True
