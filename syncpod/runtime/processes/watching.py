"""What a supervisor's one thread waits on: descriptors, and who is called when one of them is ready."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Final

Handler = Callable[[int], None]
"""Called with the events of `select.poll` that have come."""
ANY: Final = ~0


class Watch:
    """Descriptors and their handlers."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: dict[int, Handler] = {}

    def add(self, descriptor: int, handler: Handler, events: int = select.POLLIN) -> None:
        """Call `handler` when any of these events comes, until the descriptor is removed."""
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, events)

    def change(self, descriptor: int, events: int) -> None:
        """Wait for these events from now on; 0 leaves those that cannot be chosen, as that the other end is gone."""
        self._poll.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Wait no more for what may not be waited for at all."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def handle(self, seconds: float | None, *, only: int = ANY) -> None:
        """Wait once, so long at most, and call the handlers of what has come, if it is among `only`."""
        for descriptor, events in self._poll.poll(None if seconds is None else seconds * 1000):
            handler = self._handlers.get(descriptor)  # One of them may have removed another.
            if handler is not None and events & only:
                handler(events)
