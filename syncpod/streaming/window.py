"""How much one end of a connection may send before the other has passed it on."""

from __future__ import annotations

import asyncio


class Window:
    """A number of bytes that is used up and given back. All methods belong to one event loop."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._is_open = asyncio.Event()
        self._is_closed = False

    async def take(self, wanted: int) -> int:
        """Use up to `wanted` bytes, at least one, and return how many; wait while there are none. 0 = it is closed."""
        while self._left <= 0 and not self._is_closed:
            self._is_open.clear()
            await self._is_open.wait()
        if self._is_closed:
            return 0
        taken = min(wanted, self._left)
        self._left -= taken
        return taken

    def give(self, size: int) -> None:
        """Give bytes back."""
        self._left += size
        self._is_open.set()

    def close(self) -> None:
        """Let nobody use it any more."""
        self._is_closed = True
        self._is_open.set()
