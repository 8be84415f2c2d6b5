"""Reads the sizes of a client's terminal, which arrive as JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Final

_LONGEST: Final = 256
"""Maximum bytes of one size; a normal size has 30."""
_MOST: Final = 64 * 1024
"""Maximum bytes that may arrive at once, since a message of 32 MiB could have a million sizes."""


class TerminalSizes:
    """Reads sizes, one JSON object `{"Width": 80, "Height": 24}` after the other. Only the newest counts.

    As in the kubelet, an invalid size ends only the reading of sizes.
    """

    def __init__(self) -> None:
        self._text = ""
        self._broken = False
        self._newest: tuple[int, int] | None = None
        self._changed = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Add data from the client, which may end within an object."""
        if self._broken:
            return
        if len(data) > _MOST:
            self._broken = True
            return
        *said, self._text = (self._text + data.decode("ascii", errors="replace")).split("}")
        for each in said:
            size = _size(each + "}")
            if size is None:
                self._broken = True
                return
            self._newest = size
            self._changed.set()
        self._broken = len(self._text) > _LONGEST

    async def changed(self) -> tuple[int, int]:
        """Wait for the size to change, and return columns and rows."""
        await self._changed.wait()
        self._changed.clear()
        assert self._newest is not None
        return self._newest


def _size(text: str) -> tuple[int, int] | None:
    try:
        said = json.loads(text) if len(text) <= _LONGEST else None
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    columns, rows = said.get("Width", 0), said.get("Height", 0)
    if not all(type(number) is int and 0 <= number <= 0xFFFF for number in (columns, rows)):
        return None
    return columns, rows
