"""Limits for each client of a server: concurrent connections, and a budget of calls or bytes per second."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final, Protocol

from syncpod.kernel.peers import Address, Peer

AT_ONCE: Final = 32
"""Maximum number of concurrent connections of the owner (and root), and also of all other users together."""
OF_A_STRANGER: Final = 4
"""Maximum number of concurrent connections of one other user, or of one other machine. Further connections are closed
at once."""
_UNKNOWN: Final = -1
"""Stands for all users of this machine whom the kernel cannot identify."""
_REMEMBERED: Final = 1_000
"""A budget with more clients than this drops the entries of those whose whole burst is available again."""

PeerOf = Callable[[Address, Address], Peer | None]
"""Finds the user of a connection from the addresses of its client and its server; returns None if it is not known."""


class Connection(Protocol):
    """A connection of asyncio, or a request of aiohttp."""

    def get_extra_info(self, name: str, /) -> Any:
        """Return the address of one end (``peername`` or ``sockname``); None if the connection is closed."""


class Callers:
    """The connections of one server. Strangers can use up neither the owner's share, nor the process's descriptors."""

    def __init__(self, peer_of: PeerOf, *, bounds_owner: bool = True) -> None:
        """Get the user of each connection by `peer_of`.

        Without `bounds_owner` there is no limit for the owner, nor for users whom the kernel does not name. Such a user
        may be the owner, since some kernels name nobody, or a client that has already disconnected.
        """
        self._peer_of = peer_of
        self._bounds_owner = bounds_owner
        self._open: Counter[int | str] = Counter()
        """Number of open connections by user; by address for those from other machines."""

    @contextlib.contextmanager
    def counted(self, connection: Connection) -> Iterator[bool]:
        """Count a connection during the block; yield whether it should be served."""
        client, server = connection.get_extra_info("peername"), connection.get_extra_info("sockname")
        peer = self._peer_of(client, server) if client and server else None  # the client may be gone already
        caller = peer.uid if peer is not None else _machine(client, server)
        self._open[caller] += 1
        try:
            yield self._has_room(caller)
        finally:
            self._open -= Counter([caller])  # this also drops a count of zero

    def is_owners(self, connection: Connection) -> bool:
        """Return whether the owner or root is known to have made this connection."""
        client, server = connection.get_extra_info("peername"), connection.get_extra_info("sockname")
        peer = self._peer_of(client, server) if client and server else None
        return peer is not None and peer.uid in (0, os.geteuid())

    def _has_room(self, caller: int | str) -> bool:
        owners = {0, os.geteuid()}
        if not self._bounds_owner and (caller in {*owners, _UNKNOWN} or isinstance(caller, str)):
            return True
        if caller in owners:
            return sum(self._open[uid] for uid in owners) <= AT_ONCE
        strangers = sum(count for uid, count in self._open.items() if uid not in owners)
        return self._open[caller] <= OF_A_STRANGER and strangers <= AT_ONCE


class Budget:
    """A rate limit for each client, with bursts. `now` is in seconds of any steady clock."""

    def __init__(self, per_second: float, burst: float) -> None:
        """Let each client spend `burst` at once after a pause, and `per_second` on average."""
        self._per_second, self._burst = per_second, burst
        self._spent: dict[str, tuple[float, float]] = {}
        """By client: the spent amount that still counts, and the time for which it was computed."""
        self._forget_at = _REMEMBERED

    def spend(self, who: str, now: float, amount: float = 1) -> bool:
        """Spend `amount` and return True. If the client has less left, spend nothing and return False."""
        spent = self._spent_by(who, now)
        has_room = spent + amount <= self._burst
        self._spent[who] = (spent + amount if has_room else spent, now)
        if len(self._spent) > self._forget_at:
            self._forget(now)
        return has_room

    def give_back(self, who: str, now: float, amount: float = 1) -> None:
        """Give an amount back to a client whose request has proved legitimate."""
        self._spent[who] = (max(0.0, self._spent_by(who, now) - amount), now)

    def _spent_by(self, who: str, now: float) -> float:
        spent, counted = self._spent.get(who, (0.0, now))
        return max(0.0, spent - (now - counted) * self._per_second)

    def _forget(self, now: float) -> None:
        self._spent = {who: counted for who, counted in self._spent.items() if self._spent_by(who, now) > 0}
        self._forget_at = max(_REMEMBERED, 2 * len(self._spent))


def machine_of(host: str) -> str:
    """Return the address of a client's machine; for IPv6 its /64, since one machine may have many addresses there."""
    address = _address(host)
    return str(address if address.version == 4 else IPv6Network(f"{address}/64", strict=False))


def _address(host: str) -> IPv4Address | IPv6Address:
    """Return a client's address without its zone; an IPv4-mapped IPv6 address becomes IPv4."""
    address = ip_address(host.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _machine(client: Address | None, server: Address | None) -> int | str:
    """Return the other machine that a client is on; _UNKNOWN for this machine and for a closed connection."""
    if not client or not server or client[0] == server[0] or _address(client[0]).is_loopback:
        return _UNKNOWN
    return machine_of(client[0])
