"""Complaints about what fails each second, as long as something does not answer as it should: a line a minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

REPEAT_SECONDS: Final = 60.0
_MOST: Final = 1_000
"""How many subjects are remembered; beyond that, those with nothing new for a minute are forgotten."""


class Complaints:
    """Logs the first complaint about each subject at once, and then one a minute, which counts those left out."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        """Log warnings to `log`. `clock` is steady, in seconds."""
        self._log, self._clock = log, clock
        self._due: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def say(self, subject: str, text: str) -> None:
        """Log what is wrong with a subject, if that is due."""
        now = self._clock()
        if now < self._due.get(subject, now):
            self._left_out[subject] = self._left_out.get(subject, 0) + 1
            return
        if len(self._due) >= _MOST:
            for quiet in [each for each, due in self._due.items() if due <= now]:
                self.over(quiet)
        self._due[subject] = now + REPEAT_SECONDS
        times = self._left_out.pop(subject, 0)
        self._log.warning("%s%s", text, f" (and {times} times in the last minute)" if times else "")

    def over(self, subject: str) -> None:
        """Forget a subject with which nothing is wrong any more: the next complaint is logged at once."""
        self._due.pop(subject, None)
        self._left_out.pop(subject, None)

    def __len__(self) -> int:
        return len(self._due)
