"""The runtime's announcements about single containers, for steps that wait for one of them to end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from syncpod.cri.port import ContainerEvent


@dataclass(eq=False)
class Heard:
    """The runtime's announcements about one container since somebody listens."""

    anything: bool = False
    """Something was announced, so its end will be too: unless the runtime leaves an event out, as some do."""
    end: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once its end was announced."""


class Announcements:
    """Passes on what a node's runtime announces. All methods belong to one event loop."""

    def __init__(self) -> None:
        self._heard: dict[str, Heard] = {}

    @contextlib.contextmanager
    def of(self, container_id: str) -> Iterator[Heard]:
        """Listen for a container during the block. If two listen, the later one gets the announcements."""
        heard = self._heard[container_id] = Heard()
        try:
            yield heard
        finally:
            if self._heard.get(container_id) is heard:
                del self._heard[container_id]

    def take(self, event: ContainerEvent) -> None:
        """Pass on what was announced."""
        if (heard := self._heard.get(event.id)) is not None:
            heard.anything = True
            if event.is_end:
                heard.end.set()
