"""What a workflow of a fleet asks of others just now: each thing once at a time, beside all else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class UnderWay:
    """Questions that wait for their answers, by name."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` has the workflow decide again; it is called at the end of each question."""
        self._wake = wake
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def begin(self, name: str, asking: Coroutine[Any, Any, None]) -> None:
        """Begin to ask, unless the same is asked already."""
        if name in self._tasks:
            asking.close()
            return

        async def run() -> None:
            try:
                await asking
            except asyncio.CancelledError:
                pass
            finally:
                # Replay: the name is free before the workflow decides again, or it would not ask what it still has to.
                del self._tasks[name]
                self._wake()

        self._tasks[name] = asyncio.create_task(run())

    def cancel(self, name: str) -> None:
        """Give up a question. It is still under way until its step has been told."""
        if name in self._tasks:
            self._tasks[name].cancel()
