"""Limits log lines about repeated events to one line for each subject in an interval."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from typing import Final

_MOST: Final = 1_000
"""Maximum number of subjects that are remembered; beyond it, the subject whose last line is the oldest is forgotten."""


class RareLines:
    """Decides which lines are due: the first line about a subject at once, and later ones once in each interval.

    Untrusted senders may invent subjects: each new subject has its first line, but only `_MOST` are remembered. Two
    threads that call at once may both get a line.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any line. `seconds` is the length of an interval; `clock` must be monotonic."""
        self._seconds, self._clock = seconds, clock
        self._lines: dict[Hashable, tuple[float, int]] = {}
        """By subject, the oldest line first: the time at which the next line is due, and the number of lines left out
        since."""

    def left_out(self, subject: Hashable = "") -> int | None:
        """Return how many lines of a subject were left out before this line; None = leave this line out too."""
        now = self._clock()
        due, times = self._lines.get(subject, (now, 0))
        if now < due:
            self._lines[subject] = due, times + 1
            return None
        self._lines.pop(subject, None)
        if len(self._lines) >= _MOST:
            del self._lines[next(iter(self._lines))]
        self._lines[subject] = now + self._seconds, 0
        return times

    def warn(self, log: logging.Logger, subject: Hashable, text: str) -> None:
        """Log a warning about a subject if it is due, with the number of lines left out."""
        if (times := self.left_out(subject)) is not None:
            log.warning("%s%s", text, f" (and {times} times since the last such line)" if times else "")

    def over(self, subject: Hashable) -> None:
        """Forget a subject whose fault is over: its next line is due at once."""
        self._lines.pop(subject, None)

    def __len__(self) -> int:
        return len(self._lines)
