"""The requests of a fleet's workflow that are in progress: concurrent, but never two of one name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class OpenRequests:
    """Requests in progress, by name."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Begin with no requests. `wake` makes the workflow decide again; it is called when a request ends."""
        self._wake = wake
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unbegun: dict[str, Coroutine[Any, Any, None]] = {}
        """Requests whose task has not run yet."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def begin(self, name: str, asking: Coroutine[Any, Any, None]) -> None:
        """Begin a request, unless one of the same name is in progress."""
        if name in self._tasks:
            asking.close()
            return

        async def run() -> None:
            del self._unbegun[name]
            try:
                await asking
            except asyncio.CancelledError:
                pass
            finally:
                # Replay: the name is freed before the workflow decides again, or a request that is due would be
                # missed.
                del self._tasks[name]
                self._wake()

        self._unbegun[name] = asking
        self._tasks[name] = asyncio.create_task(run())

    def cancel(self, name: str) -> None:
        """Cancel a request. It stays in progress until its step has been cancelled."""
        if name in self._tasks:
            self._tasks[name].cancel()
        # A task that is cancelled before its first turn never runs, and so would not free the name.
        if name in self._unbegun:
            self._unbegun.pop(name).close()
            del self._tasks[name]
            self._wake()
