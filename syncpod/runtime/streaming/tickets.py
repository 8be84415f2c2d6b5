"""One-time tokens, each for one request that a client may make within a minute."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LIFETIME_SECONDS: Final = 60.0
MAX_TICKETS: Final = 1000
"""Maximum number of unused tokens, as in the kubelet's streaming server."""


class TooManyTickets(Exception):
    """Too many URLs are unused; after a minute they expire."""


class Tickets(Generic[T]):
    """Gives out unguessable tokens, and redeems each once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: dict[str, tuple[float, T]] = {}
        """The expiry and the request of each unused token, by token, oldest first."""

    def issue(self, content: T) -> str:
        """Return a new token. Raises TooManyTickets."""
        self._expire()
        if len(self._tickets) >= MAX_TICKETS:
            raise TooManyTickets(f"{MAX_TICKETS} streaming URLs wait to be used; they expire within a minute")
        token = secrets.token_urlsafe(32)
        self._tickets[token] = (self._clock() + LIFETIME_SECONDS, content)
        return token

    def look(self, token: str) -> T | None:
        """Return a token's request; None if it expired, was used, or never existed."""
        self._expire()
        ticket = self._tickets.get(token)
        return None if ticket is None else ticket[1]

    def use_up(self, token: str) -> None:
        """Revoke a token."""
        self._tickets.pop(token, None)

    def _expire(self) -> None:
        now = self._clock()
        while self._tickets and (oldest := next(iter(self._tickets.items())))[1][0] <= now:
            del self._tickets[oldest[0]]
