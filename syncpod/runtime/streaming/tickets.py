"""One-time tokens, each standing for something that a client may do once, soon."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LIFETIME_SECONDS: Final = 60.0
MAX_TICKETS: Final = 1000
"""As in the kubelet's streaming server."""


class TooManyTickets(Exception):
    """As many URLs as are kept wait to be used; a minute later there is room again."""


class Tickets(Generic[T]):
    """Gives out tokens that nobody can guess, and takes each back once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: dict[str, tuple[float, T]] = {}
        """Oldest first: by token, when it expires and what it stands for."""

    def issue(self, content: T) -> str:
        """Return a new token. Raises TooManyTickets."""
        self._expire()
        if len(self._tickets) >= MAX_TICKETS:
            raise TooManyTickets(f"{MAX_TICKETS} streaming URLs wait to be used; they expire within a minute")
        token = secrets.token_urlsafe(32)
        self._tickets[token] = (self._clock() + LIFETIME_SECONDS, content)
        return token

    def look(self, token: str) -> T | None:
        """Return what a token stands for; None if it expired, was used, or never was."""
        self._expire()
        ticket = self._tickets.get(token)
        return None if ticket is None else ticket[1]

    def use_up(self, token: str) -> None:
        """Take a token out of use."""
        self._tickets.pop(token, None)

    def _expire(self) -> None:
        now = self._clock()
        while self._tickets and (oldest := next(iter(self._tickets.items())))[1][0] <= now:
            del self._tickets[oldest[0]]
