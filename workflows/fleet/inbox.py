"""Signals of a fleet's workflow that wait to be absorbed, in order of arrival."""

from __future__ import annotations

from typing import Any

from workflows.entity import Signal


class FleetInbox:
    """A queue of signals. Adding one takes constant time."""

    def __init__(self) -> None:
        self._pending: list[Signal] = []

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, name: str, args: tuple[Any, ...]) -> None:
        """Add a signal."""
        self._pending.append(Signal(name, tuple(args)))

    def take(self, most: int | None = None) -> list[Signal]:
        """Remove and return the first signals, no more than `most`; None means all."""
        taken, self._pending = self._pending[:most], self._pending[most:] if most is not None else []
        return taken
