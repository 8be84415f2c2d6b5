"""Caches the records of listed items: most items have not changed a second later, and need no new translation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from protos.cri.v1 import api_pb2

_Item = TypeVar("_Item", api_pb2.PodSandbox, api_pb2.Container)
_Summary = TypeVar("_Summary")

_TURNS: Final = 8
"""Number of listed items, for each cached item, after which cached items that were not among them are dropped."""
TURN_SECONDS: Final = 30.0
"""Seconds after which cached items that have not been listed are dropped, even if all lists are empty."""


class KnownItems(Generic[_Item, _Summary]):
    """The records of listed items, by id. A cached record is used only while its item is equal in every field."""

    def __init__(self, translated: Callable[[_Item], _Summary], clock: Callable[[], float] = time.monotonic) -> None:
        """Call `translated` for the record of a new or changed item. `clock` returns seconds."""
        self._translated: Callable[[_Item], _Summary] = translated
        # There are two generations, so that a short list, such as one of a single pod, does not drop all other records.
        self._recent: dict[str, tuple[_Item, _Summary]] = {}
        self._older: dict[str, tuple[_Item, _Summary]] = {}
        self._read = 0
        self._clock = clock
        self._turned = clock()

    def records(self, listed: Iterable[_Item]) -> tuple[_Summary, ...]:
        """Return the records of listed items, in the list's order."""
        found = tuple(map(self._record, listed))
        self._read += len(found)
        if self._read > _TURNS * len(self._recent) or self._clock() - self._turned > TURN_SECONDS:
            self._older, self._recent, self._read = self._recent, {}, 0
            self._turned = self._clock()
        return found

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def _record(self, item: _Item) -> _Summary:
        known = self._recent.get(item.id)
        if known is None and (known := self._older.pop(item.id, None)) is not None:
            self._recent[item.id] = known
        if known is not None and known[0] == item:
            return known[1]
        summary = self._translated(item)
        # This copies the item, which itself would keep the memory of its whole list.
        kept = type(item)()
        kept.CopyFrom(item)
        self._recent[item.id] = kept, summary
        return summary
