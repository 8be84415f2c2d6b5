"""A supervisor's poll loop: descriptors, and their handlers."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Final

Handler = Callable[[int], None]
"""Called with the events of `select.poll`."""
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
        """Wait for these events from now on; with 0 only errors and hang-ups are reported."""
        self._poll.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Stop watching a descriptor; one that is not watched is ignored."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def handle(self, seconds: float | None, *, only: int = ANY) -> None:
        """Poll once, with a timeout, and call the handlers of those ready descriptors that are in `only`."""
        for descriptor, events in self._poll.poll(None if seconds is None else seconds * 1000):
            handler = self._handlers.get(descriptor)  # A handler may have removed another descriptor.
            if handler is not None and events & only:
                handler(events)
