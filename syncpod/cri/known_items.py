"""Items of earlier lists: most of those that a runtime lists each second are unchanged, and not translated again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from protos.cri.v1 import api_pb2

_Item = TypeVar("_Item", api_pb2.PodSandbox, api_pb2.Container)
_Summary = TypeVar("_Summary")

_TURNS: Final = 8
"""How many items are read, for each that is kept, before those that no list has had meanwhile are dropped."""
TURN_SECONDS: Final = 30.0
"""After what time they are dropped in any case, even if all lists are empty."""


class KnownItems(Generic[_Item, _Summary]):
    """The records of listed items, by id. A record is given again only for an item that is equal in every field."""

    def __init__(self, translated: Callable[[_Item], _Summary], clock: Callable[[], float] = time.monotonic) -> None:
        """Translate what is new or has changed with `translated`. `clock` returns seconds."""
        self._translated: Callable[[_Item], _Summary] = translated
        # Two generations: who asks for a single pod reads a short list, which must not cost the others their records.
        self._recent: dict[str, tuple[_Item, _Summary]] = {}
        self._older: dict[str, tuple[_Item, _Summary]] = {}
        self._read = 0
        self._clock = clock
        self._turned = clock()

    def records(self, listed: Iterable[_Item]) -> tuple[_Summary, ...]:
        """Return the records of what is listed, in its order."""
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
        # A copy: the item itself would keep the memory of the whole list that it came with.
        kept = type(item)()
        kept.CopyFrom(item)
        self._recent[item.id] = kept, summary
        return summary
