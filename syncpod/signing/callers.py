"""Who has connected to a server on the loopback, and whether there is room for them."""

from __future__ import annotations

import contextlib
import os
from asyncio import StreamWriter
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from syncpod.kernel.peers import Peer

AT_ONCE: Final = 32
"""Connections of the owner that are served at the same time, and as many of all others together."""
OF_A_STRANGER: Final = 4
"""Connections of one other user among them. Whatever goes beyond is closed at once."""

PeerOf = Callable[[tuple[str, int], tuple[str, int]], Peer | None]
"""Returns whose a connection is, by the addresses of its client and its server; None = it is not known."""


class Callers:
    """The connections of one server: strangers take neither the owner's room, nor all descriptors of the process."""

    def __init__(self, peer_of: PeerOf) -> None:
        """Ask `peer_of` whose each connection is."""
        self._peer_of = peer_of
        self._open: Counter[int] = Counter()
        """Connections by user; -1 = it is not known whose they are."""

    @contextlib.contextmanager
    def counted(self, writer: StreamWriter) -> Iterator[bool]:
        """Count a connection during the block; yield whether it is to be served."""
        client, server = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        peer = self._peer_of(client, server) if client and server else None  # it may be gone already
        caller = -1 if peer is None else peer.uid
        self._open[caller] += 1
        try:
            yield self._has_room(caller)
        finally:
            self._open -= Counter([caller])  # which also forgets who has none left

    def _has_room(self, caller: int) -> bool:
        owners = {0, os.geteuid()}
        if caller in owners:
            return sum(self._open[uid] for uid in owners) <= AT_ONCE
        strangers = sum(count for uid, count in self._open.items() if uid not in owners)
        return self._open[caller] <= OF_A_STRANGER and strangers <= AT_ONCE
