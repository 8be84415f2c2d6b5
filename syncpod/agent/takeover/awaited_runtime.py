"""Waits for a runtime that does not answer yet: after a reboot the worker may start before its runtime."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 30.0
"""Seconds that a starting worker waits for its runtime."""
_ASK_EVERY: Final = 0.5

_Answer = TypeVar("_Answer")


class RuntimeAway(Exception):
    """The runtime does not answer, but may soon. The text is one sentence about the fault."""


class AwaitedRuntime:
    """A starting worker's timeout for its runtime, shared by all its requests."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        """Wait at most `patience` seconds from now on."""
        self._patience = patience
        self._gives_up = time.monotonic() + patience
        self._said = False

    async def answer(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Return the result of `ask`. While it raises RuntimeAway, retry, and log that once.

        Raises the last RuntimeAway at the timeout, and all other errors of `ask` at once.
        """
        while True:
            try:
                return await ask()
            except RuntimeAway as away:
                if time.monotonic() >= self._gives_up:
                    raise
                if not self._said:
                    log.warning("waiting up to %g s for the runtime: %s", self._patience, away)
                self._said = True
            await asyncio.sleep(_ASK_EVERY)
