"""How many of a workflow's records may be about what was not accepted.

Whoever reaches the server can send signals that are rejected, as many as they like: the records of them must not push
out what has happened to the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

REJECTED: Final = "Rejected"
"""The reason of an event about something that was not accepted."""
REJECTIONS_KEPT: Final = 50

_Record = TypeVar("_Record")


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
