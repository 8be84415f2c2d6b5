"""The refusal of messages: the sentence that gives the reason, and how many of a workflow's records are refusals.

Anybody who reaches the server can send any number of signals that are rejected: the records of them must not push out
the history of the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from pydantic import ValidationError

from syncpod.journal.records import EventRecord
from syncpod.pod import PodInvalid
from syncpod.pod.model_errors import first_problem

REJECTED: Final = "Rejected"
"""The reason of an event about something that was not accepted."""
REJECTIONS_KEPT: Final = 50

_Record = TypeVar("_Record")


class Rejected(Exception):
    """A message cannot be accepted; the text says why, in one sentence."""


def sentence(wrong: Exception) -> str:
    """Return the error of a signal or an update as one sentence."""
    if isinstance(wrong, ValidationError):
        return str(first_problem(wrong))
    return str(wrong) if isinstance(wrong, Rejected | PodInvalid) else f"{type(wrong).__name__}: {wrong}"


def last_rejected(events: Sequence[EventRecord]) -> list[str]:
    """Return the lines of a workflow's page in the UI about the newest refusal, if there was one.

    A person who has pressed Cancel there can read why the workflow goes on.
    """
    newest = next((event for event in reversed(events) if event.reason == REJECTED), None)
    return ["", f"Last rejected: {' '.join(newest.message.split())}"] if newest is not None else []


def without_surplus(records: tuple[_Record, ...], is_rejection: Callable[[_Record], bool]) -> tuple[_Record, ...]:
    """Return the records, oldest first, with only the newest REJECTIONS_KEPT of the rejections among them."""
    surplus = sum(map(is_rejection, records)) - REJECTIONS_KEPT

    def kept() -> Iterator[_Record]:
        left = surplus
        for record in records:
            if left > 0 and is_rejection(record):
                left -= 1
            else:
                yield record

    return tuple(kept()) if surplus > 0 else records
