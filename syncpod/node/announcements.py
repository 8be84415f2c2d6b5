"""Passes the runtime's container events to steps that wait for a container to end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from syncpod.cri.port import ContainerEvent


@dataclass(eq=False)
class Announced:
    """The runtime's events about one container since its listener was registered."""

    anything: bool = False
    """True after the first event. Then an event about the end is likely to follow, but some runtimes leave events
    out."""
    end: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the runtime has reported the container's end."""


class Announcements:
    """Distributes the events of a node's runtime by container. All methods belong to one event loop."""

    def __init__(self) -> None:
        self._announced: dict[str, Announced] = {}

    @contextlib.contextmanager
    def of(self, container_id: str) -> Iterator[Announced]:
        """Receive a container's events during the block. A second listener for a container replaces the first."""
        announced = self._announced[container_id] = Announced()
        try:
            yield announced
        finally:
            if self._announced.get(container_id) is announced:
                del self._announced[container_id]

    def take(self, event: ContainerEvent) -> None:
        """Pass an event to its container's listener, if there is one."""
        if (announced := self._announced.get(event.id)) is not None:
            announced.anything = True
            if event.is_end:
                announced.end.set()
