"""Finds the first decision in which a replay differs from its history.

The SDK compares only the types of commands. This module also compares the parameters of the decisions: the container,
number and victims of a step, or its pods and node; the duration of a wait; the name and target of a signal; and the
workflow task in which a decision was taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple


class Decided(NamedTuple):
    """One decision, as a history has it or as a replay takes it."""

    task: int
    """The number of the event that completed the decision's workflow task; 0 = the history has no such event yet."""
    words: str
    event: int = 0
    """The number of the decision's own event; 0 = the decision is a replay's."""


class Difference(NamedTuple):
    """The first decision that differs."""

    event: int
    """The number of the decision's event in the history; without one, the number of the workflow task's event."""
    history: str
    """The decision in the history; "" = the history has none there."""
    now: str
    """The replay's decision; "" = the replay has none there."""
    cause: str = ""
    """The SDK's error; "" = the SDK found no difference."""

    def sentence(self) -> str:
        """Return the difference as one clause."""
        then, now = (repr(words) if words else "nothing more" for words in (self.history, self.now))
        return f"event {self.event}: in the history {then}, with the code at hand {now}"


_AT_EVENT: Final = re.compile(r"HistoryEvent\(id: (\d+)")


def difference(then: Sequence[Decided], now: Sequence[Decided], failure: str) -> Difference | None:
    """Return the first decision that differs between a history and its replay; None if none does.

    `failure` is the SDK's error, with which the replay ended; "" = it did not fail. Decisions of the replay after the
    last recorded workflow task are no difference.
    """
    for recorded, taken in zip(then, now, strict=False):
        if taken.task and taken.task < recorded.task:
            return Difference(taken.task, "", taken.words, failure)
        if taken.task != recorded.task:
            return Difference(recorded.event, recorded.words, "", failure)
        if taken.words != recorded.words:
            return Difference(recorded.event, recorded.words, taken.words, failure)
    if len(now) > len(then) and now[len(then)].task:
        return Difference(now[len(then)].task, "", now[len(then)].words, failure)
    at = _AT_EVENT.search(failure)
    if failure and len(now) < len(then) and (at is None or int(at[1]) >= then[len(now)].event):
        return Difference(then[len(now)].event, then[len(now)].words, "", failure)
    return None
