"""The size of a client's terminal, as it tells it."""

from __future__ import annotations

import asyncio
import json
from typing import Final

_LONGEST: Final = 1024
"""Bytes of one size; an honest one has 30."""


class TerminalSizes:
    """Reads `{"Width": 80, "Height": 24}`, one JSON object after the other; only the newest counts.

    What is no size ends the reading of sizes, as it does in the kubelet, and nothing else.
    """

    def __init__(self) -> None:
        self._text = ""
        self._broken = False
        self._newest: tuple[int, int] | None = None
        self._changed = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Take what the client sent, which may end within an object."""
        if self._broken:
            return
        self._text += data.decode("ascii", errors="replace")
        while text := self._text.lstrip():
            try:
                said, end = json.JSONDecoder().raw_decode(text)
            except json.JSONDecodeError as error:
                self._broken = error.pos < len(text) or len(text) > _LONGEST
                return
            size = _size(said)
            if size is None:
                self._broken = True
                return
            self._text = text[end:]
            self._newest = size
            self._changed.set()

    async def changed(self) -> tuple[int, int]:
        """Return columns and rows, once they are not those that were returned before."""
        await self._changed.wait()
        self._changed.clear()
        assert self._newest is not None
        return self._newest


def _size(said: object) -> tuple[int, int] | None:
    if not isinstance(said, dict):
        return None
    columns, rows = said.get("Width", 0), said.get("Height", 0)
    if not all(type(number) is int and 0 <= number <= 0xFFFF for number in (columns, rows)):
        return None
    return columns, rows
