"""Who may begin a TLS handshake: whoever connects and says nothing must not keep others out."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

from syncpod.kernel.budget import Budget

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 1.0
"""A handshake that is older than this may be ended in favor of a new one. Without such a one the new one is closed."""
HANDSHAKE_SECONDS: Final = 10.0
"""The longest that a handshake may take."""
FAILURES_PER_SECOND: Final = 16
"""Handshakes from one address that may fail on average."""
FAILURES_BURST: Final = 256
"""Handshakes from one address that may fail in one burst. Any further connection is closed before its handshake."""


class Handshakes:
    """The connections that have not shown a certificate yet. All methods belong to one event loop."""

    def __init__(self, most: int, most_of_one_address: int) -> None:
        """At most so many at once; a whole site may be behind one address, and come back at once."""
        self._most, self._most_of_one_address = most, most_of_one_address
        self._waiting: dict[asyncio.Task[Any], tuple[str, float]] = {}
        """The oldest first, their addresses and since when."""
        self._failed = Budget(FAILURES_PER_SECOND, FAILURES_BURST)

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def make_room(self, address: str, now: float) -> bool:
        """Say whether there is room for one more handshake. If need be, end the oldest one that has waited too long."""
        waiting = [task for task, (place, _) in self._waiting.items() if place == address]
        if len(waiting) < self._most_of_one_address:
            if len(self._waiting) < self._most:
                return self._failed.spend(address, now)
            waiting = list(self._waiting)
        _, since = self._waiting[waiting[0]]
        if now - since < PATIENCE_SECONDS:
            return False
        if not self._failed.spend(address, now):
            return False
        self._waiting.pop(waiting[0])
        waiting[0].cancel()
        return True

    def begin(self, task: asyncio.Task[Any], address: str, now: float) -> None:
        """Note that a task waits for a handshake."""
        self._waiting[task] = address, now

    def let_in(self, address: str, now: float) -> None:
        """Note that a connection has shown a valid certificate. Until then its handshake counts as failed."""
        self._failed.give_back(address, now)

    def end(self, task: asyncio.Task[Any]) -> None:
        """Note that a task's handshake is over, however it ended."""
        self._waiting.pop(task, None)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; at ``::`` for IPv4 too, where the kernel can. Raises OSError."""
    both = host == "::" and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, dualstack_ipv6=both, backlog=512)


async def accept(
    listener: socket.socket,
    handshakes: Handshakes,
    serve: Callable[[socket.socket, str], Coroutine[Any, Any, None]],
    served: set[asyncio.Task[None]],
) -> None:
    """Accept connections forever, as far as there is room for their handshakes, and serve each in a task of its own.

    `serve` gets the connection and its address, and ends its handshake. Its tasks are in `served` until they end.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            taken, peer = await loop.sock_accept(listener)
        except OSError as error:  # such as no descriptor left: open connections go on
            log.warning("a connection cannot be accepted: %s", error)
            await asyncio.sleep(1)
            continue
        address = machine_of(peer[0])
        if not handshakes.make_room(address, loop.time()):
            taken.close()
            await asyncio.sleep(0)  # as below
            continue
        task = asyncio.create_task(serve(taken, address))
        handshakes.begin(task, address, loop.time())
        served.add(task)
        task.add_done_callback(served.discard)
        await asyncio.sleep(0)  # an accept that succeeds at once does not let other tasks run


def machine_of(host: str) -> str:
    """Return the address of a client; for IPv6 its /64, since one machine has many addresses there."""
    address = ipaddress.ip_address(host.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    return str(address if address.version == 4 else ipaddress.IPv6Network(f"{address}/64", strict=False))


def refusal_of(error: OSError) -> str:
    """Return why a handshake failed, as the log says it."""
    said = getattr(error, "verify_message", "") or getattr(error, "reason", "") or error.strerror or "it ended"
    return str(said).lower().replace("_", " ")
